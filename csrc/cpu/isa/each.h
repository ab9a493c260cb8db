// Elementwise loops over several rows at once, written once for numbers and for whole vectors: in
// `each<T>(n, [&](int64_t i, auto at) { at.store(y + i, math::tanh(at.load(x + i))); })` the loads, the stores and the
// math functions take as many elements as the instruction set has lanes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/vecmath.h"
#include "cpu/vecmath_avx512.h"

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
