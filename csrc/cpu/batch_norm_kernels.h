// The inner loops of batch_norm, one table per instruction set: for one channel as runs (a plane of each sample), and
// for rows of all channels. csrc/cpu/batch_norm.cpp cuts the work.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

// n elements, `count` times, each `stride` after the last.
struct Runs {
  int64_t count, stride, n;
};

template <class T>
struct BatchNormLoops {
  // The mean of a channel and the sum of the squares of what is beyond it.
  void (*moments)(const T* x, Runs r, T* mean, T* deviation);
  // y = x * scale + shift
  void (*affine)(const T* x, T* y, Runs r, T scale, T shift);
  // The sums of g and of g * (x - mean).
  void (*products)(const T* g, const T* x, Runs r, T mean, T* sum, T* product);
  // dx = g * scale + (x - mean) * slope + shift
  void (*affine_backward)(const T* g, const T* x, T* dx, Runs r, T mean, T scale, T slope, T shift);

  // Of rows of channels. sums += the rows' sums
  void (*add_rows)(const T* x, int64_t rows, int64_t channels, T* sums);
  // sums += the squares of what the rows have beyond their means
  void (*add_deviations)(const T* x, int64_t rows, int64_t channels, const T* mean, T* sums);
  // y = x * scale + shift
  void (*apply)(const T* x, T* y, int64_t rows, int64_t channels, const T* scale, const T* shift);
  // sums += g, products += g * (x - mean)
  void (*add_products)(const T* g, const T* x, int64_t rows, int64_t channels, const T* mean, T* sums, T* products);
  // dx = g * scale + (x - mean) * slope + shift
  void (*apply_backward)(const T* g, const T* x, T* dx, int64_t rows, int64_t channels, const T* mean, const T* scale,
                         const T* slope, const T* shift);
};

struct BatchNormKernels {
  BatchNormLoops<float> f32;
  BatchNormLoops<double> f64;
};
TOCHA_ISA_TABLE(BatchNormKernels, batch_norm_kernels)

}  // namespace tocha::cpu
