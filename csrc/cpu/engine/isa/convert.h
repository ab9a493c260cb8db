// Loads of storage elements as vectors of the compute type, and the dispatch from dtype to storage
// type. Included by the gemm files of this folder only.
#pragma once

#include <type_traits>

#include "cpu/engine/isa/simd.h"

TOCHA_ISA_BEGIN
namespace gemm {

// A storage element in the compute type. Integers wrap: conversion to unsigned is modulo 2^n.
template <class T, class S>
inline T widen(S x) {
  return static_cast<T>(x);
}

// The element that a compute value is stored as, rounded to nearest or truncated modulo 2^n.
template <class S, class T>
inline S narrow(T x) {
  return static_cast<S>(x);
}

typedef uint32_t FloatBits __attribute__((vector_size(kVectorBytes)));
typedef uint16_t HalfBits __attribute__((vector_size(kVectorBytes / 2)));
template <class S, class T>
struct NarrowVecOf {
  typedef S type __attribute__((vector_size(kVectorBytes / sizeof(T) * sizeof(S))));
};

// kLanes<T> elements of storage type S.
template <class T, class S>
inline Vec<T> load_as(const S* p) {
  if constexpr (std::is_same_v<T, S>) {
    return load<T>(p);
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    // Compilers take vectors of halves apart, element by element, where they are to widen them.
#if defined(__AVX512F__)
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return (Vec<float>)_mm512_slli_epi32(_mm512_maskz_cvtepu16_epi32(0xffff, bits), 16);
#elif defined(__aarch64__)
    return (Vec<float>)vshlq_n_u32(vmovl_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))), 16);
#else
    HalfBits bits;
    std::memcpy(&bits, p, sizeof(bits));
    return (Vec<float>)(__builtin_convertvector(bits, FloatBits) << 16);
#endif
  } else if constexpr (std::is_same_v<S, Half>) {
#if defined(__AVX512F__)
    return (Vec<float>)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
    return (Vec<float>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__aarch64__)
    return (Vec<float>)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))));
#else
    Vec<float> v;
    for (int i = 0; i < kLanes<float>; ++i) v[i] = widen<float>(p[i]);
    return v;
#endif
  } else {
    using Narrow = typename NarrowVecOf<S, T>::type;
    Narrow v;
    std::memcpy(&v, p, sizeof(v));
    return (Vec<T>)__builtin_convertvector(v, Vec<T>);
  }
}

template <class T, class S>
inline Vec<T> load_first_as(const S* p, int64_t count) {
  if constexpr (std::is_same_v<T, S>) {
    return load_first<T>(p, count);
  } else {
    S padded[kLanes<T>] = {};
    std::memcpy(padded, p, static_cast<size_t>(count) * sizeof(S));
    return load_as<T, S>(padded);
  }
}

// Stores kLanes<T> elements in storage type S.
template <class S, class T>
inline void store_as(S* p, Vec<T> v) {
  if constexpr (std::is_same_v<T, S>) {
    store<T>(p, v);
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    FloatBits u = (FloatBits)v;
    FloatBits rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    FloatBits is_nan = (FloatBits)(v != v);
    HalfBits bits = __builtin_convertvector((rounded & ~is_nan) | (0x7fc0u & is_nan), HalfBits);
    std::memcpy(p, &bits, sizeof(bits));
  } else if constexpr (std::is_same_v<S, Half>) {
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
    vst1_u16(reinterpret_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
#else
    for (int i = 0; i < kLanes<float>; ++i) p[i] = narrow<S>(v[i]);
#endif
  } else {
    using Narrow = typename NarrowVecOf<S, T>::type;
    Narrow narrow = __builtin_convertvector(v, Narrow);
    std::memcpy(p, &narrow, sizeof(narrow));
  }
}

template <class S>
struct Storage {
  using type = S;
};

// Calls f(Storage<S>{}) with the storage type of a dtype that computes in T.
template <class T, class F>
inline void with_storage(DType dtype, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    switch (dtype) {
      case DType::BFloat16:
        return f(Storage<BFloat16>{});
      case DType::Float16:
        return f(Storage<Half>{});
      default:
        return f(Storage<float>{});
    }
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    switch (dtype) {
      case DType::Int8:
        return f(Storage<int8_t>{});
      case DType::UInt8:
        return f(Storage<uint8_t>{});
      case DType::Int16:
        return f(Storage<int16_t>{});
      case DType::UInt16:
        return f(Storage<uint16_t>{});
      default:
        return f(Storage<uint32_t>{});  // int32 has the same bits and the same arithmetic
    }
  } else {
    f(Storage<T>{});
  }
}

}  // namespace gemm
TOCHA_ISA_END
