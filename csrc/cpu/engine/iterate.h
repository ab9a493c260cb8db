// Walks several strided operands of one shape in step: dims are ordered by stride, merged where they run together, and
// one of them is split over threads. Used by gather, scatter, masks and indexing. Strides and offsets are in bytes.
#pragma once

#include <algorithm>

#include "core/gil.h"
#include "core/parallel.h"
#include "core/tensor.h"
#include "cpu/engine/grain.h"

namespace tocha::cpu {

// Strides of t in bytes, as t looks when expanded to `sizes` (whose last dims are t's).
inline Ints byte_strides(const Tensor& t, IntsView sizes) {
  int64_t lead = sizes.size() - t.dim();
  Ints out(sizes.size());
  for (int64_t d = 0; d < t.dim(); ++d)
    out[lead + d] = t.size(d) == 1 && sizes[lead + d] != 1 ? 0 : t.stride(d) * t.itemsize();
  return out;
}
inline Ints byte_strides(const Tensor& t) { return byte_strides(t, t.sizes()); }

template <int N>
struct Walk {
  static constexpr int kMaxDims = 64;
  static constexpr int64_t kGrain = 16384;  // elements a thread gets at least

  // `whole` is a dim that one thread must walk from its beginning to its end, or -1.
  Walk(IntsView shape, const Ints (&operands)[N], int64_t whole = -1) {
    int order[kMaxDims];
    int n = 0;
    for (int64_t d = 0; d < shape.size(); ++d) {
      numel *= shape[d];
      if (shape[d] != 1) order[n++] = static_cast<int>(d);
    }
    if (numel == 0) return;
    // Outermost first. An operand that does not move along either dim has no say.
    auto outside = [&](int a, int b) {
      for (int k = 0; k < N; ++k) {
        int64_t sa = std::abs(operands[k][a]), sb = std::abs(operands[k][b]);
        if (sa != sb && sa != 0 && sb != 0) return sa > sb;
      }
      return false;
    };
    for (int i = 1; i < n; ++i)
      for (int j = i; j > 0 && outside(order[j], order[j - 1]); --j) std::swap(order[j], order[j - 1]);
    for (int i = 0; i < n; ++i) {
      int d = order[i];
      bool merges = ndim > 0 && !is_whole[ndim - 1] && d != whole;
      for (int k = 0; k < N && merges; ++k) merges = strides[k][ndim - 1] == operands[k][d] * shape[d];
      if (merges) {
        sizes[ndim - 1] *= shape[d];
      } else {
        sizes[ndim] = shape[d];
        is_whole[ndim] = d == whole;
        ++ndim;
      }
      for (int k = 0; k < N; ++k) strides[k][ndim - 1] = operands[k][d];
    }
    if (ndim == 0) {
      sizes[0] = 1;
      is_whole[0] = false;
      for (int k = 0; k < N; ++k) strides[k][0] = 0;
      ndim = 1;
    }
  }

  // Calls f(offsets, steps, n) for every innermost run; offsets and steps are arrays of N.
  template <class F>
  void run(F&& f) const {
    if (numel == 0) return;
    int split = -1;
    for (int d = 0; d < ndim; ++d)
      if (!is_whole[d] && (split < 0 || sizes[d] > sizes[split])) split = d;
    ReleaseGil unlocked(numel);
    if (split < 0 || numel <= kGrain) return part(-1, 0, 0, f);
    const int64_t line = split == ndim - 1 ? 64 : 1;  // neighbours do not share cache lines
    const int64_t least = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, numel / sizes[split]));
    const int64_t grain = even_grain(sizes[split], (least + line - 1) / line * line, line);
    parallel_for(sizes[split], grain, [&](int64_t begin, int64_t end) { part(split, begin, end, f); });
  }

  int ndim = 0;
  int64_t numel = 1;
  int64_t sizes[kMaxDims];
  int64_t strides[N][kMaxDims];
  bool is_whole[kMaxDims];

 private:
  template <class F>
  void part(int split, int64_t begin, int64_t end, F& f) const {
    int64_t position[kMaxDims] = {};
    int64_t offsets[N] = {};
    int64_t steps[N];
    auto extent = [&](int d) { return d == split ? end - begin : sizes[d]; };
    for (int k = 0; k < N; ++k) {
      steps[k] = strides[k][ndim - 1];
      if (split >= 0) offsets[k] = begin * strides[k][split];
    }
    for (;;) {
      f(static_cast<const int64_t*>(offsets), static_cast<const int64_t*>(steps), extent(ndim - 1));
      int d = ndim - 2;
      for (; d >= 0; --d) {
        for (int k = 0; k < N; ++k) offsets[k] += strides[k][d];
        if (++position[d] < extent(d)) break;
        for (int k = 0; k < N; ++k) offsets[k] -= strides[k][d] * position[d];
        position[d] = 0;
      }
      if (d < 0) return;
    }
  }
};

}  // namespace tocha::cpu
