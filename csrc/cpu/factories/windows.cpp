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
// Cosines become their sums; two terms, as most windows have, in vectors.
void cosine_sums(const std::vector<double>& a, double* c, int64_t n) {
  if (a.size() == 2) {
    const double level = a[0], swing = a[1];
    for (int64_t i = 0; i < n; ++i) c[i] = level - swing * c[i];
  } else {
    for (int64_t i = 0; i < n; ++i) c[i] = cosine_sum(a, c[i]);
  }
}

}  // namespace

void _cosine_sum_window(const Tensor& out, int64_t, bool periodic, const std::optional<std::vector<double>>& a,
                        MaybeDType, MaybeDevice) {
  const int64_t n = out.numel();
  if (n <= 1) return backend(out.device().type).fill(out, Scalar(int64_t{1}));
  // So many samples at a time that their angles stay in cache.
  constexpr int64_t kPart = 1 << 15, kGrain = 4096;
  const double step = 2 * std::numbers::pi / static_cast<double>(periodic ? n : n - 1);
  const Tensor memory = empty(Ints{std::min(n, kPart)}, DType::Float64, Device{});
  auto* p = memory.data<double>();
  for (int64_t first = 0; first < n; first += kPart) {
    const int64_t count = std::min(kPart, n - first);
    const Tensor angles = view_of(memory, Ints{count}, Ints{1}, memory.offset());
    parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) p[i] = static_cast<double>(first + i) * step;
    });
    ops::cos_(angles);
    parallel_for(count, kGrain, [&](int64_t begin, int64_t end) { cosine_sums(*a, p + begin, end - begin); });
    backend(out.device().type)
        .copy(view_of(out, Ints{count}, out.strides(), out.offset() + first * out.stride(0)), angles);
  }
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
