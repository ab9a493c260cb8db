// Factorizations by halves: narrow panels and small triangles have kernels of their own (of complex matrices LAPACK
// does them), and our own matrix multiplication, on all threads, does the rest. Used by lu.cpp,
// cholesky.cpp and triangular.cpp.
#pragma once

#include "cpu/engine/casts.h"
#include "cpu/gemm/gemm.h"
#include "cpu/lapack/batch.h"
#include "cpu/lapack/factor_kernels.h"

namespace tocha::lapack {

constexpr int kPanel = 96;          // columns of a Cholesky factor that LAPACK computes at a time
constexpr int kWorthThreads = 256;  // order from which matrices are worth all threads

// Whether matrices of this order, so many of them, are better factored one after the other on all threads.
inline bool shares_threads(int64_t batch, int order) {
  return order >= kWorthThreads && (batch == 1 || batch < num_threads()) && !in_parallel_region();
}

// f(first, count) over the columns (or rows) of one matrix, on all threads.
template <class F>
void for_stripes(int64_t n, double work_per_column, F&& f) {
  const int64_t least = std::max<int64_t>(8, static_cast<int64_t>(1e5 / std::max(work_per_column, 1.0)));
  const int64_t stripe = std::max(least, (n + num_threads() - 1) / num_threads());
  share_out((n + stripe - 1) / stripe, 1, [&](int64_t begin, int64_t end) {
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

template <class T>
const cpu::FactorKernels<T>& leaves() {
  if constexpr (std::is_same_v<T, float>)
    return cpu::factor_kernels().f32;
  else
    return cpu::factor_kernels().f64;
}

// Right-hand sides: their rows or their columns lie side by side.
template <class T>
struct Sides {
  T* data;
  int64_t row, column;  // element strides, one of them 1

  Sides from(int64_t i, int64_t j) const { return {data + i * row + j * column, row, column}; }
  cpu::MatrixRef matrix() const { return {data, row, column}; }
};
template <class T>
Sides<T> in_columns(T* data, int64_t ld) {
  return {data, 1, ld};
}
template <class T>
Sides<T> in_rows(T* data, int64_t ld) {
  return {data, ld, 1};
}

template <class T>
void solve_leaf(const Triangle<T>& a, int k, int n, int columns, Sides<T> x) {
  const T* data = a.data + k * a.ld + k;
  x = x.from(k, 0);
  if constexpr (!is_complex_type<T>) {
    const int64_t row = a.turned() ? a.ld : 1, column = a.turned() ? 1 : a.ld;
    leaves<T>().solve_triangle(
        {n, columns, data, row, column, a.forward(), a.diagonal == CblasUnit, x.data, x.row, x.column});
  } else if (x.row == 1) {
    trsm<T>(CblasLeft, a.part, a.op, a.diagonal, n, columns, data, static_cast<int>(a.ld), x.data,
            static_cast<int>(x.column));
  } else {  // the transposed system, which a conjugate triangle has none of
    trsm<T>(CblasRight, a.part, a.turned() ? CblasNoTrans : CblasTrans, a.diagonal, columns, n, data,
            static_cast<int>(a.ld), x.data, static_cast<int>(x.row));
  }
}

// x = inverse(op(a)) @ x for the rows [k, k + n): one half, an update of the other by a product, the other half.
template <class T>
void solve_rows(const Triangle<T>& a, int k, int n, int columns, Sides<T> x) {
  constexpr int leaf = cpu::kLeafOrder;
  if (n <= leaf) return solve_leaf(a, k, n, columns, x);
  const int half = (n / 2 + leaf - 1) / leaf * leaf;
  const int first = a.forward() ? k : k + half, second = a.forward() ? k + half : k;
  const int first_size = a.forward() ? half : n - half, second_size = n - first_size;
  solve_rows(a, first, first_size, columns, x);
  cpu::gemm(a.dtype, second_size, columns, first_size, -1, a.block(second, first), x.from(first, 0).matrix(), 1,
            x.from(second, 0).matrix(), a.op == CblasConjTrans && is_complex_type<T>, false);
  solve_rows(a, second, second_size, columns, x);
}

// The same, where each thread takes some of the columns through the whole triangle.
template <class T>
void blocked_trsm(const Triangle<T>& a, int k, int n, int columns, Sides<T> x) {
  for_stripes(columns, static_cast<double>(n) * n,
              [&](int first, int count) { solve_rows(a, k, n, count, x.from(0, first)); });
}

// Exchanges rows of some columns of a row-major matrix as a panel's pivots say, which count from 1.
template <class T>
void swap_rows(T* a, int64_t ld, int columns, const int32_t* pivots, int count) {
  for_stripes(columns, 0.5 * count, [&](int first, int some) {
    if constexpr (!is_complex_type<T>) {
      leaves<T>().exchange_rows(a + first, ld, some, pivots, count);
    } else {
      for (int i = 0; i < count; ++i) {
        T* row = a + i * ld + first;
        if (pivots[i] != i + 1) std::swap_ranges(row, row + some, a + (pivots[i] - 1) * ld + first);
      }
    }
  });
}

// The width of a panel that is factored as a whole.
template <class T>
constexpr int kPanelWidth = is_complex_type<T> ? 48 : cpu::kLeafOrder;

// A panel whose columns lie side by side.
template <class T>
int factor_panel(int m, int n, T* a, int64_t ld, int32_t* pivots) {
  if constexpr (is_complex_type<T>)
    return getrf<T>(m, n, a, static_cast<int>(ld), pivots);
  else
    return leaves<T>().factor_panel(m, n, a, ld, pivots);
}

// Columns (or rows) so far apart that they do not all fall into the same sets of the first cache.
template <class T>
int64_t spaced(int64_t n) {
  return n * static_cast<int64_t>(sizeof(T)) % 512 == 0 && n >= 64 ? n + 64 / static_cast<int64_t>(sizeof(T)) : n;
}

// A row-major matrix with at least as many rows as columns: the left half, an update of the right half, the right half.
// Rows are exchanged in runs of them; panels, which are searched by columns, are factored apart, in `panel`.
template <class T>
int factor_columns(DType dtype, int m, int n, T* a, int64_t ld, int32_t* pivots, T* panel) {
  constexpr int width = kPanelWidth<T>;
  constexpr int64_t size = sizeof(T);
  if (n <= width) {
    const int64_t apart = spaced<T>(m);
    auto move = cpu::cast_table().transpose;
    move(size, reinterpret_cast<char*>(panel), apart * size, reinterpret_cast<const char*>(a), ld * size, m, n);
    const int info = factor_panel(m, n, panel, apart, pivots);
    move(size, reinterpret_cast<char*>(a), ld * size, reinterpret_cast<const char*>(panel), apart * size, n, m);
    return info;
  }
  const int left = (n / 2 + width - 1) / width * width, right = n - left;
  T *beside = a + left, *under = a + left * ld, *below = under + left;
  int info = factor_columns<T>(dtype, m, left, a, ld, pivots, panel);
  swap_rows(beside, ld, right, pivots, left);
  blocked_trsm(Triangle<T>{dtype, CblasUpper, CblasTrans, CblasUnit, a, ld}, 0, left, right, in_rows(beside, ld));
  cpu::gemm(dtype, m - left, right, left, -1, {under, ld, 1}, {beside, ld, 1}, 1, {below, ld, 1});
  const int failed = factor_columns<T>(dtype, m - left, right, below, ld, pivots + left, panel);
  if (failed && info == 0) info = failed + left;
  swap_rows(under, ld, left, pivots + left, right);
  for (int i = left; i < n; ++i) pivots[i] += left;
  return info;
}

// a = P L U in place, as getrf, of a row-major matrix.
template <class T>
int blocked_getrf(DType dtype, int m, int n, T* a, int64_t ld, int32_t* pivots) {
  const int least = std::min(m, n);
  if (least == 0) return 0;
  auto panel = workspace<T>(spaced<T>(m) * std::min(least, kPanelWidth<T>));
  const int info = factor_columns<T>(dtype, m, least, a, ld, pivots, panel.get());
  if (n > m) {
    swap_rows(a + m, ld, n - m, pivots, m);
    blocked_trsm(Triangle<T>{dtype, CblasUpper, CblasTrans, CblasUnit, a, ld}, 0, m, n - m, in_rows(a + m, ld));
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

// LU factors as systems read them: of a column-major matrix, or of a row-major one, which is the transpose of that.
template <class T>
struct Factors {
  DType dtype;
  const T* data;
  int64_t ld;
  bool rows;

  // The triangles of op(a); a conjugate only of column-major factors.
  Triangle<T> lower(char op) const { return {dtype, rows ? CblasUpper : CblasLower, turn(op), CblasUnit, data, ld}; }
  Triangle<T> upper(char op) const { return {dtype, rows ? CblasLower : CblasUpper, turn(op), CblasNonUnit, data, ld}; }

 private:
  CBLAS_TRANSPOSE turn(char op) const {
    if (op == 'C') return CblasConjTrans;
    return (op == 'T') != rows ? CblasTrans : CblasNoTrans;
  }
};

// x = inverse(op(a)) @ x from a's LU factors, as getrs; the columns of x lie side by side.
template <class T>
void blocked_getrs(char op, int n, int columns, const Factors<T>& lu, const int32_t* pivots, T* x, int64_t ldx) {
  const Triangle<T> lower = lu.lower(op), upper = lu.upper(op);
  for_stripes(columns, 2.0 * n * n, [&](int first, int count) {
    T* part = x + first * ldx;
    for (int64_t c = 0; op == 'N' && c < count; ++c)
      for (int i = 0; i < n; ++i) std::swap(part[c * ldx + i], part[c * ldx + pivots[i] - 1]);
    solve_rows(op == 'N' ? lower : upper, 0, n, count, in_columns(part, ldx));
    solve_rows(op == 'N' ? upper : lower, 0, n, count, in_columns(part, ldx));
    for (int64_t c = 0; op != 'N' && c < count; ++c)
      for (int i = n - 1; i >= 0; --i) std::swap(part[c * ldx + i], part[c * ldx + pivots[i] - 1]);
  });
}

// out = the inverse of a (n x n, columns side by side) from its row-major LU factors. L's inverse has zeros above its
// diagonal, which are not computed; the columns of U^-1 L^-1 are put where the pivots want them.
template <class T>
void blocked_inverse(DType dtype, int n, const T* lu, int64_t ld, const int32_t* pivots, T* out) {
  const Factors<T> factors{dtype, lu, ld, true};
  const Triangle<T> lower = factors.lower('N'), upper = factors.upper('N');
  std::vector<int64_t> place(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) place[static_cast<size_t>(i)] = i;
  for (int i = 0; i < n; ++i) std::swap(place[static_cast<size_t>(i)], place[static_cast<size_t>(pivots[i] - 1)]);
  const int64_t threads = in_parallel_region() ? 1 : num_threads();
  const int width = static_cast<int>(std::clamp<int64_t>(n / (4 * threads), 64, 256));
  const int stripes = (n + width - 1) / width;
  share_out(stripes, 1, [&](int64_t begin, int64_t end) {
    const int64_t ldx = spaced<T>(n);
    auto x = workspace<T>(ldx * width);
    for (int64_t i = begin; i < end; ++i) {
      // Early columns are more work than late ones: threads get some of both.
      const int first = static_cast<int>(i % 2 ? stripes - 1 - i / 2 : i / 2) * width,
                count = std::min(width, n - first);
      std::fill(x.get(), x.get() + ldx * count, T(0));
      for (int c = 0; c < count; ++c) x[c * ldx + first + c] = T(1);
      solve_rows(lower, first, n - first, count, in_columns(x.get(), ldx));
      solve_rows(upper, 0, n, count, in_columns(x.get(), ldx));
      for (int c = 0; c < count; ++c)
        std::copy_n(x.get() + c * ldx, n, out + place[static_cast<size_t>(first + c)] * n);
    }
  });
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
