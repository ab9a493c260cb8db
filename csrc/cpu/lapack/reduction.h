// Reductions of real matrices to tridiagonal and bidiagonal form by reflections, and the application of those: panels
// of reflections are found by products with vectors, everything else is done by products of matrices. Used by
// spectra.cpp.
//
// A reflection is I - tau v v', where v starts with a one. Within a panel the matrix is left as it was: what the
// panel's reflections do to it, a - v w' - ..., is taken into account where it is read, and carried out at the end.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/gemm/gemm.h"
#include "cpu/lapack/batch.h"
#include "cpu/lapack/blocked.h"
#include "cpu/lapack/reduction_kernels.h"

namespace tocha::lapack {

constexpr int64_t kReduced = 32;          // most columns of a panel
constexpr int64_t kApplied = 64;          // reflections that are applied together
constexpr int64_t kSharedWork = 1 << 17;  // elements of a matrix from which threads share its product with a vector

template <class T>
const cpu::ReductionKernels<T>& reduction() {
  if constexpr (std::is_same_v<T, float>)
    return cpu::reduction_kernels().f32;
  else
    return cpu::reduction_kernels().f64;
}

// Of small matrices the products with vectors that a panel's reflections take cost more than updates of the matrix.
inline int64_t panel_columns(int64_t n) { return n < 128 ? kReduced / 2 : kReduced; }

template <class T>
struct Reflected {
  T value, tau;
};

// The reflection that leaves nothing but the first element of x, which is returned; its vector comes in the place of x.
// Elements whose squares would lose digits are nothing beside a matrix of moderate size.
template <class T>
Reflected<T> reflect_vector(int64_t n, T* x) {
  constexpr double nothing = 1e-280;
  double sums[4] = {};
  for (int64_t i = 1; i < n; ++i) sums[i % 4] += static_cast<double>(x[i]) * x[i];
  const double rest = (sums[0] + sums[1]) + (sums[2] + sums[3]), first = x[0];
  x[0] = 1;
  if (rest < nothing) {
    std::fill(x + 1, x + n, T(0));
    return {static_cast<T>(first), 0};
  }
  const double value = -std::copysign(std::sqrt(first * first + rest), first), scale = 1 / (first - value);
  for (int64_t i = 1; i < n; ++i) x[i] = static_cast<T>(x[i] * scale);
  return {static_cast<T>(value), static_cast<T>((value - first) / value)};
}

// y = a @ x, of a matrix with columns side by side.
template <class T>
void product(int64_t rows, int64_t columns, const T* a, int64_t ld, const T* x, T* y) {
  auto part = [&](int64_t begin, int64_t end) {
    std::fill(y + begin, y + end, T(0));
    reduction<T>().add_product(end - begin, columns, a + begin, ld, x, 1, T(1), y + begin);
  };
  if (rows * columns < kSharedWork) return part(0, rows);
  parallel_for(rows, std::max<int64_t>(64, kSharedWork / 2 / columns), part);
}

// y = a' @ x.
template <class T>
void turned_product(int64_t rows, int64_t columns, const T* a, int64_t ld, const T* x, T* y) {
  auto part = [&](int64_t begin, int64_t end) {
    reduction<T>().dots(rows, end - begin, a + begin * ld, ld, x, y + begin);
  };
  if (rows * columns < kSharedWork) return part(0, columns);
  parallel_for(columns, std::max<int64_t>(16, kSharedWork / 2 / rows), part);
}

// y = a @ x, of a symmetric matrix whose lower triangle is read; threads have sums of their own in `sums`.
template <class T>
void symmetric_product(int64_t n, const T* a, int64_t ld, const T* x, T* y, std::vector<T>& sums) {
  std::fill(y, y + n, T(0));
  const int64_t parts = n * n / 2 < kSharedWork || in_parallel_region() ? 1 : num_threads();
  if (parts == 1) return reduction<T>().add_symmetric(n, 0, n, a, ld, x, y);
  sums.assign(static_cast<size_t>(parts * n), T(0));
  // The column from which a share of what is under the diagonal is left.
  auto bound = [&](int64_t part) {
    return n - static_cast<int64_t>(static_cast<double>(n) * std::sqrt(1 - static_cast<double>(part) / parts));
  };
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      reduction<T>().add_symmetric(n, bound(p), bound(p + 1), a, ld, x, sums.data() + p * n);
  });
  for (int64_t p = 0; p < parts; ++p)
    for (int64_t i = bound(p); i < n; ++i) y[i] += sums[static_cast<size_t>(p * n + i)];
}

template <class T>
T dot(int64_t n, const T* x, const T* y) {
  T result;
  reduction<T>().dots(n, 1, x, n, y, &result);
  return result;
}

// y -= a @ (b' @ x): a has `rows` rows, b has `inner`; both have `count` columns, at most those of a panel.
template <class T>
void take_away(int64_t rows, int64_t inner, int64_t count, const T* a, int64_t a_ld, const T* b, int64_t b_ld,
               const T* x, T* y) {
  T factors[kReduced];
  reduction<T>().dots(inner, count, b, b_ld, x, factors);
  reduction<T>().add_product(rows, count, a, a_ld, factors, 1, T(-1), y);
}

