// How elements are dealt out to threads.
#pragma once

#include <cstdint>

#include "core/parallel.h"

namespace tocha::cpu {

// A grain that gives every thread as much to do: ranges begin at its multiples, so that of a little more than `grain`
// elements one thread would get nearly all. Elements or lines of them: a multiple of `line`.
inline int64_t even_grain(int64_t n, int64_t grain, int64_t line = 64) {
  const int64_t threads = num_threads();
  if (n <= grain || n > 4 * threads * grain) return grain;
  const int64_t pieces = ((n + grain - 1) / grain + threads - 1) / threads * threads;
  return ((n + pieces - 1) / pieces + line - 1) / line * line;
}

}  // namespace tocha::cpu
