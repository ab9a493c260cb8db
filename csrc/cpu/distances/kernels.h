// Inner loops of cdist and pdist, compiled once per instruction set (isa/kernels.cpp).
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
  // out = the sum over n points y, each with its coordinates side by side, of grad[j] times the derivative of its
  // distance from x by x; 0 where there is none
  void (*add_slopes)(Norm norm, T p, T* out, const T* x, const T* y, int64_t coordinates, int64_t n, const T* grad,
                     const T* distances);
  // out[j] = sqrt(max(0, out[j] + own + others[j])); NaN stays
  void (*finish_euclid)(T* out, T own, const T* others, int64_t n);
};

struct DistanceKernels {
  DistanceLoops<float> f32;
  DistanceLoops<double> f64;
};

TOCHA_ISA_TABLE(DistanceKernels, distance_kernels)

}  // namespace tocha::cpu
