// Cholesky factors and what is computed from them: kernels of tocha/operators/factorizations.py and solvers.py.
#include "cpu/lapack/batch.h"
#include "cpu/lapack/blocked.h"
#include "kernels/factorizations.h"
#include "kernels/solvers.h"

namespace tocha::native {

using namespace lapack;

namespace {

// Keeps one triangle of a square matrix.
template <class T>
void clear_other_triangle(T* a, int64_t n, bool upper) {
  for (int64_t j = 0; j < n; ++j) {
    if (upper)
      std::fill(a + j * n + j + 1, a + (j + 1) * n, T(0));
    else
      std::fill(a + j * n, a + j * n + j, T(0));
  }
}

// The routine takes a NaN for a positive pivot.
template <class T>
int first_nan_pivot(const T* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    if (std::isnan(real_part(a[j * n + j]))) return static_cast<int>(j + 1);
  return 0;
}

template <class T>
void mirror_triangle(T* a, int64_t n, bool upper) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < j; ++i) {
      T &above = a[j * n + i], &below = a[i * n + j];
      if (upper)
        below = conjugate(above);
      else
        above = conjugate(below);
    }
  }
}

}  // namespace

void cholesky_factor(const Tensor& factor, const Tensor& info, const Tensor& self, bool upper) {
  const Shape s(self);
  ColumnMajorOut out(factor);
  if (factor.numel()) backend(self.device().type).copy(out.tensor(), self);
  int32_t* infos = info.data<int32_t>();
  with_type(self.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data<T>();
    const int n = s.rows;
    if (!upper && shares_threads(s.batch, n)) {
      one_by_one(s.batch, [&](int64_t i) {
        T* a = data + i * s.step();
        infos[i] = blocked_potrf<T>(self.dtype(), n, a, n);
        if (infos[i] == 0) infos[i] = first_nan_pivot(a, n);
        clear_other_triangle(a, n, false);
      });
      return;
    }
    for_batch(s.batch, std::pow(n, 3) / 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* a = data + i * s.step();
        infos[i] = n ? potrf<T>(upper ? 'U' : 'L', n, a, s.ld()) : 0;
        if (infos[i] == 0) infos[i] = first_nan_pivot(a, n);
        clear_other_triangle(a, n, upper);
      }
    });
  });
  out.finish();
}

void cholesky_inverse(const Tensor& inverse, const Tensor& info, const Tensor& self, bool upper) {
  const Shape s(self);
  ColumnMajorOut out(inverse);
  if (inverse.numel()) backend(self.device().type).copy(out.tensor(), self);
  int32_t* infos = info.data<int32_t>();
  with_type(self.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data<T>();
    for_batch(s.batch, std::pow(s.rows, 3), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* a = data + i * s.step();
        infos[i] = s.rows ? potri<T>(upper ? 'U' : 'L', s.rows, a, s.ld()) : 0;
        mirror_triangle(a, s.rows, upper);
      }
    });
  });
  out.finish();
}

void cholesky_solve(const Tensor& solution, const Tensor& self, const Tensor& factor, bool upper) {
  const Shape s(solution), f(factor);
  ColumnMajorOut out(solution);
  Tensor L = column_major(factor);
  if (solution.numel()) backend(self.device().type).copy(out.tensor(), expanded(self, solution.sizes()));
  const std::vector<int64_t> places = batch_map(batch_of(factor), batch_of(solution));
  with_type(self.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data<T>();
    T* factors = L.data<T>();
    if (s.step() == 0) return;
    auto triangle_of = [&](int64_t i, bool adjoint) {
      return Triangle<T>{self.dtype(),
                         upper ? CblasUpper : CblasLower,
                         adjoint ? CblasConjTrans : CblasNoTrans,
                         CblasNonUnit,
                         factors + places[static_cast<size_t>(i)] * f.step(),
                         f.ld()};
    };
    if (shares_threads(s.batch, std::min(s.rows, 8 * s.cols))) {
      one_by_one(s.batch, [&](int64_t i) {
        for (bool adjoint : {upper, !upper})
          blocked_trsm(triangle_of(i, adjoint), 0, s.rows, s.cols, in_columns(data + i * s.step(), s.ld()));
      });
      return;
    }
    for_columns(s.batch, s.cols, std::pow(s.rows, 2), [&](int64_t i, int first, int count) {
      const Sides<T> x = in_columns(data + i * s.step(), s.ld()).from(0, first);
      for (bool adjoint : {upper, !upper}) solve_rows(triangle_of(i, adjoint), 0, s.rows, count, x);
    });
  });
  out.finish();
}

}  // namespace tocha::native
