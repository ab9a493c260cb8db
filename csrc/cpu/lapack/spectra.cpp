// Singular values, eigenvalues and their vectors: kernels of tocha/operators/spectra.py.
#include "kernels/spectra.h"

#include "cpu/lapack/batch.h"
#include "cpu/lapack/blocked.h"
#include "cpu/lapack/tridiagonal.h"

namespace tocha::native {

using namespace lapack;

namespace {

constexpr int kHalved = 48;  // order from which the eigenvectors of one symmetric matrix come from halves
constexpr int kShared = 64;  // order from which the threads share the singular vectors of one matrix

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

// No step of a decomposition can overflow, or lose digits to underflow, by these elements.
template <class T>
bool is_moderate(T most) {
  constexpr T limit = sizeof(T) == 4 ? T(1e12) : T(1e120);
  return most == 0 || (most < limit && most > 1 / limit);
}

// Whether a real matrix is worth sharing: large, and not so long that LAPACK would make it square first.
bool shares_svd(const Shape& s) {
  const int64_t least = s.least(), most = std::max(s.rows, s.cols);
  return s.batch == 1 && least >= kShared && most * 6 < least * 11 && num_threads() > 1 && !in_parallel_region();
}

// Whole singular vectors of a real matrix: those of its bidiagonal form in a corner of the identity, which the
// reflections are then applied to, on all threads.
template <class T>
int shared_svd(const Shape& s, T* a, T* values, T* u, int u_cols, T* vh, int vh_rows) {
  const int m = s.rows, n = s.cols, k = s.least();
  const int64_t square = int64_t{k} * k;
  auto off = workspace<T>(k), left = workspace<T>(k), right = workspace<T>(k), inner = workspace<T>(2 * square);
  auto reduce = [&](T* w, int room) {
    return gebrd<T>(m, n, a, m, values, off.get(), left.get(), right.get(), w, room);
  };
  const int room = workspace_size<T>(reduce);
  if (const int info = reduce(workspace<T>(room).get(), room)) return info;
  T *inner_u = inner.get(), *inner_vh = inner_u + square;
  if (const int info = bdsdc<T>(m >= n ? 'U' : 'L', 'I', k, values, off.get(), inner_u, k, inner_vh, k,
                                static_cast<T*>(nullptr), static_cast<int*>(nullptr),
                                workspace<T>(3 * square + 4 * k).get(), workspace<int>(8 * int64_t{k}).get()))
    return info;
  set_identity(u, m, u_cols);
  set_identity(vh, vh_rows, n);
  for (int64_t j = 0; j < k; ++j) {
    std::copy_n(inner_u + j * k, k, u + j * m);
    std::copy_n(inner_vh + j * k, k, vh + j * vh_rows);
  }
  const int64_t stripes = (num_threads() + 1) / 2;  // of each side
  share_out(2 * stripes, 1, [&](int64_t begin, int64_t end) {
    // LAPACK writes ones over the diagonal of the reflections while it applies them: each thread has its own.
    auto reflections = workspace<T>(s.step());
    std::copy_n(a, s.step(), reflections.get());
    for (int64_t t = begin; t < end; ++t) {
      const bool is_left = t % 2 == 0;
      const int64_t lines = is_left ? u_cols : vh_rows;
      const int first = static_cast<int>(t / 2 * lines / stripes);
      const int count = static_cast<int>((t / 2 + 1) * lines / stripes) - first;
      auto reflect = [&](T* w, int size) {
        if (is_left)
          ormbr<T>('Q', 'L', 'N', m, count, n, reflections.get(), m, left.get(), u + int64_t{first} * m, m, w, size);
        else
          ormbr<T>('P', 'R', 'T', count, n, m, reflections.get(), m, right.get(), vh + first, vh_rows, w, size);
      };
      const int size = workspace_size<T>(reflect);
      reflect(workspace<T>(size).get(), size);
    }
  });
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
  if constexpr (!is_complex_type<T>) {
    if (vectors && shares_svd(s) && all_finite(a, s.step())) {
      T most = 0;
      for (int64_t i = 0; i < s.step(); ++i) most = std::max(most, std::abs(a[i]));
      if (is_moderate(most)) {
        return one_by_one(1, [&](int64_t) { infos[0] = shared_svd<T>(s, a, out, u_out, u.cols, vh_out, vh.rows); });
      }
    }
  }
  const double work_per_matrix = std::pow(s.least(), 2) * std::max(s.rows, s.cols) * (vectors ? 20 : 4);
  for_batch(s.batch, work_per_matrix, [&](int64_t begin, int64_t end) {
    auto work = workspace<T>(svd.size);
    auto real_work = workspace<Real<T>>(is_complex_type<T> ? svd_real_size(s, vectors) : 1);
    auto counts = workspace<int>(8 * static_cast<int64_t>(s.least()));
    for (int64_t i = begin; i < end; ++i) {
      T* m = a + i * s.step();
      infos[i] = !all_finite(m, s.step()) ? kNotFinite
                                          : svd.run(m, out + i * s.least(), vectors ? u_out + i * u.step() : nullptr,
                                                    vectors ? vh_out + i * vh.step() : nullptr, work.get(), svd.size,
                                                    real_work.get(), counts.get());
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

// No step of shared_eigen can overflow, or lose digits to underflow; false where there is an infinity or a NaN.
template <class T>
bool scales_well(const T* a, int64_t n, bool upper) {
  if (!triangle_is_finite(a, n, upper)) return false;
  T most = 0;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) most = std::max(most, std::abs(a[j * n + i]));
  return is_moderate(most);
}

// Values and vectors of one real symmetric matrix, vectors over the matrix: LAPACK makes it tridiagonal, and the rest
// is done on all threads.
template <class T>
int shared_eigen(DType dtype, char part, int n, T* a, T* values) {
  const int64_t square = static_cast<int64_t>(n) * n;
  auto off = workspace<T>(n), tau = workspace<T>(n), vectors = workspace<T>(square);
  const int size =
      workspace_size<T>([&](T* w, int ask) { sytrd<T>(part, n, a, n, values, off.get(), tau.get(), w, ask); });
  auto work = workspace<T>(size);
  if (const int info = sytrd<T>(part, n, a, n, values, off.get(), tau.get(), work.get(), size)) return info;
  if (const int info = Tridiagonal<T>(dtype, n, values, off.get(), vectors.get()).solve()) return info;
  for_stripes(n, 2.0 * n * n, [&](int first, int count) {
    T* columns = vectors.get() + int64_t{first} * n;
    // LAPACK writes ones over the diagonal of the reflections while it applies them: each thread has its own.
    auto reflections = workspace<T>(square);
    std::copy_n(a, square, reflections.get());
    auto reflect = [&](T* w, int room) {
      ormtr<T>('L', part, 'N', n, count, reflections.get(), n, tau.get(), columns, n, w, room);
    };
    const int room = workspace_size<T>(reflect);
    reflect(workspace<T>(room).get(), room);
  });
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
    auto whole = [&](int64_t begin, int64_t end) {
      auto work = workspace<T>(eigh.size);
      auto real_work = workspace<Real<T>>(eigh.real_size);
      auto counts = workspace<int>(eigh.count_size);
      for (int64_t i = begin; i < end; ++i) {
        T* m = data + i * s.step();
        infos[i] = !triangle_is_finite(m, s.rows, upper)
                       ? kNotFinite
                       : eigh.call(m, found + i * s.rows, work.get(), eigh.size, real_work.get(), eigh.real_size,
                                   counts.get(), eigh.count_size);
      }
    };
    if constexpr (!is_complex_type<T>) {
      if (compute_v && s.batch == 1 && s.rows >= kHalved && !in_parallel_region()) {
        return one_by_one(s.batch, [&](int64_t i) {
          T* m = data + i * s.step();
          if (scales_well(m, s.rows, upper))
            infos[i] = shared_eigen<T>(A.dtype(), upper ? 'U' : 'L', s.rows, m, found + i * s.rows);
          else
            whole(i, i + 1);
        });
      }
    }
    for_batch(s.batch, std::pow(s.rows, 3) * (compute_v ? 9 : 2), whole);
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
