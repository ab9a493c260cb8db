// Gradients of layer_norm, rms_norm and group_norm: one pass over blocks of rows gives those of the input and partial
// sums of those of the parameters. Half types are computed in float. Kernels of tocha/operators/normalization.py.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/layout.h"
#include "cpu/normalization/row_kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kMostBlocks = 32;  // each has partial sums of its own; a fixed number keeps results reproducible
constexpr int64_t kGrain = 1 << 13;  // elements a block should have

template <class T>
const cpu::NormLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::norm_kernels().f32;
  else
    return cpu::norm_kernels().f64;
}

template <class T>
Tensor as(const Tensor& t) {
  return t ? cpu::dense(t, DTypeOf<T>::value) : Tensor();
}
template <class T>
const T* pointer(const Tensor& t) {
  return t ? t.data<T>() : nullptr;
}

// Rows of a contiguous tensor as arrays of T: its own memory, or a buffer that is converted. One per thread.
template <class T>
class Rows {
 public:
  Rows(const Tensor& t, int64_t n)
      : t_(t), n_(n), buffer_(t.dtype() == DTypeOf<T>::value ? nullptr : new T[static_cast<size_t>(n)]) {}
  T* place(int64_t r) const { return buffer_ ? buffer_.get() : t_.data<T>() + r * n_; }
  const T* read(int64_t r) const {
    if (buffer_) {
      cpu::cast_loop(t_.dtype(), DTypeOf<T>::value)(reinterpret_cast<char*>(buffer_.get()), sizeof(T), bytes(r),
                                                    t_.itemsize(), n_);
    }
    return place(r);
  }
  void write(int64_t r) const {
    if (!buffer_) return;
    cpu::cast_loop(DTypeOf<T>::value, t_.dtype())(bytes(r), t_.itemsize(), reinterpret_cast<char*>(buffer_.get()),
                                                  sizeof(T), n_);
  }

 private:
  char* bytes(int64_t r) const { return t_.bytes() + r * n_ * t_.itemsize(); }
  const Tensor& t_;
  int64_t n_;
  std::unique_ptr<T[]> buffer_;
};

// f(block, first row, last row) for blocks of rows, in parallel. Returns how many blocks there were.
template <class F>
int64_t for_blocks(int64_t rows, int64_t n, F f) {
  int64_t step = std::max((rows + kMostBlocks - 1) / kMostBlocks, kGrain / std::max<int64_t>(n, 1));
  step = std::max<int64_t>(step, 1);
  const int64_t blocks = (rows + step - 1) / step;
  ReleaseGil unlocked(rows * n);
  parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) f(b, b * step, std::min(rows, (b + 1) * step));
  });
  return blocks;
}

// out = the sum of `count` rows of n, `step` apart; in out's dtype.
template <class T>
void add_rows(const Tensor& out, const T* rows, int64_t count, int64_t step, int64_t n) {
  Tensor total = out.dtype() == DTypeOf<T>::value ? out : empty(out.sizes(), DTypeOf<T>::value, out.device());
  T* to = total.data<T>();
  std::fill(to, to + n, T(0));
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < n; ++i) to[i] += rows[r * step + i];
  }
  if (!total.is(out)) cpu::copy(out, total);
}

// dbias is null for rms_norm, mean where rows are not centered; what is not wanted is null as well.
template <class T>
void rows_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& grad,
                   const Tensor& input, int64_t n, const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  Tensor g = cpu::dense(grad), x = cpu::dense(input), w = as<T>(weight), means = as<T>(mean), scales = as<T>(rstd);
  const T *m = pointer<T>(means), *s = scales.data<T>(), *factors = pointer<T>(w);
  std::vector<T> partial(dweight ? static_cast<size_t>(kMostBlocks * 2 * n) : 0);
  const int64_t blocks = for_blocks(rstd.numel(), n, [&](int64_t block, int64_t first, int64_t last) {
    Rows<T> from(g, n), at(x, n), to(dx ? dx : x, n);
    T* sums = partial.data() + block * 2 * n;
    for (int64_t r = first; r < last; ++r) {
      const T *gr = from.read(r), *xr = at.read(r);
      const T center = m ? m[r] : T(0);
      if (dweight) loops<T>().backward_parameters(gr, xr, n, center, s[r], sums, sums + n);
      if (!dx) continue;
      T sum, product;
      loops<T>().backward_sums(gr, xr, n, center, s[r], factors, &sum, &product);
      loops<T>().backward_input(gr, xr, to.place(r), n, center, s[r], T(1), factors, m ? sum / static_cast<T>(n) : T(0),
                                product / static_cast<T>(n));
      to.write(r);
    }
  });
  if (dweight) add_rows(dweight, partial.data(), blocks, 2 * n, n);
  if (dbias) add_rows(dbias, partial.data() + n, blocks, 2 * n, n);
}

