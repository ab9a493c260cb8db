// logcumsumexp: a running sum of exponentials kept relative to the largest term so far. See scan.h.
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/dtype_messages.h"
#include "core/error.h"
#include "cpu/engine/lanes.h"
#include "cpu/scan/scan.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kLaneMin = 1 << 10;
constexpr int kMaxTile = 16;

// exp(largest) * (1 + rest): `rest` apart from the 1 keeps terms that the 1 would swallow.
template <class A>
struct RealSum {
  A largest = -std::numeric_limits<A>::infinity();
  A rest = 0;

  void add(const RealSum& x) {
    if (std::isnan(x.largest) || std::isnan(largest)) {
      largest = std::numeric_limits<A>::quiet_NaN();
    } else if (x.largest <= largest) {
      if (std::isfinite(largest)) rest += (1 + x.rest) * std::exp(x.largest - largest);
    } else {
      rest = std::isinf(x.largest) ? A(0) : (1 + rest) * std::exp(largest - x.largest) + x.rest;
      largest = x.largest;
    }
  }
  A value() const { return largest + std::log1p(rest); }
};

// The sum itself as its logarithm: arguments follow the terms and are not reduced to one turn, as in PyTorch.
struct ComplexSum {
  Complex<double> log{-std::numeric_limits<double>::infinity(), 0};

  void add(const ComplexSum& other) {
    Complex<double> a = log, b = other.log;
    if (std::isnan(a.re) || std::isnan(a.im) || std::isnan(b.re) || std::isnan(b.im)) {
      double nan = std::numeric_limits<double>::quiet_NaN();
      log = {nan, nan};
      return;
    }
    if (a.re < b.re) std::swap(a, b);
    if (std::isinf(a.re)) {
      // Nothing yet, or infinity already: the first infinity keeps its argument.
      log = a.re > 0 ? a : Complex<double>{a.re, 0};
      return;
    }
    double scale = std::exp(b.re - a.re), turn = b.im - a.im;
    double re = scale * std::cos(turn), im = scale * std::sin(turn);
    // |1 + re + i im|^2 = 1 + (2 re + re^2 + im^2)
    log = {a.re + 0.5 * std::log1p(re * (2 + re) + im * im), a.im + std::atan2(im, 1 + re)};
  }
  Complex<double> value() const { return log; }
};

template <class T>
struct SumOf {
  using type = RealSum<double>;
};
template <>
struct SumOf<Half> {
  using type = RealSum<float>;
};
template <>
struct SumOf<BFloat16> {
  using type = RealSum<float>;
};
template <>
struct SumOf<Complex<float>> {
  using type = ComplexSum;
};
template <>
struct SumOf<Complex<double>> {
  using type = ComplexSum;
};

template <class T>
typename SumOf<T>::type term(T x) {
  if constexpr (std::is_same_v<typename SumOf<T>::type, ComplexSum>)
    return {Complex<double>(x)};
  else
    return {x, 0};
}

template <class T>
void scan_range(const T* in, T* out, int64_t n, int64_t pitch, typename SumOf<T>::type sum) {
  for (int64_t i = 0; i < n; ++i) {
    sum.add(term(in[i * pitch]));
    out[i * pitch] = T(sum.value());
  }
}

template <class T>
void scan_row(const T* in, T* out, int64_t n) {
  using S = typename SumOf<T>::type;
  int lanes = lane_count(n, kLaneMin);
  std::vector<S> before(lanes + 1);
  for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
    if (lane + 1 == lanes) return;
    for (int64_t i = begin; i < end; ++i) before[lane + 1].add(term(in[i]));
  });
  for (int lane = 1; lane < lanes; ++lane) {
    S total = before[lane - 1];
    total.add(before[lane]);
    before[lane] = total;
  }
  for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
    scan_range(in + begin, out + begin, end - begin, 1, before[lane]);
  });
}

template <class T>
void scan_tile(const T* in, T* out, int64_t n, int64_t pitch, int64_t width) {
  typename SumOf<T>::type sums[kMaxTile];
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      sums[j].add(term(in[i * pitch + j]));
      out[i * pitch + j] = T(sums[j].value());
    }
  }
}

template <class T>
void scan_typed(const T* in, T* out, ScanShape shape) {
  if (shape.inner == 1 && shape.outer < num_threads()) {
    for (int64_t r = 0; r < shape.outer; ++r) scan_row(in + r * shape.n, out + r * shape.n, shape.n);
    return;
  }
  int64_t tiles = (shape.inner + kMaxTile - 1) / kMaxTile;
  int64_t grain = std::max<int64_t>(1, kLaneMin / (shape.n * std::min<int64_t>(shape.inner, kMaxTile)));
  parallel_for(shape.outer * tiles, grain, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      int64_t column = t % tiles * kMaxTile;
      int64_t at = t / tiles * shape.n * shape.inner + column;
      scan_tile(in + at, out + at, shape.n, shape.inner, std::min<int64_t>(kMaxTile, shape.inner - column));
    }
  });
}

}  // namespace

void logcumsumexp(DType dtype, const void* in, void* out, ScanShape shape) {
  if (shape.outer == 0 || shape.n == 0 || shape.inner == 0) return;
  switch (dtype) {
#define _(e, t)  \
  case DType::e: \
    return scan_typed(static_cast<const t*>(in), static_cast<t*>(out), shape);
    _(Float16, Half)
    _(BFloat16, BFloat16)
    _(Float32, float)
    _(Float64, double)
    _(Complex64, Complex<float>)
    _(Complex128, Complex<double>)
#undef _
    default:
      refuse_dtype("logcumsumexp", dtype);
  }
}

}  // namespace tocha::cpu
