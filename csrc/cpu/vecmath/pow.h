// pow, cbrt and the inverse hyperbolics.
#pragma once

#include "cpu/vecmath/basic.h"
#include "cpu/vecmath/log.h"

TOCHA_ISA_BEGIN
namespace math {

// What IEEE asks of pow beyond exp(y log|x|): the sign, and the cases with an answer of their own.
template <class T>
TOCHA_MATH T pow_edges(T magnitude, T x, T y) {
  T ay = fabs(y), half = T(0.5) * ay;
  bool integer = round(ay) == ay;
  bool odd = integer & (round(half) != half);
  T result = flip_sign(magnitude, odd ? bits_of(x) & FloatFormat<T>::kSign : 0);
  result = (x < T(0)) & (x > -kInf<T>)&!integer ? kNan<T> : result;
  result = (fabs(x) == T(1)) & (ay == kInf<T>) ? T(1) : result;
  return (x == T(1)) | (y == T(0)) ? T(1) : result;
}

TOCHA_MATH float pow(float x, float y) {
  double a = fabs(static_cast<double>(x));
  double log_a = log_lite(a);
  log_a = a < kInf<double> ? log_a : a;
  log_a = a == 0.0 ? -kInf<double> : log_a;
  double p = at_most(at_least(static_cast<double>(y) * log_a, -200.0), 200.0);
  return pow_edges(static_cast<float>(exp_lite(p)), x, y);
}

#if TOCHA_HAS_FMA
// log a = high + low with some 65 bits, for a normal number: 2 atanh s with s, its square and the cubic term in two
// doubles each, since y log a may be a thousand times larger than the result's last place allows for.
struct LogWide {
  double high, low;
};
TOCHA_MATH LogWide log_wide(double k, double f) {
  double d = 2.0 + f, d_low = f - (d - 2.0);
  double inverse = 1.0 / d;
  double s = f * inverse;
  double s_low = inverse * (nmadd(s, d, f) - s * d_low);
  double z = s * s;
  double z_low = madd(s, s, -z) + 2.0 * s * s_low;
  double g = z * poly(z, 0x1.9999999999996p-2, 0x1.2492492493034p-2, 0x1.c71c71c5807b8p-3, 0x1.745d183249d96p-3,
                      0x1.3b1362b86b7c9p-3, 0x1.1120b5442da1ap-3, 0x1.de337fe6639fep-4, 0x1.eb109ebc71d2ep-4);
  constexpr double third = 0x1.5555555555555p-1, third_low = 0x1.5555555555555p-55;
  double c = third + g, c_low = ((third - c) + g) + third_low;
  double t = z * c, t_low = madd(z, c, -t) + madd(z, c_low, z_low * c);
  double w = s * t, w_low = madd(s, t, -w) + madd(s, t_low, s_low * t);
  double head = 2.0 * s + w;
  double tail = ((2.0 * s - head) + w) + madd(2.0, s_low, w_low);
  double whole = k * Ln2<double>::kHigh;
  double high = whole + head;
  return {high, ((whole - high) + head) + madd(k, Ln2<double>::kLow, tail)};
}
TOCHA_MATH double pow(double x, double y) {
  double a = fabs(x);
  auto l = reduce_log_any(a);
  auto [high, low] = log_wide(l.k, l.f);
  high = a < kInf<double> ? high : a;
  high = a == 0.0 ? -kInf<double> : high;
  double p = y * high;
  auto e = reduce_exp(p);
  double magnitude = scale_exp(exp_reduced(e.r + madd(y, low, madd(y, high, -p))), e.bits);
  magnitude = p < ExpRange<double>::kLowest ? 0.0 : magnitude;
  magnitude = p > ExpRange<double>::kHighest ? kInf<double> : magnitude;
  return pow_edges(magnitude, x, y);
}
#else
// Without fused multiply-add the two-double products cost more than the library's tables.
TOCHA_MATH double pow(double x, double y) { return std::pow(x, y); }
#endif

// a^(-1/3) to 2^-45 for a normal a: a guess by dividing the exponent, then two steps on 1 - a r^3.
TOCHA_MATH double inverse_cbrt(double a) {
  constexpr double anchor = 0x1p52;
  double high_word = from_bits((bits_of(a) >> 32) | bits_of(anchor)) - anchor;
  double guess = madd(high_word, -1.0 / 3.0, anchor + 0x553ee800);
  double r = from_bits(bits_of(guess) << 32);
  double e = nmadd(a * r, r * r, 1.0);
  r = madd(r * e, poly(e, 1.0 / 3.0, 2.0 / 9.0, 14.0 / 81.0), r);
  e = nmadd(a * r, r * r, 1.0);
  return madd(r * e, poly(e, 1.0 / 3.0, 2.0 / 9.0), r);
}
TOCHA_MATH float cbrt(float x) {
  double a = fabs(static_cast<double>(x));
  double r = inverse_cbrt(a);
  float y = static_cast<float>(a * r * r);
  return (a > 0.0) & (a < kInf<double>) ? copysign(y, x) : x;
}
TOCHA_MATH double cbrt(double x) {
  double a = fabs(x);
  bool tiny = a < 0x1p-900;
  double b = a * (tiny ? 0x1p108 : 1.0);
  double r = inverse_cbrt(b);
  // Seventeen bits of the root: their cube is exact, and so is what it leaves of b.
  double root = from_bits(bits_of(b * r * r) & 0xfffffff000000000u);
  double e = (b - root * root * root) * r * r * r;
  double y = madd(root * e, poly(e, 1.0 / 3.0, 2.0 / 9.0, 14.0 / 81.0), root);
  y *= tiny ? 0x1p-36 : 1.0;
  return (a > 0.0) & (a < kInf<double>) ? copysign(y, x) : x;
}

// log(1 + u + u_low) for u >= 0.
TOCHA_MATH double log1p_pair(double u, double u_low) {
  double v = 1.0 + u;
  double lost = (u > 1.0 ? 1.0 - (v - u) : u - (v - 1.0)) + u_low;
  auto a = reduce_log(v);
  double scale = u < 0x1p60 ? from_bits((2046 - a.exponent) << 52) : 0.0;
  return log_sum(a.k, madd(lost, scale, a.f));
}
// From here on asinh and acosh are log 2|x|.
inline constexpr double kHyperbolicLarge = 0x1p54;

TOCHA_MATH double asinh(double x) {
  double a = fabs(x);
  bool large = a > kHyperbolicLarge;
  double square = a * a;
  double w = square / (1.0 + sqrt(1.0 + square));
  double u = a + w, u_low = (a - u) + w;
  double y = log1p_pair(large ? a : u, large ? 0.0 : u_low) + (large ? 0x1.62e42fefa39efp-1 : 0.0);
  y = a < kInf<double> ? y : a;
  return a < 0x1p-28 ? x : copysign(y, x);
}
TOCHA_MATH double acosh(double x) {
  bool large = x > kHyperbolicLarge;
  double t = x - 1.0;
  double s = sqrt(madd(t, t, 2.0 * t));
  double big = s < t ? t : s, small = s < t ? s : t;
  double u = s + t, u_low = (big - u) + small;
  double y = log1p_pair(large ? x : u, large ? 0.0 : u_low) + (large ? 0x1.62e42fefa39efp-1 : 0.0);
  y = x < kInf<double> ? y : x;
  return x >= 1.0 ? y : kNan<double>;
}
TOCHA_MATH double atanh(double x) {
  double a = fabs(x);
  double d = 1.0 - a, d_low = (1.0 - d) - a;
  double u = 2.0 * a / d;
  double u_low = -u * d_low * madd(0.5, u, 1.0);
  double y = 0.5 * log1p_pair(u, u_low);
  y = a < 1.0 ? y : (a == 1.0 ? kInf<double> : kNan<double>);
  return a < 0x1p-28 ? x : copysign(y, x);
}
// In double the textbook formulas are good to a float's last place down to 2^-12; below, two terms of the series are.
inline constexpr double kHyperbolicSmall = 0x1p-12;

TOCHA_MATH float asinh(float x) {
  double a = fabs(static_cast<double>(x)), square = a * a;
  double y = log_lite(a + sqrt(1.0 + square));
  y = a < kHyperbolicSmall ? madd(a * square, -1.0 / 6.0, a) : y;
  y = a < kInf<double> ? y : a;
  return copysign(static_cast<float>(y), x);
}
TOCHA_MATH float acosh(float x) {
  double a = x;
  double y = log_lite(a + sqrt((a - 1.0) * (a + 1.0)));
  y = a < kInf<double> ? y : a;
  return static_cast<float>(a >= 1.0 ? y : kNan<double>);
}
TOCHA_MATH float atanh(float x) {
  double a = fabs(static_cast<double>(x));
  double y = 0.5 * log_lite((1.0 + a) / (1.0 - a));
  y = a < kHyperbolicSmall ? madd(a * a * a, 1.0 / 3.0, a) : y;
  y = a < 1.0 ? y : (a == 1.0 ? kInf<double> : kNan<double>);
  return copysign(static_cast<float>(y), x);
}

}  // namespace math
TOCHA_ISA_END
