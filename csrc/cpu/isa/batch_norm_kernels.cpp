// Sums and scalings of rows of channels, for batch_norm with channels last.
#include "cpu/batch_norm_kernels.h"

namespace tocha::cpu {
namespace {

template <class T>
void add_rows(const T* x, int64_t rows, int64_t channels, T* sums) {
  for (int64_t r = 0; r < rows; ++r, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) sums[c] += x[c];
  }
}

template <class T>
void add_deviations(const T* x, int64_t rows, int64_t channels, const T* mean, T* sums) {
  for (int64_t r = 0; r < rows; ++r, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const T d = x[c] - mean[c];
      sums[c] += d * d;
    }
  }
}

template <class T>
void apply(const T* x, T* y, int64_t rows, int64_t channels, const T* scale, const T* shift) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * scale[c] + shift[c];
  }
}

template <class T>
void add_products(const T* g, const T* x, int64_t rows, int64_t channels, const T* mean, T* sums, T* products) {
  for (int64_t r = 0; r < rows; ++r, g += channels, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += g[c];
      products[c] += g[c] * (x[c] - mean[c]);
    }
  }
}

template <class T>
void apply_backward(const T* g, const T* x, T* dx, int64_t rows, int64_t channels, const T* mean, const T* scale,
                    const T* slope, const T* shift) {
  for (int64_t r = 0; r < rows; ++r, g += channels, x += channels, dx += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) dx[c] = g[c] * scale[c] + (x[c] - mean[c]) * slope[c] + shift[c];
  }
}

template <class T>
constexpr BatchNormLoops<T> loops() {
  return {add_rows<T>, add_deviations<T>, apply<T>, add_products<T>, apply_backward<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const BatchNormKernels batch_norm_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
