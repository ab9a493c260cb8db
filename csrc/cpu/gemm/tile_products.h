// Matrix products on one thread whose right operand is prepared once and used many times: the steps of recurrent
// layers, the tiles of attention. Those kernels cut their own work for the threads; larger products go to gemm.h.
#pragma once

#include <cstdint>

#include "cpu/gemm/internal.h"
#include "cpu/gemm/kernels.h"

namespace tocha::cpu {

template <class T>
const TileKernels<T>& tile_kernels() {
  if constexpr (sizeof(T) == 4)
    return gemm_tiles().f32;
  else
    return gemm_tiles().f64;
}
template <class T>
const PackKernels<T>& pack_kernels() {
  if constexpr (sizeof(T) == 4)
    return gemm_packing().f32;
  else
    return gemm_packing().f64;
}

// A matrix [k, n] ready to stand on the right of a product.
template <class T>
struct RightOperand {
  const T* b = nullptr;
  int64_t row = 0, panel = 0;  // distances of rows, and of panels of nr columns
  const T* edge = nullptr;     // the last columns, packed and padded, where they do not fill a panel
  int64_t k = 0, n = 0;

  // Rows from `first` on, `count` of them.
  RightOperand rows(int64_t first, int64_t count) const {
    RightOperand r = *this;
    r.b += first * row;
    if (edge) r.edge += first * tile_kernels<T>().nr;
    r.k = count;
    return r;
  }
  // Columns from `first` on, which is a multiple of nr; a last piece must end where the matrix does or at one.
  RightOperand columns(int64_t first, int64_t count) const {
    RightOperand r = *this;
    r.b += first / tile_kernels<T>().nr * panel;
    r.n = count;
    return r;
  }
};

// Elements that packed() writes.
template <class T>
int64_t packed_size(int64_t k, int64_t n) {
  const int64_t nr = tile_kernels<T>().nr;
  return ceil_div(n, nr) * nr * k + kPackSlack;
}

// A copy in panels, of any strides and of a dtype that computes in T.
template <class T>
RightOperand<T> packed(DType dtype, const void* b, int64_t b_k, int64_t b_col, int64_t k, int64_t n, T* room) {
  const int64_t nr = tile_kernels<T>().nr;
  pack_kernels<T>().pack_b(dtype, b, b_k, b_col, k, n, room);
  return {room, nr, nr * k, room + n / nr * nr * k, k, n};
}

// Elements that in_place() writes.
template <class T>
int64_t edge_size(int64_t k, int64_t n) {
  return n % tile_kernels<T>().nr ? packed_size<T>(k, 1) : 0;
}

// The rows as they lie; only columns that do not fill a panel are copied.
template <class T>
RightOperand<T> in_place(const T* b, int64_t row, int64_t k, int64_t n, T* room) {
  const int64_t nr = tile_kernels<T>().nr, full = n / nr * nr;
  if (full < n) pack_kernels<T>().pack_b(DTypeOf<T>::value, b + full, row, 1, k, n - full, room);
  return {b, row, nr, full < n ? room : nullptr, k, n};
}

// c = alpha * a @ right + beta * c. The elements of a lie side by side along its rows or its columns.
template <class T>
void multiply(int64_t rows, const T* a, int64_t a_row, int64_t a_k, const RightOperand<T>& right, T* c, int64_t c_row,
              T alpha, T beta) {
  if (rows <= 0 || right.n <= 0) return;
  TileJob<T> job{};
  job.rows = rows;
  job.panels = ceil_div(rows, tile_kernels<T>().mr);
  job.n = right.n;
  job.k = right.k;
  job.a = a;
  job.a_row = a_row;
  job.a_k = a_k;
  job.b = right.b;
  job.b_k = right.row;
  job.b_panel = right.panel;
  job.b_edge = right.edge;
  job.c = c;
  job.c_row = c_row;
  job.alpha = alpha;
  job.beta = beta;
  tile_kernels<T>().multiply(job);
}

}  // namespace tocha::cpu
