// The inner loops of batch_norm where channels are last in memory (rows of channels), one table per instruction set.
// Planes use the loops of cpu/softmax_kernels.h. csrc/cpu/batch_norm.cpp cuts the work.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

template <class T>
struct BatchNormLoops {
  // sums += the rows' sums
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
