// New tensors with given contents: the kernels of tocha/operators/factories.py.
#include <cmath>
#include <complex>

#include "core/dtype_messages.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "core/zero.h"
#include "cpu/engine/elementwise.h"
#include "cpu/factories/kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 16384;

void fill(const Tensor& out, const Scalar& value) { backend(out.device().type).fill(out, value); }

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
#define _(e, t, n, c)                                         \
  case DType::e:                                              \
    if constexpr (std::is_same_v<t, Complex<Half>>) break;    \
    if constexpr (is_small_float<t> && sizeof(t) == 1) break; \
    return f(t{});
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      break;
  }
  refuse_dtype(op, d);
}

template <class T>
T narrowed(double v) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    return static_cast<T>(v);
  else
    return T(static_cast<float>(v));
}
template <class T>
constexpr bool is_full_float = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <class T>
double real(T v) {
  if constexpr (std::is_integral_v<T> || is_full_float<T>)
    return static_cast<double>(v);
  else
    return static_cast<double>(static_cast<float>(v));
}

// A bound of a sequence as an element; one that the dtype cannot hold is an error.
template <class T>
T bound(const Scalar& s) {
  T v;
  s.store(DTypeOf<T>::value, &v);
  return v;
}

// How PyTorch counts in floats, bit for bit: in blocks of two vectors, whose lanes add their multiple of the step to
// the vector's first element; the rest one by one. Long sequences are shared out among the threads first.
struct Blocks {
  static constexpr int64_t kGrain = 32768;
  int64_t lanes, share;

  Blocks(int64_t n, int64_t itemsize) : lanes(vector_bytes() / itemsize), share(n) {
    auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    if (n > kGrain) share = up(n, std::min<int64_t>(num_threads(), up(n, kGrain)));
  }
  static int64_t vector_bytes() {
#ifdef __aarch64__
    return 16;
#else
    return cpu_isa() == Isa::avx512 ? 64 : 32;
#endif
  }
  // The first element after the blocks of the share that begins at `begin`.
  int64_t end(int64_t begin, int64_t n) const { return begin + std::min(share, n - begin) / (2 * lanes) * (2 * lanes); }
};

// base + lane * step
template <class T, class Acc>
T in_lane(T base, int64_t lane, Acc step) {
#ifdef __aarch64__
  if constexpr (is_full_float<T>) {
    return std::fma(static_cast<T>(lane), static_cast<T>(step), base);
  } else {  // each operation is rounded
    T product(static_cast<float>(lane) * static_cast<float>(T(step)));
    return T(static_cast<float>(base) + static_cast<float>(product));
  }
#else
  using Sum = std::conditional_t<is_full_float<T>, Acc, float>;
  return static_cast<T>(std::fma(static_cast<Sum>(lane), static_cast<Sum>(step), static_cast<Sum>(base)));
#endif
}

template <class T>
void count_floats(const Tensor& out, double first, double by) {
  using Acc = std::conditional_t<is_full_float<T>, double, float>;
  Acc start = static_cast<Acc>(first), step = static_cast<Acc>(by);
  auto alone = [=](int64_t i) { return static_cast<T>(std::fma(step, static_cast<Acc>(i), start)); };
  T* p = out.data<T>();
  int64_t n = out.numel();
  Blocks blocks(n, static_cast<int64_t>(sizeof(T)));
  ReleaseGil unlocked(n);
  parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e;) {
      int64_t begin = i / blocks.share * blocks.share;
      int64_t stop = std::min(e, begin + blocks.share), whole = std::min(stop, blocks.end(begin, n));
      for (; i < whole; ++i) {
        int64_t lane = (i - begin) % blocks.lanes;
        p[i] = in_lane(alone(i - lane), lane, step);
      }
      for (; i < stop; ++i) p[i] = alone(i);
    }
  });
}

void count_up(const char* op, const Tensor& out, const Scalar& start, const Scalar& step, bool in_blocks) {
  for_dtype(op, out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_complex_type<T> || std::is_same_v<T, bool>) {
      refuse_dtype(op, out.dtype());
    } else if constexpr (std::is_integral_v<T>) {
      int64_t a = bound<int64_t>(start), s = bound<int64_t>(step);
      generate<T>(out, [=](int64_t i) { return static_cast<T>(a + i * s); });
    } else {
      double a = bound<double>(start), s = bound<double>(step);
      if (in_blocks) return count_floats<T>(out, a, s);
      generate<T>(out, [=](int64_t i) { return narrowed<T>(std::fma(static_cast<double>(i), s, a)); });
    }
  });
}

