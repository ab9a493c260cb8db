// How gamma-distributed numbers move with the shape a of their distribution while their quantile stays: by implicit
// differentiation of P(a, x) = const (Figurnov et al. 2018), -(dP/da) / density. A kernel of tocha/operators/random.py.
#include <cmath>

#include "core/parallel.h"
#include "cpu/random/dispatch.h"
#include "cpu/special/special.h"
#include "dispatch/native.h"
#include "kernels/random.h"
#include "ops/copies.h"

namespace tocha::native {
namespace {

constexpr double kLargeShape = 1e5;  // above, x is a + sqrt(a) z with a fixed z, up to 1 / a

// P = x density S with S the sum of c_k = x^k / (a (a + 1) ... (a + k)), whose derivative is -c_k h_k.
double slope_by_series(double a, double x, double log_slope) {
  double term = 1 / a, harmonic = 1 / a, sum = term, weighted = term * harmonic;
  for (double k = a + 1; term > sum * 0x1p-56 || k < x; k += 1) {
    term *= x / k;
    harmonic += 1 / k;
    sum += term;
    weighted += term * harmonic;
  }
  return -x * (log_slope * sum - weighted);
}

// 1 - P = x density F with Legendre's continued fraction F, evaluated from its far end together with its derivative.
double slope_by_fraction(double a, double x, double log_slope) {
  double rest = 0, rest_slope = 0;
  for (int k = 200; k >= 1; --k) {
    const double below = x + 2 * k + 1 - a + rest, above = k * (a - k);
    const double next = above / below;
    rest_slope = (k - next * (rest_slope - 1)) / below;
    rest = next;
  }
  const double fraction = 1 / (x + 1 - a + rest);
  return x * (log_slope * fraction - fraction * fraction * (rest_slope - 1));
}

double slope(double a, double x) {
  if (!(a > 0) || !(x > 0)) return a > 0 && x == 0 ? 0 : std::nan("");
  if (a > kLargeShape) return (x + a) / (2 * a);
  const double log_slope = std::log(x) - math::special::digamma(a);
  return x > a + 3 + 5 * std::sqrt(a) ? slope_by_fraction(a, x, log_slope) : slope_by_series(a, x, log_slope);
}

}  // namespace

void standard_gamma_slopes(const Tensor& out, const Tensor& self, const Tensor& output) {
  Tensor shapes = ops::contiguous(self, MemoryFormat::Contiguous);
  Tensor samples = ops::contiguous(output, MemoryFormat::Contiguous);
  if (out.dtype() != DType::Float32 && out.dtype() != DType::Float64) refuse_dtype("_standard_gamma_grad", out.dtype());
  cpu::visit_floating("_standard_gamma_grad", out.dtype(), [&]<class T>(cpu::Type<T>) {
    const T *a = shapes.data<T>(), *x = samples.data<T>();
    T* to = out.data<T>();
    parallel_for(out.numel(), 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = cpu::to_number<T>(slope(static_cast<double>(a[i]), static_cast<double>(x[i])));
    });
  });
}

}  // namespace tocha::native
