// Arithmetic on vectors, and the register tile of matrix products that fits the instruction set's registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "core/dtype.h"
#include "cpu/engine/isa/vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

TOCHA_ISA_BEGIN
namespace gemm {

using namespace vectors;

// Tile height: as many accumulators as the registers hold beside one row of b and a broadcast.
#if defined(__AVX512F__)
constexpr int kFloatRows = 14;
#elif defined(__aarch64__)
constexpr int kFloatRows = 12;
#else
constexpr int kFloatRows = 6;
#endif
template <class T>
constexpr int kTileRows = static_cast<T>(0.5) != 0 ? kFloatRows : 6;
constexpr int kTileVectors = 2;
template <class T>
constexpr int kTileColumns = kTileVectors * kLanes<T>;

template <class T>
inline Vec<T> broadcast(T x) {
  return x - Vec<T>{};
}

// acc + a * b with one rounding where the hardware can, whatever the compiler's contraction mode.
template <class T>
inline Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> acc) {
  return acc + a * b;
}
#if defined(__AVX512F__)
template <>
inline Vec<float> multiply_add<float>(Vec<float> a, Vec<float> b, Vec<float> acc) {
  return (Vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)acc);
}
template <>
inline Vec<double> multiply_add<double>(Vec<double> a, Vec<double> b, Vec<double> acc) {
  return (Vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)acc);
}
#elif defined(__FMA__)
template <>
inline Vec<float> multiply_add<float>(Vec<float> a, Vec<float> b, Vec<float> acc) {
  return (Vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)acc);
}
template <>
inline Vec<double> multiply_add<double>(Vec<double> a, Vec<double> b, Vec<double> acc) {
  return (Vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)acc);
}
#elif defined(__aarch64__)
template <>
inline Vec<float> multiply_add<float>(Vec<float> a, Vec<float> b, Vec<float> acc) {
  return (Vec<float>)vfmaq_f32((float32x4_t)acc, (float32x4_t)a, (float32x4_t)b);
}
template <>
inline Vec<double> multiply_add<double>(Vec<double> a, Vec<double> b, Vec<double> acc) {
  return (Vec<double>)vfmaq_f64((float64x2_t)acc, (float64x2_t)a, (float64x2_t)b);
}
#endif

// All lanes, from the first on.
template <class T>
inline T sum_of(Vec<T> v) {
  T sum = 0;
  for (int i = 0; i < kLanes<T>; ++i) sum += v[i];
  return sum;
}

// The first `count` lanes; the others are zero.
template <class T>
inline Vec<T> load_first(const T* p, int64_t count) {
  Vec<T> v{};
  std::memcpy(&v, p, static_cast<size_t>(count) * sizeof(T));
  return v;
}
template <class T>
inline void store_first(T* p, Vec<T> v, int64_t count) {
  std::memcpy(p, &v, static_cast<size_t>(count) * sizeof(T));
}
#if defined(__AVX512F__)
inline __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
template <>
inline Vec<float> load_first<float>(const float* p, int64_t count) {
  return (Vec<float>)_mm512_maskz_loadu_ps(first_lanes(count), p);
}
template <>
inline Vec<double> load_first<double>(const double* p, int64_t count) {
  return (Vec<double>)_mm512_maskz_loadu_pd(static_cast<__mmask8>(first_lanes(count)), p);
}
template <>
inline void store_first<float>(float* p, Vec<float> v, int64_t count) {
  _mm512_mask_storeu_ps(p, first_lanes(count), (__m512)v);
}
template <>
inline void store_first<double>(double* p, Vec<double> v, int64_t count) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>(first_lanes(count)), (__m512d)v);
}
#endif

// Lanes [begin, end) of p, zeros in the others; p may point beyond what exists by whole lanes.
template <class T>
inline Vec<T> load_between(const T* p, int64_t begin, int64_t end) {
  begin = begin < 0 ? 0 : begin;
  end = end > kLanes<T> ? kLanes<T> : end;
  if (begin == 0 && end == kLanes<T>) return load(p);
  Vec<T> v{};
  for (int64_t i = begin; i < end; ++i) v[i] = p[i];
  return v;
}
#if defined(__AVX512F__)
template <>
inline Vec<float> load_between<float>(const float* p, int64_t begin, int64_t end) {
  const uint32_t below = begin <= 0 ? 0u : begin >= 16 ? 0xffffu : (1u << begin) - 1;
  const uint32_t within = end <= 0 ? 0u : end >= 16 ? 0xffffu : (1u << end) - 1;
  return (Vec<float>)_mm512_maskz_loadu_ps(static_cast<__mmask16>(within & ~below), p);
}
#endif

// The low (or high) halves of two vectors, element by element in turn.
template <class T, bool kHigh, size_t... lane>
inline Vec<T> interleave_half(Vec<T> a, Vec<T> b, std::index_sequence<lane...>) {
  constexpr int from = kHigh ? kLanes<T> / 2 : 0;
  return __builtin_shufflevector(a, b, (from + static_cast<int>(lane) / 2 + (lane % 2 ? kLanes<T> : 0))...);
}

// Transposes a square of vectors: each round of interleaving moves one bit of the row number into
// the lane number.
template <class T>
inline __attribute__((always_inline)) void transpose(Vec<T> (&v)[kLanes<T>]) {
  constexpr int n = kLanes<T>;
  constexpr auto lanes = std::make_index_sequence<n>{};
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
    Vec<T> w[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      w[2 * i] = interleave_half<T, false>(v[i], v[i + n / 2], lanes);
      w[2 * i + 1] = interleave_half<T, true>(v[i], v[i + n / 2], lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) v[i] = w[i];
  }
}

// Of two vectors, every other element from the first (or, with kOdd, the second) on.
template <class T, bool kOdd, size_t... lane>
inline Vec<T> every_other(Vec<T> a, Vec<T> b, std::index_sequence<lane...>) {
  return __builtin_shufflevector(a, b, (2 * static_cast<int>(lane) + (kOdd ? 1 : 0))...);
}

#if defined(__AVX512F__)
// Writes p[0], p[2], ..., `count` elements, and leaves those between as they are.
inline void store_every_other(float* p, Vec<float> v, int64_t count) {
  constexpr auto lanes = std::make_index_sequence<16>{};
  const uint32_t mask = count >= 16 ? 0x55555555u : 0x55555555u & ((1u << 2 * count) - 1);
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>(mask), (__m512)interleave_half<float, false>(v, v, lanes));
  _mm512_mask_storeu_ps(p + 16, static_cast<__mmask16>(mask >> 16), (__m512)interleave_half<float, true>(v, v, lanes));
}
#endif

}  // namespace gemm
TOCHA_ISA_END