// One row is one group of one sample. The sums of every channel give the gradients of the parameters, and together,
// weighted, what the gradient of the input needs.
template <class T>
void groups_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& grad,
                     const Tensor& input, int64_t groups, int64_t channels, int64_t spatial, const Tensor& mean,
                     const Tensor& rstd, const Tensor& weight) {
  Tensor g = cpu::dense(grad), x = cpu::dense(input), w = as<T>(weight), means = as<T>(mean), scales = as<T>(rstd);
  const T *m = means.data<T>(), *s = scales.data<T>(), *factors = pointer<T>(w);
  const int64_t n = channels * spatial, rows = rstd.numel(), all = groups * channels;
  std::vector<T> sums(static_cast<size_t>(rows * channels)), products(sums.size());
  for_blocks(rows, n, [&](int64_t, int64_t first, int64_t last) {
    Rows<T> from(g, n), at(x, n), to(dx ? dx : x, n);
    for (int64_t r = first; r < last; ++r) {
      const T *gr = from.read(r), *xr = at.read(r), *own = factors ? factors + r % groups * channels : nullptr;
      T *sum = sums.data() + r * channels, *product = products.data() + r * channels;
      T total = 0, along = 0;
      for (int64_t c = 0; c < channels; ++c) {
        loops<T>().backward_sums(gr + c * spatial, xr + c * spatial, spatial, m[r], s[r], nullptr, &sum[c],
                                 &product[c]);
        total += own ? own[c] * sum[c] : sum[c];
        along += own ? own[c] * product[c] : product[c];
      }
      if (!dx) continue;
      total /= static_cast<T>(n);
      along /= static_cast<T>(n);
      T* to_row = to.place(r);
      for (int64_t c = 0; c < channels; ++c) {
        loops<T>().backward_input(gr + c * spatial, xr + c * spatial, to_row + c * spatial, spatial, m[r], s[r],
                                  own ? own[c] : T(1), nullptr, total, along);
      }
      to.write(r);
    }
  });
  const int64_t samples = all == 0 ? 0 : rows * channels / all;
  if (dweight) add_rows(dweight, products.data(), samples, all, all);
  if (dbias) add_rows(dbias, sums.data(), samples, all, all);
}

Tensor if_wanted(const Tensor& t, bool wanted) { return wanted ? t : Tensor(); }

}  // namespace

void layer_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& grad,
                         const Tensor& self, IntsView normalized_shape, const Tensor& mean, const Tensor& rstd,
                         const Tensor& weight, double, bool for_input, bool for_parameters) {
  const int64_t n = product(normalized_shape);
  auto run = self.dtype() == DType::Float64 ? rows_backward<double> : rows_backward<float>;
  run(if_wanted(dx, for_input), if_wanted(dweight, for_parameters), if_wanted(dbias, for_parameters), grad, self, n,
      mean, rstd, weight);
}

void rms_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& grad, const Tensor& self,
                       IntsView normalized_shape, const Tensor& rstd, const Tensor& weight, double, bool for_input,
                       bool for_weight) {
  const int64_t n = product(normalized_shape);
  auto run = self.dtype() == DType::Float64 ? rows_backward<double> : rows_backward<float>;
  run(if_wanted(dx, for_input), if_wanted(dweight, for_weight), Tensor(), grad, self, n, Tensor(), rstd, weight);
}

void group_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& grad,
                         const Tensor& self, const Tensor& mean, const Tensor& rstd, const Tensor& weight, int64_t,
                         int64_t C, int64_t HxW, int64_t group, double, bool for_input, bool for_parameters) {
  auto run = self.dtype() == DType::Float64 ? groups_backward<double> : groups_backward<float>;
  run(if_wanted(dx, for_input), if_wanted(dweight, for_parameters), if_wanted(dbias, for_parameters), grad, self, group,
      C / group, HxW, mean, rstd, weight);
}

}  // namespace tocha::native
