// lgamma, digamma and trigamma of positive numbers, and lgamma of negative floats, without branches: a loop over them
// becomes SIMD code. special/gamma.h has the rest of the line. Computed in double; a float is rounded once at the end.
#pragma once

#include "cpu/vecmath/log.h"
#include "cpu/vecmath/trig.h"

TOCHA_ISA_BEGIN
namespace math {

// lgamma(2 + t) / t on |t| <= 1/2: relative error 2^-34 for floats.
template <class T, class V>
TOCHA_MATH V lgamma_near_two(V t) {
  if constexpr (sizeof(T) == 4) {
    return poly(t, 0x1.b0ee6072259f2p-2, 0x1.4a34cc4ea454p-2, -0x1.13e00205e2db3p-4, 0x1.51321578b0e48p-6,
                -0x1.e404237e58114p-8, 0x1.7aec45884a4c4p-9, -0x1.38d912fbd0483p-10, 0x1.091ec8c7e157p-11,
                -0x1.cbb25a76de383p-13, 0x1.e2372bdf6bdc2p-14, -0x1.d13393f26c828p-15);
  } else {
    return poly(t, 0.42278433509846713, 0.32246703342411326, -0.06735230105319814, 0.020580808427780335,
                -0.007385551028668096, 0.002890510331036772, -0.0011927539120033873, 0.0005096695153484373,
                -0.00022315475069647703, 9.945767440096764e-05, -4.492635166770342e-05, 2.0505584372896933e-05,
                -9.438454884054723e-06, 4.3847319318293745e-06, -2.044935323180052e-06, 9.199898075671394e-07,
                -4.303234692956732e-07, 2.7880013392491846e-07, -1.341570273460026e-07);
  }
}
// x (lgamma(x) - the rest of Stirling's formula), in 1 / x^2; for floats from x = 4 on, else from 8.
template <class T, class V>
TOCHA_MATH V lgamma_stirling(V z) {
  if constexpr (sizeof(T) == 4) {
    return poly(z, 0.08333333333333333, -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953,
                0.0008417508417508417, -0.0019175269175269176, 0.00641025641025641);
  } else {
    return poly(z, 0.08333333333333333, -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953,
                0.0008417508417508417, -0.0019175269175269176, 0.00641025641025641, -0.029550653594771242,
                0.17964437236883057, -1.3924322169059011);
  }
}

// x >= 0 or NaN. Between 2.5 and Stirling's range, Gamma(x) = (x - 1) (x - 2) ... Gamma(y) with y around 2; below 1.5,
// Gamma(x) = Gamma(x + 1) / x. One logarithm serves all ranges.
template <class T>
TOCHA_MATH double lgamma_positive(double x) {
  constexpr double far_from = sizeof(T) == 4 ? 4.0 : 8.0;
  constexpr int steps = sizeof(T) == 4 ? 2 : 6;
  const bool far = x >= far_from, below = x < 1.5, tiny = x < 0.5;
  double y = x, product = 1.0;
#pragma GCC unroll 8
  for (int i = 0; i < steps; ++i) {
    const bool down = y >= 2.5;
    y = down ? y - 1.0 : y;
    product = down ? product * y : product;
  }
  const double t = y - (below ? 1.0 : 2.0), u = tiny ? x : t;
  double factor = below ? x : product;
  factor = tiny ? x * (1.0 + x) : factor;
  factor = far ? x : factor;
  double logarithm;
  if constexpr (sizeof(T) == 4)
    logarithm = log_lite(factor);
  else
    logarithm = log(factor);
  const double near_two = u * lgamma_near_two<T>(u) + (below ? -logarithm : logarithm);
  const double inverse = 1.0 / x;
  const double stirling = x * (logarithm - 1.0) - 0.5 * logarithm + 0.91893853320467274178 +
                          lgamma_stirling<T>(inverse * inverse) * inverse;
  double result = far ? stirling : near_two;
  result = (x == 0.0) | (x == kInf<double>) ? kInf<double> : result;
  return x == x ? result : x;
}

// lgamma(-x) of x >= 0, by Gamma(x) Gamma(-x) = -pi / (x sin(pi x)). Doubles have the digits that floats need around
// the zeros between negative integers, where the two terms cancel.
TOCHA_MATH double lgamma_reflected(double x) {
  constexpr double most = FloatFormat<double>::kRounder / 3.0;  // beyond, what was a float is an integer
  const auto [whole, bits] = nearest(x, 1.0);
  const double r = x < most ? x - whole : 0.0, z = r * r;
  const double result = -log(x * fabs(madd(r * z, sinc_tail(z), r))) - lgamma_positive<double>(x);
  return x == kInf<double> ? x : result;
}

// digamma(1.5 + s) / (1.5 + s - root) on |s| <= 1/2, where root is the positive zero: relative error 2^-35 for floats.
template <class T>
TOCHA_MATH double digamma_near_root(double s) {
  if constexpr (sizeof(T) == 4) {
    return poly(s, 0x1.e6f0cbb899257p-1, -0x1.b1cb63001fa85p-2, 0x1.eca188d0d25ddp-3, -0x1.2feeeb61db635p-3,
                0x1.851359525bd2ap-4, -0x1.fb44885a33dfcp-5, 0x1.4dd4271a09d5ap-5, -0x1.b9e16696cb324p-6,
                0x1.2747454823d08p-6, -0x1.88710eac14f8fp-7, 0x1.dcc3ff71210cfp-8, -0x1.3f581ba0f9474p-8,
                0x1.59dac84a938e8p-8, -0x1.c894e9c1d0275p-9);
  } else {
    return poly(s, 0.9510558760318328, -0.42362742128146047, 0.24054248424078736, -0.14840492305391872,
                0.09498872445282817, -0.06192213327154086, 0.040760833944741226, -0.026975796849870903,
                0.01790724819228875, -0.011908215022954471, 0.007927024136843637, -0.005280020264450306,
                0.0035180792717028125, -0.0023446244638506528, 0.0015635739915515125, -0.0010424375640517788,
                0.0006899428514219089, -0.00045917430083105225, 0.00032689316473621455, -0.00022008418201681154,
                9.158816882117e-05, -5.76048865255672e-05, 0.00012241591000024265, -8.401289563760489e-05);
  }
}

// The sum of 1 / (x + i) for i = 0 ... 7, with one division: terms i and 7 - i make (2 x + 7) / (x (x + 7) + c).
TOCHA_MATH double eight_reciprocals(double x) {
  const double y = x * (x + 7.0), y1 = y + 6.0, y2 = y + 10.0, y3 = y + 12.0;
  const double outer = y * y1, inner = y2 * y3;
  return (2.0 * x + 7.0) * ((y + y1) * inner + (y2 + y3) * outer) / (outer * inner);
}
// The same of 1 / (x + i)^2.
TOCHA_MATH double eight_reciprocal_squares(double x) {
  const double y = x * (x + 7.0), y1 = y + 6.0, y2 = y + 10.0, y3 = y + 12.0;
  const double s = 2.0 * x + 7.0, square = s * s;
  const double q0 = y * y, q1 = y1 * y1, q2 = y2 * y2, q3 = y3 * y3, outer = q0 * q1, inner = q2 * q3;
  const double first = (square - 2.0 * y) * q1 + (square - 2.0 * y1) * q0;
  const double second = (square - 2.0 * y2) * q3 + (square - 2.0 * y3) * q2;
  return (first * inner + second * outer) / (outer * inner);
}

// x > 0 or NaN.
template <class T>
TOCHA_MATH double digamma_positive(double x) {
  constexpr double root = 1.4616321449683622, root_tail = 9.549995429965697e-17;
  const bool small = x < 1.0, near = x <= 2.0, shifted = x < 10.0;
  const double y = small ? x + 1.0 : x;
  double inner = digamma_near_root<T>(y - 1.5) * ((y - root) - root_tail);
  inner = small ? inner - 1.0 / x : inner;
  const double z = shifted ? x + 8.0 : x, inverse = 1.0 / z, square = inverse * inverse;
  const double series =
      square * poly(square, 0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667,
                    0.007575757575757576, -0.021092796092796094, 0.08333333333333333, -0.4432598039215686);
  const double outer =
      (sizeof(T) == 4 ? log_lite(z) : log(z)) - (shifted ? eight_reciprocals(x) : 0.0) - 0.5 * inverse - series;
  const double result = near ? inner : outer;
  return x < kInf<double> ? result : x;
}

// The derivative of digamma for x > 0 or NaN.
TOCHA_MATH double trigamma_positive(double x) {
  const bool shifted = x < 10.0;
  const double z = shifted ? x + 8.0 : x, inverse = 1.0 / z, square = inverse * inverse;
  const double series =
      poly(square, 0.16666666666666666, -0.03333333333333333, 0.023809523809523808, -0.03333333333333333,
           0.07575757575757576, -0.2531135531135531, 1.1666666666666667, -7.092156862745098, 54.971177944862156);
  const double value = madd(square, madd(inverse, series, 0.5), inverse);
  return value + (shifted ? eight_reciprocal_squares(x) : 0.0);
}

// Floats down to the first zero between negative integers come out of a shorter sum.
constexpr float kLgammaShort = -2.4f;
template <class T>
TOCHA_MATH T lgamma_fast(T x) {
  const double size = fabs(static_cast<double>(x)), positive = lgamma_positive<T>(size);
  if constexpr (sizeof(T) == 8) {
    return positive;
  } else {
    const double r = size - nearest(size, 1.0).n, z = r * r, sine = size * fabs(madd(r * z, sinc_tail(z), r));
    const double negative = sine > 0.0 ? -log_lite(sine) - positive : kInf<double>;
    return static_cast<T>(x < T(0) ? negative : positive);
  }
}
template <class T>
TOCHA_MATH bool lgamma_needs_slow(T x) {
  return x < (sizeof(T) == 4 ? T(kLgammaShort) : T(0));
}
template <class T>
TOCHA_MATH T digamma_fast(T x) {
  return static_cast<T>(digamma_positive<T>(x));
}
// Zero is a pole whose sign counts.
template <class T>
TOCHA_MATH bool digamma_needs_slow(T x) {
  return x <= T(0);
}
// Of the derivatives of digamma the first, which is what a gradient asks for.
template <class T>
TOCHA_MATH T polygamma_fast(int64_t, T x) {
  return static_cast<T>(trigamma_positive(x));
}
template <class T>
TOCHA_MATH bool polygamma_needs_slow(int64_t n, T x) {
  return (n != 1) | (x <= T(0));
}

}  // namespace math
TOCHA_ISA_END
