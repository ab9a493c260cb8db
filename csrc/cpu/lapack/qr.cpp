// QR factors by Householder reflections: kernels of tocha/operators/factorizations.py.
#include "cpu/lapack/batch.h"
#include "cpu/lapack/blocked.h"
#include "kernels/factorizations.h"

namespace tocha::native {

using namespace lapack;

namespace {

constexpr int kBlocked = 80;  // order from which our own blocks are quicker: LAPACK begins with them beyond 128

// f(i) for every matrix: one after the other on all threads, or each on one thread; `work` multiplications each.
template <class F>
void for_each_matrix(const Shape& s, double work, F f) {
  if (shares_threads(s.batch, s.least())) return one_by_one(s.batch, f);
  for_batch(s.batch, work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// The reflections of every matrix of `a` (column-major, written over) and their factors tau.
template <class T>
void reflect_all(const Shape& s, T* a, T* tau) {
  if (s.step() == 0) return;
  const double effort = std::pow(s.least(), 2) * std::max(s.rows, s.cols) * 2;
  if (s.least() >= kBlocked) {
    for_each_matrix(
        s, effort, [&](int64_t i) { blocked_geqrf<T>(s.rows, s.cols, a + i * s.step(), s.ld(), tau + i * s.least()); });
    return;
  }
  const int size =
      workspace_size<T>([&](T* w, int ask) { lapack::geqrf<T>(s.rows, s.cols, nullptr, s.ld(), nullptr, w, ask); });
  for_batch(s.batch, effort, [&](int64_t begin, int64_t end) {
    auto work = workspace<T>(size);
    for (int64_t i = begin; i < end; ++i)
      lapack::geqrf<T>(s.rows, s.cols, a + i * s.step(), s.ld(), tau + i * s.least(), work.get(), size);
  });
}

// The product of k reflections, as a matrix of q's shape (written over).
template <class T>
void expand_all(const Shape& q, T* data, int k, const T* tau, int64_t tau_step) {
  if (q.step() == 0) return;
  const int size =
      workspace_size<T>([&](T* w, int ask) { orgqr<T>(q.rows, q.cols, k, nullptr, q.ld(), nullptr, w, ask); });
  for_batch(q.batch, static_cast<double>(q.step()) * std::max(k, 1) * 2, [&](int64_t begin, int64_t end) {
    auto work = workspace<T>(size);
    for (int64_t i = begin; i < end; ++i)
      orgqr<T>(q.rows, q.cols, k, data + i * q.step(), q.ld(), tau + i * tau_step, work.get(), size);
  });
}

// The first columns of every matrix of `from` into `to`, which has as many rows.
template <class T>
void copy_columns(const Shape& from, const T* source, const Shape& to, T* target) {
  const int64_t n = static_cast<int64_t>(to.rows) * std::min(from.cols, to.cols);
  for (int64_t i = 0; i < to.batch; ++i) std::copy_n(source + i * from.step(), n, target + i * to.step());
}

// The upper triangle of every matrix of `from`, whose first rows are as many as `to` has.
template <class T>
void copy_upper(const Shape& from, const T* source, const Shape& to, T* target) {
  for (int64_t i = 0; i < to.batch; ++i, source += from.step(), target += to.step()) {
    for (int64_t j = 0; j < to.cols; ++j) {
      for (int64_t r = 0; r < to.rows; ++r) target[j * to.rows + r] = r <= j ? source[j * from.rows + r] : T(0);
    }
  }
}

}  // namespace

void geqrf(const Tensor& a, const Tensor& tau, const Tensor& self) {
  ColumnMajorOut out(a);
  if (self.numel()) backend(self.device().type).copy(out.tensor(), self);
  with_type(self.dtype(), [&](auto type) {
    using T = decltype(type);
    reflect_all<T>(Shape(self), out.data<T>(), tau.data<T>());
  });
  out.finish();
}

void qr_factors(const Tensor& Q, const Tensor& R, const Tensor& A, bool /*complete: R says*/, bool compute_q) {
  const Tensor reflections = column_major_copy(A);
  const Shape s(A), r(R);
  Tensor placeholder;
  if (!compute_q) placeholder = empty_strided(A.sizes(), A.strides(), A.dtype(), A.device());
  const Tensor& q_like = compute_q ? Q : placeholder;
  ColumnMajorOut q(q_like), upper(R);
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    auto tau = workspace<T>(s.batch * s.least());
    reflect_all<T>(s, reflections.data<T>(), tau.get());
    copy_upper<T>(s, reflections.data<T>(), r, upper.data<T>());
    if (!compute_q) return;
    const Shape wide(Q);
    if (s.cols == 0) {
      for (int64_t i = 0; i < wide.batch; ++i) set_identity(q.data<T>() + i * wide.step(), wide.rows, wide.cols);
      return;
    }
    if (s.least() >= kBlocked) {
      for_each_matrix(s, static_cast<double>(wide.step()) * s.least() * 2, [&](int64_t i) {
        blocked_orgqr<T>(s.rows, wide.cols, s.least(), reflections.data<T>() + i * s.step(), s.ld(),
                         tau.get() + i * s.least(), q.data<T>() + i * wide.step(), wide.ld());
      });
      return;
    }
    copy_columns<T>(s, reflections.data<T>(), wide, q.data<T>());
    expand_all<T>(wide, q.data<T>(), s.least(), tau.get(), s.least());
  });
  if (compute_q) q.finish();
  upper.finish();
}

void householder_product(const Tensor& product, const Tensor& input, const Tensor& tau) {
  ColumnMajorOut out(product);
  if (input.numel()) backend(input.device().type).copy(out.tensor(), input);
  const Tensor factors = readable(tau);
  const Shape s(input);
  const int64_t k = tau.size(tau.dim() - 1);
  with_type(input.dtype(), [&](auto type) {
    using T = decltype(type);
    expand_all<T>(s, out.data<T>(), static_cast<int>(k), factors.data<T>(), k);
  });
  out.finish();
}

// Q @ other, other @ Q, or with Q's adjoint, Q given by its reflections.
void ormqr(const Tensor& result, const Tensor& reflections, const Tensor& tau, const Tensor& other, bool left,
           bool transpose) {
  ColumnMajorOut out(result);
  if (result.numel() == 0) return;
  backend(other.device().type).copy(out.tensor(), other);
  const Tensor a = column_major(reflections), factors = readable(tau);
  const Shape s(result), q(reflections);
  const int k = static_cast<int>(tau.size(tau.dim() - 1));
  with_type(other.dtype(), [&](auto type) {
    using T = decltype(type);
    const char side = left ? 'L' : 'R', op = !transpose ? 'N' : is_complex_type<T> ? 'C' : 'T';
    const T *vectors = a.data<T>(), *scales = factors.data<T>();
    T* data = out.data<T>();
    const int size = workspace_size<T>([&](T* w, int ask) {
      lapack::ormqr<T>(side, op, s.rows, s.cols, k, vectors, q.ld(), scales, data, s.ld(), w, ask);
    });
    for_batch(s.batch, static_cast<double>(s.step()) * std::max(k, 1) * 2, [&](int64_t begin, int64_t end) {
      auto work = workspace<T>(size);
      for (int64_t i = begin; i < end; ++i) {
        lapack::ormqr<T>(side, op, s.rows, s.cols, k, vectors + i * q.step(), q.ld(), scales + i * k,
                         data + i * s.step(), s.ld(), work.get(), size);
      }
    });
  });
  out.finish();
}

}  // namespace tocha::native
