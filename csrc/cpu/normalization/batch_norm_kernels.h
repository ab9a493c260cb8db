// The inner loops of batch_norm, one table per instruction set: for one channel as runs (a plane of each sample), and
// for rows of all channels. csrc/cpu/normalization/batch_norm.cpp cuts the work.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

// Runs of n elements, one for each sample, each `stride` after the last; channels lie n apart.
struct Runs {
  int64_t samples, stride, n;
};

template <class T>
struct BatchNormLoops {
  // Of each channel the mean, and the sum of the squares of what is beyond it.
  void (*moments)(const T* x, int64_t channels, Runs r, T* mean, T* deviation);
  // y = x * scale + shift
  void (*affine)(const T* x, T* y, int64_t channels, Runs r, const T* scale, const T* shift);
  // The sums of g and of g * (x - mean).
  void (*products)(const T* g, const T* x, int64_t channels, Runs r, const T* mean, T* sum, T* product);
  // dx = g * scale + (x - mean) * slope + shift
  void (*affine_backward)(const T* g, const T* x, T* dx, int64_t channels, Runs r, const T* mean, const T* scale,
                          const T* slope, const T* shift);

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
