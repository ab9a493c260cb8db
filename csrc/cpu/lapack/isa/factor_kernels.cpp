// Panels of LU factorizations and small triangular systems.
#include "cpu/lapack/factor_kernels.h"

#include <cmath>
#include <limits>
#include <utility>

#include "cpu/engine/isa/simd.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::FactorKernels;
using cpu::kLeafOrder;
using cpu::TriangleJob;

// The largest magnitude in each lane so far, and the number of the vector that had it.
template <class T>
struct Largest {
  Vec<T> value = broadcast(T(-1)), vector{};

  void see(Vec<T> x, T number) {
    const Vec<T> size = x < 0 ? -x : x;
    const auto larger = size > value;
    value = larger ? size : value;
    vector = larger ? broadcast(number) : vector;
  }
};

// Where the largest magnitude stands, the first of several; 0 if all are NaN.
template <class T>
int64_t place_of(const Largest<T> (&seen)[2], int64_t count) {
  T best = -1;
  int64_t at = 0;
  for (const Largest<T>& s : seen) {
    for (int i = 0; i < kLanes<T>; ++i) {
      const int64_t place = static_cast<int64_t>(s.vector[i]) * kLanes<T> + i;
      if (place >= count || s.value[i] < best || (s.value[i] == best && place > at)) continue;
      best = s.value[i];
      at = place;
    }
  }
  return at;
}

// Rows [0, rows) of x less the sum over k of u[k] * column k of `left`; returns the place of the largest.
template <class T>
int64_t update_column(int64_t rows, int64_t terms, const T* left, int64_t ld, const T* u, T* x) {
  Largest<T> largest[2];
  int64_t i = 0, number = 0;
  for (; i + 2 * kLanes<T> <= rows; i += 2 * kLanes<T>, number += 2) {
    Vec<T> first = load(x + i), second = load(x + i + kLanes<T>);
    for (int64_t k = 0; k < terms; ++k) {
      const Vec<T> factor = broadcast(-u[k]);
      first = multiply_add<T>(load(left + k * ld + i), factor, first);
      second = multiply_add<T>(load(left + k * ld + i + kLanes<T>), factor, second);
    }
    store(x + i, first);
    store(x + i + kLanes<T>, second);
    largest[0].see(first, static_cast<T>(number));
    largest[1].see(second, static_cast<T>(number + 1));
  }
  for (; i < rows; i += kLanes<T>, ++number) {
    const int64_t count = rows - i < kLanes<T> ? rows - i : kLanes<T>;
    Vec<T> v = load_first(x + i, count);
    for (int64_t k = 0; k < terms; ++k) v = multiply_add<T>(load_first(left + k * ld + i, count), broadcast(-u[k]), v);
    store_first(x + i, v, count);
    largest[0].see(v, static_cast<T>(number));
  }
  return place_of(largest, rows);
}

template <class T>
void divide(T* x, int64_t n, T by) {
  const bool invertible = std::abs(by) >= std::numeric_limits<T>::min();
  const T inverse = 1 / by;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) x[i] = invertible ? x[i] * inverse : x[i] / by;
}

// Column by column: each takes what the ones before it do to it, all at once.
template <class T>
int factor_panel(int64_t rows, int64_t columns, T* a, int64_t ld, int32_t* pivots) {
  int info = 0;
  for (int64_t j = 0; j < columns; ++j) {
    T* x = a + j * ld;
    for (int64_t k = 0; k < j; ++k)
      for (int64_t i = k + 1; i < j; ++i) x[i] -= a[k * ld + i] * x[k];
    const int64_t pivot = j + update_column<T>(rows - j, j, a + j, ld, x, x + j);
    pivots[j] = static_cast<int32_t>(pivot + 1);
    if (x[pivot] == 0) {
      if (info == 0) info = static_cast<int>(j + 1);
      continue;
    }
    if (pivot != j)
      for (int64_t k = 0; k < columns; ++k) std::swap(a[k * ld + j], a[k * ld + pivot]);
    divide(x + j + 1, rows - j - 1, x[j]);
  }
  return info;
}

// A triangle without its diagonal, negated, and the inverses of that; rows beyond its order change nothing.
template <class T>
struct Triangle {
  T factor[kLeafOrder][kLeafOrder] = {};
  T scale[kLeafOrder];

  explicit Triangle(const TriangleJob<T>& job) {
    for (int64_t i = 0; i < kLeafOrder; ++i) scale[i] = 1;
    for (int64_t i = 0; i < job.order; ++i) {
      const T* row = job.a + i * job.a_row;
      if (!job.unit) scale[i] = 1 / row[i * job.a_column];
      const int64_t begin = job.lower ? 0 : i + 1, end = job.lower ? i : job.order;
      for (int64_t k = begin; k < end; ++k) factor[i][k] = -row[k * job.a_column];
    }
  }
};

// A square of x transposed, with zeros for what is beyond `rows` and `columns`.
template <class T>
__attribute__((always_inline)) inline void load_square(const T* x, int64_t ldx, int64_t rows, int64_t columns,
                                                       Vec<T> (&v)[kLanes<T>]) {
  if (rows >= kLanes<T> && columns >= kLanes<T>) {
#pragma GCC unroll 16
    for (int c = 0; c < kLanes<T>; ++c) v[c] = load(x + c * ldx);
  } else {
    const int64_t count = rows < kLanes<T> ? rows : kLanes<T>;
#pragma GCC unroll 16
    for (int c = 0; c < kLanes<T>; ++c) v[c] = c < columns && count > 0 ? load_first(x + c * ldx, count) : Vec<T>{};
  }
  transpose<T>(v);
}

