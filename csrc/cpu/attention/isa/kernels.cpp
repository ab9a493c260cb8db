// Softmax along rows of a tile of scores, piece by piece, and its gradient.
#include "cpu/attention/kernels.h"

#include "cpu/engine/isa/each.h"
#include "cpu/engine/isa/row_sums.h"

namespace tocha::cpu {
namespace {

template <class T>
constexpr T kNothing = -std::numeric_limits<T>::infinity();

// The greatest score, scaled; with a bias the scores become what it is the greatest of.
template <class T>
T scaled_largest(T* s, int64_t n, T scale, const T* bias) {
#if TOCHA_VECTOR_F32
  if constexpr (std::is_same_v<T, float>) {
    if (!bias)
      return rows::fold_each(n, kNothing<T>, rows::Greater(),
                             [=](int64_t i, auto at) { return at.load(s + i) * at.all(scale); });
    return rows::fold_each(n, kNothing<T>, rows::Greater(), [=](int64_t i, auto at) {
      auto v = at.load(s + i) * at.all(scale) + at.load(bias + i);
      at.store(s + i, v);
      return v;
    });
  }
#endif
  for (int64_t i = 0; bias && i < n; ++i) s[i] = s[i] * scale + bias[i];
  if (bias || scale == T(1)) return rows::largest(s, n);
  T most = kNothing<T>;
  for (int64_t i = 0; i < n; ++i) most = s[i] * scale > most ? s[i] * scale : most;
  return most;
}

// s = exp(scale * s - m), and their sum.
template <class T>
T exp_and_sum(T* s, int64_t n, T scale, T m) {
#if TOCHA_VECTOR_F32
  if constexpr (std::is_same_v<T, float>) {
    return rows::fold_each(n, 0.0f, rows::Sum(), [=](int64_t i, auto at) {
      auto e = math::exp(at.load(s + i) * at.all(scale) - at.all(m));
      at.store(s + i, e);
      return e;
    });
  }
#endif
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) s[i] = math::exp(s[i] * scale - m);
  return rows::sum(s, n);
}

template <class T>
T exponentials(T* s, int64_t n, T scale, const T* bias, T* max, T* sum) {
  T m = scaled_largest(s, n, scale, bias);
  m = *max > m ? *max : m;
  // A row of which nothing counts yet has the max -inf; any shift will do.
  T shift = m == kNothing<T> ? T(0) : m;
  T factor = math::exp(*max - shift);
  *sum = *sum * factor + exp_and_sum(s, n, bias ? T(1) : scale, shift);
  *max = m;
  return factor;
}

template <class T>
void slopes(T* s, T* d, int64_t n, T scale, const T* bias, T lse, T delta) {
  if (bias) {
    rows::each<T>(n, [=](int64_t i, auto at) {
      auto p = math::exp(at.load(s + i) * at.all(scale) + at.load(bias + i) - at.all(lse));
      at.store(s + i, p);
      at.store(d + i, p * (at.load(d + i) - at.all(delta)));
    });
    return;
  }
  rows::each<T>(n, [=](int64_t i, auto at) {
    auto p = math::exp(at.load(s + i) * at.all(scale) - at.all(lse));
    at.store(s + i, p);
    at.store(d + i, p * (at.load(d + i) - at.all(delta)));
  });
}

template <class T>
void settle(const T* p, T* d, int64_t n) {
  const T total = rows::sum(d, n);
  rows::each<T>(n, [=](int64_t i, auto at) { at.store(d + i, at.load(d + i) - at.all(total) * at.load(p + i)); });
}

template <class T>
void scale(T* x, int64_t n, T factor) {
  rows::each<T>(n, [=](int64_t i, auto at) { at.store(x + i, at.load(x + i) * at.all(factor)); });
}

template <class T>
T dot(const T* x, const T* y, int64_t n) {
  return rows::dot(x, y, n);
}

template <class T>
constexpr AttentionLoops<T> loops() {
  return {exponentials<T>, slopes<T>, settle<T>, scale<T>, dot<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const AttentionKernels attention_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
