// Window functions: the kernels of tocha/operators/windows.py. The sums of cosines and the triangle round after every
// step, as PyTorch's do, which are made of operators on tensors; their cosines are those of doubles.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

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

// Steps that each round to T, as those of operators on tensors do.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
T times(T x, double factor) {
  return static_cast<T>(static_cast<Wide<T>>(x) * static_cast<Wide<T>>(factor));
}
template <class T>
T plus(T x, double addend) {
  return static_cast<T>(static_cast<Wide<T>>(x) + static_cast<Wide<T>>(addend));
}
template <class T>
T position(int64_t i) {
  return static_cast<T>(static_cast<Wide<T>>(i));
}

// a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., the highest first.
template <class T>
void sum_cosines(const Tensor& out, double last, const std::vector<double>& a) {
  const int64_t n = out.numel();
  auto* p = out.data<T>();
  std::fill_n(p, n, position<T>(0));
  const Tensor angles = empty(Ints{n}, DType::Float64, Device{});
  auto* x = angles.data<double>();
  for (size_t k = a.size(); k-- > 1;) {
    for (int64_t i = 0; i < n; ++i)
      x[i] = static_cast<Wide<T>>(times(times(position<T>(i), 2 * std::numbers::pi / last), static_cast<double>(k)));
    const Tensor cosines = ops::cos(angles);
    const auto* c = cosines.data<const double>();
    for (int64_t i = 0; i < n; ++i) {
      const T cosine = static_cast<T>(static_cast<Wide<T>>(c[i]));
      p[i] = plus(p[i], static_cast<Wide<T>>(times(cosine, k % 2 ? -a[k] : a[k])));
    }
  }
  for (int64_t i = 0; i < n; ++i) p[i] = plus(p[i], a[0]);
}

// Up from 0 to 1, and down again.
template <class T>
void triangle(const Tensor& out, int64_t last) {
  auto* p = out.data<T>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    const T x = times(position<T>(i), 2.0 / static_cast<double>(last));
    p[i] = i <= last / 2 ? x : plus(times(x, -1), 2);
  }
}

// fill(tensor, T()) with the window's dtype; dtypes without arithmetic get what float32 gives.
template <class F>
void fill_in_steps(const Tensor& out, F fill) {
  if (out.numel() == 0) return;
  if (out.numel() == 1) return sample(out, false, [](double, double) { return 1.0; });
  switch (out.dtype()) {
    case DType::Float64:
      return fill(out, double());
    case DType::Float32:
      return fill(out, float());
    case DType::Float16:
      return fill(out, Half());
    case DType::BFloat16:
      return fill(out, BFloat16());
    default: {
      const Tensor wide = empty(out.sizes(), DType::Float32, Device{});
      fill(wide, float());
      backend(out.device().type).copy(out, wide);
    }
  }
}

}  // namespace

void _cosine_sum_window(const Tensor& out, int64_t n, bool periodic, const std::optional<std::vector<double>>& a,
                        MaybeDType, MaybeDevice) {
  fill_in_steps(out, [&]<class T>(const Tensor& into, T) {
    sum_cosines<T>(into, static_cast<double>(periodic ? n : n - 1), *a);
  });
}

void bartlett_window(const Tensor& out, int64_t n, bool periodic, MaybeDType, MaybeDevice) {
  fill_in_steps(out, [&]<class T>(const Tensor& into, T) { triangle<T>(into, periodic ? n : n - 1); });
}

void kaiser_window(const Tensor& out, int64_t, bool periodic, double beta, MaybeDType, MaybeDevice) {
  sample(out, periodic, [&](double n, double last) {
    double x = 2 * n / last - 1;
    return math::i0(beta * std::sqrt(std::max(0.0, 1 - x * x))) / math::i0(beta);
  });
}

}  // namespace tocha::native
