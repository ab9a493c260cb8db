// Sums and scalings of a channel's runs and of rows of channels, for batch_norm.
#include "cpu/normalization/batch_norm_kernels.h"

#include "cpu/engine/isa/row_parts.h"

namespace tocha::cpu {
namespace {

using rows::kLanes;
using rows::Vec;

// Calls whole(i) for the vectors of all runs and part(i, lanes) for what is left at their ends.
template <class T, class Whole, class Part>
inline void for_vectors(Runs r, Whole whole, Part part) {
  constexpr int64_t w = kLanes<T>;
  for (int64_t k = 0, at = 0; k < r.samples; ++k, at += r.stride) {
    int64_t i = 0;
    for (; i + 2 * w <= r.n; i += 2 * w) {
      whole(at + i, 0);
      whole(at + i + w, 1);
    }
    if (i + w <= r.n) {
      whole(at + i, 0);
      i += w;
    }
    if (i < r.n) part(at + i, r.n - i);
  }
}

// Calls f(runs) for pieces of the runs of not too many elements: long sums are made of sums of pieces, so that they
// keep their digits.
template <class T, class F>
inline void for_pieces(Runs r, F f) {
  constexpr int64_t most = 128 * kLanes<T>;
  const int64_t samples = r.n < most ? most / r.n : 1;
  for (int64_t k = 0; k < r.samples; k += samples) {
    for (int64_t i = 0; i < r.n; i += most) {
      f(k * r.stride + i,
        Runs{samples < r.samples - k ? samples : r.samples - k, r.stride, most < r.n - i ? most : r.n - i});
    }
  }
}

// Two passes over what is in the cache: no cancellation.
template <class T>
void moments_of(const T* x, Runs r, T* mean, T* deviation) {
  double total = 0, squares = 0;
  for_pieces<T>(r, [&](int64_t at, Runs piece) {
    Vec<T> sum[2] = {};
    for_vectors<T>(
        piece, [&](int64_t i, int s) { sum[s] += rows::load(x + at + i); },
        [&](int64_t i, int64_t n) { sum[1] += rows::load_part(x + at + i, n); });
    total += static_cast<double>(rows::sum_lanes<T>(sum[0] + sum[1]));
  });
  const T m = static_cast<T>(total / static_cast<double>(r.samples * r.n));
  for_pieces<T>(r, [&](int64_t at, Runs piece) {
    Vec<T> square[2] = {};
    for_vectors<T>(
        piece,
        [&](int64_t i, int s) {
          const Vec<T> d = rows::load(x + at + i) - m;
          square[s] += d * d;
        },
        [&](int64_t i, int64_t n) {
          const Vec<T> d = rows::keep_part<T>(rows::load_part(x + at + i, n) - m, n);
          square[1] += d * d;
        });
    squares += static_cast<double>(rows::sum_lanes<T>(square[0] + square[1]));
  });
  *mean = m;
  *deviation = static_cast<T>(squares);
}

template <class T>
void affine_of(const T* x, T* y, Runs r, T scale, T shift) {
  for_vectors<T>(
      r, [&](int64_t i, int) { rows::store<T>(y + i, rows::load(x + i) * scale + shift); },
      [&](int64_t i, int64_t n) { rows::store_part<T>(y + i, rows::load_part(x + i, n) * scale + shift, n); });
}

template <class T>
void products_of(const T* g, const T* x, Runs r, T mean, T* sum, T* product) {
  double total = 0, products = 0;
  for_pieces<T>(r, [&](int64_t at, Runs piece) {
    Vec<T> sums[2] = {}, along[2] = {};
    for_vectors<T>(
        piece,
        [&](int64_t i, int s) {
          const Vec<T> v = rows::load(g + at + i);
          sums[s] += v;
          along[s] += v * (rows::load(x + at + i) - mean);
        },
        [&](int64_t i, int64_t n) {
          const Vec<T> v = rows::load_part(g + at + i, n);
          sums[1] += v;
          along[1] += v * (rows::load_part(x + at + i, n) - mean);
        });
    total += static_cast<double>(rows::sum_lanes<T>(sums[0] + sums[1]));
    products += static_cast<double>(rows::sum_lanes<T>(along[0] + along[1]));
  });
  *sum = static_cast<T>(total);
  *product = static_cast<T>(products);
}

template <class T>
void affine_backward_of(const T* g, const T* x, T* dx, Runs r, T mean, T scale, T slope, T shift) {
  for_vectors<T>(
      r,
      [&](int64_t i, int) {
        rows::store<T>(dx + i, rows::load(g + i) * scale + (rows::load(x + i) - mean) * slope + shift);
      },
      [&](int64_t i, int64_t n) {
        const Vec<T> v = rows::load_part(g + i, n) * scale + (rows::load_part(x + i, n) - mean) * slope + shift;
        rows::store_part<T>(dx + i, v, n);
      });
}

template <class T>
void moments(const T* x, int64_t channels, Runs r, T* mean, T* deviation) {
  for (int64_t c = 0; c < channels; ++c) moments_of(x + c * r.n, r, mean + c, deviation + c);
}
template <class T>
void affine(const T* x, T* y, int64_t channels, Runs r, const T* scale, const T* shift) {
  for (int64_t c = 0; c < channels; ++c) affine_of(x + c * r.n, y + c * r.n, r, scale[c], shift[c]);
}
template <class T>
void products(const T* g, const T* x, int64_t channels, Runs r, const T* mean, T* sum, T* product) {
  for (int64_t c = 0; c < channels; ++c) products_of(g + c * r.n, x + c * r.n, r, mean[c], sum + c, product + c);
}
template <class T>
void affine_backward(const T* g, const T* x, T* dx, int64_t channels, Runs r, const T* mean, const T* scale,
                     const T* slope, const T* shift) {
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t at = c * r.n;
    affine_backward_of(g + at, x + at, dx + at, r, mean[c], scale[c], slope[c], shift[c]);
  }
}

template <class T>
void add_rows(const T* x, int64_t rows, int64_t channels, T* sums) {
  for (int64_t r = 0; r < rows; ++r, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) sums[c] += x[c];
  }
}

template <class T>
void add_deviations(const T* x, int64_t rows, int64_t channels, const T* mean, T* sums) {
  for (int64_t r = 0; r < rows; ++r, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const T d = x[c] - mean[c];
      sums[c] += d * d;
    }
  }
}

template <class T>
void apply(const T* x, T* y, int64_t rows, int64_t channels, const T* scale, const T* shift) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * scale[c] + shift[c];
  }
}

template <class T>
void add_products(const T* g, const T* x, int64_t rows, int64_t channels, const T* mean, T* sums, T* products) {
  for (int64_t r = 0; r < rows; ++r, g += channels, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += g[c];
      products[c] += g[c] * (x[c] - mean[c]);
    }
  }
}

template <class T>
void apply_backward(const T* g, const T* x, T* dx, int64_t rows, int64_t channels, const T* mean, const T* scale,
                    const T* slope, const T* shift) {
  for (int64_t r = 0; r < rows; ++r, g += channels, x += channels, dx += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) dx[c] = g[c] * scale[c] + (x[c] - mean[c]) * slope[c] + shift[c];
  }
}

template <class T>
constexpr BatchNormLoops<T> loops() {
  return {moments<T>,        affine<T>, products<T>,     affine_backward<T>, add_rows<T>,
          add_deviations<T>, apply<T>,  add_products<T>, apply_backward<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const BatchNormKernels batch_norm_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
