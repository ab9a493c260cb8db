// LU factors, and the systems, inverses and determinants that come from them: kernels of
// tocha/operators/factorizations.py and solvers.py.
#include "cpu/lapack/batch.h"
#include "cpu/lapack/blocked.h"
#include "kernels/factorizations.h"
#include "kernels/solvers.h"

namespace tocha::native {

using namespace lapack;

namespace {

// f(i) for every matrix of this order: on all threads one after the other, or many at a time.
template <class F>
void for_matrices(int64_t batch, int order, double work, F&& f) {
  if (shares_threads(batch, order)) return one_by_one(batch, f);
  for_batch(batch, work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// A row-major copy of A to factor, whose rows lie apart.
Tensor spaced_copy(const Tensor& A) {
  const Shape s(A);
  int64_t ld = s.cols;
  with_type(A.dtype(), [&](auto type) { ld = spaced<decltype(type)>(s.cols); });
  const Tensor memory = empty(Ints{s.batch, s.rows, ld}, A.dtype(), A.device());
  Ints strides(A.sizes());
  int64_t step = s.rows * ld;
  for (int64_t d = A.dim() - 3; d >= 0; --d) {
    strides[d] = step;
    step *= A.size(d);
  }
  strides[A.dim() - 2] = ld;
  strides[A.dim() - 1] = 1;
  const Tensor rows = view_of(memory, A.sizes(), strides, 0);
  if (A.numel()) backend(A.device().type).copy(rows, A);
  return rows;
}

// The factors of all of A: where there is more than one panel they are computed, and read, row-major.
struct AllFactors {
  Tensor tensor;
  int64_t ld, step;
  bool rows;

  template <class T>
  Factors<T> at(int64_t i) const {
    return {tensor.dtype(), tensor.data<T>() + i * step, ld, rows};
  }
};

template <class T>
void factor_all(const AllFactors& lu, const Shape& s, int32_t* pivots, int32_t* infos) {
  for_matrices(s.batch, s.least(), std::pow(s.least(), 2) * std::max(s.rows, s.cols) / 3, [&](int64_t i) {
    T* m = lu.tensor.data<T>() + i * lu.step;
    int32_t* swaps = pivots + i * s.least();
    infos[i] = lu.rows ? blocked_getrf<T>(lu.tensor.dtype(), s.rows, s.cols, m, lu.ld, swaps)
                       : factor_panel<T>(s.rows, s.cols, m, lu.ld, swaps);
  });
}

// x = inverse(op(a)) @ x, where a of place[i] serves the i-th right-hand side.
template <class T>
void solve_all(char op, const Shape& a, const AllFactors& lu, const int32_t* pivots, const std::vector<int64_t>& places,
               const Shape& x, T* data) {
  if (x.step() == 0) return;
  for_matrices(x.batch, std::min(x.rows, 8 * x.cols), std::pow(x.rows, 2) * x.cols, [&](int64_t i) {
    const int64_t k = places[static_cast<size_t>(i)];
    blocked_getrs<T>(op, x.rows, x.cols, lu.at<T>(k), pivots + k * a.rows, data + i * x.step(), x.ld());
  });
}

bool has_odd_swaps(const int32_t* pivots, int64_t n) {
  bool odd = false;
  for (int64_t i = 0; i < n; ++i) odd ^= pivots[i] != i + 1;
  return odd;
}

template <class T>
Real<T> magnitude(T x) {
  if constexpr (is_complex_type<T>)
    return std::hypot(x.re, x.im);
  else
    return std::abs(x);
}

// x / |x|, and 0 for 0.
template <class T>
T unit(T x) {
  if constexpr (is_complex_type<T>) {
    const Real<T> size = magnitude(x);
    return size == 0 ? T(0) : T(x.re / size, x.im / size);
  } else {
    return T((x > 0) - (x < 0));
  }
}

// f(i, factors, sign of the permutation) for every square matrix.
template <class T, class F>
void over_diagonals(const Shape& s, const T* lu, const int32_t* pivots, F&& f) {
  for (int64_t i = 0; i < s.batch; ++i)
    f(i, lu + i * s.step(), has_odd_swaps(pivots + i * s.rows, s.rows) ? T(-1) : T(1));
}

// A's factors into lu, which is column-major; returned as they are best read.
AllFactors factor_into(const Tensor& lu, const Tensor& pivots, int32_t* infos, const Tensor& A) {
  const Shape s(A);
  AllFactors factors{lu, s.ld(), s.step(), false};
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    const Backend& device = backend(A.device().type);
    if (s.cols > kPanelWidth<T> || s.cols > s.rows) {
      const Tensor rows = spaced_copy(A);
      factors = {rows, rows.stride(A.dim() - 2), s.rows * rows.stride(A.dim() - 2), true};
    } else if (A.numel()) {
      device.copy(lu, A);
    }
    factor_all<T>(factors, s, pivots.data<int32_t>(), infos);
    if (factors.rows && A.numel()) device.copy(lu, factors.tensor);
  });
  return factors;
}

}  // namespace

void lu_factor(const Tensor& LU, const Tensor& pivots, const Tensor& info, const Tensor& A) {
  ColumnMajorOut lu(LU);
  factor_into(lu.tensor(), pivots, info.data<int32_t>(), A);
  lu.finish();
}

// X from A @ X = B (left) or X @ A = B; the second is A.mT @ X.mT = B.mT.
void solve(const Tensor& result, const Tensor& LU, const Tensor& pivots, const Tensor& info, const Tensor& A,
           const Tensor& B, bool left, bool vectors) {
  ColumnMajorOut lu(LU);
  const AllFactors factors = factor_into(lu.tensor(), pivots, info.data<int32_t>(), A);
  Tensor b = B, x = result;
  if (vectors) {
    auto as_columns = [](const Tensor& t) {
      Ints sizes(t.sizes()), strides(t.strides());
      sizes.push_back(1);
      strides.push_back(1);
      return view_of(t, sizes, strides, t.offset());
    };
    b = as_columns(b);
    x = as_columns(x);
  }
  if (!left) {
    b = transposed(b);
    x = transposed(x);
  }
  ColumnMajorOut out(x);
  if (x.numel()) backend(x.device().type).copy(out.tensor(), expanded(b, x.sizes()));
  const std::vector<int64_t> places = batch_map(batch_of(A), batch_of(x));
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    solve_all<T>(left ? 'N' : 'T', Shape(A), factors, pivots.data<int32_t>(), places, Shape(x), out.data<T>());
  });
  out.finish();
  lu.finish();
}

