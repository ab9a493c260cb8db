// Singular values, eigenvalues and their vectors: kernels of tocha/operators/spectra.py.
#include "kernels/spectra.h"

#include "cpu/lapack/batch.h"
#include "cpu/lapack/reduction.h"
#include "cpu/lapack/tridiagonal.h"

namespace tocha::native {

using namespace lapack;

namespace {

constexpr int kReducedEigen = 48;  // orders from which our own reductions and halves are faster than LAPACK's
constexpr int kReducedSvd = 64;

constexpr int kNotFinite = -1;  // info of a matrix with an infinity or a NaN, which no routine is shown

// Real workspace of the complex divide-and-conquer SVD, from its documentation.
int64_t svd_real_size(const Shape& s, bool vectors) {
  const int64_t least = s.least(), most = std::max(s.rows, s.cols);
  return vectors ? std::max(5 * least * least + 5 * least, 2 * most * least + 2 * least * least + least) : 7 * least;
}

template <class T>
struct Svd {
  Shape s;
  char job;
  int u_ld, vh_ld, size;

  Svd(const Shape& shape, char mode, int u_rows, int vh_rows)
      : s(shape), job(mode), u_ld(std::max(u_rows, 1)), vh_ld(std::max(vh_rows, 1)) {
    Real<T> real_answer = 0;
    int count = 0;
    size = workspace_size<T>(
        [&](T* w, int ask) { run(nullptr, nullptr, nullptr, nullptr, w, ask, &real_answer, &count); });
  }

