// New tensors with given contents: the kernels of tocha/operators/factories.py.
#include <cmath>
#include <complex>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/elementwise.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 16384;

void fill(const Tensor& out, const Scalar& value) { backend(out.device().type).fill(out, value); }

template <class T>
constexpr bool is_complex_type = std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>;
// What a sequence of T is computed in.
template <class T>
using Wide =
    std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<is_complex_type<T>, Complex<double>, double>>;

// out[i] = value(i), for every dtype; value is generic in the element type.
template <class T, class F>
void generate(const Tensor& out, F value) {
  T* p = out.data<T>();
  int64_t n = out.numel();
  ReleaseGil unlocked(n);
  parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) p[i] = static_cast<T>(value(i));
  });
}

template <class F>
void for_dtype(const char* op, DType d, F f) {
  switch (d) {
#define _(e, t, n, c) \
  case DType::e:      \
    return f(t{});
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      fail(ErrorKind::NotImplemented, "[", op, "] \"", op, "_cpu\" not implemented for '", info(d).name, "'");
  }
}

template <class T>
T narrowed(double v) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    return static_cast<T>(v);
  else
    return T(static_cast<float>(v));
}

void count_up(const char* op, const Tensor& out, const Scalar& start, const Scalar& step) {
  for_dtype(op, out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_complex_type<T> || std::is_same_v<T, bool>) {
      fail(ErrorKind::NotImplemented, "[", op, "] \"", op, "_cpu\" not implemented for '", info(out.dtype()).name, "'");
    } else if constexpr (std::is_integral_v<T>) {
      int64_t a = start.to_int(), s = step.to_int();
      generate<T>(out, [=](int64_t i) { return static_cast<T>(a + i * s); });
    } else {
      double a = start.to_double(), s = step.to_double();
      generate<T>(out, [=](int64_t i) { return narrowed<T>(a + static_cast<double>(i) * s); });
    }
  });
}

// Evenly spaced from both ends, so that each end is met exactly; `shape` is applied to every value. As in PyTorch, half
// types have ends of their own precision and steps in float32, unless `coarse` steps of their own too.
template <class F>
void spaced(const char* op, const Tensor& out, const Scalar& start, const Scalar& end, bool coarse, F shape) {
  int64_t n = out.numel(), half = n / 2;
  if (n == 0) return;
  for_dtype(op, out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      fail(ErrorKind::NotImplemented, "[", op, "] \"", op, "_cpu\" not implemented for '", info(out.dtype()).name, "'");
    } else if constexpr (is_complex_type<T>) {
      Complex<double> a = start.to_complex(), b = end.to_complex();
      double gaps = n > 1 ? static_cast<double>(n - 1) : 1;
      Complex<double> step((b.re - a.re) / gaps, (b.im - a.im) / gaps);
      generate<T>(out, [=](int64_t i) {
        double k = static_cast<double>(i < half || n == 1 ? i : n - 1 - i);
        Complex<double> v = i < half || n == 1 ? Complex<double>(a.re + step.re * k, a.im + step.im * k)
                                               : Complex<double>(b.re - step.re * k, b.im - step.im * k);
        return T(shape(v));
      });
    } else if (n == 1) {
      fill(out, Scalar(shape(start.to_double())));
    } else {
      // Integers take the truncated ends, and truncate what lies between.
      using Step = std::conditional_t<std::is_integral_v<T>, double,
                                      std::conditional_t<std::is_same_v<T, double>, double, float>>;
      auto rounded = [](double v) {
        if constexpr (std::is_integral_v<T>)
          return v;
        else
          return static_cast<Step>(narrowed<T>(v));
      };
      Step a = rounded(std::is_integral_v<T> ? static_cast<double>(start.to_int()) : start.to_double());
      Step b = rounded(std::is_integral_v<T> ? static_cast<double>(end.to_int()) : end.to_double());
      Step step = (b - a) / static_cast<Step>(n - 1);
      if (coarse) step = rounded(step);
      generate<T>(out, [=](int64_t i) {
        Step v = i < half ? a + step * static_cast<Step>(i) : b - step * static_cast<Step>(n - 1 - i);
        double shaped = shape(static_cast<double>(v));
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<int64_t>(shaped));
        else
          return narrowed<T>(shaped);
      });
    }
  });
}