void inverse_of(const Tensor& inverse, const Tensor& info, const Tensor& A) {
  const Shape s(A);
  const int n = s.rows;
  ColumnMajorOut out(inverse);
  int32_t* infos = info.data<int32_t>();
  std::fill(infos, infos + s.batch, 0);
  if (n == 0) return;
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor lu = spaced_copy(A);
    const int64_t ld = lu.stride(A.dim() - 2);
    auto pivots = workspace<int32_t>(s.batch * n);
    for_matrices(s.batch, n, std::pow(n, 3), [&](int64_t i) {
      T* a = lu.data<T>() + i * n * ld;
      int32_t* swaps = pivots.get() + i * n;
      infos[i] = blocked_getrf<T>(A.dtype(), n, n, a, ld, swaps);
      blocked_inverse<T>(A.dtype(), n, a, ld, swaps, out.data<T>() + i * s.step());
    });
  });
  out.finish();
}

void lu_solve_with(const Tensor& result, const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left,
                   bool adjoint) {
  const Tensor lu = column_major(LU);
  const Tensor swaps = readable(pivots);
  const Tensor x = left ? result : transposed(result);
  Tensor b = left ? B : transposed(B);
  // X @ A = B is A^T @ X^T = B^T; X @ A^H = B is A @ conj(X^T) = conj(B^T).
  const bool conjugated = !left && adjoint && is_complex(B.dtype());
  ColumnMajorOut out(x);
  if (x.numel()) backend(x.device().type).copy(out.tensor(), expanded(b, x.sizes()));
  const std::vector<int64_t> places = batch_map(batch_of(LU), batch_of(x));
  const Shape a(LU), s(x);
  const int32_t* p = swaps.data<int32_t>();
  for (int64_t i = 0; i < swaps.numel(); ++i) {
    TOCHA_CHECK(p[i] >= 1 && p[i] <= a.rows, Runtime,
                "[linalg.lu_solve] pivots must be between 1 and the number of rows, but one is ", p[i],
                ". Did you properly pass the result of lu_factor?");
  }
  with_type(B.dtype(), [&](auto type) {
    using T = decltype(type);
    T* data = out.data<T>();
    auto conjugate_all = [&] {
      for (int64_t i = 0; conjugated && i < x.numel(); ++i) data[i] = conjugate(data[i]);
    };
    const char op = left ? (adjoint ? 'C' : 'N') : (adjoint ? 'N' : 'T');
    conjugate_all();
    solve_all<T>(op, a, AllFactors{lu, a.ld(), a.step(), false}, p, places, s, data);
    conjugate_all();
  });
  out.finish();
}

