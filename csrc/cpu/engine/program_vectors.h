// Whole vectors of float and double for the folds of compiled graphs, where accumulators are to stay in registers:
// GCC's and Clang's vector types, so that arithmetic, comparison and choice are the language's own operators.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "cpu/engine/scalar_ops.h"
#include "cpu/vecmath/avx512.h"

TOCHA_ISA_BEGIN
namespace vec {

#if TOCHA_VECTOR_F32
constexpr int kBytes = 64;
using F32 = math::F32x16;
using F64 = math::F64x8;
#else
#if defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
typedef float F32 __attribute__((vector_size(kBytes)));
typedef double F64 __attribute__((vector_size(kBytes)));
#endif
typedef int32_t I32 __attribute__((vector_size(kBytes)));
typedef int64_t I64 __attribute__((vector_size(kBytes)));
template <class T>
constexpr int64_t width = kBytes / static_cast<int64_t>(sizeof(T));

TOCHA_MATH F32 all(float x) { return x - F32{}; }
TOCHA_MATH F64 all(double x) { return x - F64{}; }
TOCHA_MATH F32 load(const float* p) {
  F32 x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
TOCHA_MATH F64 load(const double* p) {
  F64 x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
// Asks for what a loop over p will need soon, so many vectors at a time: the hardware's own look-ahead starts anew with
// every row. Where it looks further itself, a longer distance gets into its way.
#if defined(__aarch64__)
constexpr uintptr_t kAhead = 1024;
#else
constexpr uintptr_t kAhead = 2048;
#endif
template <int kVectors>
TOCHA_MATH void look_ahead(const void* p) {
  for (uintptr_t line = 0; line < kVectors * kBytes; line += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + kAhead + line));
}
// Asks for the line at p, which the next row will need.
TOCHA_MATH void fetch(const void* p) { __builtin_prefetch(p); }
TOCHA_MATH void store(float* p, F32 x) { std::memcpy(p, &x, sizeof x); }
TOCHA_MATH void store(double* p, F64 x) { std::memcpy(p, &x, sizeof x); }

TOCHA_MATH float first(F32 x) { return x[0]; }
TOCHA_MATH double first(F64 x) { return x[0]; }
// Every lane exchanged with the one so far from it.
template <int kDistance, class V, int... I>
TOCHA_MATH V swapped_lanes(V x, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(x, x, (I ^ kDistance)...);
}
template <int kDistance>
TOCHA_MATH F32 swapped(F32 x) {
  return swapped_lanes<kDistance>(x, std::make_integer_sequence<int, kBytes / 4>());
}
template <int kDistance>
TOCHA_MATH F64 swapped(F64 x) {
  return swapped_lanes<kDistance>(x, std::make_integer_sequence<int, kBytes / 8>());
}

}  // namespace vec

// As the scalar forms in engine/scalar_ops.h: a NaN wins, and of two equal operands the first.
namespace math {

#if defined(__aarch64__)
// One instruction gives the greater, or a NaN; but it has an order of zeros, so that ties are found by comparison.
TOCHA_MATH vec::F32 maximum(vec::F32 a, vec::F32 b) { return (vec::F32)vbslq_f32(vcgeq_f32(a, b), a, vmaxq_f32(a, b)); }
TOCHA_MATH vec::F32 minimum(vec::F32 a, vec::F32 b) { return (vec::F32)vbslq_f32(vcleq_f32(a, b), a, vminq_f32(a, b)); }
TOCHA_MATH vec::F64 maximum(vec::F64 a, vec::F64 b) { return (vec::F64)vbslq_f64(vcgeq_f64(a, b), a, vmaxq_f64(a, b)); }
TOCHA_MATH vec::F64 minimum(vec::F64 a, vec::F64 b) { return (vec::F64)vbslq_f64(vcleq_f64(a, b), a, vminq_f64(a, b)); }
#else
#if !TOCHA_VECTOR_F32  // else they are in vecmath/avx512.h
TOCHA_MATH vec::F32 maximum(vec::F32 a, vec::F32 b) { return (a < b) | (b != b) ? b : a; }
TOCHA_MATH vec::F32 minimum(vec::F32 a, vec::F32 b) { return (a > b) | (b != b) ? b : a; }
#endif
TOCHA_MATH vec::F64 maximum(vec::F64 a, vec::F64 b) { return (a < b) | (b != b) ? b : a; }
TOCHA_MATH vec::F64 minimum(vec::F64 a, vec::F64 b) { return (a > b) | (b != b) ? b : a; }
#endif
#if !TOCHA_VECTOR_F32
TOCHA_MATH vec::F32 abs(vec::F32 x) { return (vec::F32)((vec::I32)x & 0x7fffffff); }
#endif
TOCHA_MATH vec::F64 abs(vec::F64 x) { return (vec::F64)((vec::I64)x & 0x7fffffffffffffff); }

}  // namespace math
TOCHA_ISA_END
