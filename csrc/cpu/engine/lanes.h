// Splitting a job into numbered lanes, each with its own scratch: what kernels need that keep per-thread
// state across several parallel steps (histograms, partial sums) or may not allocate inside a parallel region.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/parallel.h"

namespace tocha::cpu {

// How many lanes are worth using for n elements when a lane should have at least `least` of them.
inline int lane_count(int64_t n, int64_t least, int per_thread = 1) {
  if (in_parallel_region()) return 1;
  int threads = num_threads();
  if (threads == 1) return 1;
  return static_cast<int>(std::clamp<int64_t>(n / std::max<int64_t>(least, 1), 1, threads * per_thread));
}

inline int64_t lane_begin(int64_t n, int lanes, int lane) { return n / lanes * lane + n % lanes * lane / lanes; }

// f(lane, begin, end) for every lane, in parallel.
template <class F>
inline void for_lanes(int64_t n, int lanes, F&& f) {
  parallel_for(lanes, 1, [&](int64_t first, int64_t last) {
    for (int64_t lane = first; lane < last; ++lane) {
      int l = static_cast<int>(lane);
      f(l, lane_begin(n, lanes, l), lane_begin(n, lanes, l + 1));
    }
  });
}

}  // namespace tocha::cpu