template <class T>
__attribute__((always_inline)) inline void store_square(T* x, int64_t ldx, int64_t rows, int64_t columns,
                                                        Vec<T> (&v)[kLanes<T>]) {
  transpose<T>(v);
  if (rows >= kLanes<T> && columns >= kLanes<T>) {
#pragma GCC unroll 16
    for (int c = 0; c < kLanes<T>; ++c) store(x + c * ldx, v[c]);
  } else if (rows > 0) {
    const int64_t count = rows < kLanes<T> ? rows : kLanes<T>;
#pragma GCC unroll 16
    for (int c = 0; c < kLanes<T>; ++c)
      if (c < columns) store_first(x + c * ldx, v[c], count);
  }
}

// Row by row, where each row's right-hand sides lie in one vector.
template <class T, bool kLower>
__attribute__((always_inline)) inline void substitute(const Triangle<T>& t, Vec<T> (&row)[kLeafOrder]) {
  constexpr int last = kLeafOrder - 1;
#pragma GCC unroll 16
  for (int step = 0; step < kLeafOrder; ++step) {
    const int k = kLower ? step : last - step;
    row[k] *= broadcast(t.scale[k]);
#pragma GCC unroll 16
    for (int later = step + 1; later < kLeafOrder; ++later) {
      const int i = kLower ? later : last - later;
      row[i] = multiply_add<T>(row[k], broadcast(t.factor[i][k]), row[i]);
    }
  }
}

// A vector's worth of columns that lie side by side, transposed on the way.
template <class T, bool kLower>
void solve_columns(const Triangle<T>& t, int64_t order, int64_t columns, T* x, int64_t ldx) {
  constexpr int n = kLanes<T>;
  Vec<T> row[kLeafOrder];
#pragma GCC unroll 8
  for (int s = 0; s < kLeafOrder; s += n) {
    Vec<T> v[n];
    load_square<T>(x + s, ldx, order - s, columns, v);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) row[s + i] = v[i];
  }
  substitute<T, kLower>(t, row);
#pragma GCC unroll 8
  for (int s = 0; s < kLeafOrder; s += n) {
    Vec<T> v[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) v[i] = row[s + i];
    store_square<T>(x + s, ldx, order - s, columns, v);
  }
}

// The same of rows that lie side by side.
template <class T, bool kLower>
void solve_rows(const Triangle<T>& t, int64_t order, int64_t columns, T* x, int64_t ldx) {
  const int64_t count = columns < kLanes<T> ? columns : kLanes<T>;
  Vec<T> row[kLeafOrder];
  if (order == kLeafOrder && count == kLanes<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < kLeafOrder; ++i) row[i] = load(x + i * ldx);
    substitute<T, kLower>(t, row);
#pragma GCC unroll 16
    for (int i = 0; i < kLeafOrder; ++i) store(x + i * ldx, row[i]);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLeafOrder; ++i) row[i] = i < order ? load_first(x + i * ldx, count) : Vec<T>{};
  substitute<T, kLower>(t, row);
#pragma GCC unroll 16
  for (int i = 0; i < kLeafOrder; ++i)
    if (i < order) store_first(x + i * ldx, row[i], count);
}

template <class T, bool kLower>
void solve_all(const Triangle<T>& t, const TriangleJob<T>& job) {
  for (int64_t c = 0; c < job.columns; c += kLanes<T>) {
    T* x = job.x + c * job.x_column;
    if (job.x_row == 1)
      solve_columns<T, kLower>(t, job.order, job.columns - c, x, job.x_column);
    else
      solve_rows<T, kLower>(t, job.order, job.columns - c, x, job.x_row);
  }
}

template <class T>
void solve_triangle(const TriangleJob<T>& job) {
  const Triangle<T> t(job);
  if (job.lower)
    solve_all<T, true>(t, job);
  else
    solve_all<T, false>(t, job);
}

template <class T>
void exchange_rows(T* a, int64_t ld, int64_t columns, const int32_t* pivots, int64_t count) {
  constexpr int64_t ahead = 4, line = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) {
      const T* soon = a + (pivots[i + ahead] - 1) * ld;
      for (int64_t c = 0; c < columns && c < 4 * line; c += line) __builtin_prefetch(soon + c, 1);
    }
    if (pivots[i] == i + 1) continue;
    T *one = a + i * ld, *other = a + (pivots[i] - 1) * ld;
#pragma GCC ivdep
    for (int64_t c = 0; c < columns; ++c) {
      const T kept = one[c];
      one[c] = other[c];
      other[c] = kept;
    }
  }
}

template <class T>
constexpr FactorKernels<T> factor_kernels_of() {
  return {factor_panel<T>, solve_triangle<T>, exchange_rows<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const FactorTable factor_kernels;
const FactorTable factor_kernels = {gemm::factor_kernels_of<float>(), gemm::factor_kernels_of<double>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
