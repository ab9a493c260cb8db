// Window functions: the kernels of tocha/operators/windows.py. Computed in double, one value at a time.
#include <cmath>
#include <numbers>

#include "cpu/special/special.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using MaybeDType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;

// value(n, last): sample n of a window whose last symmetric sample is `last`; a periodic window leaves that one out.
template <class F>
void sample(const Tensor& out, bool periodic, F value) {
  int64_t n = out.numel();
  if (n == 0) return;
  Tensor wide = out.dtype() == DType::Float64 ? out : empty(Ints{n}, DType::Float64, Device{});
  auto* p = wide.data<double>();
  double last = static_cast<double>(periodic ? n : n - 1);
  for (int64_t i = 0; i < n; ++i) p[i] = n == 1 ? 1.0 : value(static_cast<double>(i), last);
  if (!wide.is(out)) backend(out.device().type).copy(out, wide);
}

}  // namespace

void _cosine_sum_window(const Tensor& out, int64_t, bool periodic, const std::optional<std::vector<double>>& a,
                        MaybeDType, MaybeDevice) {
  sample(out, periodic, [&](double n, double last) {
    double sum = 0, sign = 1;
    for (size_t k = 0; k < a->size(); ++k, sign = -sign)
      sum += sign * (*a)[k] * std::cos(2 * std::numbers::pi * static_cast<double>(k) * n / last);
    return sum;
  });
}

void _sine_window(const Tensor& out, int64_t, bool periodic, MaybeDType, MaybeDevice) {
  sample(out, periodic, [](double n, double last) { return std::sin(std::numbers::pi * (n + 0.5) / (last + 1)); });
}

void _exponential_window(const Tensor& out, int64_t, bool periodic, std::optional<double> center, double tau,
                         MaybeDType, MaybeDevice) {
  sample(out, periodic,
         [&](double n, double last) { return std::exp(-std::abs(n - center.value_or(last / 2)) / tau); });
}

void _gaussian_window(const Tensor& out, int64_t, bool periodic, double std, MaybeDType, MaybeDevice) {
  sample(out, periodic, [&](double n, double last) {
    double x = (n - last / 2) / std;
    return std::exp(-0.5 * x * x);
  });
}

void bartlett_window(const Tensor& out, int64_t, bool periodic, MaybeDType, MaybeDevice) {
  sample(out, periodic, [](double n, double last) { return 1 - std::abs(2 * n / last - 1); });
}

void kaiser_window(const Tensor& out, int64_t, bool periodic, double beta, MaybeDType, MaybeDevice) {
  sample(out, periodic, [&](double n, double last) {
    double x = 2 * n / last - 1;
    return math::i0(beta * std::sqrt(std::max(0.0, 1 - x * x))) / math::i0(beta);
  });
}

}  // namespace tocha::native
