// Loops over the values of one row of a compressed matrix, one table per instruction set; compressed.cpp calls them.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

// A matrix in rows: the values of row r, and their columns, are those from begin[r] to begin[r + 1].
template <class T>
struct SparseMatrix {
  const T* values;
  const int64_t* begin;
  const int64_t* column;
  int64_t count;  // values
};

template <class T>
struct SparseLoops {
  // y[r] = row r times a vector of n elements, for rows [first, last); false at a column that is not in [0, n).
  // Memory is what this costs: columns are read once, so nobody else has looked at them.
  bool (*times_vector)(const SparseMatrix<T>& matrix, int64_t first, int64_t last, const T* x, int64_t n, T* y);
  // y[r * step + c] = row r times column c of a table, for c < n; rows of both are `step` elements apart.
  void (*times_table)(const SparseMatrix<T>& matrix, int64_t first, int64_t last, const T* table, int64_t step,
                      int64_t n, T* y);
  // out[i] = x times row column[i] of the table; all have n elements.
  void (*dots)(const int64_t* column, int64_t count, const T* x, const T* table, int64_t n, T* out);
};

struct SparseKernels {
  SparseLoops<float> f32;
  SparseLoops<double> f64;
  bool (*within)(const int64_t* index, int64_t count, int64_t limit);  // all in [0, limit)
  bool (*rising)(const int64_t* index, int64_t count);                 // none less than the one before
};
TOCHA_ISA_TABLE(SparseKernels, sparse_kernels)

}  // namespace tocha::cpu
