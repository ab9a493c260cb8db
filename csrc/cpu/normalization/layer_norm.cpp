// layer_norm, rms_norm and group_norm: the kernels of tocha/operators/normalization.py. Half types are computed in
// float, a row at a time.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/layout.h"
#include "cpu/normalization/row_kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements a thread should have

template <class T>
const cpu::NormLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::norm_kernels().f32;
  else
    return cpu::norm_kernels().f64;
}

// A parameter as contiguous T; null stays null.
template <class T>
Tensor parameter(const Tensor& t) {
  return t ? cpu::dense(t, DTypeOf<T>::value) : Tensor();
}
template <class T>
const T* pointer(const Tensor& t) {
  return t ? t.data<T>() : nullptr;
}

// Calls f(row number, x, y) for each row of n elements, as arrays of T, and stores what it leaves in y.
template <class T, class F>
void for_rows(const Tensor& out, const Tensor& in, int64_t rows, int64_t n, F f) {
  DType math = DTypeOf<T>::value;
  bool direct = in.dtype() == math && out.dtype() == math;
  cpu::CastLoop read = cpu::cast_loop(in.dtype(), math), write = cpu::cast_loop(math, out.dtype());
  ReleaseGil unlocked(rows * n);
  parallel_for(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t first, int64_t last) {
    std::unique_ptr<T[]> buffer(direct ? nullptr : new T[static_cast<size_t>(n)]);
    for (int64_t r = first; r < last; ++r) {
      if (direct) {
        f(r, in.data<T>() + r * n, out.data<T>() + r * n);
        continue;
      }
      char* row = reinterpret_cast<char*>(buffer.get());
      read(row, sizeof(T), in.bytes() + r * n * in.itemsize(), in.itemsize(), n);
      f(r, buffer.get(), buffer.get());
      write(out.bytes() + r * n * out.itemsize(), out.itemsize(), row, sizeof(T), n);
    }
  });
}

// Where per-row statistics go: a float or double array that is copied into the output at the end.
template <class T>
class Statistic {
 public:
  explicit Statistic(const Tensor& out)
      : out_(out),
        values_(out.dtype() == DTypeOf<T>::value ? out : empty(out.sizes(), DTypeOf<T>::value, out.device())) {}
  T* data() const { return values_.template data<T>(); }
  void finish() const {
    if (!values_.is(out_)) cpu::copy(out_, values_);
  }

 private:
  Tensor out_, values_;
};

template <class T>
void layer_norm_as(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& input, int64_t n,
                   const Tensor& weight, const Tensor& bias, double eps) {
  Tensor in = cpu::dense(input), w = parameter<T>(weight), b = parameter<T>(bias);
  Statistic<T> means(mean), scales(rstd);
  T *m = means.data(), *s = scales.data();
  for_rows<T>(out, in, mean.numel(), n, [&](int64_t r, const T* x, T* y) {
    T deviation;
    loops<T>().moments(x, n, &m[r], &deviation);
    s[r] = T(1) / std::sqrt(deviation / static_cast<T>(n) + static_cast<T>(eps));
    loops<T>().apply(x, y, n, m[r], s[r], pointer<T>(w), pointer<T>(b));
  });
  means.finish();
  scales.finish();
}

template <class T>
void rms_norm_as(const Tensor& out, const Tensor& rstd, const Tensor& input, int64_t n, const Tensor& weight,
                 std::optional<double> eps) {
  Tensor in = cpu::dense(input), w = parameter<T>(weight);
  Statistic<T> scales(rstd);
  T* s = scales.data();
  T small = eps ? static_cast<T>(*eps) : std::numeric_limits<T>::epsilon();
  for_rows<T>(out, in, rstd.numel(), n, [&](int64_t r, const T* x, T* y) {
    s[r] = T(1) / std::sqrt(loops<T>().sum_of_squares(x, n) / static_cast<T>(n) + small);
    loops<T>().apply(x, y, n, T(0), s[r], pointer<T>(w), nullptr);
  });
  scales.finish();
}

// One row is one group of one sample: `channels` channels of `spatial` elements.
template <class T>
void group_norm_as(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& input, int64_t groups,
                   int64_t channels, int64_t spatial, const Tensor& weight, const Tensor& bias, double eps) {
  Tensor in = cpu::dense(input), weights = parameter<T>(weight), biases = parameter<T>(bias);
  Statistic<T> means(mean), scales(rstd);
  T *m = means.data(), *s = scales.data();
  int64_t n = channels * spatial;
  for_rows<T>(out, in, mean.numel(), n, [&](int64_t r, const T* x, T* y) {
    const T *w = pointer<T>(weights), *b = pointer<T>(biases);
    int64_t first = r % groups * channels;
    T deviation;
    loops<T>().moments(x, n, &m[r], &deviation);
    s[r] = T(1) / std::sqrt(deviation / static_cast<T>(n) + static_cast<T>(eps));
    if (spatial == 1) {
      loops<T>().apply(x, y, n, m[r], s[r], w ? w + first : nullptr, b ? b + first : nullptr);
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      T scale = w ? s[r] * w[first + c] : s[r];
      T shift = (b ? b[first + c] : T(0)) - m[r] * scale;
      loops<T>().affine(x + c * spatial, y + c * spatial, spatial, scale, shift);
    }
  });
  means.finish();
  scales.finish();
}

}  // namespace

void native_layer_norm(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self,
                       IntsView normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
  int64_t n = product(normalized_shape);
  if (self.dtype() == DType::Float64)
    layer_norm_as<double>(out, mean, rstd, self, n, weight, bias, eps);
  else
    layer_norm_as<float>(out, mean, rstd, self, n, weight, bias, eps);
}

void _fused_rms_norm(const Tensor& out, const Tensor& rstd, const Tensor& self, IntsView normalized_shape,
                     const Tensor& weight, std::optional<double> eps) {
  int64_t n = product(normalized_shape);
  Tensor rows = out.is_contiguous() ? out : empty(out.sizes(), out.dtype(), out.device());
  if (self.dtype() == DType::Float64)
    rms_norm_as<double>(rows, rstd, self, n, weight, eps);
  else
    rms_norm_as<float>(rows, rstd, self, n, weight, eps);
  if (!rows.is(out)) cpu::copy(out, rows);
}

void native_group_norm(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self,
                       const Tensor& weight, const Tensor& bias, int64_t, int64_t C, int64_t HxW, int64_t group,
                       double eps) {
  Tensor rows = out.is_contiguous() ? out : empty(out.sizes(), out.dtype(), out.device());
  if (self.dtype() == DType::Float64)
    group_norm_as<double>(rows, mean, rstd, self, group, C / group, HxW, weight, bias, eps);
  else
    group_norm_as<float>(rows, mean, rstd, self, group, C / group, HxW, weight, bias, eps);
  if (!rows.is(out)) cpu::copy(out, rows);
}

}  // namespace tocha::native
