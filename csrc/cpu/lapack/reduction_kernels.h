// Products of a column-major matrix and a vector, which reductions to condensed form spend their time in; one table per
// instruction set: isa/reduction_kernels.cpp. reduction.h drives them.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

template <class T>
struct ReductionKernels {
  // y += alpha * a @ x; x's elements are x_step apart.
  void (*add_product)(int64_t rows, int64_t columns, const T* a, int64_t ld, const T* x, int64_t x_step, T alpha, T* y);
  // y[j] = a's column j times x.
  void (*dots)(int64_t rows, int64_t columns, const T* a, int64_t ld, const T* x, T* y);
  // y += a @ x of what columns [first, last) of the lower triangle of a symmetric matrix of order n contribute.
  void (*add_symmetric)(int64_t n, int64_t first, int64_t last, const T* a, int64_t ld, const T* x, T* y);
};

struct ReductionTable {
  ReductionKernels<float> f32;
  ReductionKernels<double> f64;
};
TOCHA_ISA_TABLE(ReductionTable, reduction_kernels)

}  // namespace tocha::cpu
