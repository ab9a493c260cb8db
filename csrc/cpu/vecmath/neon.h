// Sums, products and extremes of sixteen floats at once in four NEON registers: what generated folds over rows call,
// whose accumulators a compiler would keep in memory. Names and meaning are those of avx512.h.
#pragma once

#include "cpu/vecmath/avx512.h"

// Whether folds of such formulas can be written on vectors of float.
#if defined(__aarch64__)
#define TOCHA_FOLDS_F32 1

#include <arm_neon.h>

TOCHA_ISA_BEGIN
namespace math {

struct F32x16 {
  float32x4_t part[4];
};
inline constexpr int kLanes = 16;

template <class F>
TOCHA_MATH F32x16 by_parts(F&& f) {
  return {{f(0), f(1), f(2), f(3)}};
}

TOCHA_MATH F32x16 splat(float x) {
  return by_parts([&](int) { return vdupq_n_f32(x); });
}
TOCHA_MATH F32x16 load(const float* p) {
  return by_parts([&](int i) { return vld1q_f32(p + 4 * i); });
}
// The first `count` elements, fewer than a vector has; the other lanes are 0.
TOCHA_MATH F32x16 load_first(const float* p, int64_t count) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
// The first `count` lanes of one, the others of the other.
TOCHA_MATH F32x16 keep_first(F32x16 one, F32x16 other, int64_t count) {
  static constexpr uint32_t kLane[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint32x4_t limit = vdupq_n_u32(static_cast<uint32_t>(count));
  return by_parts(
      [&](int i) { return vbslq_f32(vcltq_u32(vld1q_u32(kLane + 4 * i), limit), one.part[i], other.part[i]); });
}
TOCHA_MATH float first(F32x16 x) { return vgetq_lane_f32(x.part[0], 0); }
// Every lane exchanged with the one so far from it.
template <int kDistance>
TOCHA_MATH F32x16 swapped(F32x16 x) {
  if constexpr (kDistance >= 4) {
    return by_parts([&](int i) { return x.part[i ^ (kDistance / 4)]; });
  } else if constexpr (kDistance == 2) {
    return by_parts([&](int i) { return vextq_f32(x.part[i], x.part[i], 2); });
  } else {
    return by_parts([&](int i) { return vrev64q_f32(x.part[i]); });
  }
}

TOCHA_MATH F32x16 operator+(F32x16 a, F32x16 b) {
  return by_parts([&](int i) { return vaddq_f32(a.part[i], b.part[i]); });
}
TOCHA_MATH F32x16 operator*(F32x16 a, F32x16 b) {
  return by_parts([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
}
// A NaN on either side is the result.
TOCHA_MATH F32x16 maximum(F32x16 a, F32x16 b) {
  return by_parts([&](int i) { return vmaxq_f32(a.part[i], b.part[i]); });
}
TOCHA_MATH F32x16 minimum(F32x16 a, F32x16 b) {
  return by_parts([&](int i) { return vminq_f32(a.part[i], b.part[i]); });
}

}  // namespace math
TOCHA_ISA_END

#else
#define TOCHA_FOLDS_F32 TOCHA_VECTOR_F32
#endif
