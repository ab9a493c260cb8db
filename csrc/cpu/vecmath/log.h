// Logarithms and what is made of them: log, log2, log10, log1p, the inverse hyperbolics, logaddexp, softplus, xlogy.
// x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), then a series in f.
#pragma once

#include "cpu/vecmath/exp.h"

TOCHA_ISA_BEGIN
namespace math {

template <class T>
struct LogArgument {
  T k, f;
  typename FloatFormat<T>::Bits exponent;  // k + bias
};
// x must be a normal positive number; it stands for x / lift, lift a power of two.
template <class T, bool kLifted = false>
TOCHA_MATH LogArgument<T> reduce_log(T x, T lift = T(1)) {
  using F = FloatFormat<T>;
  using Bits = typename F::Bits;
  constexpr Bits one = F::kBias << F::kMantissa;
  constexpr Bits sqrt_half = sizeof(T) == 4 ? Bits(0x3f3504f3u) : Bits(0x3fe6a09e667f3bcdu);
  Bits u = bits_of(x) + (one - sqrt_half);
  Bits exponent = u >> F::kMantissa;
  T m = from_bits((u & F::kMantissaMask) + sqrt_half);
  // The exponent becomes a number by writing it into the mantissa of 2^23 or 2^52: there is no conversion from
  // 64-bit integers before AVX-512.
  constexpr T anchor = sizeof(T) == 4 ? T(0x1p23) : T(0x1p52);
  Bits kept = kLifted ? exponent + (2 * F::kBias - (bits_of(lift) >> F::kMantissa)) : exponent;
  T k = from_bits(kept | bits_of(anchor)) - (anchor + T(kLifted ? 2 * F::kBias : F::kBias));
  return {k, m - T(1), exponent};
}

// log(1 + f) = f + log_tail(f)
TOCHA_MATH float log_tail(float f) {
  float z = f * f;
  float p = poly(f, 0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a00ap-3f, -0x1.547246p-3f, 0x1.22d9eep-3f, -0x1.0d850cp-3f,
                 0x1.055c88p-3f, -0x1.38b938p-4f);
  return z * madd(f, p, -0.5f);
}
// With s = f / (2 + f): log(1 + f) = 2 atanh s = f - f^2/2 + s (f^2/2 + R(s^2)).
struct LogSeries {
  double half_square, correction;
};
TOCHA_MATH LogSeries log_series(double f) {
  double s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
  double r = z * poly(z, 0x1.5555555555592p-1, 0x1.999999997fee8p-2, 0x1.24924941e0e28p-2, 0x1.c71c5216265a7p-3,
                      0x1.74663c5d43a12p-3, 0x1.39a1fa75ecfc6p-3, 0x1.2f02f2c74cf13p-3);
  return {half_square, s * (half_square + r)};
}

// k ln2 + log(1 + f), the small terms first.
TOCHA_MATH float log_sum(float k, float f) {
  return madd(k, Ln2<float>::kHigh, f + madd(k, Ln2<float>::kLow, log_tail(f)));
}
TOCHA_MATH double log_sum(double k, double f) {
  auto [half_square, correction] = log_series(f);
  return madd(k, Ln2<double>::kHigh, f - (half_square - madd(k, Ln2<double>::kLow, correction)));
}

// The same to 2^-35, without a division: for floats that go through double.
template <class V>
TOCHA_MATH V log_sum_lite(V k, V f) {
  V p = poly(f, 0x1.555555b564807p-2, -0x1.fffffc13c1123p-3, 0x1.9999227ab2fd2p-3, -0x1.5556522407fcbp-3,
             0x1.24a9abaf01ee5p-3, -0x1.ffee0cbd06f84p-4, 0x1.c32a70837b049p-4, -0x1.96823af7a48afp-4,
             0x1.9920cdec10787p-4, -0x1.93fe42abb944p-4, 0x1.b949cd8eb3cbp-5);
  return madd(k, 0x1.62e42fefa39efp-1, madd(f * f, madd(f, p, -0.5), f));
}
TOCHA_MATH double log_lite(double x) {
  auto a = reduce_log(x);
  return log_sum_lite(a.k, a.f);
}

template <class T>
TOCHA_MATH T log_edges(T y, T x) {
  y = x == kInf<T> ? x : y;
  return x > T(0) ? y : (x == T(0) ? -kInf<T> : kNan<T>);
}
// Subnormals are lifted into the normal range.
template <class T>
TOCHA_MATH LogArgument<T> reduce_log_any(T x) {
  T lift = x < std::numeric_limits<T>::min() ? FloatFormat<T>::kRounder / T(1.5) : T(1);
  return reduce_log<T, true>(x * lift, lift);
}

template <class T>
TOCHA_MATH T log_of(T x) {
  auto a = reduce_log_any(x);
  return log_edges(log_sum(a.k, a.f), x);
}
TOCHA_MATH float log(float x) { return log_of(x); }
TOCHA_MATH double log(double x) { return log_of(x); }

TOCHA_MATH float log2(float x) {
  auto a = reduce_log_any(x);
  constexpr float c = 0x1.715476p0f, c_minus_1 = 0x1.c551dap-2f;
  float y = a.k + (a.f + madd(a.f, c_minus_1, c * log_tail(a.f)));
  return log_edges(y, x);
}
TOCHA_MATH float log10(float x) {
  auto a = reduce_log_any(x);
  constexpr float c = 0x1.bcb7b2p-2f, c_low = -0x1.5b235ep-27f;
  constexpr float log10_2_high = 0x1.344p-2f, log10_2_low = 0x1.3509f8p-18f;
  float low = madd(a.k, log10_2_low, madd(a.f, c_low, c * log_tail(a.f)));
  return log_edges(madd(a.k, log10_2_high, madd(a.f, c, low)), x);
}

// log(1 + f) as high + low, the first with 21 bits so that its product with a 32-bit constant is exact.
struct LogPair {
  double high, low;
};
TOCHA_MATH LogPair log_pair(double f) {
  auto [half_square, correction] = log_series(f);
  double high = from_bits(bits_of(f - half_square) & 0xffffffff00000000u);
  return {high, (f - high) - half_square + correction};
}
// (k c2) + (high + low) (c_high + c_low), where c2 = c log 2 is c2_high + c2_low.
TOCHA_MATH double scaled_log(double x, double c_high, double c_low, double c2_high, double c2_low) {
  auto a = reduce_log_any(x);
  auto [high, low] = log_pair(a.f);
  double tail = madd(a.k, c2_low, madd(low, c_high, (high + low) * c_low));
  double whole = a.k * c2_high, part = high * c_high;
  double sum = whole + part;
  return log_edges(sum + (((whole - sum) + part) + tail), x);
}
TOCHA_MATH double log2(double x) { return scaled_log(x, 0x1.71547652p0, 0x1.705fc2eefa2p-33, 1.0, 0.0); }
TOCHA_MATH double log10(double x) {
  return scaled_log(x, 0x1.bcb7b152p-2, 0x1.b9438ca9aadd5p-36, 0x1.34413509ep-2, 0x1.79fef311f12b3p-38);
}

// log(1 + x): what the sum 1 + x loses is added to f, scaled as f is.
template <class T>
TOCHA_MATH T log1p_of(T x) {
  using F = FloatFormat<T>;
  T u = T(1) + x;
  T lost = x > T(1) ? T(1) - (u - x) : x - (u - T(1));
  auto a = reduce_log(u);
  // 2^-k; for large x, where k may have no inverse power, the loss no longer matters.
  T scale = x < T(0x1p60) ? from_bits((F::kBias * 2 - a.exponent) << F::kMantissa) : T(0);
  T y = log_sum(a.k, madd(lost, scale, a.f));
  y = log_edges(y, u);
  return fabs(x) < std::numeric_limits<T>::epsilon() / 4 ? x : y;
}
TOCHA_MATH float log1p(float x) { return log1p_of(x); }
TOCHA_MATH double log1p(double x) { return log1p_of(x); }

// log(1 + e) for 0 <= e <= 1: only two octaves, both exact to reach.
template <class T>
TOCHA_MATH T log1p_unit(T e) {
  bool upper = e > T(0.4142135);
  T f = upper ? T(0.5) * e - T(0.5) : e;
  return log_sum(upper ? T(1) : T(0), f);
}
// log(1 + e^-|x|): the part of softplus, logsigmoid and logaddexp that is not linear.
template <class T>
TOCHA_MATH T log1p_exp_neg_abs(T x) {
  return log1p_unit(exp_nonpositive(-fabs(x)));
}
template <class T>
TOCHA_MATH T softplus(T x) {
  return at_least(x, T(0)) + log1p_exp_neg_abs(x);
}
template <class T>
TOCHA_MATH T logsigmoid(T x) {
  return at_most(x, T(0)) - log1p_exp_neg_abs(x);
}

template <class T>
TOCHA_MATH T logaddexp(T a, T b) {
  T d = a == b ? T(0) : a - b;  // equal infinities have no difference
  return (a < b ? b : a) + log1p_exp_neg_abs(d);
}
template <class T>
TOCHA_MATH T logaddexp2(T a, T b) {
  T d = a == b ? T(0) : a - b;
  return (a < b ? b : a) + T(0x1.71547652b82fep0) * log1p_unit(exp2(-fabs(d)));
}

template <class T>
TOCHA_MATH T xlogy(T x, T y) {
  T v = x * log(y);
  return x == T(0) && y == y ? T(0) : v;
}
template <class T>
TOCHA_MATH T xlog1py(T x, T y) {
  T v = x * log1p(y);
  return x == T(0) && y == y ? T(0) : v;
}

}  // namespace math
TOCHA_ISA_END
