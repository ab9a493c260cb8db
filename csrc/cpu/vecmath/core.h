// The ground the vector math stands on: bit casts, fused multiply-add, polynomials, powers of two, rounding.
// Every function here and in the other headers of this folder is a branch-free scalar, so that a plain loop over
// it becomes SIMD code; include "cpu/vecmath/vecmath.h", not this.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/isa.h"

#define TOCHA_MATH inline __attribute__((always_inline))

TOCHA_ISA_BEGIN
namespace math {

template <class T>
inline constexpr T kInf = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

template <class T>
struct FloatFormat;
template <>
struct FloatFormat<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr Bits kBias = 127, kSign = 0x80000000u, kMantissaMask = 0x7fffffu;
  // Adding it to a small number leaves the nearest integer in the low bits of the sum.
  static constexpr float kRounder = 0x1.8p23f;
};
template <>
struct FloatFormat<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr Bits kBias = 1023, kSign = 0x8000000000000000u, kMantissaMask = 0xfffffffffffffu;
  static constexpr double kRounder = 0x1.8p52;
};

TOCHA_MATH uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
TOCHA_MATH uint64_t bits_of(double x) { return std::bit_cast<uint64_t>(x); }
TOCHA_MATH float from_bits(uint32_t u) { return std::bit_cast<float>(u); }
TOCHA_MATH double from_bits(uint64_t u) { return std::bit_cast<double>(u); }

// a * b + c, rounded once where the instruction set can; the callers are accurate either way.
#if defined(__FMA__) || defined(__aarch64__)
#define TOCHA_HAS_FMA 1
TOCHA_MATH float madd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TOCHA_MATH double madd(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
#define TOCHA_HAS_FMA 0
TOCHA_MATH float madd(float a, float b, float c) { return a * b + c; }
TOCHA_MATH double madd(double a, double b, double c) { return a * b + c; }
#endif
// c - a * b
template <class T>
TOCHA_MATH T nmadd(T a, T b, T c) {
  return madd(-a, b, c);
}

// a - q b, exact for a quotient q near a / b.
TOCHA_MATH double remainder_of(double a, double q, double b) {
#if TOCHA_HAS_FMA
  return nmadd(q, b, a);
#else
  // Halves of 26 bits: their products are exact.
  constexpr uint64_t upper = 0xfffffffff8000000u;
  double q1 = from_bits(bits_of(q) & upper), q2 = q - q1, b1 = from_bits(bits_of(b) & upper), b2 = b - b1;
  return (((a - q1 * b1) - q1 * b2) - q2 * b1) - q2 * b2;
#endif
}

// c0 + c1 x + c2 x^2 + ..., by Horner's rule: orders with fewer waits need powers of x, which underflow for small x.
template <class T>
TOCHA_MATH T poly(T, T c0) {
  return c0;
}
template <class T, class... C>
TOCHA_MATH T poly(T x, T c0, C... c) {
  return madd(x, poly(x, c...), c0);
}

#if defined(__AVX512F__) && defined(__AVX512DQ__)
// Eight doubles at once, for what vectors of floats compute in double (vecmath/avx512.h and its kin).
using F64x8 = __m512d;
TOCHA_MATH F64x8 splat8(double x) { return _mm512_set1_pd(x); }
TOCHA_MATH F64x8 madd(F64x8 a, F64x8 b, F64x8 c) { return _mm512_fmadd_pd(a, b, c); }
TOCHA_MATH F64x8 madd(F64x8 a, F64x8 b, double c) { return madd(a, b, splat8(c)); }
TOCHA_MATH F64x8 madd(F64x8 a, double b, F64x8 c) { return madd(a, splat8(b), c); }
TOCHA_MATH F64x8 poly(F64x8, double c0) { return splat8(c0); }
template <class... C>
TOCHA_MATH F64x8 poly(F64x8 x, double c0, C... c) {
  return madd(x, poly(x, c...), c0);
}
#endif

TOCHA_MATH float fabs(float x) { return __builtin_fabsf(x); }
TOCHA_MATH double fabs(double x) { return __builtin_fabs(x); }
TOCHA_MATH float sqrt(float x) { return __builtin_sqrtf(x); }
TOCHA_MATH double sqrt(double x) { return __builtin_sqrt(x); }

template <class T>
TOCHA_MATH T copysign(T magnitude, T sign) {
  using F = FloatFormat<T>;
  return from_bits((bits_of(magnitude) & ~F::kSign) | (bits_of(sign) & F::kSign));
}
template <class T>
TOCHA_MATH T flip_sign(T x, typename FloatFormat<T>::Bits sign_bit) {
  return from_bits(bits_of(x) ^ sign_bit);
}
template <class T>
TOCHA_MATH bool signbit(T x) {
  return (bits_of(x) & FloatFormat<T>::kSign) != 0;
}

// Both keep a NaN that comes as x.
template <class T>
TOCHA_MATH T at_least(T x, T low) {
  return x < low ? low : x;
}
template <class T>
TOCHA_MATH T at_most(T x, T high) {
  return x > high ? high : x;
}

// round(x * scale): as a number, and in the low bits of `bits`.
template <class T>
struct Nearest {
  T n;
  typename FloatFormat<T>::Bits bits;
};
template <class T>
TOCHA_MATH Nearest<T> nearest(T x, T scale) {
  T t = madd(x, scale, FloatFormat<T>::kRounder);
  return {t - FloatFormat<T>::kRounder, bits_of(t)};
}

// 2^(n + shift) for the n whose low bits are in `bits`; the exponent must be that of a normal number.
template <class T>
TOCHA_MATH T power_of_two(typename FloatFormat<T>::Bits bits, int shift = 0) {
  using F = FloatFormat<T>;
  using Bits = typename F::Bits;
  return from_bits((bits << F::kMantissa) + ((F::kBias + static_cast<Bits>(shift)) << F::kMantissa));
}

}  // namespace math
TOCHA_ISA_END
