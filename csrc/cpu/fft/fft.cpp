// Discrete Fourier transforms of tensors: dim by dim, cut into blocks of lines for the threads. Long lines, and those
// that are too few to fill the lanes of a vector, are transformed as matrices: their columns, then their rows.
#include "kernels/fft.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>

#include "core/complex.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/elementwise.h"
#include "cpu/engine/layout.h"
#include "cpu/fft/kernels.h"

namespace tocha::cpu {
namespace {

template <class T>
const FftKernels<T>& kernels() {
  if constexpr (std::is_same_v<T, float>)
    return float_fft_kernels();
  else
    return double_fft_kernels();
}

// Numbers that nobody has written yet.
template <class T>
std::unique_ptr<T[]> scratch(int64_t n) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(n)]);
}

// The lines of a tensor along one dim: the other dims, merged where they run on. Strides count real numbers.
struct LineSet {
  Ints sizes, in_strides, out_strides;

  int64_t count() const { return product(sizes); }
  void add(int64_t size, int64_t in_stride, int64_t out_stride) {
    if (size == 1) return;
    const int64_t last = sizes.size() - 1;
    if (last >= 0 && in_strides[last] == in_stride * size && out_strides[last] == out_stride * size) {
      sizes[last] *= size;
      in_strides[last] = in_stride;
      out_strides[last] = out_stride;
      return;
    }
    sizes.push_back(size);
    in_strides.push_back(in_stride);
    out_strides.push_back(out_stride);
  }
};

// Where the lines from number `first` on begin.
class LineCursor {
 public:
  LineCursor(const LineSet& set, int64_t first) : set_(set), at_(set.sizes.size()) {
    for (int64_t d = set.sizes.size() - 1; d >= 0; --d) {
      at_[d] = first % set.sizes[d];
      first /= set.sizes[d];
      in += at_[d] * set.in_strides[d];
      out += at_[d] * set.out_strides[d];
    }
  }
  void advance() {
    for (int64_t d = set_.sizes.size() - 1; d >= 0; --d) {
      in += set_.in_strides[d];
      out += set_.out_strides[d];
      if (++at_[d] < set_.sizes[d]) return;
      in -= at_[d] * set_.in_strides[d];
      out -= at_[d] * set_.out_strides[d];
      at_[d] = 0;
    }
  }
  int64_t in = 0, out = 0;

 private:
  const LineSet& set_;
  Ints at_;
};

constexpr int64_t kGrain = 1 << 13;       // points a thread gets at least
constexpr int64_t kBlockBytes = 1 << 19;  // what a block's buffers may take: they should stay in a core's own cache
constexpr int64_t kShort = 64;            // lines below this are not cut up

// Vectors side by side: whole cache lines where lanes lie side by side in memory.
template <class T>
int64_t block_width(const FftJob<T>& job, int64_t lanes, int64_t lines) {
  int64_t width = std::max<int64_t>(1, 64 / (lanes * 2 * static_cast<int64_t>(sizeof(T))));
  while (width > 1 &&
         (lines < lanes * width || fft_work_size(job, lanes, width) * static_cast<int64_t>(sizeof(T)) > kBlockBytes))
    width /= 2;
  return width;
}

template <class T>
void run_blocks(const FftJob<T>& job, const LineSet& set) {
  const FftKernels<T>& k = kernels<T>();
  const int64_t lines = set.count(), width = block_width(job, k.lanes, lines), many = k.lanes * width;
  const int64_t blocks = (lines + many - 1) / many;
  parallel_for(blocks, std::max<int64_t>(1, kGrain / (many * job.n)), [&](int64_t first, int64_t last) {
    const auto work = scratch<T>(fft_work_size(job, k.lanes, width));
    int64_t in_at[kFftMostLanes * kFftWidest], out_at[kFftMostLanes * kFftWidest];
    LineCursor cursor(set, first * many);
    for (int64_t b = first; b < last; ++b) {
      const int64_t count = std::min(many, lines - b * many);
      for (int64_t i = 0; i < count; ++i, cursor.advance()) {
        in_at[i] = cursor.in;
        out_at[i] = cursor.out;
      }
      k.run(job, {in_at, out_at, count, width, b * many}, work.get());
    }
  });
}

// What transforming a line as a matrix needs.
template <class T>
struct LongPlan {
  std::shared_ptr<const FftPlan<T>> plan;
  std::shared_ptr<const FftSplit<T>>
      split;  // of the plan's length, or of its convolution's; null if neither can be cut
};

