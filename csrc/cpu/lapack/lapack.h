// LAPACK behind one name per routine: getrf<T>(...) for the four types it knows. OpenBLAS does the work, on one
// thread per matrix. Called by the kernels of this folder only.
#pragma once

#include <cblas.h>

#include <type_traits>

#include "core/complex.h"

#define LAPACK_COMPLEX_CUSTOM
#define lapack_complex_float ::tocha::Complex<float>
#define lapack_complex_double ::tocha::Complex<double>
#include <lapacke.h>

// LAPACKE leaves these out.
extern "C" {
void scipy_slaic1_(const int* job, const int* j, const float* x, const float* estimate, const float* w,
                   const float* gamma, float* next, float* s, float* c);
void scipy_dlaic1_(const int* job, const int* j, const double* x, const double* estimate, const double* w,
                   const double* gamma, double* next, double* s, double* c);
}

namespace tocha::lapack {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<Complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

// NAME<T>(arguments...) calls one of four routines with the same arguments.
#define TOCHA_LAPACK(NAME, S, D, C, Z)                         \
  template <class T, class... Arguments>                       \
  int NAME(Arguments... a) {                                   \
    if constexpr (std::is_same_v<T, float>)                    \
      return scipy_LAPACKE_##S##_work(LAPACK_COL_MAJOR, a...); \
    else if constexpr (std::is_same_v<T, double>)              \
      return scipy_LAPACKE_##D##_work(LAPACK_COL_MAJOR, a...); \
    else if constexpr (std::is_same_v<T, Complex<float>>)      \
      return scipy_LAPACKE_##C##_work(LAPACK_COL_MAJOR, a...); \
    else                                                       \
      return scipy_LAPACKE_##Z##_work(LAPACK_COL_MAJOR, a...); \
  }
TOCHA_LAPACK(potrf, spotrf, dpotrf, cpotrf, zpotrf)
TOCHA_LAPACK(potri, spotri, dpotri, cpotri, zpotri)
TOCHA_LAPACK(getrf, sgetrf, dgetrf, cgetrf, zgetrf)
TOCHA_LAPACK(getrs, sgetrs, dgetrs, cgetrs, zgetrs)
TOCHA_LAPACK(sytrf, ssytrf, dsytrf, csytrf, zsytrf)
TOCHA_LAPACK(sytrs, ssytrs, dsytrs, csytrs, zsytrs)
TOCHA_LAPACK(geqrf, sgeqrf, dgeqrf, cgeqrf, zgeqrf)
TOCHA_LAPACK(orgqr, sorgqr, dorgqr, cungqr, zungqr)
TOCHA_LAPACK(ormqr, sormqr, dormqr, cunmqr, zunmqr)
TOCHA_LAPACK(larft, slarft, dlarft, clarft, zlarft)
TOCHA_LAPACK(larfb, slarfb, dlarfb, clarfb, zlarfb)
TOCHA_LAPACK(gels, sgels, dgels, cgels, zgels)
// Real and complex forms of these differ in their arguments: the complex ones take real workspace besides.
TOCHA_LAPACK(gelsy, sgelsy, dgelsy, cgelsy, zgelsy)
TOCHA_LAPACK(gelsd, sgelsd, dgelsd, cgelsd, zgelsd)
TOCHA_LAPACK(gelss, sgelss, dgelss, cgelss, zgelss)
TOCHA_LAPACK(gesdd, sgesdd, dgesdd, cgesdd, zgesdd)
TOCHA_LAPACK(syevd, ssyevd, dsyevd, cheevd, zheevd)
TOCHA_LAPACK(geev, sgeev, dgeev, cgeev, zgeev)
#undef TOCHA_LAPACK

// Parts of the symmetric eigenproblem and of the singular value decomposition, of real matrices only.
#define TOCHA_LAPACK_REAL(NAME)                                    \
  template <class T, class... Arguments>                           \
  int NAME(Arguments... a) {                                       \
    if constexpr (std::is_same_v<T, float>)                        \
      return scipy_LAPACKE_s##NAME##_work(LAPACK_COL_MAJOR, a...); \
    else                                                           \
      return scipy_LAPACKE_d##NAME##_work(LAPACK_COL_MAJOR, a...); \
  }
TOCHA_LAPACK_REAL(stedc)
TOCHA_LAPACK_REAL(bdsdc)
#undef TOCHA_LAPACK_REAL

// One step of incremental condition estimation: job 1 follows the largest singular value of a triangle, job 2 the
// smallest.
inline void laic1(int job, int j, const float* x, float estimate, const float* w, float gamma, float* next, float* s,
                  float* c) {
  scipy_slaic1_(&job, &j, x, &estimate, w, &gamma, next, s, c);
}
inline void laic1(int job, int j, const double* x, double estimate, const double* w, double gamma, double* next,
                  double* s, double* c) {
  scipy_dlaic1_(&job, &j, x, &estimate, w, &gamma, next, s, c);
}

// Hermitian forms, of complex matrices only.
template <class T, class... Arguments>
int hetrf(Arguments... a) {
  if constexpr (std::is_same_v<T, Complex<float>>)
    return scipy_LAPACKE_chetrf_work(LAPACK_COL_MAJOR, a...);
  else
    return scipy_LAPACKE_zhetrf_work(LAPACK_COL_MAJOR, a...);
}
template <class T, class... Arguments>
int hetrs(Arguments... a) {
  if constexpr (std::is_same_v<T, Complex<float>>)
    return scipy_LAPACKE_chetrs_work(LAPACK_COL_MAJOR, a...);
  else
    return scipy_LAPACKE_zhetrs_work(LAPACK_COL_MAJOR, a...);
}

// b = inverse(op(a)) @ b (left) or b @ inverse(op(a)), a triangular.
template <class T>
void trsm(CBLAS_SIDE side, CBLAS_UPLO part, CBLAS_TRANSPOSE op, CBLAS_DIAG diagonal, int m, int n, const T* a, int lda,
          T* b, int ldb) {
  const T one(1);
  if constexpr (std::is_same_v<T, float>)
    scipy_cblas_strsm(CblasColMajor, side, part, op, diagonal, m, n, one, a, lda, b, ldb);
  else if constexpr (std::is_same_v<T, double>)
    scipy_cblas_dtrsm(CblasColMajor, side, part, op, diagonal, m, n, one, a, lda, b, ldb);
  else if constexpr (std::is_same_v<T, Complex<float>>)
    scipy_cblas_ctrsm(CblasColMajor, side, part, op, diagonal, m, n, &one, a, lda, b, ldb);
  else
    scipy_cblas_ztrsm(CblasColMajor, side, part, op, diagonal, m, n, &one, a, lda, b, ldb);
}

}  // namespace tocha::lapack
