// Sums and maxima of a contiguous row in several vector accumulators; for the row kernels of this folder.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/engine/isa/vectors.h"

TOCHA_ISA_BEGIN
namespace rows {

using namespace vectors;

constexpr int kStreams = 4;  // accumulators in flight, to cover the latency of an addition

// fold(accumulator, element vector...) over all rows p..., then combine(lane, lane) to one number.
template <class T, class Fold, class Combine, class... P>
inline T reduce(int64_t n, T start, Fold fold, Combine combine, const P*... p) {
  constexpr int64_t w = kLanes<T>;
  Vec<T> acc[kStreams];
  for (auto& a : acc) a = Vec<T>{} + start;
  int64_t i = 0;
  for (; i + kStreams * w <= n; i += kStreams * w) {
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) acc[s] = fold(acc[s], load(p + i + s * w)...);
  }
  for (; i + w <= n; i += w) acc[0] = fold(acc[0], load(p + i)...);
  acc[0] = combine(combine(acc[0], acc[1]), combine(acc[2], acc[3]));
  alignas(kVectorBytes) T lanes[w];
  std::memcpy(lanes, &acc[0], sizeof(lanes));
#pragma GCC unroll 8
  for (int half = w / 2; half > 0; half /= 2) {  // a tree: a chain of w steps would take longer than a short row
#pragma GCC unroll 8
    for (int k = 0; k < half; ++k) lanes[k] = combine(lanes[k], lanes[k + half]);
  }
  T total = lanes[0];
  for (; i < n; ++i) total = combine(total, fold(start, p[i]...));
  return total;
}

struct Add {
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
};
struct Larger {
  template <class V>
  V operator()(V a, V b) const {
    return a > b ? a : b;
  }
};

template <class T>
inline T sum(const T* x, int64_t n) {
  return reduce<T>(n, T(0), Add(), Add(), x);
}
template <class T>
inline T dot(const T* x, const T* y, int64_t n) {
  return reduce<T>(n, T(0), [](auto a, auto u, auto v) { return a + u * v; }, Add(), x, y);
}
template <class T>
inline T largest(const T* x, int64_t n) {
  return reduce<T>(n, -std::numeric_limits<T>::infinity(), Larger(), Larger(), x);
}

}  // namespace rows
TOCHA_ISA_END
