// Softmax along rows of a tile of scores, piece by piece, and its gradient.
#include "cpu/attention/kernels.h"

#include "cpu/engine/isa/each.h"
#include "cpu/engine/isa/row_sums.h"

namespace tocha::cpu {
namespace {

template <class T>
constexpr T kNothing = -std::numeric_limits<T>::infinity();

#if TOCHA_VECTOR_F32
TOCHA_MATH float largest(float* s, int64_t n) {
  return rows::fold_each(n, kNothing<float>, rows::Greater(), [=](int64_t i, auto at) { return at.load(s + i); });
}

// s = exp(scale * s - m), and their sum.
TOCHA_MATH float exp_and_sum(float* s, int64_t n, float scale, float m) {
  return rows::fold_each(n, 0.0f, rows::Sum(), [=](int64_t i, auto at) {
    auto e = math::exp(at.load(s + i) * at.all(scale) - at.all(m));
    at.store(s + i, e);
    return e;
  });
}

TOCHA_MATH float dot(const float* x, const float* y, int64_t n) {
  return rows::fold_each(n, 0.0f, rows::Sum(), [=](int64_t i, auto at) { return at.load(x + i) * at.load(y + i); });
}
TOCHA_MATH float sum(const float* x, int64_t n) {
  return rows::fold_each(n, 0.0f, rows::Sum(), [=](int64_t i, auto at) { return at.load(x + i); });
}

// Masked loads and stores leave out what is beyond the end.
TOCHA_MATH int64_t whole_vectors(float*, int64_t n) { return n; }
#endif

// As many elements as whole vectors have; those beyond the end become what an exponential makes nothing of.
template <class T>
TOCHA_MATH int64_t whole_vectors(T* s, int64_t n) {
  constexpr int64_t w = vectors::kLanes<T>;
  const int64_t end = (n + w - 1) / w * w;
  for (int64_t i = n; i < end; ++i) s[i] = kNothing<T>;
  return end;
}

template <class T>
TOCHA_MATH T largest(const T* s, int64_t n) {
  return rows::largest(s, n);
}
template <class T>
TOCHA_MATH T exp_and_sum(T* s, int64_t n, T scale, T m) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) s[i] = math::exp(s[i] * scale - m);
  return rows::sum(s, n);
}
template <class T>
TOCHA_MATH T dot(const T* x, const T* y, int64_t n) {
  return rows::dot(x, y, n);
}
template <class T>
TOCHA_MATH T sum(const T* x, int64_t n) {
  return rows::sum(x, n);
}

template <class T>
TOCHA_MATH void clear(T* x, int64_t n) {
  rows::each<T>(n, [=](int64_t i, auto at) { at.store(x + i, at.all(T(0))); });
}

template <class T>
void biased(T* s, int64_t n, T scale, const T* bias) {
  if (bias)
    rows::each<T>(n, [=](int64_t i, auto at) { at.store(s + i, at.load(s + i) * at.all(scale) + at.load(bias + i)); });
  else
    rows::each<T>(n, [=](int64_t i, auto at) { at.store(s + i, at.load(s + i) * at.all(scale)); });
}

template <class T>
void exponentials(const ScoreTile<T>& tile, T scale, bool first, T* max, T* sum, T* factor) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    T* s = tile.row(r);
    const int64_t n = tile.counted(r), whole = whole_vectors(s, n);
    T m = largest(s, whole) * scale;  // as the greatest of the products would round
    if (!first && max[r] > m) m = max[r];
    // A row of which nothing counts yet has the max -inf; any shift will do.
    const T shift = m == kNothing<T> ? T(0) : m;
    const T added = exp_and_sum(s, whole, scale, shift);
    clear(s + n, tile.cleared - n);
    factor[r] = first ? T(0) : math::exp(max[r] - shift);
    sum[r] = first ? added : sum[r] * factor[r] + added;
    max[r] = m;
  }
}

template <class T>
void slopes(const ScoreTile<T>& tile, T* gradients, T scale, const T* lse, const T* delta) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    T *s = tile.row(r), *d = gradients + r * tile.stride;
    const int64_t n = tile.counted(r), whole = whole_vectors(s, n);
    const T shift = lse[r], less = delta ? delta[r] : T(0);
    rows::each<T>(whole, [=](int64_t i, auto at) {
      auto p = math::exp(at.load(s + i) * at.all(scale) - at.all(shift));
      at.store(s + i, p);
      at.store(d + i, p * (at.load(d + i) - at.all(less)));
    });
    clear(s + n, tile.cleared - n);
    clear(d + n, tile.cleared - n);
    if (delta) continue;
    const T total = sum(d, n);
    rows::each<T>(n, [=](int64_t i, auto at) { at.store(d + i, at.load(d + i) - at.all(total) * at.load(s + i)); });
  }
}

template <class T>
void scale(T* x, int64_t n, T factor) {
  rows::each<T>(n, [=](int64_t i, auto at) { at.store(x + i, at.load(x + i) * at.all(factor)); });
}

template <class T>
void finish(T* out, int64_t stride, int64_t rows, int64_t n, const T* max, const T* sum, T* lse) {
  rows::each<T>(rows, [=](int64_t i, auto at) { at.store(lse + i, at.load(max + i) + math::log(at.load(sum + i))); });
  for (int64_t r = 0; r < rows; ++r) {
    if (sum[r] != 0) {
      scale(out + r * stride, n, T(1) / sum[r]);
      continue;
    }
    clear(out + r * stride, n);
    lse[r] = -kNothing<T>;
  }
}

template <class T>
void dots(const T* x, int64_t x_stride, const T* y, int64_t y_stride, int64_t rows, int64_t n, T* out) {
  for (int64_t r = 0; r < rows; ++r) out[r] = dot(x + r * x_stride, y + r * y_stride, n);
}

template <class T>
constexpr AttentionLoops<T> loops() {
  return {biased<T>, exponentials<T>, slopes<T>, finish<T>, scale<T>, dots<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const AttentionKernels attention_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
