// Sums, products and extremes of sixteen floats at once in four NEON registers: what generated folds over rows call,
// whose accumulators a compiler would keep in memory. Names and meaning are those of avx512.h.
#pragma once

#include "cpu/vecmath/avx512.h"

// Whether folds of such formulas can be written on vectors of float, and on those of double (extremes alone) and int64.
#if defined(__aarch64__)
#define TOCHA_FOLDS_F32 1
#define TOCHA_FOLDS_WIDE 1

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

// Eight doubles, for extremes: the order of the lanes does not matter to them as it does to sums. Eight integers.
inline constexpr int kWideLanes = 8;
template <class V>
struct Wide {
  V part[4];
};
using F64x8 = Wide<float64x2_t>;
using I64x8 = Wide<int64x2_t>;

TOCHA_MATH F64x8 splat(double x) {
  const float64x2_t all = vdupq_n_f64(x);
  return {{all, all, all, all}};
}
TOCHA_MATH I64x8 splat(int64_t x) {
  const int64x2_t all = vdupq_n_s64(x);
  return {{all, all, all, all}};
}
TOCHA_MATH F64x8 load(const double* p) {
  return {{vld1q_f64(p), vld1q_f64(p + 2), vld1q_f64(p + 4), vld1q_f64(p + 6)}};
}
TOCHA_MATH I64x8 load(const int64_t* p) {
  return {{vld1q_s64(p), vld1q_s64(p + 2), vld1q_s64(p + 4), vld1q_s64(p + 6)}};
}
template <class T>
TOCHA_MATH auto load_first(const T* p, int64_t count) {
  T lanes[kWideLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
template <class V>
TOCHA_MATH Wide<V> keep_first(Wide<V> one, Wide<V> other, int64_t count) {
  static constexpr uint64_t kLane[kWideLanes] = {0, 1, 2, 3, 4, 5, 6, 7};
  const uint64x2_t limit = vdupq_n_u64(static_cast<uint64_t>(count));
  for (int i = 0; i < 4; ++i) {
    const uint64x2_t mine = vcltq_u64(vld1q_u64(kLane + 2 * i), limit);
    other.part[i] = (V)vbslq_u64(mine, (uint64x2_t)one.part[i], (uint64x2_t)other.part[i]);
  }
  return other;
}
template <class V>
TOCHA_MATH auto first(Wide<V> x) {
  return x.part[0][0];
}
template <int kDistance, class V>
TOCHA_MATH Wide<V> swapped(Wide<V> x) {
  constexpr int kParts = kDistance / 2;
  if constexpr (kDistance == 1) {
    for (V& part : x.part) part = (V)vextq_u64((uint64x2_t)part, (uint64x2_t)part, 1);
    return x;
  } else {
    return {{x.part[0 ^ kParts], x.part[1 ^ kParts], x.part[2 ^ kParts], x.part[3 ^ kParts]}};
  }
}
TOCHA_MATH float64x2_t greater(float64x2_t a, float64x2_t b) { return vmaxq_f64(a, b); }
TOCHA_MATH float64x2_t lesser(float64x2_t a, float64x2_t b) { return vminq_f64(a, b); }
TOCHA_MATH int64x2_t greater(int64x2_t a, int64x2_t b) { return vbslq_s64(vcgtq_s64(b, a), b, a); }
TOCHA_MATH int64x2_t lesser(int64x2_t a, int64x2_t b) { return vbslq_s64(vcgtq_s64(a, b), b, a); }
template <class V>
TOCHA_MATH Wide<V> maximum(Wide<V> a, Wide<V> b) {
  for (int i = 0; i < 4; ++i) a.part[i] = greater(a.part[i], b.part[i]);
  return a;
}
template <class V>
TOCHA_MATH Wide<V> minimum(Wide<V> a, Wide<V> b) {
  for (int i = 0; i < 4; ++i) a.part[i] = lesser(a.part[i], b.part[i]);
  return a;
}
TOCHA_MATH I64x8 wrap_add(I64x8 a, I64x8 b) {
  for (int i = 0; i < 4; ++i) a.part[i] = vaddq_s64(a.part[i], b.part[i]);
  return a;
}

}  // namespace math
TOCHA_ISA_END

#else
#define TOCHA_FOLDS_F32 TOCHA_VECTOR_F32
#define TOCHA_FOLDS_WIDE 0
#endif
