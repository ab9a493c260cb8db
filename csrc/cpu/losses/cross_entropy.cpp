// Cross entropy of rows of scores with target classes, and its gradient: kernels of tocha/operators/losses.py. The
// probabilities are never stored; backward makes them again from the scores and one number per row.
#include <algorithm>
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
const cpu::SoftmaxLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::softmax_kernels().f32;
  else
    return cpu::softmax_kernels().f64;
}

// Classes and their weights, checked.
template <class T>
struct Targets {
  Targets(const Tensor& target, const Tensor& weight, int64_t ignore, int64_t classes)
      : indices(cpu::dense(target, DType::Int64)),
        weights(weight ? cpu::dense(weight, DTypeOf<T>::value) : Tensor()),
        of(indices.data<int64_t>()),
        ignored(ignore) {
    for (int64_t i = 0; i < indices.numel(); ++i)
      TOCHA_CHECK(of[i] == ignored || (of[i] >= 0 && of[i] < classes), Index, "[nll_loss] Target ", of[i],
                  " is out of bounds. There are ", classes, " classes");
  }
  T weight(int64_t row) const {
    if (of[row] == ignored) return 0;
    return weights ? weights.template data<T>()[of[row]] : T(1);
  }

  Tensor indices, weights;
  const int64_t* of;
  int64_t ignored;
};

// Calls f(row number, scores, buffer) with the rows of x as T; the buffer holds a row.
template <class T, class F>
void for_rows(const Tensor& x, bool needs_buffer, F f) {
  const int64_t rows = x.size(0), n = x.size(1);
  const bool direct = x.dtype() == DTypeOf<T>::value;
  const cpu::CastLoop read = cpu::cast_loop(x.dtype(), DTypeOf<T>::value);
  ReleaseGil released(rows * n);
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t first, int64_t last) {
    std::unique_ptr<T[]> buffer(direct && !needs_buffer ? nullptr : new T[static_cast<size_t>(n)]);
    for (int64_t r = first; r < last; ++r) {
      const T* scores = direct ? x.data<T>() + r * n : buffer.get();
      if (!direct)
        read(reinterpret_cast<char*>(buffer.get()), sizeof(T), x.bytes() + r * n * x.itemsize(), x.itemsize(), n);
      f(r, scores, buffer.get());
    }
  });
}

// A column of results, of another dtype perhaps.
template <class T>
void store(const Tensor& out, int64_t i, T value) {
  cpu::cast_loop(DTypeOf<T>::value, out.dtype())(out.bytes() + i * out.itemsize(), out.itemsize(),
                                                 reinterpret_cast<const char*>(&value), sizeof(T), 1);
}

template <class T>
void forward(const Tensor& each, const Tensor& weights, const Tensor& lse, const Tensor& self, const Tensor& target,
             const Tensor& weight, int64_t ignore_index) {
  const Tensor x = cpu::dense(self);
  const int64_t n = x.size(1);
  const Targets<T> targets(target, weight, ignore_index, n);
  for_rows<T>(x, false, [&](int64_t r, const T* scores, T*) {
    const T w = targets.weight(r);
    T max, log_sum = loops<T>().log_sum_exp(scores, n, &max);
    const bool ignored = targets.of[r] == targets.ignored;
    store<T>(each, r, ignored ? T(0) : w * (log_sum + (max - scores[targets.of[r]])));
    store<T>(weights, r, w);
    lse.data<T>()[r] = max + log_sum;
  });
}

template <class T>
void backward(const Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
              const Tensor& weight, const Tensor& lse, int64_t ignore_index) {
  const Tensor x = cpu::dense(self), grad = cpu::dense(grad_output, DTypeOf<T>::value);
  const int64_t n = x.size(1);
  const Targets<T> targets(target, weight, ignore_index, n);
  const bool direct = out.dtype() == DTypeOf<T>::value;
  const cpu::CastLoop write = cpu::cast_loop(DTypeOf<T>::value, out.dtype());
  for_rows<T>(x, !direct, [&](int64_t r, const T* scores, T* buffer) {
    T* slopes = direct ? out.data<T>() + r * n : buffer;
    const T g = grad.data<T>()[r] * targets.weight(r);
    if (targets.of[r] == targets.ignored) {
      std::fill(slopes, slopes + n, T(0));
    } else {
      loops<T>().shares(scores, slopes, n, lse.data<T>()[r], g);
      slopes[targets.of[r]] -= g;
    }
    if (!direct)
      write(out.bytes() + r * n * out.itemsize(), out.itemsize(), reinterpret_cast<char*>(slopes), sizeof(T), n);
  });
}

}  // namespace

void _cross_entropy(const Tensor& each, const Tensor& weights, const Tensor& lse, const Tensor& self,
                    const Tensor& target, const Tensor& weight, int64_t ignore_index) {
  if (self.dtype() == DType::Float64)
    forward<double>(each, weights, lse, self, target, weight, ignore_index);
  else
    forward<float>(each, weights, lse, self, target, weight, ignore_index);
}

void _cross_entropy_backward(const Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                             const Tensor& weight, const Tensor& lse, int64_t ignore_index) {
  if (self.dtype() == DType::Float64)
    backward<double>(out, grad_output, self, target, weight, lse, ignore_index);
  else
    backward<float>(out, grad_output, self, target, weight, lse, ignore_index);
}

}  // namespace tocha::native