template <class T>
LongPlan<T> long_plan(std::shared_ptr<const FftPlan<T>> plan) {
  const int64_t n = plan->room();
  if (n < kShort) return {plan, nullptr};
  return {plan, fft_split<T>(n, kernels<T>().lanes)};
}

// A complex line of split.rows * split.columns points. `job` says where it lies.
template <class T>
void run_split(const FftJob<T>& job, const FftSplit<T>& split) {
  const int64_t rows = split.columns->n, columns = split.rows->n;
  const auto between = scratch<T>(2 * rows * columns);
  FftJob<T> down = job;
  down.plan = split.columns.get();
  down.n = rows;
  down.in_step = job.in_step * columns;
  down.out = between.get();
  down.out_step = 2 * columns;
  down.out_other = 1;
  down.scale = 1;
  down.factors = split.factors.data();
  LineSet each_column;
  each_column.add(columns, job.in_step, 2);
  run_blocks(down, each_column);
  FftJob<T> across = job;
  across.plan = split.rows.get();
  across.n = columns;
  across.in = between.get();
  across.in_step = 2;
  across.in_other = 1;
  across.conjugate = false;
  across.out_step = job.out_step * rows;
  LineSet each_row;
  each_row.add(rows, 2 * columns, job.out_step);
  run_blocks(across, each_row);
}

// The same for a length that is transformed as a convolution.
template <class T>
void run_split_convolution(const FftJob<T>& job, const LongPlan<T>& with) {
  const FftPlan<T>& plan = *with.plan;
  const int64_t n = plan.n, m = plan.room();
  const auto wave = scratch<T>(2 * m);
  // Everything is done for exponents with a negative sign; for the others, on numbers whose parts are swapped.
  const int first = job.inverse ? 1 : 0;
  const T sign = job.conjugate ? T(-1) : T(1);
  for (int64_t k = 0; k < n; ++k) {
    const T* from = job.in + k * job.in_step;
    T part[2] = {from[0], job.in_other ? sign * from[job.in_other] : T(0)};
    const Complex<T> x{part[first], part[1 - first]}, c{plan.chirp[2 * k], plan.chirp[2 * k + 1]};
    const Complex<T> y = x * c;
    wave[2 * k] = y.re;
    wave[2 * k + 1] = y.im;
  }
  std::fill(wave.get() + 2 * n, wave.get() + 2 * m, T(0));
  FftJob<T> whole{
      FftKind::complex, plan.convolution.get(), m, 0, nullptr, wave.get(), 2, 1, wave.get(), 2, 1, false, false, T(1),
      nullptr};
  run_split(whole, *with.split);
  for (int64_t k = 0; k < m; ++k) {
    const Complex<T> x{wave[2 * k], wave[2 * k + 1]}, f{plan.filter[2 * k], plan.filter[2 * k + 1]};
    const Complex<T> y = x * f;
    wave[2 * k] = y.re;
    wave[2 * k + 1] = y.im;
  }
  whole.inverse = true;
  run_split(whole, *with.split);
  for (int64_t k = 0; k < n; ++k) {
    const Complex<T> x{wave[2 * k], wave[2 * k + 1]}, c{plan.chirp[2 * k], plan.chirp[2 * k + 1]};
    const Complex<T> y = x * c;
    const T part[2] = {y.re * job.scale, y.im * job.scale};
    T* to = job.out + k * job.out_step;
    to[0] = part[first];
    if (job.out_other) to[job.out_other] = part[1 - first];
  }
}

template <class T>
void run_long_complex(const FftJob<T>& job, const LongPlan<T>& with) {
  if (with.plan->convolution)
    run_split_convolution(job, with);
  else
    run_split(job, *with.split);
}

// A real line through a complex one, in `z`: of half the length, or of the same if that is odd.
template <class T>
void run_long_real_in(const FftJob<T>& job, const LongPlan<T>& with) {
  const int64_t n = job.n, points = with.plan->n;
  const bool even = n % 2 == 0;
  const auto z = scratch<T>(2 * points);
  FftJob<T> whole = job;
  whole.kind = FftKind::complex;
  whole.n = points;
  whole.in_step = even ? 2 * job.in_step : job.in_step;
  whole.in_other = even ? job.in_step : 0;
  whole.out = z.get();
  whole.out_step = 2;
  whole.out_other = 1;
  whole.scale = 1;
  run_long_complex(whole, with);
  auto put = [&](int64_t k, T re, T im) {
    T* to = job.out + k * job.out_step;
    to[0] = re * job.scale;
    to[1] = im * job.scale;
  };
  if (!even) {
    for (int64_t k = 0; k < job.made; ++k) put(k, z[2 * k], z[2 * k + 1]);
    return;
  }
  put(0, z[0] + z[1], 0);
  put(points, z[0] - z[1], 0);
  for (int64_t k = 1; 2 * k <= points; ++k) {
    const int64_t j = points - k;
    const Complex<T> a{z[2 * k], z[2 * k + 1]}, b{z[2 * j], -z[2 * j + 1]};
    const Complex<T> sum = (a + b) * Complex<T>(T(0.5)), rest = (a - b) * Complex<T>(T(0), T(-0.5));
    const Complex<T> odd = rest * Complex<T>{job.real[2 * k], job.real[2 * k + 1]};
    const Complex<T> low = sum + odd, high = sum - odd;
    put(k, low.re, low.im);
    put(j, high.re, -high.im);
  }
  for (int64_t k = points + 1; k < job.made; ++k) {
    const T* from = job.out + (n - k) * job.out_step;
    T* to = job.out + k * job.out_step;
    to[0] = from[0];
    to[1] = -from[1];
  }
}

