// The inner loops of softmax and of the normalisations, one table per instruction set. Rows are contiguous and of the
// compute type (float or double); csrc/cpu/normalization/softmax.cpp and layer_norm.cpp cut the work and convert.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

// The widest tile of columns that the column kernels take.
constexpr int64_t kSoftmaxTile = 256;

template <class T>
struct SoftmaxLoops {
  // y = softmax(x), or its logarithm; y may be x.
  void (*row)(const T* x, T* y, int64_t n, bool log);
  // The same down `width` neighbouring columns; `stride` elements lie between rows.
  void (*columns)(const T* x, T* y, int64_t n, int64_t stride, int64_t width, bool log);
  // dx from the gradient g of softmax's (log_softmax's) result y.
  void (*row_backward)(const T* g, const T* y, T* dx, int64_t n, bool log);
  void (*columns_backward)(const T* g, const T* y, T* dx, int64_t n, int64_t stride, int64_t width, bool log);
  // The logarithm of the sum of exponentials of x - max, and that max: apart they are exact where their sum is not.
  T (*log_sum_exp)(const T* x, int64_t n, T* max);
  // y = factor * exp(x - lse); y may be x.
  void (*shares)(const T* x, T* y, int64_t n, T lse, T factor);
};

template <class T>
struct NormLoops {
  // Mean and sum of squared deviations of a row.
  void (*moments)(const T* x, int64_t n, T* mean, T* deviation);
  T (*sum_of_squares)(const T* x, int64_t n);
  // y = (x - mean) * scale * weight + bias; weight and bias may be null.
  void (*apply)(const T* x, T* y, int64_t n, T mean, T scale, const T* weight, const T* bias);
  // y = x * scale + shift
  void (*affine)(const T* x, T* y, int64_t n, T scale, T shift);
  // The sums of g * weight and of g * weight * y, where y = (x - mean) * scale; weight may be null.
  void (*backward_sums)(const T* g, const T* x, int64_t n, T mean, T scale, const T* weight, T* sum, T* product);
  // dx = scale * (g * factor * weight - sum - y * product)
  void (*backward_input)(const T* g, const T* x, T* dx, int64_t n, T mean, T scale, T factor, const T* weight, T sum,
                         T product);
  // dweight += g * y, dbias += g
  void (*backward_parameters)(const T* g, const T* x, int64_t n, T mean, T scale, T* dweight, T* dbias);
};

struct SoftmaxKernels {
  SoftmaxLoops<float> f32;
  SoftmaxLoops<double> f64;
};
struct NormKernels {
  NormLoops<float> f32;
  NormLoops<double> f64;
};
TOCHA_ISA_TABLE(SoftmaxKernels, softmax_kernels)
TOCHA_ISA_TABLE(NormKernels, norm_kernels)

}  // namespace tocha::cpu
