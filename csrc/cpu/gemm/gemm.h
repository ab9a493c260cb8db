// Matrix multiplication for every dtype and stride; all linear-algebra operators come here.
//
//   c = alpha * op(a) @ op(b) + beta * c,   a: [m, k], b: [k, n], c: [m, n]
//
// A transposed operand is one with its strides exchanged; conj_a / conj_b take the complex
// conjugate. With a bias, n elements side by side, every row of c becomes the product plus it, and
// beta is of no account. beta == 0 does not read c; alpha == 0 or k == 0 does not read a and b. c must not
// overlap itself, a or b.
//
// Half types accumulate in float and round once. Integers wrap around in their own type.
// Throws std::bad_alloc when there is no memory to pack into, and a NotImplemented error for a
// dtype that has no product (bool, float8).
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/scalar.h"

namespace tocha::cpu {

// Strides count elements. Only c is written to.
struct MatrixRef {
  void* data;
  int64_t row_stride, col_stride;
};

// What follows a product, told of rows [begin, end) of c as they are finished, while they are in the cache of the
// thread that calls it. Every row is told of once, from any thread and in any order; rows of a batch are numbered
// through.
struct RowsDone {
  void (*run)(void* context, int64_t begin, int64_t end) = nullptr;
  void* context = nullptr;
  explicit operator bool() const { return run != nullptr; }
};

// Which kernels multiply. A product that one of them cannot serve is computed as if nothing had been said.
enum class Engine { any, tiles, blas };

// Blocks in which our own kernels multiply: rows of a that a task takes, and how deep it goes at once. 0 is as usual.
struct GemmBlocks {
  int64_t rows = 0, depth = 0;
};

struct GemmOptions {
  RowsDone done;
  Engine engine = Engine::any;
  const void* packed_b = nullptr;  // b as pack_right() lays it out, or null
  GemmBlocks blocks;
};

// Whether a product of float32 or float64 matrices is left to BLAS.
bool prefers_blas(DType dtype, int64_t m, int64_t n, int64_t k);

// Bytes of b [k, n] of a dtype in the form that our own kernels read, and b in that form. 0 where there is none.
int64_t packed_right_bytes(DType dtype, int64_t k, int64_t n);
void pack_right(DType dtype, int64_t k, int64_t n, MatrixRef b, void* out);

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, Scalar alpha, MatrixRef a, MatrixRef b, Scalar beta,
          MatrixRef c, bool conj_a = false, bool conj_b = false, const void* bias = nullptr,
          const GemmOptions& options = {});

// The same for `batch` triples of matrices, whose first elements are *_batch elements apart. An
// operand with batch stride 0 serves the whole batch.
void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, Scalar alpha, MatrixRef a,
                  int64_t a_batch, MatrixRef b, int64_t b_batch, Scalar beta, MatrixRef c, int64_t c_batch,
                  bool conj_a = false, bool conj_b = false, const void* bias = nullptr,
                  const GemmOptions& options = {});

// c = a @ b for matrices of an integer dtype of at most 32 bits and an int32 result, which wraps around.
void gemm_int32(DType dtype, int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b, MatrixRef c);

// y = alpha * op(a) @ x + beta * y with a: [m, k].
inline void gemv(DType dtype, int64_t m, int64_t k, Scalar alpha, MatrixRef a, void* x, int64_t x_stride, Scalar beta,
                 void* y, int64_t y_stride, bool conj_a = false, bool conj_x = false) {
  gemm(dtype, m, 1, k, alpha, a, {x, x_stride, 1}, beta, {y, y_stride, 1}, conj_a, conj_x);
}

// *out = sum_i x[i] * y[i], with x conjugated where asked for.
inline void dot(DType dtype, int64_t n, void* x, int64_t x_stride, void* y, int64_t y_stride, void* out,
                bool conj_x = false) {
  gemm(dtype, 1, 1, n, 1, {x, 1, x_stride}, {y, y_stride, 1}, 0, {out, 1, 1}, conj_x, false);
}

}  // namespace tocha::cpu
