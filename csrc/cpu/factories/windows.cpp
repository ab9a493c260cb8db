// Window functions: the kernels of tocha/operators/windows.py. Computed in double; sums of cosines, which are the
// windows that one meets, in vectors, others one value at a time.
#include <cmath>
#include <numbers>
#include <utility>

#include "core/parallel.h"
#include "cpu/special/special.h"
#include "dispatch/native.h"
#include "ops/trigonometric.h"

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

// a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., where c is cos(x): cos((k + 1) x) = 2 c cos(k x) - cos((k - 1) x).
double cosine_sum(const std::vector<double>& a, double c) {
  double sum = 0, sign = 1, before = c, here = 1;
  for (double factor : a) {
    sum += sign * factor * here;
    before = std::exchange(here, 2 * c * here - before);
    sign = -sign;
  }
  return sum;
}

}  // namespace

void _cosine_sum_window(const Tensor& out, int64_t, bool periodic, const std::optional<std::vector<double>>& a,
                        MaybeDType, MaybeDevice) {
  if (out.numel() == 0) return;
  const int64_t n = out.numel(), last = periodic ? n : n - 1;
  const Tensor angles = empty(Ints{n}, DType::Float64, Device{});
  auto* p = angles.data<double>();
  for (int64_t i = 0; i < n; ++i) p[i] = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(last);
  const Tensor cosines = ops::cos(angles);
  const auto* c = cosines.data<const double>();
  for (int64_t i = 0; i < n; ++i) p[i] = n == 1 ? 1.0 : cosine_sum(*a, c[i]);
  backend(out.device().type).copy(out, angles);
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
