// Elementwise loops over several rows at once, written once for numbers and for whole vectors: in
// `each<T>(n, [&](int64_t i, auto at) { at.store(y + i, math::tanh(at.load(x + i))); })` the loads, the stores and the
// math functions take as many elements as the instruction set has lanes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/vecmath/avx512.h"
#include "cpu/vecmath/vecmath.h"

TOCHA_ISA_BEGIN
namespace rows {

template <class T>
struct OneElement {
  using V = T;
  TOCHA_MATH T load(const T* p) const { return *p; }
  TOCHA_MATH void store(T* p, T x) const { *p = x; }
  TOCHA_MATH T all(T x) const { return x; }
};

#if TOCHA_VECTOR_F32
struct WholeVector {
  using V = math::F32x16;
  TOCHA_MATH V load(const float* p) const { return math::load(p); }
  TOCHA_MATH void store(float* p, V x) const { math::store(p, x); }
  TOCHA_MATH V all(float x) const { return math::splat(x); }
};
struct FirstLanes {
  using V = math::F32x16;
  int64_t count;
  TOCHA_MATH V load(const float* p) const { return math::load_first(p, count); }
  TOCHA_MATH void store(float* p, V x) const { math::store_first(p, x, count); }
  TOCHA_MATH V all(float x) const { return math::splat(x); }
};
#endif

#if TOCHA_VECTOR_F32
struct Greater {
  TOCHA_MATH math::F32x16 operator()(math::F32x16 a, math::F32x16 b) const {
    return _mm512_maskz_max_ps(math::kAllLanes, a, b);
  }
};
struct Sum {
  TOCHA_MATH math::F32x16 operator()(math::F32x16 a, math::F32x16 b) const { return a + b; }
};
// All lanes as one number.
template <class Combine>
TOCHA_MATH float fold_lanes(math::F32x16 v, Combine combine) {
  v = combine(v, _mm512_maskz_shuffle_f32x4(math::kAllLanes, v, v, 0x4e));
  v = combine(v, _mm512_maskz_shuffle_f32x4(math::kAllLanes, v, v, 0xb1));
  v = combine(v, _mm512_maskz_permute_ps(math::kAllLanes, v, 0x4e));
  v = combine(v, _mm512_maskz_permute_ps(math::kAllLanes, v, 0xb1));
  return _mm512_cvtss_f32(v);
}
// f(i, at) over all elements, combined; lanes beyond the end count as `start`.
template <class Combine, class F>
TOCHA_MATH float fold_each(int64_t n, float start, Combine combine, F f) {
  math::F32x16 even = math::splat(start), odd = even;
  int64_t i = 0;
  for (; i + 2 * math::kLanes <= n; i += 2 * math::kLanes) {
    even = combine(even, f(i, WholeVector{}));
    odd = combine(odd, f(i + math::kLanes, WholeVector{}));
  }
  if (i + math::kLanes <= n) {
    even = combine(even, f(i, WholeVector{}));
    i += math::kLanes;
  }
  if (i < n) {
    const math::F32x16 last = f(i, FirstLanes{n - i});
    odd = combine(odd, _mm512_mask_mov_ps(math::splat(start), math::first_lanes(n - i), last));
  }
  return fold_lanes(combine(even, odd), combine);
}
#endif

template <class T, class F>
TOCHA_MATH void each(int64_t n, F f) {
#if TOCHA_VECTOR_F32
  if constexpr (std::is_same_v<T, float>) {
    int64_t i = 0;
    for (; i + math::kLanes <= n; i += math::kLanes) f(i, WholeVector{});
    if (i < n) f(i, FirstLanes{n - i});
    return;
  }
#endif
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) f(i, OneElement<T>{});
}

}  // namespace rows
TOCHA_ISA_END
