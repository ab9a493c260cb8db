// The gamma family on scalars: lgamma, digamma, Hurwitz zeta, polygamma. Called by the pointwise kernels and by
// special_igamma.h. Everything is computed in double; float arguments are rounded once at the end.
#pragma once

#include <cmath>
#include <cstdint>

#include "cpu/special_series.h"

TOCHA_ISA_BEGIN
namespace math {
namespace special {

// lgamma(2 + t) / t on |t| <= 1/2.
inline constexpr double kLgammaNearTwo[] = {
    0.42278433509846713,     0.32246703342411326,    -0.06735230105319814,   0.020580808427780335,
    -0.007385551028668096,   0.002890510331036772,   -0.0011927539120033873, 0.0005096695153484373,
    -0.00022315475069647703, 9.945767440096764e-05,  -4.492635166770342e-05, 2.0505584372896933e-05,
    -9.438454884054723e-06,  4.3847319318293745e-06, -2.044935323180052e-06, 9.199898075671394e-07,
    -4.303234692956732e-07,  2.7880013392491846e-07, -1.341570273460026e-07};

// digamma(1.5 + s) / (1.5 + s - root) on |s| <= 1/2, where root is the positive zero, kept in two parts.
inline constexpr double kDigammaNearRoot[] = {
    0.9510558760318328,    -0.42362742128146047,    0.24054248424078736,    -0.14840492305391872,
    0.09498872445282817,   -0.06192213327154086,    0.040760833944741226,   -0.026975796849870903,
    0.01790724819228875,   -0.011908215022954471,   0.007927024136843637,   -0.005280020264450306,
    0.0035180792717028125, -0.0023446244638506528,  0.0015635739915515125,  -0.0010424375640517788,
    0.0006899428514219089, -0.00045917430083105225, 0.00032689316473621455, -0.00022008418201681154,
    9.158816882117e-05,    -5.76048865255672e-05,   0.00012241591000024265, -8.401289563760489e-05};
inline constexpr double kDigammaRoot = 1.4616321449683622;
inline constexpr double kDigammaRootTail = 9.549995429965697e-17;

// Bernoulli numbers as Stirling's series for lgamma and digamma and Euler-Maclaurin's for zeta take them:
// B_2k / (2k (2k - 1)), B_2k / 2k, B_2k / (2k)!.
inline constexpr double kStirlingLgamma[] = {
    0.08333333333333333,    -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953, 0.0008417508417508417,
    -0.0019175269175269176, 0.00641025641025641,   -0.029550653594771242, 0.17964437236883057,    -1.3924322169059011};
inline constexpr double kStirlingDigamma[] = {0.08333333333333333,   -0.008333333333333333, 0.003968253968253968,
                                              -0.004166666666666667, 0.007575757575757576,  -0.021092796092796094,
                                              0.08333333333333333,   -0.4432598039215686};
inline constexpr double kEulerMaclaurin[] = {0.08333333333333333,    -0.001388888888888889,   3.306878306878307e-05,
                                             -8.267195767195768e-07, 2.08767569878681e-08,    -5.284190138687493e-10,
                                             1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
                                             -2.174868698558062e-16, 5.5090028283602295e-18,  -1.3954464685812522e-19};

// log of Gamma*(x) = Gamma(x) e^x x^(1/2 - x) / sqrt(2 pi), for x >= 8.
inline double stirling_correction(double x) {
  double inverse = 1 / x;
  return horner(kStirlingLgamma, inverse * inverse) * inverse;
}

// lgamma(1 + a) for 0 <= a <= 1/2, where forming 1 + a would lose a's last digits.
inline double lgamma1p(double a) { return a * horner(kLgammaNearTwo, a) - std::log1p(a); }

inline double lgamma(double x) {
  // libm keeps full relative accuracy around the zeros between negative integers; lgamma_r does not touch signgam.
  if (x < 0) {
    int sign;
    return ::lgamma_r(x, &sign);
  }
  if (x >= 8) {
    if (x == kInf) return x;
    double log_x = std::log(x);
    return x * (log_x - 1) - 0.5 * log_x + 0.91893853320467274178 + stirling_correction(x);
  }
  if (x == 1 || x == 2) return 0;
  if (x >= 1.5) {
    double product = 1;
    while (x >= 2.5) product *= (x -= 1);
    double near_two = (x - 2) * horner(kLgammaNearTwo, x - 2);
    return product == 1 ? near_two : near_two + std::log(product);
  }
  if (x >= 0.5) return (x - 1) * horner(kLgammaNearTwo, x - 1) - std::log(x);
  return x * horner(kLgammaNearTwo, x) - std::log1p(x) - std::log(x);
}

inline double digamma_positive(double x) {
  double shift = 0;
  if (x < 1) {
    shift = -1 / x;
    x += 1;
  }
  if (x <= 2) return horner(kDigammaNearRoot, x - 1.5) * ((x - kDigammaRoot) - kDigammaRootTail) + shift;
  for (; x < 10; x += 1) shift -= 1 / x;
  if (x == kInf) return x;
  double inverse = 1 / x;
  double square = inverse * inverse;
  return shift + std::log(x) - 0.5 * inverse - horner(kStirlingDigamma, square) * square;
}

inline double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (x > 0) return digamma_positive(x);
  if (x == std::floor(x)) return kNan;  // the poles, and -inf
  return digamma_positive(1 - x) - kPi / tan_pi(x);
}

// Euler-Maclaurin: terms are summed until the argument is large, the rest is an integral and its corrections.
inline double zeta_positive(double s, double q) {
  double sum = 0;
  double a = q;
  for (int i = 0; i < 10 || a < 10; ++i, a += 1) {
    double term = std::pow(a, -s);
    sum += term;
    if (term <= sum * 0x1p-60) return sum;
  }
  double power = std::pow(a, -s);
  sum += power * a / (s - 1) + 0.5 * power;
  double rising = s;  // s (s + 1) ... (s + 2k) a^-(2k + 1)
  rising /= a;
  for (int k = 0; k < 12; ++k) {
    double term = kEulerMaclaurin[k] * rising * power;
    sum += term;
    if (std::fabs(term) <= std::fabs(sum) * 0x1p-60) break;
    rising *= (s + 2 * k + 1) / a * ((s + 2 * k + 2) / a);
  }
  return sum;
}

// q < 0 between integers, s a whole number: floor(-q) + 1 terms lie left of zero. They are paired with their mirror
// images on the right before anything is added, because for odd s the two nearly cancel.
inline double zeta_negative(double s, double q) {
  double below = -q - std::floor(-q);  // distance of the last negative term from zero; the first positive one's is:
  double above = 1 - below;
  double sign = std::fmod(s, 2) == 1 ? -1 : 1;
  double count = std::floor(-q) + 1;
  double pairs = count < 32 ? count : 32;
  double sum = zeta_positive(s, above + pairs);
  if (count > pairs) sum += sign * (zeta_positive(s, below + pairs) - zeta_positive(s, 1 - q));
  for (double j = pairs - 1; j >= 0; --j) sum += std::pow(above + j, -s) + sign * std::pow(below + j, -s);
  return sum;
}

inline double zeta(double s, double q) {
  if (s == 1) return kInf;
  if (s < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    return s == std::floor(s) ? zeta_negative(s, q) : kNan;
  }
  if (q == kInf || std::isnan(s) || std::isnan(q)) return kNan;
  return zeta_positive(s, q);
}

inline double polygamma(int64_t n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1 && std::isinf(x)) return x > 0 ? 0 : kNan;
  double value = std::exp(lgamma(static_cast<double>(n) + 1)) * zeta(static_cast<double>(n) + 1, x);
  return n % 2 == 0 ? -value : value;
}

}  // namespace special

template <class T>
inline T lgamma(T x) {
  return static_cast<T>(special::lgamma(x));
}
template <class T>
inline T digamma(T x) {
  return static_cast<T>(special::digamma(x));
}
// Hurwitz's zeta: the sum over k >= 0 of (q + k)^-x.
template <class T>
inline T zeta(T x, T q) {
  return static_cast<T>(special::zeta(x, q));
}
// The n-th derivative of digamma.
template <class T>
inline T polygamma(int64_t n, T x) {
  return static_cast<T>(special::polygamma(n, x));
}

}  // namespace math
TOCHA_ISA_END
