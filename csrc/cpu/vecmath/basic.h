// Rounding, remainders and pieces of numbers: floor to round, fmod, remainder, nextafter, ldexp, frexp, roots, hypot.
#pragma once

#include "cpu/vecmath/core.h"

TOCHA_ISA_BEGIN
namespace math {

template <class T>
TOCHA_MATH T rsqrt(T x) {
  return T(1) / sqrt(x);
}

#if defined(__SSE4_1__) || defined(__aarch64__)
TOCHA_MATH float floor(float x) { return __builtin_floorf(x); }
TOCHA_MATH double floor(double x) { return __builtin_floor(x); }
TOCHA_MATH float ceil(float x) { return __builtin_ceilf(x); }
TOCHA_MATH double ceil(double x) { return __builtin_ceil(x); }
TOCHA_MATH float trunc(float x) { return __builtin_truncf(x); }
TOCHA_MATH double trunc(double x) { return __builtin_trunc(x); }
TOCHA_MATH float round(float x) { return __builtin_rintf(x); }
TOCHA_MATH double round(double x) { return __builtin_rint(x); }
#else
// Half to even: adding 2^23 (2^52) pushes the fraction out of the mantissa.
template <class T>
TOCHA_MATH T round(T x) {
  constexpr T unit = FloatFormat<T>::kRounder / T(1.5);
  T a = fabs(x);
  return copysign(a < unit ? (a + unit) - unit : a, x);
}
template <class T>
TOCHA_MATH T floor(T x) {
  T n = round(x);
  return copysign(n > x ? n - T(1) : n, x);
}
template <class T>
TOCHA_MATH T ceil(T x) {
  T n = round(x);
  return copysign(n < x ? n + T(1) : n, x);
}
template <class T>
TOCHA_MATH T trunc(T x) {
  T a = fabs(x), n = round(a);
  return copysign(n > a ? n - T(1) : n, x);
}
#endif

// Exact, sign of the dividend. `fmod_fast` is branch-free; `fmod_needs_slow` says where only `fmod` is right: quotients
// that are not small, and without FMA all doubles.
template <class T>
TOCHA_MATH T fmod(T x, T y) {
  return std::fmod(x, y);
}
template <class T>
TOCHA_MATH bool fmod_needs_slow(T x, T y) {
  if constexpr (sizeof(T) == 8 && !TOCHA_HAS_FMA) return true;
  return !(fabs(x) < fabs(y) * T(0x1p22));
}
template <class T>
TOCHA_MATH T fmod_fast(T x, T y) {
  // In double, a float's quotient of up to 2^22 times the divisor is exact; with FMA it need not be.
  using Wide = std::conditional_t<TOCHA_HAS_FMA, T, double>;
  Wide a = fabs(x), b = fabs(y);
  // The quotient is right or, where rounding carried it to the next integer, one too great. Either way what is left is
  // less than b in size and a multiple of the smaller last place, hence exact.
  Wide r = nmadd(trunc(a / b), b, a);
  r = r < 0 ? r + b : r;
  r = a < b ? a : r;  // b may be infinite
  return copysign(static_cast<T>(r), x);
}
// Exact, sign of the divisor, as Python's %.
template <class T>
TOCHA_MATH T remainder(T x, T y) {
  T r = std::fmod(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? r + y : r;
}
template <class T>
TOCHA_MATH T remainder_fast(T x, T y) {
  T r = fmod_fast(x, y);
  return (r != T(0)) & ((r < T(0)) != (y < T(0))) ? r + y : r;
}

template <class T>
TOCHA_MATH T nextafter(T x, T y) {
  using F = FloatFormat<T>;
  using Bits = typename F::Bits;
  Bits u = bits_of(x);
  Bits away = (x < y) == (x > T(0)) ? u + 1 : u - 1;
  T next = from_bits(x == T(0) ? (bits_of(y) & F::kSign) | 1 : away);
  next = x == y ? y : next;
  return (x == x) & (y == y) ? next : x + y;
}

// x 2^n, exact up to one rounding; three factors, since n may cross the whole range from subnormal to overflow.
template <class T>
TOCHA_MATH T ldexp(T x, int32_t n) {
  using F = FloatFormat<T>;
  using Bits = typename F::Bits;
  constexpr int32_t most = static_cast<int32_t>(F::kBias) - 1, all = 3 * most;
  n = n < -all ? -all : (n > all ? all : n);
  // A first step down stays above the subnormals, so that only the last one rounds.
  constexpr int32_t down = most - F::kMantissa - 1;
  int32_t first = n > most ? most : (n < -down ? -down : n);
  int32_t rest = n - first;
  int32_t second = rest > most ? most : (rest < -down ? -down : rest);
  int32_t third = rest - second;
  third = third > most ? most : (third < -most ? -most : third);
  T a = from_bits(static_cast<Bits>(static_cast<Bits>(first) + F::kBias) << F::kMantissa);
  T b = from_bits(static_cast<Bits>(static_cast<Bits>(second) + F::kBias) << F::kMantissa);
  T c = from_bits(static_cast<Bits>(static_cast<Bits>(third) + F::kBias) << F::kMantissa);
  return x * a * b * c;
}

// The mantissa in [1/2, 1) and, through `exponent`, the power of two; 0, inf and NaN come back with exponent 0.
template <class T>
TOCHA_MATH T frexp(T x, int32_t* exponent) {
  using F = FloatFormat<T>;
  constexpr T lift = T(FloatFormat<T>::kRounder / T(1.5)) * 2;
  T a = fabs(x);
  bool subnormal = a < std::numeric_limits<T>::min();
  T scaled = subnormal ? x * lift : x;
  auto u = bits_of(scaled);
  int32_t e = static_cast<int32_t>((u & ~F::kSign) >> F::kMantissa) - static_cast<int32_t>(F::kBias) + 1;
  e -= subnormal ? F::kMantissa + 1 : 0;
  bool plain = (a > T(0)) & (a < kInf<T>);
  *exponent = plain ? e : 0;
  T m = from_bits((u & (F::kSign | F::kMantissaMask)) | ((F::kBias - 1) << F::kMantissa));
  return plain ? m : x;
}

TOCHA_MATH float hypot(float x, float y) {
  double a = x, b = y;
  float h = static_cast<float>(sqrt(a * a + b * b));
  return (fabs(x) == kInf<float>) | (fabs(y) == kInf<float>) ? kInf<float> : h;
}
TOCHA_MATH double hypot(double x, double y) {
  double a = fabs(x), b = fabs(y);
  double large = a < b ? b : a, small = a < b ? a : b;
  // Bring the larger one near 1 by a power of two; 0 and the very largest are clamped into the powers that exist.
  constexpr uint64_t exponent_mask = 0x7ff0000000000000u;
  double power = from_bits(bits_of(at_most(at_least(large, 0x1p-1000), 0x1p1000)) & exponent_mask);
  double scale = from_bits(0x7fe0000000000000u - bits_of(power));
  double p = large * scale, q = small * scale;
  double h = sqrt(madd(p, p, q * q)) * power;
  return (a == kInf<double>) | (b == kInf<double>) ? kInf<double> : h;
}

}  // namespace math
TOCHA_ISA_END
