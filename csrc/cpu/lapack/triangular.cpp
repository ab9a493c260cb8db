// Triangular and symmetric indefinite systems: kernels of tocha/operators/factorizations.py and solvers.py.
#include "cpu/lapack/batch.h"
#include "cpu/lapack/blocked.h"
#include "kernels/factorizations.h"
#include "kernels/solvers.h"

namespace tocha::native {

using namespace lapack;

void copy_column_major(const Tensor& out, const Tensor& self) {
  if (out.numel()) backend(out.device().type).copy(out, self);
}

// X from A @ X = B (left) or X @ A = B, with one triangle of A.
void triangular_solution(const Tensor& solution, const Tensor& self, const Tensor& B, bool upper, bool left,
                         bool unitriangular) {
  // A row-major matrix is the transpose of what BLAS sees.
  const bool row_major = self.is_contiguous() && !self.is_conj() && !self.is_neg();
  const Tensor A = row_major ? self : column_major(self);
  ColumnMajorOut out(solution);
  const Shape s(solution), a(self);
  if (solution.numel() == 0) return;
  backend(B.device().type).copy(out.tensor(), expanded(B, solution.sizes()));
  const std::vector<int64_t> places = batch_map(batch_of(self), batch_of(solution));
  with_type(B.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* triangles = A.data<T>();
    T* data = out.data<T>();
    const CBLAS_UPLO part = upper != row_major ? CblasUpper : CblasLower;
    const CBLAS_TRANSPOSE turn = row_major ? CblasTrans : CblasNoTrans;
    const CBLAS_DIAG diagonal = unitriangular ? CblasUnit : CblasNonUnit;
    auto triangle_of = [&](int64_t i) {
      return Triangle<T>{B.dtype(), part, turn, diagonal, triangles + places[static_cast<size_t>(i)] * a.step(),
                         a.ld()};
    };
    if (left && shares_threads(s.batch, std::min(s.rows, 8 * s.cols))) {
      one_by_one(s.batch, [&](int64_t i) {
        const Triangle<T> triangle = triangle_of(i);
        blocked_trsm(triangle, 0, s.rows, s.cols, in_columns(data + i * s.step(), s.ld()));
      });
      return;
    }
    // Right-hand sides are columns (left) or rows of B, each solved by itself.
    for_columns(
        s.batch, left ? s.cols : s.rows, static_cast<double>(a.step()) / 2, [&](int64_t i, int first, int count) {
          const Triangle<T> triangle = triangle_of(i);
          const Sides<T> x = in_columns(data + i * s.step(), s.ld());
          if (left)
            solve_rows(triangle, 0, s.rows, count, x.from(0, first));
          else
            trsm<T>(CblasRight, part, turn, diagonal, count, s.cols, triangle.data, a.ld(), x.data + first, s.ld());
        });
  });
  out.finish();
}

// L D L^T (or L D L^H) of the lower triangle, by Bunch and Kaufman's pivoting.
void ldl_factor(const Tensor& LD, const Tensor& pivots, const Tensor& info, const Tensor& self, bool hermitian) {
  const Shape s(self);
  ColumnMajorOut out(LD);
  if (self.numel()) backend(self.device().type).copy(out.tensor(), self);
  int32_t *p = pivots.data<int32_t>(), *infos = info.data<int32_t>();
  with_type(self.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data<T>();
    const int n = s.rows;
    auto factor = [&](T* a, int32_t* swaps, T* work, int size) {
      if constexpr (is_complex_type<T>) {
        if (hermitian) return hetrf<T>('L', n, a, s.ld(), swaps, work, size);
      }
      return sytrf<T>('L', n, a, s.ld(), swaps, work, size);
    };
    const int size = workspace_size<T>([&](T* work, int ask) { factor(nullptr, nullptr, work, ask); });
    for_batch(s.batch, std::pow(n, 3) / 3, [&](int64_t begin, int64_t end) {
      auto work = workspace<T>(size);
      for (int64_t i = begin; i < end; ++i) {
        T* a = data + i * s.step();
        for (int64_t j = 1; j < n; ++j) std::fill(a + j * n, a + j * n + j, T(0));
        infos[i] = n ? factor(a, p + i * n, work.get(), size) : 0;
      }
    });
  });
  out.finish();
}

void ldl_solution(const Tensor& solution, const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian) {
  const Shape s(solution), f(LD);
  const Tensor factors = column_major(LD), swaps = readable(pivots);
  ColumnMajorOut out(solution);
  if (solution.numel()) backend(B.device().type).copy(out.tensor(), expanded(B, solution.sizes()));
  const std::vector<int64_t> places = batch_map(batch_of(LD), batch_of(solution));
  with_type(B.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* ld = factors.data<T>();
    const int32_t* p = swaps.data<int32_t>();
    T* data = out.data<T>();
    for_batch(s.batch, std::pow(s.rows, 2) * s.cols, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && s.step(); ++i) {
        const int64_t k = places[static_cast<size_t>(i)];
        const T* a = ld + k * f.step();
        T* x = data + i * s.step();
        if constexpr (is_complex_type<T>) {
          if (hermitian) {
            hetrs<T>('L', s.rows, s.cols, a, f.ld(), p + k * f.rows, x, s.ld());
            continue;
          }
        }
        sytrs<T>('L', s.rows, s.cols, a, f.ld(), p + k * f.rows, x, s.ld());
      }
    });
  });
  out.finish();
}

}  // namespace tocha::native
