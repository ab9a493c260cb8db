// softmax, log_softmax and their gradients along contiguous rows and down tiles of columns.
#include <algorithm>

#include "cpu/engine/isa/each.h"
#include "cpu/engine/isa/row_sums.h"
#include "cpu/normalization/row_kernels.h"
#include "cpu/vecmath/exp_below_zero.h"
#include "cpu/vecmath/vecmath.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kPiece = 2048;  // exponentials are summed while they are still in the first cache

template <class T>
T largest(const T* x, int64_t n) {
#if TOCHA_VECTOR_F32
  if constexpr (std::is_same_v<T, float>)
    return rows::fold_each(n, -std::numeric_limits<float>::infinity(), rows::Greater(),
                           [=](int64_t i, auto at) { return at.load(x + i); });
#endif
  return rows::largest(x, n);
}

// y = exp(x - m), and their sum.
template <class T>
T exp_and_sum(const T* x, T* y, int64_t n, T m) {
#if TOCHA_VECTOR_F32
  if constexpr (std::is_same_v<T, float>)
    return rows::fold_each(n, 0.0f, rows::Sum(), [=](int64_t i, auto at) {
      auto e = math::exp(at.load(x + i) - at.all(m));
      at.store(y + i, e);
      return e;
    });
#endif
  T total = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    int64_t k = std::min(kPiece, n - i);
    const T* a = x + i;
    T* b = y + i;
#pragma GCC ivdep
    for (int64_t j = 0; j < k; ++j) b[j] = math::exp_below_zero(a[j] - m);
    total += rows::sum(b, k);
  }
  return total;
}

template <class T>
T sum_of_exp(const T* x, int64_t n, T m) {
#if TOCHA_VECTOR_F32
  if constexpr (std::is_same_v<T, float>)
    return rows::fold_each(n, 0.0f, rows::Sum(),
                           [=](int64_t i, auto at) { return math::exp(at.load(x + i) - at.all(m)); });
#endif
  T total = 0;
  alignas(64) T piece[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) total += exp_and_sum(x + i, piece, std::min(kPiece, n - i), m);
  return total;
}

template <class T>
T log_sum_exp(const T* x, int64_t n, T* max) {
  *max = largest(x, n);
  return math::log(sum_of_exp(x, n, *max));
}

template <class T>
void shares(const T* x, T* y, int64_t n, T lse, T factor) {
  rows::each<T>(n,
                [=](int64_t i, auto at) { at.store(y + i, at.all(factor) * math::exp(at.load(x + i) - at.all(lse))); });
}

template <class T>
void row(const T* x, T* y, int64_t n, bool log) {
  T m = largest(x, n);
  if (log) {
    T shift = math::log(sum_of_exp(x, n, m));
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - m - shift;
    return;
  }
  T scale = T(1) / exp_and_sum(x, y, n, m);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

template <class T>
void columns(const T* x, T* y, int64_t n, int64_t stride, int64_t width, bool log) {
  alignas(64) T m[kSoftmaxTile], s[kSoftmaxTile];
  std::fill(m, m + width, -std::numeric_limits<T>::infinity());
  std::fill(s, s + width, T(0));
  for (int64_t r = 0; r < n; ++r) {
    const T* a = x + r * stride;
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) m[j] = m[j] > a[j] ? m[j] : a[j];
  }
  for (int64_t r = 0; r < n; ++r) {
    const T* a = x + r * stride;
    T* b = y + r * stride;
    if (log) {
#pragma GCC ivdep
      for (int64_t j = 0; j < width; ++j) s[j] += math::exp_below_zero(a[j] - m[j]);
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < width; ++j) {
        T e = math::exp_below_zero(a[j] - m[j]);
        b[j] = e;
        s[j] += e;
      }
    }
  }
  for (int64_t j = 0; j < width; ++j) s[j] = log ? math::log(s[j]) : T(1) / s[j];
  for (int64_t r = 0; r < n; ++r) {
    const T* a = x + r * stride;
    T* b = y + r * stride;
    if (log) {
#pragma GCC ivdep
      for (int64_t j = 0; j < width; ++j) b[j] = a[j] - m[j] - s[j];
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < width; ++j) b[j] *= s[j];
    }
  }
}

template <class T>
void row_backward(const T* g, const T* y, T* dx, int64_t n, bool log) {
  if (log) {
    T total = rows::sum(g, n);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) dx[i] = g[i] - math::exp(y[i]) * total;
    return;
  }
  T total = rows::dot(g, y, n);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = (g[i] - total) * y[i];
}

template <class T>
void columns_backward(const T* g, const T* y, T* dx, int64_t n, int64_t stride, int64_t width, bool log) {
  alignas(64) T s[kSoftmaxTile];
  std::fill(s, s + width, T(0));
  for (int64_t r = 0; r < n; ++r) {
    const T *a = g + r * stride, *b = y + r * stride;
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) s[j] += log ? a[j] : a[j] * b[j];
  }
  for (int64_t r = 0; r < n; ++r) {
    const T *a = g + r * stride, *b = y + r * stride;
    T* d = dx + r * stride;
    if (log) {
#pragma GCC ivdep
      for (int64_t j = 0; j < width; ++j) d[j] = a[j] - math::exp(b[j]) * s[j];
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < width; ++j) d[j] = (a[j] - s[j]) * b[j];
    }
  }
}

template <class T>
constexpr SoftmaxLoops<T> loops() {
  return {row<T>, columns<T>, row_backward<T>, columns_backward<T>, log_sum_exp<T>, shares<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const SoftmaxKernels softmax_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
