#include "cpu/scan/recursive_filter.h"

#include "core/gil.h"
#include "core/parallel.h"

namespace tocha::cpu {
namespace {

template <class T>
void run(const Tensor& input, const Tensor& coefficients, const Tensor& out) {
  const int64_t channels = input.sizes()[1], n = input.sizes()[2], order = coefficients.sizes()[1];
  ReleaseGil unlocked(input.numel() * order);
  parallel_for(input.sizes()[0] * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = input.data<T>() + row * n;
      const T* a = coefficients.data<T>() + row % channels * order;
      T* y = out.data<T>() + row * (n + order - 1);
      for (int64_t t = 0; t < n; ++t, ++y) {
        T value = x[t];
        for (int64_t k = 0; k < order; ++k) value -= y[k] * a[k];
        y[order - 1] = value;
      }
    }
  });
}

}  // namespace

void recursive_filter(const Tensor& input, const Tensor& coefficients, const Tensor& out) {
  if (input.dtype() == DType::Float64) return run<double>(input, coefficients, out);
  run<float>(input, coefficients, out);
}

}  // namespace tocha::cpu
