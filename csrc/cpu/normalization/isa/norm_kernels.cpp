// Moments of rows and their normalisation, for layer_norm, rms_norm and group_norm.
#include "cpu/engine/isa/row_sums.h"
#include "cpu/normalization/row_kernels.h"

namespace tocha::cpu {
namespace {

// Two passes over a row that is in the cache: no cancellation.
template <class T>
void moments(const T* x, int64_t n, T* mean, T* deviation) {
  T m = rows::sum(x, n) / static_cast<T>(n);
  *mean = m;
  *deviation = rows::reduce<T>(
      n, T(0),
      [m](auto a, auto v) {
        auto d = v - m;
        return a + d * d;
      },
      rows::Add(), x);
}

template <class T>
T sum_of_squares(const T* x, int64_t n) {
  return rows::dot(x, x, n);
}

template <class T>
void apply(const T* x, T* y, int64_t n, T mean, T scale, const T* weight, const T* bias) {
  if (weight && bias) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
  } else if (weight) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * weight[i];
  } else if (bias) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + bias[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale;
  }
}

template <class T>
void affine(const T* x, T* y, int64_t n, T scale, T shift) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale + shift;
}

template <class T>
void backward_sums(const T* g, const T* x, int64_t n, T mean, T scale, const T* weight, T* sum, T* product) {
  if (weight) {
    *sum = rows::dot(g, weight, n);
    *product = scale * rows::reduce<T>(
                           n, T(0), [mean](auto a, auto u, auto v, auto w) { return a + u * w * (v - mean); },
                           rows::Add(), g, x, weight);
  } else {
    *sum = rows::sum(g, n);
    *product = scale * rows::reduce<T>(
                           n, T(0), [mean](auto a, auto u, auto v) { return a + u * (v - mean); }, rows::Add(), g, x);
  }
}

template <class T>
void backward_input(const T* g, const T* x, T* dx, int64_t n, T mean, T scale, T factor, const T* weight, T sum,
                    T product) {
  const T along = scale * product;
  if (weight) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) dx[i] = scale * (g[i] * factor * weight[i] - sum - (x[i] - mean) * along);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) dx[i] = scale * (g[i] * factor - sum - (x[i] - mean) * along);
  }
}

template <class T>
void backward_parameters(const T* g, const T* x, int64_t n, T mean, T scale, T* dweight, T* dbias) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    dweight[i] += g[i] * ((x[i] - mean) * scale);
    dbias[i] += g[i];
  }
}

template <class T>
constexpr NormLoops<T> loops() {
  return {moments<T>,        sum_of_squares<T>,     apply<T>, affine<T>, backward_sums<T>,
          backward_input<T>, backward_parameters<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const NormKernels norm_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
