// Eigenvalues and vectors of real symmetric tridiagonal matrices by divide and conquer, on all threads: halves are
// solved apart, and a rank-one update joins them (Cuppen; Gu and Eisenstat). LAPACK solves the leaves and finds what
// an update leaves alone; secular equations and the updates of vectors are our own. Used by spectra.cpp.
#pragma once

#include <algorithm>
#include <numeric>

#include "cpu/gemm/gemm.h"
#include "cpu/lapack/batch.h"
#include "cpu/lapack/secular_kernels.h"

extern "C" {
#define TOCHA_LAED(S, T)                                                                                              \
  void scipy_##S##laed2_(int* k, const int* n, const int* n1, T* d, T* q, const int* ldq, int* sorting, T* rho, T* z, \
                         T* poles, T* w, T* q2, int* indx, int* indxc, int* indxp, int* types, int* info);            \
  void scipy_##S##laed4_(const int* n, const int* i, const T* d, const T* z, T* delta, const T* rho, T* root,         \
                         int* info);
TOCHA_LAED(s, float)
TOCHA_LAED(d, double)
#undef TOCHA_LAED
}

namespace tocha::lapack {

constexpr int kLeaf = 24;  // larger ones are halved

// Finds which vectors of two joined halves change, and sorts out the others.
template <class T, class... Arguments>
void deflate(Arguments... a) {
  if constexpr (std::is_same_v<T, float>)
    scipy_slaed2_(a...);
  else
    scipy_dlaed2_(a...);
}

template <class T>
const cpu::SecularKernels<T>& secular() {
  if constexpr (std::is_same_v<T, float>)
    return cpu::secular_kernels().f32;
  else
    return cpu::secular_kernels().f64;
}

// The i-th root (counted from 1) of an equation with one or two poles, and its vector.
template <class T>
int small_root(int n, int i, const T* poles, const T* z, T* vector, T rho, T* root) {
  int info = 0;
  if constexpr (std::is_same_v<T, float>)
    scipy_slaed4_(&n, &i, poles, z, vector, &rho, root, &info);
  else
    scipy_dlaed4_(&n, &i, poles, z, vector, &rho, root, &info);
  return info;
}

// The matrices of one problem are columns of n: `q` holds the vectors, `spare` and `factors` are
// written over, each part of the problem at its own columns.
template <class T>
class Tridiagonal {
 public:
  // diagonal and off-diagonal are written over; values come back ascending in the diagonal, vectors in q.
  Tridiagonal(DType dtype, int n, T* d, T* e, T* q)
      : dtype_(dtype),
        n_(n),
        d_(d),
        e_(e),
        q_(q),
        spare_(workspace<T>(square())),
        factors_(workspace<T>(square())),
        order_(static_cast<size_t>(n)) {}

  // 0, or the number that LAPACK gives for a failure.
  int solve() {
    T norm = 0;
    for (int i = 0; i < n_; ++i) norm = std::max({norm, std::abs(d_[i]), i + 1 < n_ ? std::abs(e_[i]) : T(0)});
    std::fill(q_, q_ + square(), T(0));
    if (norm == 0) norm = 1;
    for (int i = 0; i < n_; ++i) d_[i] /= norm;
    for (int i = 0; i + 1 < n_; ++i) e_[i] /= norm;
    tear();
    // Threads take parts by themselves, and share what joins these.
    const int part = std::max(kLeaf, n_ / (2 * num_threads()));
    if (const int info = solve_parts(part)) return info;
    if (const int info = join(0, n_, part)) return info;
    sort(norm);
    return 0;
  }

 private:
  int64_t square() const { return static_cast<int64_t>(n_) * n_; }

  // Bounds of the pieces of at most `most` under [begin, begin + n).
  void cut(int begin, int n, int most, std::vector<int>& bounds) const {
    if (n <= most) {
      bounds.push_back(begin + n);
      return;
    }
    cut(begin, n / 2, most, bounds);
    cut(begin + n / 2, n - n / 2, most, bounds);
  }

  // Takes away what holds the leaves together.
  void tear() {
    std::vector<int> bounds{0};
    cut(0, n_, kLeaf, bounds);
    for (size_t i = 1; i + 1 < bounds.size(); ++i) {
      const int at = bounds[i];
      d_[at - 1] -= std::abs(e_[at - 1]);
      d_[at] -= std::abs(e_[at - 1]);
    }
  }

  int solve_parts(int most) {
    std::vector<int> bounds{0};
    cut(0, n_, most, bounds);
    std::atomic<int> failed{0};
    share_out(static_cast<int64_t>(bounds.size()) - 1, 1, [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
        const int begin = bounds[i], n = bounds[i + 1] - begin;
        int info = solve_leaves(begin, n);
        if (!info) info = join(begin, n, kLeaf);
        if (info) failed = info;
      }
    });
    return failed;
  }

  int solve_leaves(int begin, int n) {
    if (n > kLeaf) {
      const int info = solve_leaves(begin, n / 2);
      return info ? info : solve_leaves(begin + n / 2, n - n / 2);
    }
    const int size = 1 + 4 * n + n * n, count = 3 + 5 * n;
    auto work = workspace<T>(size);
    auto counts = workspace<int>(count);
    std::iota(order_.begin() + begin, order_.begin() + begin + n, 1);
    return stedc<T>('I', n, d_ + begin, e_ + begin, q_ + begin * int64_t{n_} + begin, n_, work.get(), size,
                    counts.get(), count);
  }

