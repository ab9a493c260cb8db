// How beta-distributed numbers x move with the first shape a of their distribution while their quantile stays: by
// implicit differentiation of I_x(a, b) = const (Figurnov et al. 2018), -(dI/da) / density, over 1 - x. A kernel of
// tocha/operators/random.py.
#include <cmath>

#include "core/parallel.h"
#include "cpu/random/dispatch.h"
#include "cpu/special/special.h"
#include "dispatch/native.h"
#include "kernels/random.h"
#include "ops/copies.h"
#include "ops/views.h"

namespace tocha::native {
namespace {

constexpr int kMaxTerms = 100000;
constexpr double kAccuracy = 0x1p-52;

// A continued fraction 1 / (1 + d1 / (1 + d2 / ...)) and its logarithmic derivative, taken forward (Lentz).
struct Fraction {
  double value = 1, log_slope = 0;
  double upper = 1, upper_slope = 0, lower = 0, lower_slope = 0;

  // One coefficient and its derivative; says whether it no longer mattered.
  bool add(double d, double d_slope) {
    const double step = 1 / (1 + d * lower);
    lower_slope = -step * step * (d_slope * lower + d * lower_slope);
    lower = step;
    upper_slope = d_slope / upper - d * upper_slope / (upper * upper);
    upper = 1 + d / upper;
    const double factor = upper * lower, change = upper_slope / upper + lower_slope / lower;
    value *= factor;
    log_slope += change;
    return std::abs(factor - 1) <= kAccuracy && std::abs(change) <= kAccuracy * std::abs(log_slope);
  }
};

// The fraction in I_x(p, q) = x^p (1-x)^q / (p B(p, q)) f, with its derivative by p or by q (DLMF 8.17.22).
Fraction fraction(double p, double q, double x, bool by_p) {
  const double dp = by_p ? 1 : 0, dq = 1 - dp;
  Fraction f;
  // The reciprocal is taken at the end: f holds 1 + d1 / (1 + d2 / ...).
  for (int m = 0; m < kMaxTerms; ++m) {
    if (m > 0) {
      const double below = (p + 2 * m - 1) * (p + 2 * m), even = m * (q - m) * x / below;
      f.add(even, m * dq * x / below - even * dp * (1 / (p + 2 * m - 1) + 1 / (p + 2 * m)));
    }
    const double odd = -(p + m) * (p + q + m) * x / ((p + 2 * m) * (p + 2 * m + 1));
    const double part = dp / (p + m) + 1 / (p + q + m) - dp * (1 / (p + 2 * m) + 1 / (p + 2 * m + 1));
    if (f.add(odd, odd * part) && m > 2) break;
  }
  f.value = 1 / f.value;
  f.log_slope = -f.log_slope;
  return f;
}

double beta_slope(double x, double a, double total) {
  const double b = total - a;
  if (!(a > 0) || !(b >= 0) || !(x >= 0) || !(x <= 1)) return std::nan("");
  if (x == 0 || b == 0) return 0;
  const double log_x = std::log(x), psi = math::special::digamma(total);
  if (x * (total + 2) < a + 1) {
    const Fraction f = fraction(a, b, x, true);
    // digamma(a) + 1 / a, without the difference of great numbers.
    return -x / a * f.value * (log_x - math::special::digamma(a + 1) + psi + f.log_slope);
  }
  const Fraction f = fraction(b, a, 1 - x, false);
  return x / b * f.value * (log_x - math::special::digamma(a) + psi + f.log_slope);
}

}  // namespace

void beta_slopes(const Tensor& out, const Tensor& x, const Tensor& alpha, const Tensor& total) {
  if (out.dtype() != DType::Float32 && out.dtype() != DType::Float64) refuse_dtype("_dirichlet_grad", out.dtype());
  const auto laid_out = [&](const Tensor& t) {
    return ops::contiguous(ops::expand(t, out.sizes(), false), MemoryFormat::Contiguous);
  };
  const Tensor samples = laid_out(x), shapes = laid_out(alpha), totals = laid_out(total);
  cpu::visit_floating("_dirichlet_grad", out.dtype(), [&]<class T>(cpu::Type<T>) {
    const T *at = samples.data<T>(), *a = shapes.data<T>(), *n = totals.data<T>();
    T* to = out.data<T>();
    parallel_for(out.numel(), 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = cpu::to_number<T>(
            beta_slope(static_cast<double>(at[i]), static_cast<double>(a[i]), static_cast<double>(n[i])));
    });
  });
}

}  // namespace tocha::native
