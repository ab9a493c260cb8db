// Window functions: the kernels of tocha/operators/windows.py. The sums of cosines and the triangle round after every
// step, as PyTorch's do, which are made of operators on tensors; their cosines are those of doubles.
#include <algorithm>
#include <cmath>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/factories/kernels.h"
#include "cpu/special/special.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 4096;

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

// fill(dtype, out, begin, end) with the window's dtype; dtypes without arithmetic get what float32 gives.
template <class F>
void fill_in_steps(const Tensor& out, F fill) {
  const int64_t n = out.numel();
  if (n == 0) return;
  if (n == 1) return sample(out, false, [](double, double) { return 1.0; });
  const DType d = out.dtype();
  const bool counts = d == DType::Float64 || d == DType::Float32 || d == DType::Float16 || d == DType::BFloat16;
  const Tensor target = counts ? out : empty(out.sizes(), DType::Float32, Device{});
  {
    ReleaseGil unlocked(n);
    parallel_for(n, kGrain, [&](int64_t b, int64_t e) { fill(target.dtype(), target.bytes(), b, e); });
  }
  if (!counts) backend(out.device().type).copy(out, target);
}

}  // namespace

void _cosine_sum_window(const Tensor& out, int64_t n, bool periodic, const std::optional<std::vector<double>>& a,
                        MaybeDType, MaybeDevice) {
  const cpu::CosineSum sum{static_cast<double>(periodic ? n : n - 1), a->data(), static_cast<int64_t>(a->size())};
  fill_in_steps(out,
                [&](DType d, void* p, int64_t b, int64_t e) { cpu::sequence_kernels().sum_cosines(d, p, b, e, sum); });
}

void bartlett_window(const Tensor& out, int64_t n, bool periodic, MaybeDType, MaybeDevice) {
  const int64_t last = periodic ? n : n - 1;
  fill_in_steps(out,
                [&](DType d, void* p, int64_t b, int64_t e) { cpu::sequence_kernels().triangle(d, p, b, e, last); });
}

void kaiser_window(const Tensor& out, int64_t, bool periodic, double beta, MaybeDType, MaybeDevice) {
  sample(out, periodic, [&](double n, double last) {
    double x = 2 * n / last - 1;
    return math::i0(beta * std::sqrt(std::max(0.0, 1 - x * x))) / math::i0(beta);
  });
}

}  // namespace tocha::native
