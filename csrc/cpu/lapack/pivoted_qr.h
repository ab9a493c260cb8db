// QR with exchanged columns of real matrices, as geqp3, with our own products, on all threads; and the
// rank that its triangle has by gelsy's measure. Used by lstsq.cpp.
#pragma once

#include "cpu/lapack/blocked.h"

namespace tocha::lapack {

template <class T>
T length_of(const T* x, int64_t n) {
  double part[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int p = 0; p < 8; ++p) part[p] += static_cast<double>(x[i + p]) * static_cast<double>(x[i + p]);
  for (; i < n; ++i) part[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double sum = 0;
  for (double p : part) sum += p;
  return static_cast<T>(std::sqrt(sum));
}

// The reflection 1 - tau v v^T that leaves only x's first element, beta; v[0] is 1.
template <class T>
struct Reflection {
  T beta, tau;

  // x becomes v.
  Reflection(T* x, int64_t n) : beta(x[0]), tau(0) {
    const T rest = length_of(x + 1, n - 1);
    if (rest != 0) {
      beta = -std::copysign(std::hypot(x[0], rest), x[0]);
      tau = (beta - x[0]) / beta;
      const T scale = 1 / (x[0] - beta);
      for (int64_t i = 1; i < n; ++i) x[i] *= scale;
    }
    x[0] = 1;
  }
};

// The first `columns` columns of `data` are factored in place; the `carried` ones after them become Q^T times what they
// were. columns <= rows.
template <class T>
struct PivotedQr {
  int rows, columns, carried;
  T* data;
  int64_t ld;
  std::vector<int> order;  // where the columns came from
  std::vector<T> length;   // of what is left of each column, brought up to date at every step
  std::vector<T> trusted;  // the last one that was computed

  PivotedQr(int m, int n, int more, T* a, int64_t apart)
      : rows(m), columns(n), carried(more), data(a), ld(apart), order(n), length(n), trusted(n), row_(n) {
    for (int j = 0; j < n; ++j) {
      order[j] = j;
      length[j] = trusted[j] = length_of(column(j), m);
    }
  }

  T* column(int j) const { return data + j * ld; }

  // Whether squares of the elements neither overflow nor vanish: LAPACK scales others, and finds NaN.
  bool moderate() const {
    constexpr int most = std::numeric_limits<T>::max_exponent / 4;
    T longest = 0;
    for (T x : length) {
      if (!std::isfinite(x)) return false;
      longest = std::max(longest, x);
    }
    return longest > std::ldexp(T(1), -most) && longest < std::ldexp(T(1), most);
  }

  void factor() {
    for (int j = 0; j < columns;) j += factor_panel(j, std::min(kReflections, columns - j));
  }

 private:
  static constexpr int kReflections = 32;
  static constexpr DType kDType = DTypeOf<T>::value;

  // Factors at most `width` columns from `first` on, as laqps does it: each reflection is applied at once to its own
  // row alone, and to what lies below by one product of matrices at the end. Returns how many columns it did: fewer
  // where a length is no longer to be trusted, because only whole columns can be measured again.
  int factor_panel(int first, int width) {
    const int all = columns + carried - first;
    auto memory = workspace<T>((all + 1) * static_cast<int64_t>(width));
    T *factors = memory.get(), *products = factors + all * static_cast<int64_t>(width);
    std::vector<int> doubtful;
    int done = 0;
    while (done < width && doubtful.empty()) {
      const int j = first + done, below = rows - j, right = all - done - 1;
      const int longest = static_cast<int>(std::max_element(length.begin() + j, length.end()) - length.begin());
      exchange(j, longest);
      if (j != longest)
        for (int l = 0; l < done; ++l) std::swap(factors[l * all + done], factors[l * all + longest - first]);
      T *v = column(j) + j, *row = column(j + 1) + j, *before = column(first) + j;
      T *own = factors + done, *rest = own + 1, *found = rest + done * static_cast<int64_t>(all);
      if (done) cpu::gemv(kDType, below, done, -1, {before, 1, ld}, own, all, 1, v, 1);
      const Reflection<T> r(v, below);
      const Scalar tau(static_cast<double>(r.tau));
      if (right) cpu::gemv(kDType, right, below, tau, {row, ld, 1}, v, 1, 0, found, 1);
      if (done && right) {
        cpu::gemv(kDType, done, below, tau, {before, ld, 1}, v, 1, 0, products, 1);
        cpu::gemv(kDType, right, done, -1, {rest, 1, all}, products, 1, 1, found, 1);
      }
      if (right) cpu::gemv(kDType, right, done + 1, -1, {rest, 1, all}, before, ld, 1, row, ld);
      *v = r.beta;
      ++done;
      shorten(j, doubtful);
    }
    const int next = first + done, left = all - done;
    if (left && rows > next)
      cpu::gemm(kDType, rows - next, left, done, -1, {column(first) + next, 1, ld}, {factors + done, all, 1}, 1,
                {column(next) + next, 1, ld});
    for (int c : doubtful) length[c] = trusted[c] = length_of(column(c) + next, rows - next);
    return done;
  }

  void exchange(int j, int other) {
    if (j == other) return;
    std::swap_ranges(column(j), column(j) + rows, column(other));
    std::swap(order[j], order[other]);
    std::swap(length[j], length[other]);
    std::swap(trusted[j], trusted[other]);
  }

  // The lengths of the columns after j without row j: by differences of squares. Columns for which that does not keep
  // half of the digits are doubtful.
  void shorten(int j, std::vector<int>& doubtful) {
    const T least = std::sqrt(std::numeric_limits<T>::epsilon());
    for (int c = j + 1; c < columns; ++c) row_[c] = column(c)[j];
    T worst = 1;
    for (int c = j + 1; c < columns; ++c) {  // without jumps: whole vectors
      const T size = length[c], ratio = row_[c] / size, lost = size / trusted[c];
      const T difference = (1 + ratio) * (1 - ratio), kept = difference > 0 ? difference : 0;
      const T digits = size == 0 ? T(1) : kept * lost * lost;
      const T shorter = size == 0 ? T(0) : size * std::sqrt(kept);
      row_[c] = digits;
      length[c] = digits > least ? shorter : size;
      worst = digits > least ? worst : T(0);
    }
    for (int c = j + 1; worst == 0 && c < columns; ++c)
      if (!(row_[c] > least)) doubtful.push_back(c);
  }

  std::vector<T> row_;  // of what is left
};

// The order of the greatest leading block of an upper triangle whose condition, as LAPACK estimates it column by
// column, is below 1 / rcond.
template <class T>
int estimated_rank(int n, const T* a, int64_t ld, T rcond) {
  enum { largest, smallest };
  T value[2] = {std::abs(a[0]), std::abs(a[0])};
  if (!(value[0] > 0)) return 0;
  std::vector<T> vectors[2] = {std::vector<T>(n, 1), std::vector<T>(n, 1)};
  for (int j = 1; j < n; ++j) {
    T next[2], scale[2], last[2];
    for (int which : {largest, smallest})
      laic1(which + 1, j, vectors[which].data(), value[which], a + j * ld, a[j * ld + j], &next[which], &scale[which],
            &last[which]);
    if (!(next[largest] * rcond <= next[smallest])) return j;
    for (int which : {largest, smallest}) {
      for (int i = 0; i < j; ++i) vectors[which][i] *= scale[which];
      vectors[which][j] = last[which];
      value[which] = next[which];
    }
  }
  return n;
}

}  // namespace tocha::lapack