  // Joins what is in pieces of at most `joined`.
  int join(int begin, int n, int joined) {
    if (n <= joined) return 0;
    const int half = n / 2;
    if (const int info = join(begin, half, joined)) return info;
    if (const int info = join(begin + half, n - half, joined)) return info;
    return merge(begin, half, n);
  }

  // Joins the first `half` of n values and vectors with the others.
  int merge(int begin, int half, int n) {
    const int rest = n - half;
    T *q = q_ + begin * int64_t{n_} + begin, *d = d_ + begin, *old = spare_.get() + begin * int64_t{n_};
    int* order = order_.data() + begin;
    auto numbers = workspace<T>(3 * int64_t{n});
    auto indices = workspace<int>(4 * int64_t{n});
    T *z = numbers.get(), *poles = z + n, *w = poles + n;
    int *indx = indices.get(), *indxc = indx + n, *indxp = indxc + n, *types = indxp + n;
    for (int i = 0; i < half; ++i) z[i] = q[i * int64_t{n_} + half - 1];
    for (int i = half; i < n; ++i) z[i] = q[i * int64_t{n_} + half];
    T rho = e_[begin + half - 1];
    int changed = 0, info = 0;
    deflate<T>(&changed, &n, &half, d, q, &n_, order, &rho, z, poles, w, old, indx, indxc, indxp, types, &info);
    if (info) return info;
    if (changed > 0) {
      if ((info = find_vectors(changed, poles, w, rho, d, q, indxc))) return info;
      // Vectors of the first half only, of both, of the second only: the old ones times their coefficients.
      const int upper = types[0] + types[1], lower = types[1] + types[2];
      T* factors = factors_.get() + begin * int64_t{n_};
      multiply(rest, lower, changed, old + int64_t{half} * upper, q + types[0], q + half, factors);
      multiply(half, upper, changed, old, q, q, factors);
    }
    std::iota(order, order + n, 1);
    std::stable_sort(order, order + n, [&](int a, int b) { return d[a - 1] < d[b - 1]; });
    return 0;
  }

  // c[rows, columns] = old[rows, inner] @ coefficients[inner, columns], which may lie where c does: they are copied to
  // `factors` first.
  void multiply(int rows, int inner, int columns, const T* old, const T* coefficients, T* c, T* factors) {
    if (inner == 0) {
      for (int64_t j = 0; j < columns; ++j) std::fill_n(c + j * n_, rows, T(0));
      return;
    }
    for (int64_t j = 0; j < columns; ++j) std::copy_n(coefficients + j * n_, inner, factors + j * inner);
    cpu::gemm(dtype_, rows, columns, inner, 1, {const_cast<T*>(old), 1, rows}, {factors, 1, inner}, 0, {c, 1, n_});
  }

  // The new values, and in the columns of q the coefficients of the new vectors in the old ones.
  int find_vectors(int k, const T* poles, const T* w, T rho, T* d, T* q, const int* places) {
    if (k <= 2) return find_few_vectors(k, poles, w, rho, d, q, places);
    const int64_t grain = std::max<int64_t>(1, 16384 / k);
    share_out(k, grain, [&](int64_t first, int64_t last) {
      for (int64_t j = first; j < last; ++j) d[j] = secular<T>().root(k, j, poles, w, rho, q + j * n_);
    });
    // The z for which the roots are exact: with it the vectors are orthogonal even where roots are close.
    auto z = workspace<T>(k);
    share_out(k, grain, [&](int64_t first, int64_t last) {
      secular<T>().exact_z(k, poles, q, n_, first, last, z.get());
      for (int64_t i = first; i < last; ++i) z[i] = std::copysign(z[i], w[i]);
    });
    share_out(k, grain, [&](int64_t first, int64_t last) {
      auto scratch = workspace<T>(k);
      for (int64_t j = first; j < last; ++j) secular<T>().vector(k, z.get(), places, q + j * n_, scratch.get());
    });
    return 0;
  }

  int find_few_vectors(int k, const T* poles, const T* w, T rho, T* d, T* q, const int* places) {
    for (int j = 0; j < k; ++j) {
      T* column = q + int64_t{j} * n_;
      if (const int info = small_root<T>(k, j + 1, poles, w, column, rho, d + j)) return info;
      if (k == 2 && places[0] == 2) std::swap(column[0], column[1]);
    }
    return 0;
  }

  void sort(T norm) {
    auto values = workspace<T>(n_);
    std::copy_n(q_, square(), spare_.get());
    for (int j = 0; j < n_; ++j) {
      const int from = n_ <= kLeaf ? j : order_[static_cast<size_t>(j)] - 1;
      values[j] = d_[from] * norm;
      std::copy_n(spare_.get() + int64_t{from} * n_, n_, q_ + int64_t{j} * n_);
    }
    std::copy_n(values.get(), n_, d_);
  }

  DType dtype_;
  int n_;
  T *d_, *e_, *q_;
  std::unique_ptr<T[]> spare_, factors_;
  std::vector<int> order_;
};

}  // namespace tocha::lapack
