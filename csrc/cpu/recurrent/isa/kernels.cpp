// The gates of LSTM, GRU and plain recurrent cells, and their gradients.
#include "cpu/recurrent/kernels.h"

#include "cpu/engine/isa/each.h"

namespace tocha::cpu {
namespace {

// The sum that a gate is computed from.
template <class T, class At>
TOCHA_MATH typename At::V biased(At at, const T* sums, const T* bias, int64_t i) {
  auto sum = at.load(sums + i);
  return bias ? sum + at.load(bias + i) : sum;
}

template <class T>
void lstm(T* gates, const T* bias, T* state, T* cell, T* h, int64_t n) {
  rows::each<T>(n, [=](int64_t k, auto at) {
    auto i = math::sigmoid(biased(at, gates, bias, k));
    auto f = math::sigmoid(biased(at, gates, bias, n + k));
    auto g = math::tanh(biased(at, gates, bias, 2 * n + k));
    auto o = math::sigmoid(biased(at, gates, bias, 3 * n + k));
    auto c = f * at.load(state + k) + i * g;
    at.store(gates + k, i);
    at.store(gates + n + k, f);
    at.store(gates + 2 * n + k, g);
    at.store(gates + 3 * n + k, o);
    at.store(state + k, c);
    at.store(cell + k, c);
    at.store(h + k, o * math::tanh(c));
  });
}

template <class T>
void lstm_backward(const T* gates, const T* before, const T* cell, const T* dh, T* dstate, T* dgates, int64_t n) {
  rows::each<T>(n, [=](int64_t k, auto at) {
    const auto one = at.all(T(1));
    auto i = at.load(gates + k), f = at.load(gates + n + k), g = at.load(gates + 2 * n + k);
    auto o = at.load(gates + 3 * n + k);
    auto d = at.load(dh + k), t = math::tanh(at.load(cell + k));
    auto dc = at.load(dstate + k) + d * o * (one - t * t);
    at.store(dgates + k, dc * g * i * (one - i));
    at.store(dgates + n + k, dc * at.load(before + k) * f * (one - f));
    at.store(dgates + 2 * n + k, dc * i * (one - g * g));
    at.store(dgates + 3 * n + k, d * t * o * (one - o));
    at.store(dstate + k, dc * f);
  });
}

template <class T>
void gru(T* gates, const T* bias, const T* before, T* h, int64_t n) {
  rows::each<T>(n, [=](int64_t k, auto at) {
    auto r = math::sigmoid(biased(at, gates, bias, k));
    auto z = math::sigmoid(biased(at, gates, bias, n + k));
    auto inner = biased(at, gates, bias, 3 * n + k);
    auto m = math::tanh(biased(at, gates, bias, 2 * n + k) + r * inner);
    at.store(gates + k, r);
    at.store(gates + n + k, z);
    at.store(gates + 2 * n + k, m);
    at.store(gates + 3 * n + k, inner);
    at.store(h + k, m + z * (at.load(before + k) - m));
  });
}

template <class T>
void gru_backward(const T* gates, const T* before, const T* dh, T* dgates, T* dbefore, int64_t n) {
  rows::each<T>(n, [=](int64_t k, auto at) {
    const auto one = at.all(T(1));
    auto r = at.load(gates + k), z = at.load(gates + n + k), m = at.load(gates + 2 * n + k);
    auto d = at.load(dh + k);
    auto dm = d * (one - z) * (one - m * m);
    at.store(dgates + k, dm * at.load(gates + 3 * n + k) * r * (one - r));
    at.store(dgates + n + k, d * (at.load(before + k) - m) * z * (one - z));
    at.store(dgates + 2 * n + k, dm);
    at.store(dgates + 3 * n + k, dm * r);
    at.store(dbefore + k, d * z);
  });
}

#if TOCHA_VECTOR_F32
TOCHA_MATH math::F32x16 positive(math::F32x16 x) { return math::at_least(x, 0.0f); }
TOCHA_MATH math::F32x16 where_positive(math::F32x16 y, math::F32x16 x) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, math::splat(0.0f), _CMP_GT_OQ), x);
}
#endif
template <class T>
TOCHA_MATH T positive(T x) {
  return x < T(0) ? T(0) : x;  // NaN stays
}
template <class T>
TOCHA_MATH T where_positive(T y, T x) {
  return y > T(0) ? x : T(0);
}

template <class T>
void simple(T* sums, const T* bias, T* h, int64_t n, bool relu) {
  if (relu)
    rows::each<T>(n, [=](int64_t k, auto at) { at.store(h + k, positive(biased(at, sums, bias, k))); });
  else
    rows::each<T>(n, [=](int64_t k, auto at) { at.store(h + k, math::tanh(biased(at, sums, bias, k))); });
}

template <class T>
void simple_backward(const T* h, const T* dh, T* dsums, int64_t n, bool relu) {
  if (relu)
    rows::each<T>(n, [=](int64_t k, auto at) { at.store(dsums + k, where_positive(at.load(h + k), at.load(dh + k))); });
  else
    rows::each<T>(n, [=](int64_t k, auto at) {
      auto y = at.load(h + k);
      at.store(dsums + k, at.load(dh + k) * (at.all(T(1)) - y * y));
    });
}

template <class T>
void add(T* y, const T* x, int64_t n) {
  rows::each<T>(n, [=](int64_t k, auto at) { at.store(y + k, at.load(y + k) + at.load(x + k)); });
}

template <class T>
constexpr RecurrentLoops<T> loops() {
  return {lstm<T>, lstm_backward<T>, gru<T>, gru_backward<T>, simple<T>, simple_backward<T>, add<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const RecurrentKernels recurrent_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
