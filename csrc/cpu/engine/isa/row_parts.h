// Beginnings of vectors, for rows that are shorter than one; for the row kernels of this folder.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "cpu/engine/isa/row_sums.h"

TOCHA_ISA_BEGIN
namespace rows {

// The first n lanes, which must be fewer than there are; the others are 0.
template <class T>
inline Vec<T> load_part(const T* p, int64_t n) {
  Vec<T> v{};
  for (int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
template <class T>
inline void store_part(T* p, Vec<T> v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
// v in the first n lanes, 0 in the others.
template <class T>
inline Vec<T> keep_part(Vec<T> v, int64_t n) {
  for (int64_t i = n; i < kLanes<T>; ++i) v[i] = 0;
  return v;
}
#if defined(__AVX512F__)
inline __mmask16 lanes_below(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
template <>
inline Vec<float> load_part<float>(const float* p, int64_t n) {
  return (Vec<float>)_mm512_maskz_loadu_ps(lanes_below(n), p);
}
template <>
inline Vec<double> load_part<double>(const double* p, int64_t n) {
  return (Vec<double>)_mm512_maskz_loadu_pd(static_cast<__mmask8>(lanes_below(n)), p);
}
template <>
inline void store_part<float>(float* p, Vec<float> v, int64_t n) {
  _mm512_mask_storeu_ps(p, lanes_below(n), (__m512)v);
}
template <>
inline void store_part<double>(double* p, Vec<double> v, int64_t n) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>(lanes_below(n)), (__m512d)v);
}
template <>
inline Vec<float> keep_part<float>(Vec<float> v, int64_t n) {
  return (Vec<float>)_mm512_maskz_mov_ps(lanes_below(n), (__m512)v);
}
template <>
inline Vec<double> keep_part<double>(Vec<double> v, int64_t n) {
  return (Vec<double>)_mm512_maskz_mov_pd(static_cast<__mmask8>(lanes_below(n)), (__m512d)v);
}
#endif

template <class T, int N>
struct LanesOf {
  typedef T type __attribute__((vector_size(N * sizeof(T)), may_alias));
};
// The sum of N lanes: halves are added until two are left.
template <class T, int N>
inline T sum_halves(typename LanesOf<T, N>::type v) {
  if constexpr (N == 2) {
    return v[0] + v[1];
  } else {
    typename LanesOf<T, N / 2>::type low, high;
    std::memcpy(&low, &v, sizeof(low));
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(low), sizeof(high));
    return sum_halves<T, N / 2>(low + high);
  }
}
template <class T>
inline T sum_lanes(Vec<T> v) {
  return sum_halves<T, kLanes<T>>(v);
}

}  // namespace rows
TOCHA_ISA_END
