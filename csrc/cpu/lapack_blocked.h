// Factorizations of matrices that are too large to leave to one thread: LAPACK factors narrow panels, and our own
// matrix multiplication updates the rest on all threads. Used by lapack_lu.cpp and lapack_cholesky.cpp.
#pragma once

#include "cpu/gemm.h"
#include "cpu/lapack_batch.h"

namespace tocha::lapack {

constexpr int kPanel = 96;         // columns that LAPACK factors at a time
constexpr int kWorthPanels = 256;  // order from which that pays

// Whether matrices of this order, so many of them, are better factored one after the other on all threads.
inline bool shares_threads(int64_t batch, int order) {
  return order >= kWorthPanels && (batch == 1 || batch < num_threads()) && !in_parallel_region();
}

// f(first, count) over the columns (or rows) of one matrix, on all threads.
template <class F>
void for_stripes(int64_t n, double work_per_column, F&& f) {
  const int64_t least = std::max<int64_t>(8, static_cast<int64_t>(1e5 / std::max(work_per_column, 1.0)));
  const int64_t stripe = std::max(least, (n + num_threads() - 1) / num_threads());
  parallel_for((n + stripe - 1) / stripe, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s)
      f(static_cast<int>(s * stripe), static_cast<int>(std::min(stripe, n - s * stripe)));
  });
}

// A triangle for blocked_trsm: op(a) with its entries at i * row_stride + j * col_stride.
template <class T>
struct Triangle {
  DType dtype;
  CBLAS_UPLO part;
  CBLAS_TRANSPOSE op;
  CBLAS_DIAG diagonal;
  const T* data;
  int64_t ld;

  bool turned() const { return op != CblasNoTrans; }
  bool forward() const { return (part == CblasLower) != turned(); }
  cpu::MatrixRef block(int64_t row, int64_t col) const {
    T* at = const_cast<T*>(data + (turned() ? row * ld + col : col * ld + row));
    return turned() ? cpu::MatrixRef{at, ld, 1} : cpu::MatrixRef{at, 1, ld};
  }
};

constexpr int kTriangle = 16;  // the order that is left to BLAS, whose own triangular solver is slow

// x = inverse(op(a)) @ x for the rows [k, k + n): one half, an update of the other by a product, the other half.
template <class T>
void blocked_trsm(const Triangle<T>& a, int k, int n, int columns, T* x, int64_t ldx) {
  if (n <= kTriangle) {
    for_stripes(columns, static_cast<double>(n) * n, [&](int first, int count) {
      trsm<T>(CblasLeft, a.part, a.op, a.diagonal, n, count, a.data + k * a.ld + k, static_cast<int>(a.ld),
              x + first * ldx + k, static_cast<int>(ldx));
    });
    return;
  }
  const int half = (n / 2 + kTriangle - 1) / kTriangle * kTriangle;
  const int first = a.forward() ? k : k + half, second = a.forward() ? k + half : k;
  const int first_size = a.forward() ? half : n - half, second_size = n - first_size;
  blocked_trsm(a, first, first_size, columns, x, ldx);
  cpu::gemm(a.dtype, second_size, columns, first_size, -1, a.block(second, first), {x + first, 1, ldx}, 1,
            {x + second, 1, ldx}, a.op == CblasConjTrans && is_complex_type<T>, false);
  blocked_trsm(a, second, second_size, columns, x, ldx);
}

// a = P L U in place, as getrf.
template <class T>
int blocked_getrf(DType dtype, int m, int n, T* a, int64_t ld, int32_t* pivots) {
  int info = 0;
  const int least = std::min(m, n);
  for (int k = 0; k < least; k += kPanel) {
    const int width = std::min(kPanel, least - k), right = k + width;
    T* panel = a + k * ld + k;
    const int failed = getrf<T>(m - k, width, panel, static_cast<int>(ld), pivots + k);
    if (failed > 0 && info == 0) info = failed + k;
    for (int i = k; i < right; ++i) pivots[i] += k;
    auto swap_rows = [&](int64_t column) {
      for (int i = k; i < right; ++i) std::swap(a[column * ld + i], a[column * ld + pivots[i] - 1]);
    };
    for_stripes(k, width, [&](int first, int count) {
      for (int c = first; c < first + count; ++c) swap_rows(c);
    });
    for_stripes(n - right, width, [&](int first, int count) {
      for (int c = right + first; c < right + first + count; ++c) swap_rows(c);
    });
    if (right == n) continue;
    const Triangle<T> lower{dtype, CblasLower, CblasNoTrans, CblasUnit, panel, ld};
    blocked_trsm(lower, 0, width, n - right, a + right * ld + k, ld);
    if (right < m) {
      cpu::gemm(dtype, m - right, n - right, width, -1, {a + k * ld + right, 1, ld}, {a + right * ld + k, 1, ld}, 1,
                {a + right * ld + right, 1, ld});
    }
  }
  return info;
}

