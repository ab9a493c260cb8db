// Whole vectors of integers and of truths for the folds of compiled graphs, beside those of floats in
// program_vectors.h. A truth is a mask as wide as what was compared; a position is as wide as the value that was found
// there.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/engine/program_vectors.h"

TOCHA_ISA_BEGIN
namespace vec {

typedef int8_t I8 __attribute__((vector_size(kBytes)));
typedef uint8_t U8 __attribute__((vector_size(kBytes)));
typedef uint32_t U32 __attribute__((vector_size(kBytes)));
typedef uint64_t U64 __attribute__((vector_size(kBytes)));

#define TOCHA_INTEGER_LANES(V, T)                                                                   \
  TOCHA_MATH V all(T x) { return x - V{}; }                                                         \
  TOCHA_MATH V load(const T* p) {                                                                   \
    V x;                                                                                            \
    std::memcpy(&x, p, sizeof x);                                                                   \
    return x;                                                                                       \
  }                                                                                                 \
  TOCHA_MATH void store(T* p, V x) { std::memcpy(p, &x, sizeof x); }                                \
  TOCHA_MATH T first(V x) { return x[0]; }                                                          \
  template <int kDistance>                                                                          \
  TOCHA_MATH V swapped(V x) {                                                                       \
    return swapped_lanes<kDistance>(x, std::make_integer_sequence<int, kBytes / int(sizeof(T))>()); \
  }
TOCHA_INTEGER_LANES(I8, int8_t)
TOCHA_INTEGER_LANES(U8, uint8_t)
TOCHA_INTEGER_LANES(I32, int32_t)
TOCHA_INTEGER_LANES(I64, int64_t)
#undef TOCHA_INTEGER_LANES

// merge(states, the same of other lanes) until the first lane has them all: halves, then quarters, and so on.
template <int kDistance, class Merge, class... State>
TOCHA_MATH void merge_lanes(Merge merge, State&... states) {
  if constexpr (kDistance > 0) {
    merge(states..., swapped<kDistance>(states)...);
    merge_lanes<kDistance / 2>(merge, states...);
  }
}

// Vectors that have a register each, beside what a step needs.
#if defined(__aarch64__) || TOCHA_VECTOR_F32
constexpr int kGroup = 16;
#else
constexpr int kGroup = 8;
#endif
// Asks for the lines of so many vectors.
template <int kVectors>
TOCHA_MATH void fetch(const void* p) {
  for (uintptr_t line = 0; line < kVectors * kBytes; line += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + line));
}

// Truths: bytes in memory, of which any but 0 is true; all bits of a lane are set, or none.
TOCHA_MATH I8 truths(const uint8_t* p) { return (I8)(load(p) != U8{}); }
TOCHA_MATH void store_truths(uint8_t* p, I8 x) { store(p, (U8)x & uint8_t(1)); }
template <class V>
TOCHA_MATH V mask(bool x) {
  return V{} - static_cast<decltype(V{}[0] + 0)>(x);
}
// Not `~`: of a comparison that is not so a compiler makes one that minds NaNs, which takes NEON six instructions.
template <class M>
TOCHA_MATH M inverse(M m) {
#if defined(__aarch64__)
  asm("" : "+w"(m));
#endif
  return ~m;
}
template <class M, class V>
TOCHA_MATH V choose(M m, V a, V b) {
#if defined(__aarch64__)
  // A compiler turns `m ? a : b` around where it thinks that better, which costs comparisons that mind NaNs.
  return (V)vbslq_u8((uint8x16_t)m, (uint8x16_t)a, (uint8x16_t)b);
#else
  return m ? a : b;
#endif
}

template <class M>
TOCHA_MATH bool any(M m) {
#if TOCHA_VECTOR_F32
  return _mm512_test_epi64_mask((__m512i)m, (__m512i)m) != 0;
#elif defined(__AVX__)
  return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#elif defined(__aarch64__)
  return vmaxvq_u32((uint32x4_t)m) != 0;
#else
  const U64 bits = (U64)m;
  return (bits[0] | bits[1]) != 0;
#endif
}

// Positions of neighbours, by the first. In lanes of 32 bits they are below 2^31 - 1, which stands for nowhere as the
// greatest int64 does elsewhere.
template <class V, int... I>
TOCHA_MATH V lane_numbers(std::integer_sequence<int, I...>) {
  return V{I...};
}
template <class V>
TOCHA_MATH V positions(int64_t first) {
  using T = std::remove_cvref_t<decltype(V{}[0])>;
  return all(static_cast<T>(first)) + lane_numbers<V>(std::make_integer_sequence<int, kBytes / int(sizeof(T))>());
}
TOCHA_MATH int32_t narrow_position(int64_t at) {
  return at == std::numeric_limits<int64_t>::max() ? std::numeric_limits<int32_t>::max() : static_cast<int32_t>(at);
}
TOCHA_MATH int64_t wide_position(int32_t at) {
  return at == std::numeric_limits<int32_t>::max() ? std::numeric_limits<int64_t>::max() : at;
}

}  // namespace vec

namespace math {

// Integers wrap.
#define TOCHA_INTEGER_MATH(V, U)                               \
  TOCHA_MATH V wrap_add(V a, V b) { return (V)((U)a + (U)b); } \
  TOCHA_MATH V wrap_sub(V a, V b) { return (V)((U)a - (U)b); } \
  TOCHA_MATH V wrap_neg(V a) { return (V)(U{} - (U)a); }       \
  TOCHA_MATH V maximum(V a, V b) { return a < b ? b : a; }     \
  TOCHA_MATH V minimum(V a, V b) { return a > b ? b : a; }
TOCHA_INTEGER_MATH(vec::U8, vec::U8)
TOCHA_INTEGER_MATH(vec::I32, vec::U32)
TOCHA_INTEGER_MATH(vec::I64, vec::U64)
#undef TOCHA_INTEGER_MATH
TOCHA_MATH vec::I32 wrap_mul(vec::I32 a, vec::I32 b) { return (vec::I32)((vec::U32)a * (vec::U32)b); }
TOCHA_MATH vec::U8 abs(vec::U8 x) { return x; }
TOCHA_MATH vec::I32 abs(vec::I32 x) { return x < 0 ? wrap_neg(x) : x; }
TOCHA_MATH vec::I64 abs(vec::I64 x) { return x < 0 ? wrap_neg(x) : x; }
TOCHA_MATH vec::I32 isnan(vec::F32 x) { return x != x; }
TOCHA_MATH vec::I64 isnan(vec::F64 x) { return x != x; }

}  // namespace math

namespace vec {

// Extremes of a row: a NaN wins; of zeros that differ in sign it may be either, as in the eager kernels
// (vecmath/neon.h).
template <class V>
TOCHA_MATH V highest(V a, V b) {
  return math::maximum(a, b);
}
template <class V>
TOCHA_MATH V lowest(V a, V b) {
  return math::minimum(a, b);
}
#if defined(__aarch64__)
TOCHA_MATH F32 highest(F32 a, F32 b) { return (F32)vmaxq_f32(a, b); }
TOCHA_MATH F32 lowest(F32 a, F32 b) { return (F32)vminq_f32(a, b); }
TOCHA_MATH F64 highest(F64 a, F64 b) { return (F64)vmaxq_f64(a, b); }
TOCHA_MATH F64 lowest(F64 a, F64 b) { return (F64)vminq_f64(a, b); }
#endif

}  // namespace vec
TOCHA_ISA_END
