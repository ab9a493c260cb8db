// Window functions: the kernels of tocha/operators/windows.py. Sums of few cosines, which are the windows that one
// meets, are a formula on vectors; others are computed in double, one value at a time.
#include "ops/windows.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/parallel.h"
#include "cpu/special/special.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using MaybeDType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;

constexpr int64_t kSamplesPerTask = 4096;

// value(n, last): sample n of a window whose last symmetric sample is `last`; a periodic window leaves that one out.
template <class T, class F>
void fill_samples(const Tensor& out, bool periodic, F value) {
  const int64_t n = out.numel();
  const double last = static_cast<double>(periodic ? n : n - 1);
  auto* p = out.data<T>();
  parallel_for(n, kSamplesPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) p[i] = static_cast<T>(value(static_cast<double>(i), last));
  });
}

template <class F>
void sample(const Tensor& out, bool periodic, F value) {
  if (out.numel() == 1) return backend(out.device().type).fill(out, 1);
  Tensor wide = out.dtype() == DType::Float64 ? out : empty(out.sizes(), DType::Float64, Device{});
  fill_samples<double>(wide, periodic, value);
  if (!wide.is(out)) backend(out.device().type).copy(out, wide);
}

// The angle of a sample in a cosine; the second half of the period mirrors the first, to the last bit.
double mirrored_angle(double n, double last) { return 2 * std::numbers::pi * (std::min(n, last - n) / last); }

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

// The usual windows have at most four terms: a polynomial of one cosine, in the precision of the result.
void short_cosine_sum(const Tensor& out, bool periodic, std::vector<double> a) {
  a.resize(4);
  const bool wide = out.dtype() == DType::Float64;
  const DType dtype = wide ? DType::Float64 : DType::Float32;
  Tensor x = out.dtype() == dtype ? out : empty(out.sizes(), dtype, Device{});
  wide ? fill_samples<double>(x, periodic, mirrored_angle) : fill_samples<float>(x, periodic, mirrored_angle);
  ops::_cosine_polynomial_out(x, x, a[0] - a[2], 3 * a[3] - a[1], 2 * a[2], -4 * a[3]);
  if (!x.is(out)) backend(out.device().type).copy(out, x);
}

}  // namespace

void _cosine_sum_window(const Tensor& out, int64_t, bool periodic, const std::optional<std::vector<double>>& a,
                        MaybeDType, MaybeDevice) {
  if (out.numel() == 1) return backend(out.device().type).fill(out, 1);
  if (a->size() <= 4) return short_cosine_sum(out, periodic, *a);
  sample(out, periodic, [&](double n, double last) { return cosine_sum(*a, std::cos(mirrored_angle(n, last))); });
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