void diagonal_ones(const Tensor& out) {
  fill(out, Scalar(int64_t{0}));
  int64_t n = std::min(out.size(0), out.size(1));
  if (n) fill(view_of(out, Ints{n}, Ints{out.stride(0) + out.stride(1)}, out.offset()), Scalar(int64_t{1}));
}

}  // namespace

using MaybeDType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;
using MaybeFormat = std::optional<MemoryFormat>;

void empty(const Tensor& out, IntsView, MaybeDType, MaybeDevice, MaybeFormat) { cpu::fill_uninitialized(out); }
void empty_strided(const Tensor& out, IntsView, IntsView, MaybeDType, MaybeDevice) { cpu::fill_uninitialized(out); }
void empty_permuted(const Tensor& out, IntsView, IntsView, MaybeDType, MaybeDevice) { cpu::fill_uninitialized(out); }
void empty_like(const Tensor& out, const Tensor&, MaybeDType, MaybeDevice, MaybeFormat) {
  cpu::fill_uninitialized(out);
}

void zeros(const Tensor& out, IntsView, MaybeDType, MaybeDevice) { fill(out, Scalar(int64_t{0})); }
void ones(const Tensor& out, IntsView, MaybeDType, MaybeDevice) { fill(out, Scalar(int64_t{1})); }
void full(const Tensor& out, IntsView, const Scalar& value, MaybeDType, MaybeDevice) { fill(out, value); }
void scalar_tensor(const Tensor& out, const Scalar& s, MaybeDType, MaybeDevice) { fill(out, s); }
void zeros_like(const Tensor& out, const Tensor&, MaybeDType, MaybeDevice, MaybeFormat) {
  fill(out, Scalar(int64_t{0}));
}
void ones_like(const Tensor& out, const Tensor&, MaybeDType, MaybeDevice, MaybeFormat) {
  fill(out, Scalar(int64_t{1}));
}
void full_like(const Tensor& out, const Tensor&, const Scalar& value, MaybeDType, MaybeDevice, MaybeFormat) {
  fill(out, value);
}

void eye(const Tensor& out, int64_t, MaybeDType, MaybeDevice) { diagonal_ones(out); }
void eye_m(const Tensor& out, int64_t, int64_t, MaybeDType, MaybeDevice) { diagonal_ones(out); }

void arange(const Tensor& out, const Scalar&, MaybeDType, MaybeDevice) {
  count_up("arange", out, Scalar(int64_t{0}), Scalar(int64_t{1}));
}
void arange_start(const Tensor& out, const Scalar& start, const Scalar&, MaybeDType, MaybeDevice) {
  count_up("arange", out, start, Scalar(int64_t{1}));
}
void arange_step(const Tensor& out, const Scalar& start, const Scalar&, const Scalar& step, MaybeDType, MaybeDevice) {
  count_up("arange", out, start, step);
}
void range(const Tensor& out, const Scalar& start, const Scalar&, const Scalar& step, MaybeDType, MaybeDevice) {
  count_up("range", out, start, step);
}

void linspace(const Tensor& out, const Scalar& start, const Scalar& end, int64_t, MaybeDType, MaybeDevice) {
  spaced("linspace", out, start, end, true, [](auto v) { return v; });
}

void logspace(const Tensor& out, const Scalar& start, const Scalar& end, int64_t, double base, MaybeDType,
              MaybeDevice) {
  spaced("logspace", out, start, end, false, [base](auto v) {
    if constexpr (std::is_same_v<decltype(v), double>) {
      return std::pow(base, v);
    } else {
      auto p = std::pow(std::complex<double>(base), std::complex<double>(v.re, v.im));
      return Complex<double>(p.real(), p.imag());
    }
  });
}

}  // namespace tocha::native
