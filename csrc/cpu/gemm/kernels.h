// The parts of matrix multiplication that are compiled once per instruction set: register-tiled
// multiplication, packing, write-out, and matrix-vector products. gemm.cpp drives them.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

// c[rows, n] = alpha * a[rows, k] @ b[k, n] + beta * addend[rows, n], in the compute type T, on one thread.
//
// The rows are cut into `panels` of nearly equal height (at most mr): panel p starts at row
// p * rows / panels. Packed panels lie one behind the other, each as [k][height]. Columns are cut
// into panels of nr; element (k, j) of panel p is b[p * b_panel + k * b_k + j]. The last panel,
// where narrower than nr, is read from b_edge instead: packed as [k][nr] and padded.
template <class T>
struct TileJob {
  int64_t rows, panels, n, k;
  const T* a;
  int64_t a_row, a_k;  // element strides of unpacked rows
  bool a_packed;
  const T* b;
  int64_t b_k, b_panel;
  const T* b_edge;
  T* c;
  int64_t c_row;
  T alpha, beta;              // beta == 0 does not read the addend
  const T* addend = nullptr;  // null: c itself
  int64_t addend_row = 0;     // 0 where all rows get the same
};

template <class T>
struct TileKernels {
  int64_t mr, nr;
  int64_t vector_bytes;
  void (*multiply)(const TileJob<T>& job);
};

// Packing converts from the storage dtype to the compute type T, finish converts back.
template <class T>
struct PackKernels {
  // Packs row panels. Writes whole vectors: dst needs kPackSlack elements of room past rows * k.
  void (*pack_a)(DType dtype, const void* a, int64_t a_row, int64_t a_k, int64_t rows, int64_t panels, int64_t k,
                 T* dst);
  // Packs ceil(n / nr) column panels, the last one padded with zeros.
  void (*pack_b)(DType dtype, const void* b, int64_t b_k, int64_t b_col, int64_t k, int64_t n, T* dst);
  // c = alpha * acc + beta * c, rounded once; beta == 0 does not read c.
  void (*finish)(DType dtype, int64_t rows, int64_t n, const T* acc, int64_t acc_row, int64_t acc_col, void* c,
                 int64_t c_row, int64_t c_col, T alpha, T beta);
};
constexpr int64_t kPackSlack = 64;

// Matrix-vector products: x and out are contiguous and in the compute type.
template <class T>
struct VectorKernels {
  // out[i] = sum_k a[i, k] * x[k], the elements of a row side by side
  void (*row_dots)(DType dtype, int64_t rows, int64_t k, const void* a, int64_t a_row, const T* x, T* out);
  // out[j] = sum_k x[k] * b[k, j], the elements of a row side by side
  void (*column_sums)(DType dtype, int64_t k, int64_t n, const void* b, int64_t b_k, const T* x, T* out);
};

// float32, bfloat16 and float16 compute in float; integers of up to 32 bits modulo 2^32, which
// truncates to arithmetic modulo their own size.
template <template <class> class Kernels>
struct PerComputeType {
  Kernels<float> f32;
  Kernels<double> f64;
  Kernels<uint32_t> u32;
  Kernels<uint64_t> u64;
};
using GemmTiles = PerComputeType<TileKernels>;
using GemmPacking = PerComputeType<PackKernels>;
using GemvKernels = PerComputeType<VectorKernels>;

TOCHA_ISA_TABLE(GemmTiles, gemm_tiles)
TOCHA_ISA_TABLE(GemmPacking, gemm_packing)
TOCHA_ISA_TABLE(GemvKernels, gemv_kernels)

}  // namespace tocha::cpu
