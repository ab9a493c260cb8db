// Inner loops of cdist and pdist, compiled once per instruction set (isa/distance_kernels.cpp).
// Called by distances.cpp.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

enum class Norm { count, sum, euclid, largest, power };  // p = 0, 1, 2, infinity, any

template <class T>
struct DistanceLoops {
  // out[j] = the norm of x - y[:, j], for n points y that lie coordinate by coordinate, `step` apart
  void (*from_point)(Norm norm, T p, T* out, const T* x, const T* y, int64_t coordinates, int64_t n, int64_t step);
  // the sum of x's squares
  T (*squared_length)(const T* x, int64_t n);
  // out[j] = sqrt(max(0, out[j] + own + others[j])); NaN stays
  void (*finish_euclid)(T* out, T own, const T* others, int64_t n);
};

struct DistanceKernels {
  DistanceLoops<float> f32;
  DistanceLoops<double> f64;
};

TOCHA_ISA_TABLE(DistanceKernels, distance_kernels)

}  // namespace tocha::cpu