  int run(T* a, Real<T>* values, T* u, T* vh, T* work, int length, Real<T>* real_work, int* counts) const {
    if constexpr (is_complex_type<T>)
      return gesdd<T>(job, s.rows, s.cols, a, s.ld(), values, u, u_ld, vh, vh_ld, work, length, real_work, counts);
    else
      return gesdd<T>(job, s.rows, s.cols, a, s.ld(), values, u, u_ld, vh, vh_ld, work, length, counts);
  }
};

template <class T>
T largest(const T* a, int64_t n) {
  T most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(a[i]));
  return most;
}

// No step of a decomposition can overflow, or lose digits to underflow, by these elements.
template <class T>
bool is_moderate(T most) {
  constexpr T limit = sizeof(T) == 4 ? T(1e12) : T(1e120);
  return most == 0 || (most < limit && most > 1 / limit);
}

// Singular values of a real matrix, and where u is not null its vectors: those of the bidiagonal form in a corner of
// the identity, which the reflections are then applied to. A matrix with more columns than rows is taken for its
// transpose, and a long one is made triangular first.
template <class T>
int reduced_svd(DType dtype, const Shape& s, T* a, T* values, T* u, int u_cols, T* vh, int vh_rows) {
  const bool is_wide = s.rows < s.cols;
  const int k = s.least(), most = std::max(s.rows, s.cols);
  const int64_t square = int64_t{k} * k;
  auto turned = workspace<T>(is_wide ? s.step() : 1);
  if (is_wide) {
    constexpr int64_t size = sizeof(T);
    cpu::cast_table().transpose(size, reinterpret_cast<char*>(turned.get()), s.cols * size,
                                reinterpret_cast<const char*>(a), s.rows * size, s.cols, s.rows);
    a = turned.get();
  }
  const bool is_long = most * 3 > k * 5;
  auto triangle = workspace<T>(is_long ? square : 1), tau = workspace<T>(is_long ? k : 1);
  const Reflections<T> outer{most, k, 0, a, tau.get()};
  if (is_long) {
    blocked_geqrf<T>(most, k, a, most, tau.get());
    take_triangle(most, k, a, triangle.get());
    a = triangle.get();
  }
  auto off = workspace<T>(k), left = workspace<T>(k), right = workspace<T>(k), rows = workspace<T>(square);
  const Sided<T> q =
      make_bidiagonal(dtype, is_long ? k : most, k, a, values, off.get(), left.get(), right.get(), rows.get());
  auto counts = workspace<int>(8 * int64_t{k});
  auto find = [&](char vectors, T* of_left, T* of_right, int64_t room) {
    return bdsdc<T>('U', vectors, k, values, off.get(), of_left, k, of_right, k, static_cast<T*>(nullptr),
                    static_cast<int*>(nullptr), workspace<T>(room).get(), counts.get());
  };
  if (!u) return find('N', nullptr, nullptr, 4 * int64_t{k});
  auto inner = workspace<T>(2 * square);
  T *inner_left = inner.get(), *inner_right = inner_left + square;
  if (const int info = find('I', inner_left, inner_right, 3 * square + 4 * k)) return info;
  set_identity(u, s.rows, u_cols);
  set_identity(vh, vh_rows, s.cols);
  const cpu::MatrixRef u_columns{u, 1, s.rows}, v_columns{vh, vh_rows, 1};
  const cpu::MatrixRef tall = is_wide ? v_columns : u_columns, narrow = is_wide ? u_columns : v_columns;
  for (int64_t j = 0; j < k; ++j)
    for (int64_t i = 0; i < k; ++i) {
      static_cast<T*>(tall.data)[i * tall.row_stride + j * tall.col_stride] = inner_left[j * k + i];
      static_cast<T*>(narrow.data)[i * narrow.row_stride + j * narrow.col_stride] = inner_right[i * k + j];
    }
  const int tall_columns = is_wide ? vh_rows : u_cols;
  apply_reflections(dtype, q.left, tall, tall_columns);
  if (is_long) apply_reflections(dtype, outer, tall, tall_columns);
  apply_reflections(dtype, q.right, narrow, is_wide ? u_cols : vh_rows);
  return 0;
}

template <class T>
void decompose(const Shape& s, T* a, const Tensor& values, char job, const ColumnMajorOut* U, const ColumnMajorOut* Vh,
               int32_t* infos) {
  const bool vectors = U != nullptr;
  const Shape u = vectors ? Shape(U->tensor()) : s, vh = vectors ? Shape(Vh->tensor()) : s;
  const Svd<T> svd(s, job, vectors ? u.rows : 1, vectors ? vh.rows : 1);
  Real<T>* out = values.data<Real<T>>();
  T *u_out = vectors ? U->data<T>() : nullptr, *vh_out = vectors ? Vh->data<T>() : nullptr;
  const double work_per_matrix = std::pow(s.least(), 2) * std::max(s.rows, s.cols) * (vectors ? 20 : 4);
  for_batch(s.batch, work_per_matrix, [&](int64_t begin, int64_t end) {
    auto work = workspace<T>(svd.size);
    auto real_work = workspace<Real<T>>(is_complex_type<T> ? svd_real_size(s, vectors) : 1);
    auto counts = workspace<int>(8 * static_cast<int64_t>(s.least()));
    for (int64_t i = begin; i < end; ++i) {
      T *m = a + i * s.step(), *own_u = vectors ? u_out + i * u.step() : nullptr;
      T* own_vh = vectors ? vh_out + i * vh.step() : nullptr;
      Real<T>* found = out + i * s.least();
      if (!all_finite(m, s.step())) {
        infos[i] = kNotFinite;
        continue;
      }
      if constexpr (!is_complex_type<T>) {
        if (s.least() >= kReducedSvd && is_moderate(largest(m, s.step()))) {
          infos[i] = reduced_svd<T>(values.dtype(), s, m, found, own_u, u.cols, own_vh, vh.rows);
          continue;
        }
      }
      infos[i] = svd.run(m, found, own_u, own_vh, work.get(), svd.size, real_work.get(), counts.get());
    }
  });
}

template <class T>
struct Hermitian {
  char job, part;
  int n, size = 0, real_size = 1, count_size = 1;

  Hermitian(char mode, char triangle, int order) : job(mode), part(triangle), n(order) {
    T work(0);
    Real<T> real_work = 0;
    call(nullptr, nullptr, &work, -1, &real_work, -1, &count_size, -1);
    size = static_cast<int>(real_part(work)) + n;  // the answer may have been rounded down
    real_size = is_complex_type<T> ? static_cast<int>(real_work) + n : 1;
  }