// The lower triangle of a = L L^H in place, as potrf; what is above the diagonal is left unspecified.
template <class T>
int blocked_potrf(DType dtype, int n, T* a, int64_t ld) {
  for (int k = 0; k < n; k += kPanel) {
    const int width = std::min(kPanel, n - k), below = k + width;
    const int failed = potrf<T>('L', width, a + k * ld + k, static_cast<int>(ld));
    if (failed) return failed + k;
    for_stripes(n - below, static_cast<double>(width) * width, [&](int first, int count) {
      trsm<T>(CblasRight, CblasLower, is_complex_type<T> ? CblasConjTrans : CblasTrans, CblasNonUnit, count, width,
              a + k * ld + k, static_cast<int>(ld), a + k * ld + below + first, static_cast<int>(ld));
    });
    for (int j = below; j < n; j += kPanel) {
      const int columns = std::min(kPanel, n - j);
      cpu::gemm(dtype, n - j, columns, width, -1, {a + k * ld + j, 1, ld}, {a + k * ld + j, ld, 1}, 1,
                {a + j * ld + j, 1, ld}, false, is_complex_type<T>);
    }
  }
  return 0;
}

// x = inverse(op(a)) @ x from a's LU factors, as getrs.
template <class T>
void blocked_getrs(DType dtype, char op, int n, int columns, const T* lu, int64_t ld, const int32_t* pivots, T* x,
                   int64_t ldx) {
  auto swap_rows = [&](bool backward) {
    for_stripes(columns, n, [&](int first, int count) {
      for (int64_t c = first; c < first + count; ++c) {
        T* column = x + c * ldx;
        for (int i = 0; i < n; ++i) {
          const int r = backward ? n - 1 - i : i;
          std::swap(column[r], column[pivots[r] - 1]);
        }
      }
    });
  };
  const CBLAS_TRANSPOSE turn = op == 'N' ? CblasNoTrans : op == 'T' ? CblasTrans : CblasConjTrans;
  const Triangle<T> lower{dtype, CblasLower, turn, CblasUnit, lu, ld};
  const Triangle<T> upper{dtype, CblasUpper, turn, CblasNonUnit, lu, ld};
  if (op == 'N') {
    swap_rows(false);
    blocked_trsm(lower, 0, n, columns, x, ldx);
    blocked_trsm(upper, 0, n, columns, x, ldx);
  } else {
    blocked_trsm(upper, 0, n, columns, x, ldx);
    blocked_trsm(lower, 0, n, columns, x, ldx);
    swap_rows(true);
  }
}

// Applies a panel's reflections (or their adjoint) to the columns of c, on all threads.
template <class T>
void reflect_columns(bool adjoint, int rows, int columns, int width, const T* panel, int64_t ld, const T* factor, T* c,
                     int64_t ldc) {
  const char op = !adjoint ? 'N' : is_complex_type<T> ? 'C' : 'T';
  for_stripes(columns, 4.0 * rows * width, [&](int first, int count) {
    auto work = workspace<T>(static_cast<int64_t>(count) * width);
    larfb<T>('L', op, 'F', 'C', rows, count, width, panel, static_cast<int>(ld), factor, width, c + first * ldc,
             static_cast<int>(ldc), work.get(), count);
  });
}

constexpr int kReflections = 48;  // a panel of a QR decomposition

// The reflections of a = Q R in place and their factors, as geqrf.
template <class T>
void blocked_geqrf(int m, int n, T* a, int64_t ld, T* tau) {
  auto triangle = workspace<T>(kReflections * kReflections);
  auto work = workspace<T>(static_cast<int64_t>(kReflections) * kReflections);
  for (int k = 0; k < std::min(m, n); k += kReflections) {
    const int width = std::min(kReflections, std::min(m, n) - k), right = k + width;
    T* panel = a + k * ld + k;
    lapack::geqrf<T>(m - k, width, panel, static_cast<int>(ld), tau + k, work.get(), kReflections * kReflections);
    if (right == n) continue;
    larft<T>('F', 'C', m - k, width, static_cast<const T*>(panel), static_cast<int>(ld), static_cast<const T*>(tau + k),
             triangle.get(), width);
    reflect_columns<T>(true, m - k, n - right, width, panel, ld, triangle.get(), a + right * ld + k, ld);
  }
}

// The first columns of the product of `count` reflections into q, as orgqr but not in place.
template <class T>
void blocked_orgqr(int m, int columns, int count, const T* reflections, int64_t ld, const T* tau, T* q, int64_t ldq) {
  auto triangle = workspace<T>(kReflections * kReflections);
  set_identity(q, m, columns);
  for (int k = (count - 1) / kReflections * kReflections; k >= 0; k -= kReflections) {
    const int width = std::min(kReflections, count - k);
    const T* panel = reflections + k * ld + k;
    larft<T>('F', 'C', m - k, width, panel, static_cast<int>(ld), tau + k, triangle.get(), width);
    reflect_columns<T>(false, m - k, columns - k, width, panel, ld, triangle.get(), q + k * ldq + k, ldq);
  }
}

}  // namespace tocha::lapack