void solve_factored(const Tensor& result, const Tensor&, const Tensor& LU, const Tensor& pivots, const Tensor& B,
                    bool left, bool adjoint) {
  lu_solve_with(result, LU, pivots, B, left, adjoint);
}

void lu_unpack_factors(const Tensor& P, const Tensor& L, const Tensor& U, const Tensor& LU_data,
                       const Tensor& LU_pivots, bool unpack_data, bool unpack_pivots) {
  const Shape s(LU_data);
  const int m = s.rows, n = s.cols, k = s.least();
  if (unpack_data && s.step()) {
    const Tensor lu = column_major(LU_data);
    with_type(LU_data.dtype(), [&](auto type) {
      using T = decltype(type);
      const T* data = lu.data<T>();
      T *lower = L.data<T>(), *upper = U.data<T>();
      for (int64_t b = 0; b < s.batch; ++b, data += s.step()) {
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < k; ++j) *lower++ = i > j ? data[j * m + i] : T(i == j ? 1 : 0);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < n; ++j) *upper++ = i <= j ? data[j * m + i] : T(0);
      }
    });
  }
  if (!unpack_pivots || P.numel() == 0) return;
  const Tensor pivots = readable(LU_pivots);
  with_type(LU_data.dtype(), [&](auto type) {
    using T = decltype(type);
    std::vector<int64_t> rows(static_cast<size_t>(m));
    const int32_t* p = pivots.data<int32_t>();
    T* out = P.data<T>();
    std::fill(out, out + P.numel(), T(0));
    for (int64_t b = 0; b < s.batch; ++b, p += k, out += static_cast<int64_t>(m) * m) {
      for (int64_t i = 0; i < m; ++i) rows[static_cast<size_t>(i)] = i;
      for (int64_t i = 0; i < k; ++i) {
        TOCHA_CHECK(p[i] >= 1 && p[i] <= m, Runtime,
                    "[lu_unpack] pivots must be between 1 and LU.size(-2) inclusive, but one is ", p[i],
                    ". Did you properly pass the result of lu_factor?");
        std::swap(rows[static_cast<size_t>(i)], rows[static_cast<size_t>(p[i] - 1)]);
      }
      for (int64_t i = 0; i < m; ++i) out[rows[static_cast<size_t>(i)] * m + i] = T(1);
    }
  });
}

void determinant(const Tensor& result, const Tensor& LU, const Tensor& pivots, const Tensor& A) {
  ColumnMajorOut lu(LU);
  const Shape s(A);
  auto infos = workspace<int32_t>(s.batch);
  factor_into(lu.tensor(), pivots, infos.get(), A);
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    over_diagonals<T>(s, lu.data<T>(), pivots.data<int32_t>(), [&](int64_t i, const T* a, T sign) {
      for (int64_t j = 0; j < s.rows; ++j) sign = sign * a[j * s.rows + j];
      result.data<T>()[i] = sign;
    });
  });
  lu.finish();
}

void sign_and_log_determinant(const Tensor& sign, const Tensor& logabsdet, const Tensor& LU, const Tensor& pivots,
                              const Tensor& A) {
  ColumnMajorOut lu(LU);
  const Shape s(A);
  auto infos = workspace<int32_t>(s.batch);
  factor_into(lu.tensor(), pivots, infos.get(), A);
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    over_diagonals<T>(s, lu.data<T>(), pivots.data<int32_t>(), [&](int64_t i, const T* a, T unit_product) {
      Real<T> log_size = 0;
      for (int64_t j = 0; j < s.rows; ++j) {
        unit_product = unit_product * unit(a[j * s.rows + j]);
        log_size += std::log(magnitude(a[j * s.rows + j]));
      }
      sign.data<T>()[i] = unit_product;
      logabsdet.data<Real<T>>()[i] = log_size;
    });
  });
  lu.finish();
}

}  // namespace tocha::native