template <class T>
void run_long_real_out(const FftJob<T>& job, const LongPlan<T>& with) {
  const int64_t n = job.n, half = n / 2, points = with.plan->n;
  const bool even = n % 2 == 0;
  const auto z = scratch<T>(2 * points);
  const T sign = job.conjugate ? T(-1) : T(1);
  auto at = [&](int64_t k) {
    const T* from = job.in + k * job.in_step;
    return Complex<T>{from[0], sign * from[1]};
  };
  auto put = [&](int64_t k, Complex<T> v) {
    z[2 * k] = v.re;
    z[2 * k + 1] = v.im;
  };
  if (even) {
    const T zero = at(0).re, last = at(half).re;
    put(0, {zero + last, zero - last});
    for (int64_t k = 1; 2 * k <= half; ++k) {
      const Complex<T> a = at(k), c = at(half - k), b{c.re, -c.im};
      const Complex<T> sum = a + b, odd = (a - b) * Complex<T>{job.real[2 * k], -job.real[2 * k + 1]};
      put(k, {sum.re - odd.im, sum.im + odd.re});
      put(half - k, {sum.re + odd.im, odd.re - sum.im});
    }
  } else {
    put(0, {at(0).re, 0});
    for (int64_t k = 1; k <= half; ++k) {
      const Complex<T> v = at(k);
      put(k, v);
      put(n - k, {v.re, -v.im});
    }
  }
  FftJob<T> whole = job;
  whole.kind = FftKind::complex;
  whole.n = points;
  whole.in = z.get();
  whole.in_step = 2;
  whole.in_other = 1;
  whole.conjugate = false;
  whole.out_step = even ? 2 * job.out_step : job.out_step;
  whole.out_other = even ? job.out_step : 0;
  run_long_complex(whole, with);
}

template <class T>
void run_long(const FftJob<T>& job, const LineSet& set, const LongPlan<T>& with) {
  parallel_for(set.count(), std::max<int64_t>(1, kGrain / job.n), [&](int64_t first, int64_t last) {
    LineCursor cursor(set, first);
    for (int64_t i = first; i < last; ++i, cursor.advance()) {
      FftJob<T> line = job;
      line.in += cursor.in;
      line.out += cursor.out;
      switch (job.kind) {
        case FftKind::complex:
          run_long_complex(line, with);
          break;
        case FftKind::real_in:
          run_long_real_in(line, with);
          break;
        case FftKind::real_out:
          run_long_real_out(line, with);
          break;
      }
    }
  });
}

// Transforms along one dim, of n points on the side that has them all. in and out differ in that dim at most.
template <class T>
void along(const Tensor& in, const Tensor& out, int64_t dim, FftKind kind, int64_t n, bool inverse, T scale) {
  const int64_t in_unit = in.is_complex() ? 2 : 1, out_unit = out.is_complex() ? 2 : 1;
  FftJob<T> job{};
  job.kind = kind;
  job.n = n;
  job.in = reinterpret_cast<const T*>(in.bytes());
  job.out = reinterpret_cast<T*>(out.bytes());
  job.in_step = in.dim() ? in.stride(dim) * in_unit : in_unit;
  job.out_step = out.dim() ? out.stride(dim) * out_unit : out_unit;
  job.in_other = job.out_other = 1;
  job.made = kind == FftKind::real_in && out.dim() ? out.size(dim) : 1;
  job.inverse = inverse;
  job.conjugate = in.is_conj();
  job.scale = scale;
  const bool halved = kind != FftKind::complex && n % 2 == 0;
  const auto plan = fft_plan<T>(halved ? n / 2 : n);
  job.plan = plan.get();
  const auto real = halved ? fft_real_factors<T>(n) : nullptr;
  if (real) job.real = real->data();
  LineSet set;
  for (int64_t d = 0; d < in.dim(); ++d) {
    if (d != dim) set.add(in.size(d), in.stride(d) * in_unit, out.stride(d) * out_unit);
  }
  const int64_t lanes = kernels<T>().lanes;
  const bool large = fft_work_size(job, lanes, 1) * static_cast<int64_t>(sizeof(T)) > kBlockBytes;
  LongPlan<T> with{plan, nullptr};
  if (large || set.count() * 2 <= lanes) with = long_plan(plan);
  ReleaseGil unlocked(set.count() * n);
  if (with.split)
    run_long(job, set, with);
  else
    run_blocks(job, set);
}