  int call(T* a, Real<T>* values, T* work, int length, Real<T>* real_work, int real_length, int* counts,
           int count_length) const {
    const int ld = std::max(n, 1);
    if constexpr (is_complex_type<T>)
      return syevd<T>(job, part, n, a, ld, values, work, length, real_work, real_length, counts, count_length);
    else
      return syevd<T>(job, part, n, a, ld, values, work, length, counts, count_length);
  }
};

// One triangle of a square matrix is finite.
template <class T>
bool triangle_is_finite(const T* a, int64_t n, bool upper) {
  for (int64_t j = 0; j < n; ++j)
    if (!(upper ? all_finite(a + j * n, j + 1) : all_finite(a + j * n + j, n - j))) return false;
  return true;
}

// No step of reduced_eigen can overflow, or lose digits to underflow; false where there is an infinity or a NaN.
template <class T>
bool scales_well(const T* a, int64_t n, bool upper) {
  if (!triangle_is_finite(a, n, upper)) return false;
  T most = 0;
  for (int64_t j = 0; j < n; ++j)
    most = std::max(most, upper ? largest(a + j * n, j + 1) : largest(a + j * n + j, n - j));
  return is_moderate(most);
}

// Values of one real symmetric matrix, and where they are wanted its vectors over the matrix.
template <class T>
int reduced_eigen(DType dtype, bool upper, bool wanted, int n, T* a, T* values) {
  const int64_t square = static_cast<int64_t>(n) * n;
  for (int64_t j = 0; upper && j < n; ++j)
    for (int64_t i = 0; i < j; ++i) a[i * n + j] = a[j * n + i];
  auto off = workspace<T>(n), tau = workspace<T>(n);
  const Reflections<T> q = make_tridiagonal(dtype, n, a, values, off.get(), tau.get());
  if (!wanted) {
    T room;
    int count;
    return stedc<T>('N', n, values, off.get(), static_cast<T*>(nullptr), n, &room, 1, &count, 1);
  }
  auto vectors = workspace<T>(square);
  if (const int info = Tridiagonal<T>(dtype, n, values, off.get(), vectors.get()).solve()) return info;
  apply_reflections(dtype, q, {vectors.get(), 1, n}, n);
  std::copy_n(vectors.get(), square, a);
  return 0;
}

// Real routines return a pair of conjugate eigenvectors as two columns: real parts, imaginary parts.
template <class R>
void join_pairs(int64_t n, const R* imaginary, const R* packed, Complex<R>* vectors) {
  for (int64_t j = 0; j < n; ++j) {
    if (imaginary[j] == 0 || j + 1 == n) {
      for (int64_t i = 0; i < n; ++i) vectors[j * n + i] = Complex<R>(packed[j * n + i]);
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      const R re = packed[j * n + i], im = packed[(j + 1) * n + i];
      vectors[j * n + i] = Complex<R>(re, im);
      vectors[(j + 1) * n + i] = Complex<R>(re, -im);
    }
    ++j;
  }
}

template <class T>
struct General {
  using C = Complex<Real<T>>;
  int n;
  char job;
  int size;

  General(int order, bool vectors) : n(order), job(vectors ? 'V' : 'N') {
    Real<T> real_answer = 0;  // the question is answered here too
    size = workspace_size<T>([&](T* w, int ask) { call(nullptr, nullptr, nullptr, nullptr, w, ask, &real_answer); });
  }

  // Complex: eigenvalues in w. Real: their parts in the two halves of real_work.
  int call(T* a, T* w, Real<T>* parts, T* v, T* work, int length, Real<T>* real_work) const {
    const int ld = std::max(n, 1);
    if constexpr (is_complex_type<T>)
      return geev<T>('N', job, n, a, ld, w, static_cast<T*>(nullptr), 1, v, ld, work, length, real_work);
    else
      return geev<T>('N', job, n, a, ld, parts, parts ? parts + n : nullptr, static_cast<T*>(nullptr), 1, v, ld, work,
                     length);
  }
};

// Eigenvalues and, where wanted, eigenvectors of the matrices [begin, end); a is written over.
template <class T>
void general_range(const General<T>& eig, int64_t begin, int64_t end, T* a, Complex<Real<T>>* values,
                   Complex<Real<T>>* vectors, int32_t* infos) {
  const int64_t n = eig.n;
  auto work = workspace<T>(eig.size);
  auto parts = workspace<Real<T>>(2 * n);
  auto packed = workspace<T>(is_complex_type<T> || !vectors ? 1 : n * n);
  for (int64_t i = begin; i < end; ++i) {
    T* m = a + i * n * n;
    if (!all_finite(m, n * n)) {
      infos[i] = kNotFinite;
      continue;
    }
    if constexpr (is_complex_type<T>) {
      T* v = vectors ? vectors + i * n * n : nullptr;
      infos[i] = eig.call(m, values + i * n, nullptr, v, work.get(), eig.size, parts.get());
    } else {
      infos[i] = eig.call(m, nullptr, parts.get(), packed.get(), work.get(), eig.size, nullptr);
      for (int64_t j = 0; j < n; ++j) values[i * n + j] = Complex<T>(parts[j], parts[n + j]);
      if (vectors) join_pairs(n, parts.get() + n, packed.get(), vectors + i * n * n);
    }
  }
}

}  // namespace

