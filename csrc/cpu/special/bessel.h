// Bessel functions of orders 0 and 1, modified and ordinary, spherical j0, and Airy's Ai on scalars, for the pointwise
// kernels. Modified ones: a polynomial in x^2 for small x, else the exponential times a fit in 1/x.
#pragma once

#include <cmath>

#include "cpu/special/series.h"

TOCHA_ISA_BEGIN
namespace math {
namespace special {

// I0(x) and I1(x) / x in powers of x^2, for |x| <= 8.
inline constexpr double kI0Small[] = {1.0,
                                      0.25,
                                      0.015625000000000007,
                                      0.00043402777777777445,
                                      6.78168402777882e-06,
                                      6.781684027758072e-08,
                                      4.709502797313533e-10,
                                      2.402807547397442e-12,
                                      9.385967122738159e-15,
                                      2.896902786535184e-17,
                                      7.24227907083928e-20,
                                      1.4962821580600773e-22,
                                      2.598786220717598e-25,
                                      3.8293884542786716e-28,
                                      5.032875772398412e-31,
                                      4.600650617496926e-34,
                                      8.489079967240371e-37};
inline constexpr double kI1Small[] = {0.5,
                                      0.06250000000000001,
                                      0.0026041666666666574,
                                      5.425347222222714e-05,
                                      6.781684027764253e-07,
                                      5.6514033567062535e-09,
                                      3.3639305668839624e-11,
                                      1.5017547368904685e-13,
                                      5.21442511666455e-16,
                                      1.4484555512565449e-18,
                                      3.2918255700128937e-21,
                                      6.2370262972245455e-24,
                                      9.956903092564813e-27,
                                      1.408977785612294e-29,
                                      1.380579477192139e-32,
                                      2.717003032172177e-35};

// sqrt(x) e^-x I(x) in powers of 16 / x - 1, for x >= 8.
inline constexpr double kI0Large[] = {
    0.4021765094450081,     0.0033605519836678614,  0.0001362160743919305,  1.1143033790932038e-05,
    1.4838475658279249e-06, 2.9735985885673923e-07, 8.872219737904054e-08,  3.932584334552952e-08,
    2.1548377974791598e-08, 7.554691881248808e-09,  -6.747657956107524e-09, -1.340891754008974e-08,
    -5.404771567579958e-09, 7.552583062123384e-09,  7.430464650325426e-09,  -3.505966530879332e-09,
    -5.95356943826489e-09,  1.5200816953924232e-09, 3.6379546359011143e-09, -5.715843864202709e-10,
    -1.618980683624682e-09, 1.5279202694981569e-10, 4.577087631643623e-10,  -2.0260604287413626e-11,
    -6.067631570603006e-11};
inline constexpr double kI1Large[] = {
    0.38939845902587233,     -0.00974957719323576,    -0.00021923576383430914, -1.503854719814553e-05,
    -1.8349101091858603e-06, -3.4838565069237384e-07, -1.0001340021780371e-07, -4.312811174972107e-08,
    -2.3368016560658254e-08, -8.436290430234562e-09,  6.694265612407784e-09,   1.4076395500755014e-08,
    6.14985231157688e-09,    -7.778592763970399e-09,  -8.401102179738338e-09,  3.7219797447255018e-09,
    7.268242563538968e-09,   -1.8736450470066097e-09, -5.2022217601823894e-09, 9.568523624905203e-10,
    2.9887350377570034e-09,  -4.086984233473255e-10,  -1.2547972491973786e-09, 1.161813630287145e-10,
    3.339867355634982e-10,   -1.5626599071977848e-11, -4.1681089783384256e-11};

// K0(x) + log(x / 2) I0(x) and x K1(x) - x log(x / 2) I1(x) in powers of x^2, for x <= 1.
inline constexpr double kK0Small[] = {-0.5772156649015329,   0.10569608377461687,    0.014418505235911878,
                                      0.0005451899602702149, 1.0214014083510995e-05, 1.1570362121514844e-07,
                                      8.818563495795211e-10, 4.924193338029875e-12};
inline constexpr double kK1Small[] = {1.0,
                                      0.03860783245076643,
                                      -0.04204902094365424,
                                      -0.0028371119837629767,
                                      -7.493042906190359e-05,
                                      -1.0892182480451005e-06,
                                      -1.0112919280780202e-08,
                                      -6.539221023550144e-11,
                                      -3.1727901674316717e-13};

// sqrt(x) e^x K(x) in powers of 2 / x - 1, for x >= 1.
inline constexpr double kK0Large[] = {
    1.1901571834152027,     -0.05227901149175784,    0.008067386548372201,    -0.0019084014862474088,
    0.0005692398884395873,  -0.00019727982201938018, 7.608265618217879e-05,   -3.18147700290369e-05,
    1.4181664161361227e-05, -6.659508581257523e-06,  3.2652225767462253e-06,  -1.6606608734840083e-06,
    8.788100555489335e-07,  -4.808498949459683e-07,  2.311871802792539e-07,   -1.0391147888717031e-07,
    1.998698242699401e-07,  -2.0401951256125142e-07, -2.883890981225274e-07,  3.792857953974027e-07,
    6.628722848274548e-07,  -7.70147917992473e-07,   -9.77714754752502e-07,   1.084141052862734e-06,
    1.0795329957011639e-06, -1.135156776102922e-06,  -8.385030808273117e-07,  8.430349860799496e-07,
    4.4119063377141706e-07, -4.250442999485553e-07,  -1.4067516272893878e-07, 1.303342970289368e-07,
    2.0985384923080977e-08, -1.868104513771136e-08};
inline constexpr double kK1Large[] = {
    1.4615569735231244,      0.18797890654571872,    -0.015852854565983437,   0.0031120066455949495,
    -0.0008443927414760359,  0.0002760388414935031,  -0.00010227195021987323, 4.152312067871951e-05,
    -1.8092857437286173e-05, 8.34310921480745e-06,   -4.030276119996956e-06,  2.024428036461536e-06,
    -1.0591670141582397e-06, 5.735556722741289e-07,  -2.7711659724826755e-07, 1.2650590556068007e-07,
    -2.2384026575231694e-07, 2.246941475039645e-07,  3.1015032484825073e-07,  -4.088904953193381e-07,
    -7.187758069191014e-07,  8.333753709664533e-07,  1.059061754889333e-06,   -1.1725900507124944e-06,
    -1.1699232767889883e-06, 1.2281977895785081e-06, 9.088288174678336e-07,   -9.122763264571233e-07,
    -4.783633120583913e-07,  4.601007010459359e-07,  1.5258088822221483e-07,  -1.4113134193665876e-07,
    -2.277802103992898e-08,  2.0241769328086016e-08};

// Ai on [-3, 2] as a Chebyshev series; above it Ai(x) 2 sqrt(pi) x^(1/4) e^z with z = 2/3 x^(3/2), in powers of
// 2 (2 / x)^(3/2) - 1; below, the slowly varying factors of cos and sin, in powers of 2 (3 / -x)^3 - 1.
inline constexpr double kAiryMiddle[] = {
    0.11441319165693552,    0.11771809279520523,     -0.333776176028803,     0.13072092979300878,
    0.03927976845792506,    -0.044288359965966896,   0.00987400140571788,    0.002468734388172946,
    -0.0018057628705037967, 0.0002844165345675799,   6.600121519070592e-05,  -3.5611021628600415e-05,
    4.2987085355281955e-06, 9.726953490862985e-07,   -4.13461944193354e-07,  3.9933307992407286e-08,
    9.055881378651663e-09,  -3.1606121065043116e-09, 2.5070220324607293e-10, 5.7997027637928735e-11,
    -1.710367724965833e-11, 1.1331621721428742e-12,  2.7089923048674564e-13, -6.894814866153389e-14,
    3.857857184885761e-15,  9.631249647343085e-16,   -2.150253819446776e-16, 1.02321853833377e-17,
    2.6925742591731462e-18, -5.341493266010654e-19};
inline constexpr double kAiryPositive[] = {
    0.983679282828043,      -0.014613458724023217,   0.0014132014717017304,   -0.0002278522136910503,
    4.846334059232947e-05,  -1.2354390686945676e-05, 3.5878318769130335e-06,  -1.1510261131203217e-06,
    3.9971932998186475e-07, -1.4812065561005197e-07, 5.7960437564430385e-08,  -2.3820808462967335e-08,
    1.0200717228660297e-08, -4.334633626191562e-09,  1.9043697886227834e-09,  -1.2787487327828507e-09,
    7.358611841049239e-10,  2.0119706569032908e-10,  -2.2891220445247759e-10, -4.349436323146175e-10,
    3.130998589122445e-10,  1.8009401491463617e-10,  -1.3027746132837299e-10, -5.4400006009749504e-11,
    3.574679392411892e-11};
inline constexpr double kAiryCosine[] = {
    0.9985374689292498,     -0.0013894984665916265,  6.391675379705222e-05,   -7.300601736282579e-06,
    1.3350458892444781e-06, -3.264201908550973e-07,  9.726717859389506e-08,   -3.3465694937053185e-08,
    1.2856544471675459e-08, -5.392481640872741e-09,  2.362409868543257e-09,   -1.0682125509961934e-09,
    7.881905483652818e-10,  -5.942822801600536e-10,  -4.188562029274319e-10,  6.377663875697987e-10,
    1.1079901122210708e-09, -1.2532917321391182e-09, -1.2615183081692904e-09, 1.3717075121359105e-09,
    1.0030427434614656e-09, -1.0168651395633612e-09, -4.5156842087083995e-10, 4.3482034767893085e-10,
    9.58038946806322e-11,   -8.679381163525914e-11};
inline constexpr double kAirySine[] = {
    0.0680203585551319,     -0.0012951535764812326,  0.00010692492822450137,  -1.6649532762713685e-05,
    3.7216317762076376e-06, -1.0514157051134646e-06, 3.5012651718079123e-07,  -1.317354761923907e-07,
    5.447819414067034e-08,  -2.4279636238285677e-08, 1.149469902884076e-08,   -5.868368143013297e-09,
    3.220171610788604e-09,  -9.593020811750669e-10,  -2.355846255768151e-10,  -3.2923002369347897e-09,
    4.6410926048016426e-09, 8.042325834212307e-09,   -1.1790983655997392e-08, -1.7881003282099976e-08,
    2.411677137301679e-08,  2.8051543533012196e-08,  -3.573777864537993e-08,  -3.1976394340431245e-08,
    3.860427299231924e-08,  2.5598320801944736e-08,  -2.946854946704054e-08,  -1.3723500284836137e-08,
    1.5119591521394027e-08, 4.427099330229913e-09,   -4.683728882077129e-09,  -6.559672947417139e-10,
    6.670190049730028e-10};

inline double i0_large(double x) { return horner(kI0Large, 16 / x - 1) / std::sqrt(x); }
inline double i1_large(double x) { return horner(kI1Large, 16 / x - 1) / std::sqrt(x); }

inline double i0(double x) {
  x = std::fabs(x);
  // e^x overflows a little before I0 does, and inf * 0 makes I0(inf) a NaN, as in PyTorch.
  return x <= 8 ? horner(kI0Small, x * x) : std::exp(x) * i0_large(x);
}
inline double i0e(double x) {
  x = std::fabs(x);
  return x <= 8 ? std::exp(-x) * horner(kI0Small, x * x) : i0_large(x);
}
inline double i1(double x) {
  double a = std::fabs(x);
  return a <= 8 ? x * horner(kI1Small, x * x) : std::copysign(std::exp(a) * i1_large(a), x);
}
inline double i1e(double x) {
  double a = std::fabs(x);
  return a <= 8 ? std::exp(-a) * x * horner(kI1Small, x * x) : std::copysign(i1_large(a), x);
}

inline double k0_small(double x) { return horner(kK0Small, x * x) - std::log(0.5 * x) * horner(kI0Small, x * x); }
inline double k1_small(double x) {
  return horner(kK1Small, x * x) / x + std::log(0.5 * x) * x * horner(kI1Small, x * x);
}
inline double k0_large(double x) { return horner(kK0Large, 2 / x - 1) / std::sqrt(x); }
inline double k1_large(double x) { return horner(kK1Large, 2 / x - 1) / std::sqrt(x); }

inline double k0(double x) {
  if (x <= 0) return x == 0 ? kInf : kNan;
  return x <= 1 ? k0_small(x) : std::exp(-x) * k0_large(x);
}
inline double k0e(double x) {
  if (x <= 0) return x == 0 ? kInf : kNan;
  return x <= 1 ? std::exp(x) * k0_small(x) : k0_large(x);
}
inline double k1(double x) {
  if (x <= 0) return x == 0 ? kInf : kNan;
  return x <= 1 ? k1_small(x) : std::exp(-x) * k1_large(x);
}
inline double k1e(double x) {
  if (x <= 0) return x == 0 ? kInf : kNan;
  return x <= 1 ? std::exp(x) * k1_small(x) : k1_large(x);
}

// libm's are right everywhere but at infinity, where PyTorch has a NaN, and Y at -0.
inline double j0(double x) { return std::isinf(x) ? kNan : ::j0(x); }
inline double j1(double x) { return std::isinf(x) ? kNan : ::j1(x); }
inline double y0(double x) { return x == 0 ? -kInf : x > 0 && x < kInf ? ::y0(x) : kNan; }
inline double y1(double x) { return x == 0 ? -kInf : x > 0 && x < kInf ? ::y1(x) : kNan; }

inline double spherical_j0(double x) {
  if (x == 0) return 1;
  return std::isinf(x) ? 0 : std::sin(x) / x;
}

inline double airy_ai(double x) {
  if (std::isinf(x)) return kNan;
  if (x > 2) {
    double power = x * std::sqrt(x);
    double slow = horner(kAiryPositive, 2 * 2.8284271247461900976 / power - 1);
    // Half the square root of 1 / pi.
    return 0.28209479177387814347 * slow * std::exp(-2.0 / 3 * power) / std::sqrt(std::sqrt(x));
  }
  if (x >= -3) return clenshaw(kAiryMiddle, (x + 0.5) / 2.5);
  double a = -x;
  double z = 2.0 / 3 * a * std::sqrt(a);
  double s = 2 * 27 / (a * a * a) - 1;
  // cos and sin of z - pi/4 without subtracting.
  double sine = kSqrtHalf * (std::sin(z) - std::cos(z));
  double cosine = kSqrtHalf * (std::sin(z) + std::cos(z));
  double wave = cosine * horner(kAiryCosine, s) + sine * horner(kAirySine, s) / z;
  return 0.56418958354775628695 * wave / std::sqrt(std::sqrt(a));
}

}  // namespace special

template <class T>
inline T i0(T x) {
  return static_cast<T>(special::i0(x));
}
template <class T>
inline T i0e(T x) {
  return static_cast<T>(special::i0e(x));
}
template <class T>
inline T i1(T x) {
  return static_cast<T>(special::i1(x));
}
template <class T>
inline T i1e(T x) {
  return static_cast<T>(special::i1e(x));
}
template <class T>
inline T modified_bessel_i0(T x) {
  return static_cast<T>(special::i0(x));
}
template <class T>
inline T modified_bessel_i1(T x) {
  return static_cast<T>(special::i1(x));
}
template <class T>
inline T modified_bessel_k0(T x) {
  return static_cast<T>(special::k0(x));
}
template <class T>
inline T modified_bessel_k1(T x) {
  return static_cast<T>(special::k1(x));
}
template <class T>
inline T scaled_modified_bessel_k0(T x) {
  return static_cast<T>(special::k0e(x));
}
template <class T>
inline T scaled_modified_bessel_k1(T x) {
  return static_cast<T>(special::k1e(x));
}
template <class T>
inline T bessel_j0(T x) {
  return static_cast<T>(special::j0(x));
}
template <class T>
inline T bessel_j1(T x) {
  return static_cast<T>(special::j1(x));
}
template <class T>
inline T bessel_y0(T x) {
  return static_cast<T>(special::y0(x));
}
template <class T>
inline T bessel_y1(T x) {
  return static_cast<T>(special::y1(x));
}
template <class T>
inline T spherical_bessel_j0(T x) {
  return static_cast<T>(special::spherical_j0(x));
}
template <class T>
inline T airy_ai(T x) {
  return static_cast<T>(special::airy_ai(x));
}

}  // namespace math
TOCHA_ISA_END