template <class T>
void multiply_by(int64_t n, T factor, T* x) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// One panel of make_tridiagonal: columns [at, at + width) of a; v and w take rows of the reflections' vectors, and of
// those with which the rest of the matrix becomes a - v w' - w v'.
template <class T>
void tridiagonal_panel(int64_t n, int64_t at, int64_t width, T* a, T* d, T* e, T* tau, T* v, T* w,
                       std::vector<T>& sums) {
  for (int64_t i = 0; i < width; ++i) {
    const int64_t c = at + i, below = n - c - 1;
    T *column = a + c * n + c, *x = column + 1, *y = w + i * n + c + 1;
    reduction<T>().add_product(n - c, i, v + c, n, w + c, n, T(-1), column);
    reduction<T>().add_product(n - c, i, w + c, n, v + c, n, T(-1), column);
    d[c] = column[0];
    if (below == 0) return;
    const Reflected<T> made = reflect_vector(below, x);
    e[c] = made.value;
    tau[c] = made.tau;
    std::copy_n(x, below, v + i * n + c + 1);
    symmetric_product(below, a + (c + 1) * n + c + 1, n, x, y, sums);
    take_away(below, below, i, v + c + 1, n, w + c + 1, n, x, y);
    take_away(below, below, i, w + c + 1, n, v + c + 1, n, x, y);
    multiply_by(below, made.tau, y);
    const T factor = -made.tau / 2 * dot(below, y, x);
    for (int64_t j = 0; j < below; ++j) y[j] += factor * x[j];
  }
}

// Reflections whose vectors are the columns of v: column j has zeros above row first + j, and a one there.
template <class T>
struct Reflections {
  int64_t rows, count, first;
  const T *v, *tau;
};

// Makes a symmetric matrix, of which the lower triangle is read, tridiagonal: its diagonal in d and what is beside that
// in e. a becomes the vectors of n - 1 reflections, whose product times the tridiagonal matrix times its transpose the
// matrix was.
template <class T>
Reflections<T> make_tridiagonal(DType dtype, int64_t n, T* a, T* d, T* e, T* tau) {
  auto panel = workspace<T>(3 * kReduced * n);
  std::vector<T> sums;
  for (int64_t at = 0; at < n; at += panel_columns(n)) {
    const int64_t width = std::min(panel_columns(n), n - at);
    T *v = panel.get(), *w = v + width * n;
    tridiagonal_panel(n, at, width, a, d, e, tau, v, w, sums);
    // [v w] [w v]' of three blocks beside each other.
    if (at + width < n) std::copy_n(v, width * n, w + width * n);
    const int64_t next = at + width, stripe = n - next < 512 ? 32 : 64;
    parallel_for((n - next + stripe - 1) / stripe, 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = next + begin * stripe; j < std::min(n, next + end * stripe); j += stripe) {
        const int64_t columns = std::min(stripe, n - j);
        cpu::gemm(dtype, n - j, columns, 2 * width, -1, {v + j, 1, n}, {w + j, n, 1}, 1, {a + j * n + j, 1, n});
      }
    });
  }
  for (int64_t c = 0; c < n; ++c) std::fill_n(a + c * n, c + 1, T(0));
  return {n, n - 1, 1, a, tau};
}

// Of the reflections and the triangle r that a QR decomposition leaves in a, those in a form for apply_reflections, and
// r (k x k) by itself.
template <class T>
void take_triangle(int64_t rows, int64_t k, T* a, T* r) {
  std::fill_n(r, k * k, T(0));
  for (int64_t j = 0; j < k; ++j) {
    std::copy_n(a + j * rows, j + 1, r + j * k);
    std::fill_n(a + j * rows, j, T(0));
    a[j * rows + j] = T(1);
  }
}

// The two sides of a bidiagonal form: reflections of columns and of rows.
template <class T>
struct Sided {
  Reflections<T> left, right;
};

// One panel of make_bidiagonal: reflections of columns in v and of rows in u, with which the rest of the matrix becomes
// a - v y' - x u'.
template <class T>
void bidiagonal_panel(int64_t m, int64_t n, int64_t at, int64_t width, T* a, T* d, T* e, T* left, T* right, T* v, T* x,
                      T* y, T* u) {
  const auto& k = reduction<T>();
  for (int64_t i = 0; i < width; ++i) {
    const int64_t c = at + i, rows = m - c, beside = n - c - 1, below = rows - 1;
    T *column = a + c * m + c, *rest = a + (c + 1) * m + c;
    k.add_product(rows, i, v + c, m, y + c, n, T(-1), column);
    k.add_product(rows, i, x + c, m, u + c, n, T(-1), column);
    const Reflected<T> down = reflect_vector(rows, column);
    d[c] = down.value;
    left[c] = down.tau;
    std::copy_n(column, rows, v + i * m + c);
    if (beside == 0) return;
    T* yi = y + i * n + c + 1;
    turned_product(rows, beside, rest, m, column, yi);
    take_away(beside, rows, i, y + c + 1, n, v + c, m, column, yi);
    take_away(beside, rows, i, u + c + 1, n, x + c, m, column, yi);
    multiply_by(beside, down.tau, yi);
    T* row = u + i * n + c + 1;
    for (int64_t j = 0; j < beside; ++j) row[j] = rest[j * m];
    k.add_product(beside, i + 1, y + c + 1, n, v + c, m, T(-1), row);
    k.add_product(beside, i, u + c + 1, n, x + c, m, T(-1), row);
    const Reflected<T> across = reflect_vector(beside, row);
    e[c] = across.value;
    right[c] = across.tau;
    T* xi = x + i * m + c + 1;
    product(below, beside, rest + 1, m, row, xi);
    take_away(below, beside, i + 1, v + c + 1, m, y + c + 1, n, row, xi);
    take_away(below, beside, i, x + c + 1, m, u + c + 1, n, row, xi);
    multiply_by(below, across.tau, xi);
  }
}