void singular_values(const Tensor& U, const Tensor& S, const Tensor& Vh, const Tensor& info, const Tensor& A,
                     bool full_matrices, bool compute_uv) {
  const Shape s(A);
  int32_t* infos = info.data<int32_t>();
  std::fill(infos, infos + info.numel(), 0);
  const Tensor a = column_major_copy(A);
  if (!compute_uv) {
    if (s.step() == 0) return;
    with_type(A.dtype(), [&](auto type) {
      using T = decltype(type);
      decompose<T>(s, a.data<T>(), S, 'N', nullptr, nullptr, infos);
    });
    return;
  }
  ColumnMajorOut u(U), vh(Vh);
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    if (s.step() != 0) {
      decompose<T>(s, a.data<T>(), S, full_matrices ? 'A' : 'S', &u, &vh, infos);
      return;
    }
    const Shape left(U), right(Vh);
    for (int64_t i = 0; i < s.batch; ++i) {
      set_identity(u.data<T>() + i * left.step(), left.rows, left.cols);
      set_identity(vh.data<T>() + i * right.step(), right.rows, right.cols);
    }
  });
  u.finish();
  vh.finish();
}

void hermitian_eigen(const Tensor& values, const Tensor& vectors, const Tensor& info, const Tensor& A, bool upper,
                     bool compute_v) {
  const Shape s(A);
  int32_t* infos = info.data<int32_t>();
  std::fill(infos, infos + info.numel(), 0);
  if (s.step() == 0) return;
  Tensor scratch;
  if (!compute_v) scratch = column_major_copy(A);
  ColumnMajorOut out(compute_v ? vectors : scratch);
  if (compute_v) backend(A.device().type).copy(out.tensor(), A);
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    const Hermitian<T> eigh(compute_v ? 'V' : 'N', upper ? 'U' : 'L', s.rows);
    T* data = out.data<T>();
    Real<T>* found = values.data<Real<T>>();
    for_batch(s.batch, std::pow(s.rows, 3) * (compute_v ? 9 : 2), [&](int64_t begin, int64_t end) {
      auto work = workspace<T>(eigh.size);
      auto real_work = workspace<Real<T>>(eigh.real_size);
      auto counts = workspace<int>(eigh.count_size);
      for (int64_t i = begin; i < end; ++i) {
        T* m = data + i * s.step();
        if constexpr (!is_complex_type<T>) {
          if (s.rows >= kReducedEigen && scales_well(m, s.rows, upper)) {
            infos[i] = reduced_eigen<T>(A.dtype(), upper, compute_v, s.rows, m, found + i * s.rows);
            continue;
          }
        }
        infos[i] = !triangle_is_finite(m, s.rows, upper)
                       ? kNotFinite
                       : eigh.call(m, found + i * s.rows, work.get(), eigh.size, real_work.get(), eigh.real_size,
                                   counts.get(), eigh.count_size);
      }
    });
  });
  if (compute_v) out.finish();
}

void general_eigen(const Tensor& values, const Tensor& vectors, const Tensor& info, const Tensor& A, bool compute_v) {
  const Shape s(A);
  int32_t* infos = info.data<int32_t>();
  std::fill(infos, infos + info.numel(), 0);
  if (s.step() == 0) return;
  const Tensor a = column_major_copy(A);
  Tensor scratch;
  if (!compute_v) scratch = empty(Ints{1, 1}, values.dtype(), values.device());
  ColumnMajorOut out(compute_v ? vectors : scratch);
  with_type(A.dtype(), [&](auto type) {
    using T = decltype(type);
    using C = Complex<Real<T>>;
    const General<T> eig(s.rows, compute_v);
    T* matrices = a.data<T>();
    C *found = values.data<C>(), *v = compute_v ? out.data<C>() : nullptr;
    for_batch(s.batch, std::pow(s.rows, 3) * (compute_v ? 25 : 10),
              [&](int64_t begin, int64_t end) { general_range<T>(eig, begin, end, matrices, found, v, infos); });
  });
  if (compute_v) out.finish();
}

}  // namespace tocha::native