double normalization_scale(int64_t normalization, double points) {
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(points) : 1 / points;
}

double points_of(const Tensor& t, const Ints& dims) {
  double points = 1;
  for (int64_t d : dims) points *= t.dim() ? static_cast<double>(t.size(d)) : 1;
  return points;
}

Ints wrapped(IntsView dim, const Tensor& t) {
  Ints dims;
  for (int64_t d : dim) dims.push_back(wrap_dim(d, t.dim()));
  return dims;
}

// t, without bits that say to read it negated.
Tensor plain(const Tensor& t) { return t.is_neg() ? dense(t) : t; }

// Real lines of even length are read as pairs: where all points are one number, a step of 0 would mean that there is no
// second.
Tensor in_steps(const Tensor& t, int64_t dim) {
  return t.dim() && t.stride(dim) == 0 && t.size(dim) > 1 ? dense(t) : t;
}

template <class F>
void with_precision(const Tensor& t, F&& f) {
  TOCHA_CHECK(!is_reduced(t.dtype()), Runtime, "[fft] expected scalar type ComplexDouble but found ", t.dtype());
  if (t.dtype() == DType::Float32 || t.dtype() == DType::Complex64)
    f(float{});
  else
    f(double{});
}

// Along dims[0] to dims[count - 1], the last first: it runs along memory most often. Later ones work in place.
template <class T>
void complex_dims(Tensor from, const Tensor& out, const Ints& dims, int64_t count, bool inverse, T scale) {
  for (int64_t i = count - 1; i >= 0; --i) {
    along<T>(from, out, dims[i], FftKind::complex, out.dim() ? out.size(dims[i]) : 1, inverse, scale);
    from = out;
    scale = 1;
  }
}

}  // namespace
}  // namespace tocha::cpu

namespace tocha::native {

using namespace cpu;

void fft_c2c(const Tensor& out, const Tensor& self, IntsView dim, int64_t normalization, bool forward) {
  if (out.numel() == 0) return;
  if (dim.empty()) return copy(out, self);
  const Ints dims = wrapped(dim, self);
  const double scale = normalization_scale(normalization, points_of(self, dims));
  with_precision(self, [&](auto precision) {
    using T = decltype(precision);
    complex_dims<T>(plain(self), out, dims, dims.size(), !forward, static_cast<T>(scale));
  });
}

void fft_r2c(const Tensor& out, const Tensor& self, IntsView dim, int64_t normalization, bool) {
  if (self.numel() == 0) return;
  const Ints dims = wrapped(dim, self);
  const double scale = normalization_scale(normalization, points_of(self, dims));
  with_precision(self, [&](auto precision) {
    using T = decltype(precision);
    const int64_t n = self.dim() ? self.size(dims.back()) : 1;
    along<T>(in_steps(plain(self), dims.back()), out, dims.back(), FftKind::real_in, n, false, static_cast<T>(scale));
    complex_dims<T>(out, out, dims, dims.size() - 1, false, T(1));
  });
}

void fft_c2r(const Tensor& out, const Tensor& self, IntsView dim, int64_t normalization, int64_t) {
  if (out.numel() == 0) return;
  const Ints dims = wrapped(dim, self);
  const double scale = normalization_scale(normalization, points_of(out, dims));
  with_precision(self, [&](auto precision) {
    using T = decltype(precision);
    Tensor from = plain(self);
    if (dims.size() > 1) {
      const Tensor between = empty(self.sizes(), self.dtype(), self.device());
      complex_dims<T>(from, between, dims, dims.size() - 1, true, T(1));
      from = between;
    }
    const int64_t n = out.dim() ? out.size(dims.back()) : 1;
    along<T>(from, out, dims.back(), FftKind::real_out, n, true, static_cast<T>(scale));
  });
}

}  // namespace tocha::native