// Makes a matrix of at least as many rows as columns upper bidiagonal: its diagonal in d and what is above that in e.
// a becomes the vectors of the reflections from the left, `rows` (n x n) those from the right.
template <class T>
Sided<T> make_bidiagonal(DType dtype, int64_t m, int64_t n, T* a, T* d, T* e, T* left, T* right, T* rows) {
  auto tall = workspace<T>(2 * kReduced * m), wide = workspace<T>(2 * kReduced * n);
  std::fill_n(rows, n * n, T(0));
  for (int64_t at = 0; at < n; at += panel_columns(n)) {
    const int64_t width = std::min(panel_columns(n), n - at), next = at + width;
    T *v = tall.get(), *x = v + width * m, *y = wide.get(), *u = y + width * n;
    bidiagonal_panel(m, n, at, width, a, d, e, left, right, v, x, y, u);
    for (int64_t i = 0; i < std::min(width, n - 1 - at); ++i)
      std::copy_n(u + i * n + at + i + 1, n - at - i - 1, rows + (at + i) * n + at + i + 1);
    if (next < n)
      cpu::gemm(dtype, m - next, n - next, 2 * width, -1, {v + next, 1, m}, {y + next, n, 1}, 1,
                {a + next * m + next, 1, m});
  }
  for (int64_t c = 0; c < n; ++c) std::fill_n(a + c * m, c, T(0));
  return {{m, n, 0, a, left}, {n, n - 1, 1, rows, right}};
}

// The triangle t with which reflections [begin, begin + width) together are I - v t v'; its columns lie side by side.
template <class T>
void join_reflections(DType dtype, const Reflections<T>& q, int64_t begin, int64_t width, T* t) {
  const int64_t top = q.first + begin;
  T* v = const_cast<T*>(q.v) + begin * q.rows + top;
  cpu::gemm(dtype, width, width, q.rows - top, 1, {v, q.rows, 1}, {v, 1, q.rows}, 0, {t, 1, width});
  T dots[kApplied];
  for (int64_t j = 0; j < width; ++j) {
    const T tau = q.tau[begin + j];
    std::copy_n(t + j * width, j, dots);
    std::fill_n(t + j * width, width, T(0));
    reduction<T>().add_product(j, j, t, width, dots, 1, -tau, t + j * width);
    t[j * width + j] = tau;
  }
}

// z = q @ z, on all threads.
template <class T>
void apply_reflections(DType dtype, const Reflections<T>& q, cpu::MatrixRef z, int64_t columns) {
  const int64_t blocks = (q.count + kApplied - 1) / kApplied;
  auto triangles = workspace<T>(blocks * kApplied * kApplied);
  auto width_of = [&](int64_t b) { return std::min(kApplied, q.count - b * kApplied); };
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      join_reflections(dtype, q, b * kApplied, width_of(b), triangles.get() + b * kApplied * kApplied);
  });
  for_stripes(columns, 2.0 * static_cast<double>(q.rows) * static_cast<double>(q.count), [&](int first, int count) {
    auto inner = workspace<T>(2 * kApplied * count);
    for (int64_t b = blocks - 1; b >= 0; --b) {
      const int64_t width = width_of(b), top = q.first + b * kApplied, rows = q.rows - top;
      T *v = const_cast<T*>(q.v) + b * kApplied * q.rows + top, *products = inner.get();
      T* turned = products + kApplied * count;
      const cpu::MatrixRef part{static_cast<T*>(z.data) + first * z.col_stride + top * z.row_stride, z.row_stride,
                                z.col_stride};
      cpu::gemm(dtype, width, count, rows, 1, {v, q.rows, 1}, part, 0, {products, 1, width});
      cpu::gemm(dtype, width, count, width, 1, {triangles.get() + b * kApplied * kApplied, 1, width},
                {products, 1, width}, 0, {turned, 1, width});
      cpu::gemm(dtype, rows, count, width, -1, {v, 1, q.rows}, {turned, 1, width}, 1, part);
    }
  });
}

}  // namespace tocha::lapack
