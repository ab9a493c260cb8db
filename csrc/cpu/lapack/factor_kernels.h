// The leaves of recursive factorizations, one table per instruction set: narrow column-major panels and small
// triangles. blocked.h drives them.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

constexpr int kLeafOrder = 16;  // most columns of a panel, and order of a triangle

// x = inverse(a) @ x for `columns` columns of x, where a has `order` rows; only its triangle is read.
template <class T>
struct TriangleJob {
  int64_t order, columns;
  const T* a;
  int64_t a_row, a_column;  // element strides
  bool lower, unit;
  T* x;
  int64_t x_row, x_column;  // element strides, one of them 1
};

template <class T>
struct FactorKernels {
  // a = P L U in place for a panel with at least as many rows as columns, as getrf does it: pivots count from 1, and
  // the first column without a pivot is returned, counted from 1, or 0.
  int (*factor_panel)(int64_t rows, int64_t columns, T* a, int64_t ld, int32_t* pivots);
  void (*solve_triangle)(const TriangleJob<T>& job);
  // Exchanges row i of a row-major matrix with row pivots[i] - 1, for i = 0, 1, ...
  void (*exchange_rows)(T* a, int64_t ld, int64_t columns, const int32_t* pivots, int64_t count);
};

struct FactorTable {
  FactorKernels<float> f32;
  FactorKernels<double> f64;
};
TOCHA_ISA_TABLE(FactorTable, factor_kernels)

}  // namespace tocha::cpu
