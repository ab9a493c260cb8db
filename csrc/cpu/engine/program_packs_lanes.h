// Dear functions that have no form on packs, lane by lane, so that a formula with one of them still goes by packs.
// Eager kernels of these are plain loops, and have no need of this.
#pragma once

#include "cpu/engine/program_packs_math.h"
#include "cpu/special/special.h"
#include "cpu/vecmath/avx512_gamma.h"
#include "cpu/vecmath/vecmath.h"

TOCHA_ISA_BEGIN
namespace math {

template <class F>
TOCHA_MATH Pack each_lane(Pack a, Pack b, F f) {
  alignas(64) float lanes[vec::kPack], others[vec::kPack];
  vec::store(lanes, a, vec::Whole());
  vec::store(others, b, vec::Whole());
#pragma GCC ivdep
#pragma GCC unroll 1
  for (int i = 0; i < vec::kPack; ++i) lanes[i] = f(lanes[i], others[i]);
  return vec::load(lanes, vec::Whole());
}
#define TOCHA_LANE_BY_LANE(NAME)                                                         \
  TOCHA_MATH Pack NAME(Pack x) {                                                         \
    return each_lane(x, [](float v) __attribute__((always_inline)) { return NAME(v); }); \
  }
TOCHA_LANE_BY_LANE(asinh)
TOCHA_LANE_BY_LANE(acosh)
TOCHA_LANE_BY_LANE(atanh)
TOCHA_LANE_BY_LANE(erfc)
TOCHA_LANE_BY_LANE(sign)
#undef TOCHA_LANE_BY_LANE
#define TOCHA_LANE_BY_LANE(NAME)                                                                        \
  TOCHA_MATH Pack NAME(Pack a, Pack b) {                                                                \
    return each_lane(a, b, [](float v, float w) __attribute__((always_inline)) { return NAME(v, w); }); \
  }
TOCHA_LANE_BY_LANE(pow)
TOCHA_LANE_BY_LANE(atan2)
TOCHA_LANE_BY_LANE(hypot)
#undef TOCHA_LANE_BY_LANE

// With a shortcut that most operands can take; the others are computed again, one by one.
#define TOCHA_LANE_BY_LANE(NAME, TEST)                                                  \
  __attribute__((noinline, cold)) inline void NAME##_again(float* y, const float* x) {  \
    for (int i = 0; i < vec::kPack; ++i) {                                              \
      if (TEST(x[i])) y[i] = NAME(x[i]);                                                \
    }                                                                                   \
  }                                                                                     \
  TOCHA_MATH Pack NAME(Pack x) {                                                        \
    alignas(64) float lanes[vec::kPack], results[vec::kPack];                           \
    uint32_t others = 0;                                                                \
    vec::store(lanes, x, vec::Whole());                                                 \
    _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int i = 0; i < vec::kPack; ++i) { \
      results[i] = NAME##_fast(lanes[i]);                                               \
      others |= TEST(lanes[i]) ? 1 : 0;                                                 \
    }                                                                                   \
    if (others) [[unlikely]]                                                            \
      NAME##_again(results, lanes);                                                     \
    return vec::load(results, vec::Whole());                                            \
  }
#if TOCHA_VECTOR_F32
TOCHA_MATH Pack lgamma(Pack x) { return {lgamma(x.lanes)}; }
#else
TOCHA_LANE_BY_LANE(lgamma, lgamma_needs_slow)
#endif
TOCHA_LANE_BY_LANE(digamma, digamma_needs_slow)
TOCHA_LANE_BY_LANE(erfinv, erfinv_needs_slow)
#undef TOCHA_LANE_BY_LANE
#define TOCHA_LANE_BY_LANE(NAME)                                                                       \
  __attribute__((noinline, cold)) inline void NAME##_again(float* y, const float* a, const float* b) { \
    for (int i = 0; i < vec::kPack; ++i) {                                                             \
      if (fmod_needs_slow(a[i], b[i])) y[i] = NAME(a[i], b[i]);                                        \
    }                                                                                                  \
  }                                                                                                    \
  TOCHA_MATH Pack NAME(Pack a, Pack b) {                                                               \
    alignas(64) float lanes[vec::kPack], divisors[vec::kPack], results[vec::kPack];                    \
    uint32_t others = 0;                                                                               \
    vec::store(lanes, a, vec::Whole());                                                                \
    vec::store(divisors, b, vec::Whole());                                                             \
    _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int i = 0; i < vec::kPack; ++i) {                \
      results[i] = NAME##_fast(lanes[i], divisors[i]);                                                 \
      others |= fmod_needs_slow(lanes[i], divisors[i]) ? 1 : 0;                                        \
    }                                                                                                  \
    if (others) [[unlikely]]                                                                           \
      NAME##_again(results, lanes, divisors);                                                          \
    return vec::load(results, vec::Whole());                                                           \
  }
TOCHA_LANE_BY_LANE(fmod)
TOCHA_LANE_BY_LANE(remainder)
TOCHA_LANE_BY_LANE(floordiv)
#undef TOCHA_LANE_BY_LANE

TOCHA_MATH Mask isinf(Pack x) { return abs(x) == kInf<float>; }
TOCHA_MATH Mask isfinite(Pack x) { return abs(x) < kInf<float>; }

}  // namespace math
TOCHA_ISA_END