// Evenly spaced from both ends; integers take the truncated ends.
template <class T>
void space_reals(const Tensor& out, T first, T last) {
  const cpu::Spacing spacing{out.numel(), real(first), real(last)};
  ReleaseGil unlocked(spacing.n);
  parallel_for(spacing.n, kGrain,
               [&](int64_t b, int64_t e) { cpu::sequence_kernels().space(out.dtype(), out.data<T>(), b, e, spacing); });
}

// base to two or more powers that are evenly spaced. The distance of the ends is rounded to T, all else is double.
template <class T>
void space_powers(const Tensor& out, T first, T last, double base) {
  int64_t n = out.numel(), half = n / 2;
  double a = real(first), b = real(last), range = b - a;
  if constexpr (!std::is_integral_v<T>) range = real(narrowed<T>(range));
  double step = range / static_cast<double>(n - 1);
  generate<T>(out, [=](int64_t i) {
    double k = static_cast<double>(i < half ? i : n - 1 - i);
    double power = std::pow(base, i < half ? std::fma(step, k, a) : std::fma(-step, k, b));
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<int64_t>(power));
    else
      return narrowed<T>(power);
  });
}

// Complex numbers between two ends, `shape` applied to each.
template <class T, class F>
void space_complex(const Tensor& out, const Scalar& start, const Scalar& end, F shape) {
  int64_t n = out.numel(), half = n / 2;
  bound<T>(start), bound<T>(end);
  Complex<double> a = start.to_complex(), b = end.to_complex();
  double gaps = n > 1 ? static_cast<double>(n - 1) : 1;
  Complex<double> step((b.re - a.re) / gaps, (b.im - a.im) / gaps);
  generate<T>(out, [=](int64_t i) {
    double k = static_cast<double>(i < half || n == 1 ? i : n - 1 - i);
    Complex<double> v = i < half || n == 1 ? Complex<double>(a.re + step.re * k, a.im + step.im * k)
                                           : Complex<double>(b.re - step.re * k, b.im - step.im * k);
    return T(shape(v));
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

void zeros(const Tensor& out, IntsView, MaybeDType, MaybeDevice) { fill(out, zero_of(out.dtype())); }
void ones(const Tensor& out, IntsView, MaybeDType, MaybeDevice) { fill(out, Scalar(int64_t{1})); }
void full(const Tensor& out, IntsView, const Scalar& value, MaybeDType, MaybeDevice) { fill(out, value); }
void scalar_tensor(const Tensor& out, const Scalar& s, MaybeDType, MaybeDevice) { fill(out, s); }
void zeros_like(const Tensor& out, const Tensor&, MaybeDType, MaybeDevice, MaybeFormat) {
  fill(out, zero_of(out.dtype()));
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
  count_up("arange", out, Scalar(int64_t{0}), Scalar(int64_t{1}), true);
}
void arange_start(const Tensor& out, const Scalar& start, const Scalar&, MaybeDType, MaybeDevice) {
  count_up("arange", out, start, Scalar(int64_t{1}), true);
}
void arange_step(const Tensor& out, const Scalar& start, const Scalar&, const Scalar& step, MaybeDType, MaybeDevice) {
  count_up("arange", out, start, step, true);
}
void range(const Tensor& out, const Scalar& start, const Scalar&, const Scalar& step, MaybeDType, MaybeDevice) {
  count_up("range", out, start, step, false);
}

void linspace(const Tensor& out, const Scalar& start, const Scalar& end, int64_t, MaybeDType, MaybeDevice) {
  if (out.numel() == 0) return;
  for_dtype("linspace", out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      refuse_dtype("linspace", out.dtype());
    } else if constexpr (is_complex_type<T>) {
      space_complex<T>(out, start, end, [](Complex<double> v) { return v; });
    } else if (out.numel() == 1) {
      fill(out, start);
    } else {
      space_reals<T>(out, bound<T>(start), bound<T>(end));
    }
  });
}

void logspace(const Tensor& out, const Scalar& start, const Scalar& end, int64_t, double base, MaybeDType,
              MaybeDevice) {
  if (out.numel() == 0) return;
  for_dtype("logspace", out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      refuse_dtype("logspace", out.dtype());
    } else if constexpr (is_complex_type<T>) {
      space_complex<T>(out, start, end, [base](Complex<double> v) {
        auto p = std::pow(std::complex<double>(base), std::complex<double>(v.re, v.im));
        return Complex<double>(p.real(), p.imag());
      });
    } else if (out.numel() == 1) {  // one power, of the number as it was given
      const double power = std::pow(base, start.to_double());
      if constexpr (std::is_integral_v<T>)
        generate<T>(out, [v = bound<T>(Scalar(power))](int64_t) { return v; });
      else
        generate<T>(out, [v = narrowed<T>(power)](int64_t) { return v; });
    } else {
      space_powers<T>(out, bound<T>(start), bound<T>(end), base);
    }
  });
}

}  // namespace tocha::native
