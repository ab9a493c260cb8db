// Matrix multiplication by OpenBLAS, called on one thread per tile so that its threads and ours
// never compete. Serves complex matrices, and real ones on CPUs without wide vectors.
#include <cblas.h>

#include <climits>
#include <mutex>

#include "core/parallel.h"
#include "cpu/gemm/internal.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kTileRows = 256;
constexpr int64_t kLeastSide = 16;
constexpr int64_t kTileColumns = 2048;
constexpr int64_t kMostDepth = int64_t{1} << 24;  // OpenBLAS counts in 32 bits

// An operand as BLAS wants it: row-major, or transposed, with a leading dimension.
template <class T>
struct Operand {
  const T* data;
  int64_t ld;
  bool transposed, conjugate;

  CBLAS_TRANSPOSE op() const {
    if (conjugate) return transposed ? CblasConjTrans : CblasConjNoTrans;
    return transposed ? CblasTrans : CblasNoTrans;
  }
  const T* at(int64_t row, int64_t col) const { return data + (transposed ? col * ld + row : row * ld + col); }
};

bool is_leading_dimension(int64_t stride, int64_t least) {
  return stride >= std::max<int64_t>(1, least) && stride <= INT_MAX;
}

// Views r in place where BLAS can, and copies it to the thread's buffer otherwise; false without memory.
template <class T>
bool prepare(MatrixRef r, int64_t rows, int64_t cols, bool conjugate, Purpose purpose, Operand<T>& out) {
  const T* data = static_cast<const T*>(r.data);
  if ((r.col_stride == 1 || cols == 1) && (rows == 1 || is_leading_dimension(r.row_stride, cols))) {
    out = {data, rows == 1 ? cols : r.row_stride, false, conjugate};
    return true;
  }
  if ((r.row_stride == 1 || rows == 1) && (cols == 1 || is_leading_dimension(r.col_stride, rows))) {
    out = {data, cols == 1 ? rows : r.col_stride, true, conjugate};
    return true;
  }
  T* copy = static_cast<T*>(work_buffer(purpose, rows * cols * static_cast<int64_t>(sizeof(T))));
  if (!copy) return false;
  parallel_for(rows, std::max<int64_t>(1, kWorkPerThread / 8 / cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < cols; ++j) copy[i * cols + j] = data[i * r.row_stride + j * r.col_stride];
    }
  });
  out = {copy, cols, false, conjugate};
  return true;
}

void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
          const float* b, int ldb, float beta, float* c, int ldc) {
  scipy_cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
          const double* b, int ldb, double beta, double* c, int ldc) {
  scipy_cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, Complex<float> alpha, const Complex<float>* a,
          int lda, const Complex<float>* b, int ldb, Complex<float> beta, Complex<float>* c, int ldc) {
  scipy_cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, Complex<double> alpha, const Complex<double>* a,
          int lda, const Complex<double>* b, int ldb, Complex<double> beta, Complex<double>* c, int ldc) {
  scipy_cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}

// As many tasks as choose_grid() wants, in the shape for which BLAS packs least: every task packs its rows of a and its
// columns of b for itself.
Grid cut(const Problem& p) {
  const int64_t work = p.m * p.n * p.k * (is_complex(p.dtype) ? 4 : 1);
  Grid best = choose_grid(p.m, p.n, work, kLeastSide, kLeastSide, kTileRows);
  best.col_blocks = std::max(best.col_blocks, ceil_div(p.n, kTileColumns));
  auto packed = [&](const Grid& g) { return g.col_blocks * p.m + g.row_blocks * p.n; };
  const int64_t tasks = best.tasks();
  for (int64_t rows = best.row_blocks / 2; rows >= ceil_div(p.m, kTileRows) && tasks % rows == 0; rows /= 2) {
    const Grid other{rows, tasks / rows};
    if (p.n / other.col_blocks >= kLeastSide && packed(other) < packed(best)) best = other;
  }
  return best;
}

template <class T>
void multiply_on_tiles(const Problem& p, const Operand<T>& a, const Operand<T>& b, T alpha, T beta, T* c, int64_t ldc,
                       bool tells) {
  const Grid grid = cut(p);
  RowTracker rows(p, tells, grid.row_blocks, grid.col_blocks);
  parallel_for(grid.tasks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row_block = t / grid.col_blocks, col_block = t % grid.col_blocks;
      const int64_t row = row_block * p.m / grid.row_blocks, row_end = (row_block + 1) * p.m / grid.row_blocks;
      const int64_t col = col_block * p.n / grid.col_blocks, col_end = (col_block + 1) * p.n / grid.col_blocks;
      for (int64_t k = 0; k < p.k; k += kMostDepth) {
        call(a.op(), b.op(), static_cast<int>(row_end - row), static_cast<int>(col_end - col),
             static_cast<int>(std::min(kMostDepth, p.k - k)), alpha, a.at(row, k), static_cast<int>(a.ld), b.at(k, col),
             static_cast<int>(b.ld), k == 0 ? beta : T(1), c + row * ldc + col, static_cast<int>(ldc));
      }
      rows.part_done(row_block, row, row_end);
    }
  });
  rows.all_done(0, p.m);
}

template <class T>
void write_out(const Problem& p, const T* acc, T alpha, T beta) {
  T* c = static_cast<T*>(p.c.data);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      T& out = c[i * p.c.row_stride + j * p.c.col_stride];
      const T value = alpha * acc[i * p.n + j];
      out = beta == T(0) ? value : value + beta * out;
    }
  }
}

template <class T>
bool multiply(const Problem& p) {
  Operand<T> a, b;
  if (!prepare(p.a, p.m, p.k, p.conj_a, Purpose::packed_a, a) ||
      !prepare(p.b, p.k, p.n, p.conj_b, Purpose::packed_b, b)) {
    return false;
  }
  const T alpha = p.alpha.to<T>(), beta = p.beta.to<T>();
  if ((p.c.col_stride == 1 || p.n == 1) && (p.m == 1 || is_leading_dimension(p.c.row_stride, p.n))) {
    p.takes_on_telling();
    multiply_on_tiles(p, a, b, alpha, beta, static_cast<T*>(p.c.data), p.m == 1 ? p.n : p.c.row_stride, true);
    return true;
  }
  T* acc = static_cast<T*>(work_buffer(Purpose::accumulator, p.m * p.n * static_cast<int64_t>(sizeof(T))));
  if (!acc) return false;
  multiply_on_tiles(p, a, b, T(1), T(0), acc, p.n, false);
  write_out(p, acc, alpha, beta);
  return true;
}

}  // namespace

bool multiply_blas(const Problem& p) {
  static std::once_flag once;
  std::call_once(once, [] { scipy_openblas_set_num_threads(1); });
  const Problem q = p.c.row_stride == 1 && p.c.col_stride != 1 ? transposed(p) : p;
  switch (p.dtype) {
    case DType::Float32:
      return multiply<float>(q);
    case DType::Float64:
      return multiply<double>(q);
    case DType::Complex64:
      return multiply<Complex<float>>(q);
    default:
      return multiply<Complex<double>>(q);
  }
}

}  // namespace tocha::cpu
