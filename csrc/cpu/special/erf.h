// The error-function family on scalars: erfcx, ndtr, log_ndtr, ndtri, entr. Called by the pointwise kernels.
// Computed in double; float arguments are rounded once at the end.
#pragma once

#include <cmath>

#include "cpu/special/series.h"

TOCHA_ISA_BEGIN
namespace math {
namespace special {

// (1 + 2 x) erfcx(x) for x >= 0 in powers of (x - 3.75) / (x + 3.75), after Shepherd and Laframboise (1981).
inline constexpr double kErfcx[] = {
    1.2375126308378275,     -0.14024059858554697,    0.0035854154854644293,   0.0822767384901452,
    -0.10880393014174886,   0.09230432116037748,     -0.05869339858963677,    0.028362277418956406,
    -0.009746579558029276,  0.0017556258528952954,   0.0002937136655913448,   -0.0002901540805408417,
    5.164909889268241e-05,  2.238423915508223e-05,   -1.1444146237700524e-05, -9.73559896736775e-07,
    1.751637648849062e-06,  -5.7218230603224086e-08, -2.5866850716155884e-07, 2.3263508708859124e-08,
    3.8675334242222354e-08, -3.744210080962018e-09,  -5.1739902140113095e-09, 3.1114333809799254e-10,
    4.2514714447963895e-10};

// Quotients for the normal quantile z. Middle: z / q in powers of 0.425^2 - q^2, where q = p - 1/2.
inline constexpr double kQuantileMiddleP[] = {3.3871328727963665, 132.97523206854285, 1966.1616587348626,
                                              13668.930085093201, 45611.3085443731,   66634.04977727313,
                                              33013.31398685217,  2468.861534697217};
inline constexpr double kQuantileMiddleQ[] = {1.0,
                                              42.26419302986135,
                                              685.4364195311089,
                                              5371.488900516771,
                                              21082.219587341653,
                                              38970.83204371198,
                                              28402.855925325952,
                                              5150.551260768463};
// Tail: -z in powers of s - 1.6, where s = sqrt(-log p) <= 5; far tail: in powers of s - 5.
inline constexpr double kQuantileTailP[] = {1.4234371107496837,   4.634586061060331,   5.782513533841617,
                                            3.6623034077208523,   1.2778718728581153,  0.24359121354295044,
                                            0.022915001989343917, 0.000780846859362386};
inline constexpr double kQuantileTailQ[] = {1.0,
                                            2.056176103346782,
                                            1.6819485295793215,
                                            0.6935054499837935,
                                            0.14919141629532817,
                                            0.015326747729198042,
                                            0.0005520495752107791,
                                            1.0505706734273884e-09};
inline constexpr double kQuantileFarP[] = {6.657904643501103,     5.462800715576818,    1.7840807385469661,
                                           0.29634147552429896,   0.0265007574736851,   0.0012403950832559937,
                                           2.704069262893296e-05, 2.001998220927864e-07};
inline constexpr double kQuantileFarQ[] = {1.0,
                                           0.5996843829326917,
                                           0.13685050503384974,
                                           0.014859788003752105,
                                           0.0007855149681856815,
                                           1.8413192084266686e-05,
                                           1.4156172748909164e-07,
                                           2.018297918994843e-15};

inline double erfcx_positive(double x) {
  // At infinity the map's limit is 1; far before it, dividing by x + 3.75 reaches 1 by rounding.
  double map = x < 0x1p60 ? (x - 3.75) / (x + 3.75) : 1;
  return horner(kErfcx, map) / (1 + 2 * x);
}

inline double erfcx(double x) {
  if (!(x < 0)) return erfcx_positive(x);
  // The rounding error of x^2, magnified by exp, is put back to first order.
  double square = x * x;
  double error = std::fma(x, x, -square);
  double power = std::exp(square);
  if (power == kInf) return kInf;
  return 2 * (power + power * error) - erfcx_positive(-x);
}

inline double ndtr(double x) { return 0.5 * std::erfc(-x * kSqrtHalf); }

inline double log_ndtr(double x) {
  if (x < -1) return std::log(0.5 * erfcx_positive(-x * kSqrtHalf)) - 0.5 * x * x;
  return std::log1p(-0.5 * std::erfc(x * kSqrtHalf));
}

// -z for a small tail probability p in (0, 0.075].
inline double quantile_tail(double p) {
  double s = std::sqrt(-std::log(p));
  if (s <= 5) return horner(kQuantileTailP, s - 1.6) / horner(kQuantileTailQ, s - 1.6);
  return horner(kQuantileFarP, s - 5) / horner(kQuantileFarQ, s - 5);
}

// |q| <= 0.425, q = p - 1/2.
inline double quantile_middle(double q) {
  double r = 0.180625 - q * q;
  return q * (horner(kQuantileMiddleP, r) / horner(kQuantileMiddleQ, r));
}

inline double ndtri(double p) {
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  if (!(p > 0 && p < 1)) return kNan;
  double q = p - 0.5;
  if (std::fabs(q) <= 0.425) return quantile_middle(q);
  return q < 0 ? -quantile_tail(p) : quantile_tail(1 - p);
}

inline double entr(double x) {
  if (x > 0) return -x * std::log(x);
  return x == 0 ? 0 : x < 0 ? -kInf : x;
}

}  // namespace special

template <class T>
inline T erfcx(T x) {
  return static_cast<T>(special::erfcx(x));
}
template <class T>
inline T ndtr(T x) {
  return static_cast<T>(special::ndtr(x));
}
template <class T>
inline T log_ndtr(T x) {
  return static_cast<T>(special::log_ndtr(x));
}
template <class T>
inline T ndtri(T x) {
  return static_cast<T>(special::ndtri(x));
}
template <class T>
inline T entr(T x) {
  return static_cast<T>(special::entr(x));
}

}  // namespace math
TOCHA_ISA_END
