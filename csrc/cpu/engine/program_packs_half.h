// Packs read from, and written to, memory of float16 and bfloat16. On packs a number of such a type is the float that
// it stands for: rounding to the type is an operation of its own (cast), what is stored afterwards is exact.
#pragma once

#include "core/half.h"
#include "cpu/engine/program_packs.h"

TOCHA_ISA_BEGIN
namespace vec {

#if TOCHA_VECTOR_F32

TOCHA_MATH __m512i bits_of(Pack x) { return _mm512_castps_si512(x.lanes); }
TOCHA_MATH Pack load(const BFloat16* p, Whole) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
TOCHA_MATH void store(BFloat16* p, Pack x, Whole) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits_of(x), 16)));
}
TOCHA_MATH Pack rounded(Pack x, BFloat16) {
  __m512i u = bits_of(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  u = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  u = _mm512_and_si512(u, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  return choose(x != x, pack(std::bit_cast<float>(0x7fc00000u)), Pack{_mm512_castsi512_ps(u)});
}
TOCHA_MATH Pack load(const Half* p, Whole) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
TOCHA_MATH void store(Half* p, Pack x, Whole) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x.lanes, 0));
}

#else

// One register of bfloat16: the upper halves of floats.
#if defined(__aarch64__)
TOCHA_MATH F32 widened(const BFloat16* p) {
  return (F32)vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p)), 16);
}
TOCHA_MATH void store(BFloat16* p, F32 x) {
  vst1_u16(reinterpret_cast<uint16_t*>(p), vmovn_u32((uint32x4_t)((U32)x >> 16u)));
}
#else
typedef uint16_t U16 __attribute__((vector_size(kBytes / 2)));
TOCHA_MATH F32 widened(const BFloat16* p) {
  U16 x;
  std::memcpy(&x, p, sizeof x);
  return (F32)(__builtin_convertvector(x, U32) << 16u);
}
TOCHA_MATH void store(BFloat16* p, F32 x) {
  U16 narrow = __builtin_convertvector((U32)x >> 16u, U16);
  std::memcpy(p, &narrow, sizeof narrow);
}
#endif
TOCHA_MATH Pack load(const BFloat16* p, Whole) TOCHA_BY_PARTS(F32, widened(p + i * (kBytes / 4))) TOCHA_MATH
    void store(BFloat16* p, Pack x, Whole) {
  for (int i = 0; i < kParts; ++i) store(p + i * (kBytes / 4), x.part[i]);
}
TOCHA_MATH Pack rounded(Pack x, BFloat16) {
  Bits u = bits_of(x);
  u = u + ((u >> 16u) & 1u) + 0x7fffu;
  Pack number = choose(x == x, from_bits(u), pack(std::bit_cast<float>(0x7fc00000u)));
  return from_bits(bits_of(number) & 0xffff0000u);  // last, as a store has no need of it
}
TOCHA_MATH Pack load(const Half* p, Whole) {
  alignas(64) float lanes[kPack];
#pragma GCC ivdep
#pragma GCC unroll 1
  for (int i = 0; i < kPack; ++i) lanes[i] = p[i];
  return load(lanes, Whole());
}
TOCHA_MATH void store(Half* p, Pack x, Whole) {
  alignas(64) float lanes[kPack];
  store(lanes, x, Whole());
#pragma GCC ivdep
#pragma GCC unroll 1
  for (int i = 0; i < kPack; ++i) p[i].bits = Half(lanes[i]).bits;
}

#endif

TOCHA_MATH Pack rounded(Pack x, Half) {
  Half lanes[kPack];
  store(lanes, x, Whole());
  return load(lanes, Whole());
}

// One register of floats, for folds.
#if TOCHA_VECTOR_F32
TOCHA_MATH F32 load(const BFloat16* p) { return load(p, Whole()).lanes; }
TOCHA_MATH F32 load(const Half* p) { return load(p, Whole()).lanes; }
#else
TOCHA_MATH F32 load(const BFloat16* p) { return widened(p); }
TOCHA_MATH F32 load(const Half* p) {
#if defined(__aarch64__)
  return (F32)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))));
#elif defined(__AVX__) && defined(__F16C__)
  return (F32)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  F32 x;
  for (int i = 0; i < kBytes / 4; ++i) x[i] = p[i];
  return x;
#endif
}
#endif

template <class T>
concept Small = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <Small T>
TOCHA_MATH Pack pack(T x) {
  return pack(static_cast<float>(x));
}
template <Small T>
TOCHA_MATH Pack load(const T* p, First n) {
  T lanes[kPack] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n.count) * sizeof(T));
  return load(lanes, Whole());
}
template <Small T>
TOCHA_MATH void store(T* p, Pack x, First n) {
  T lanes[kPack];
  store(lanes, x, Whole());
  std::memcpy(p, lanes, static_cast<size_t>(n.count) * sizeof(T));
}
template <Small T>
TOCHA_MATH void store(T* p, Pack x, Part n) {
  if (n.count < kPack) {
    store(p, x, First{n.count});
  } else {
    store(p, x, Whole());
  }
}

// Conversions within a formula: truths and small floats to float, floats to small ones.
template <class To>
TOCHA_MATH Pack cast(Pack x) {
  if constexpr (Small<To>) {
    return rounded(x, To());
  } else {
    return x;
  }
}
template <class To>
TOCHA_MATH Pack cast(Mask m) {
  return choose(m, pack(1.0f), pack(0.0f));
}
// Positions that 32 bits hold.
template <class To>
TOCHA_MATH Pack cast(Positions at) {
  const int32_t first = static_cast<int32_t>(at.first);
#if TOCHA_VECTOR_F32
  return {_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_set1_epi32(first), lane_numbers()))};
#else
  TOCHA_BY_PARTS(F32, __builtin_convertvector(lane_numbers(i) + first, F32))
#endif
}

// Elements that lie so many apart.
template <int64_t kStep, class T>
TOCHA_MATH auto load_apart(const T* p, First n) {
  T lanes[kPack] = {};
  for (int64_t i = 0; i < n.count; ++i) lanes[i] = p[i * kStep];
  return load(lanes, Whole());
}
template <int64_t kStep, class T>
TOCHA_MATH auto load_apart(const T* p, Whole) {
  alignas(64) T lanes[kPack];
#pragma GCC ivdep
#pragma GCC unroll 16
  for (int i = 0; i < kPack; ++i) lanes[i] = p[i * kStep];
  return load(lanes, Whole());
}
template <int64_t kStep, class T>
TOCHA_MATH auto load_apart(const T* p, Part n) {
  return n.count < kPack ? load_apart<kStep>(p, First{n.count}) : load_apart<kStep>(p, Whole());
}
#if TOCHA_VECTOR_F32
TOCHA_MATH Pack reversed(Pack x) {
  return {_mm512_permutexvar_ps(_mm512_sub_epi32(_mm512_set1_epi32(kPack - 1), lane_numbers()), x.lanes)};
}
#else
template <int... I>
TOCHA_MATH F32 reversed_lanes(F32 x, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(x, x, (kBytes / 4 - 1 - I)...);
}
TOCHA_MATH Pack reversed(Pack x)
    TOCHA_BY_PARTS(F32, reversed_lanes(x.part[kParts - 1 - i], std::make_integer_sequence<int, kBytes / 4>()))
#endif
template <>
TOCHA_MATH auto load_apart<-1, float>(const float* p, Whole) {
  return reversed(load(p - (kPack - 1), Whole()));
}

}  // namespace vec
TOCHA_ISA_END
