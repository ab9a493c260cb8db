// Uniform and normal numbers from engine words; see kernels.h.
//
// PyTorch's numbers on CPUs with AVX2 and on ARM are met to the last bit, so the order of operations is part of the
// result: where a product is added to something, an explicit fused multiply-add says so.
#include "cpu/random/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#if defined(__F16C__)
#include <immintrin.h>
#endif

TOCHA_ISA_BEGIN
namespace random {
namespace {

constexpr int kHalfBlock = 8;
constexpr int64_t kBlock = 2 * kHalfBlock;

[[gnu::always_inline]] inline float fused(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  // The product is exact in double; only a tie in the 29 bits beyond float could round differently.
  return static_cast<float>(static_cast<double>(a) * b + c);
#endif
}

[[gnu::always_inline]] inline float uniform_from(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word & 0xffffffu)) * 0x1p-24f;
}

#ifndef __aarch64__
// Natural logarithm for x in (0, 1]: x = 2^e * m with m in [sqrt(1/2), sqrt(2)), Cephes' minimax polynomial
// (Moshier) for log m, ln 2 in two parts.
[[gnu::always_inline]] inline float log_unit(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  float mantissa = std::bit_cast<float>((bits & 0x7fffffu) | 0x3f000000u);
  bool low = mantissa < 0.707106781186547524f;
  float e = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126 - static_cast<int32_t>(low));
  float x = (low ? mantissa + mantissa : mantissa) - 1.0f;
  float p = 7.0376836292e-2f;
  p = fused(p, x, -1.1514610310e-1f);
  p = fused(p, x, 1.1676998740e-1f);
  p = fused(p, x, -1.2420140846e-1f);
  p = fused(p, x, 1.4249322787e-1f);
  p = fused(p, x, -1.6668057665e-1f);
  p = fused(p, x, 2.0000714765e-1f);
  p = fused(p, x, -2.4999993993e-1f);
  p = fused(p, x, 3.3333331174e-1f);
  float x2 = x * x;
  float y = fused(p * x, x2, e * -2.12194440e-4f);
  y = fused(x2, -0.5f, y);
  return fused(e, 0.693359375f, x + y);
}

// Sine and cosine for an angle in [0, 2 pi): reduced to [-pi/4, pi/4] by pi/4 in three parts, then Cephes'
// minimax polynomials.
[[gnu::always_inline]] inline void sin_cos(float angle, float& sine, float& cosine) {
  int32_t octant = (static_cast<int32_t>(angle * 1.27323954473516f) + 1) & ~1;
  float j = static_cast<float>(octant);
  float x = fused(j, -0.78515625f, angle);
  x = fused(j, -2.4187564849853515625e-4f, x);
  x = fused(j, -3.77489497744594108e-8f, x);
  float x2 = x * x;
  float c = fused(2.443315711809948e-5f, x2, -1.388731625493765e-3f);
  c = fused(c, x2, 4.166664568298827e-2f);
  c = fused(c * x2, x2, x2 * -0.5f) + 1.0f;
  float s = fused(-1.9515295891e-4f, x2, 8.3321608736e-3f);
  s = fused(s, x2, -1.6666654611e-1f);
  s = fused(s * x2, x, x);
  bool swap = octant & 2;
  uint32_t sine_sign = static_cast<uint32_t>(octant & 4) << 29;
  uint32_t cosine_sign = static_cast<uint32_t>((octant + 2) & 4) << 29;
  sine = std::bit_cast<float>(std::bit_cast<uint32_t>(swap ? c : s) ^ sine_sign);
  cosine = std::bit_cast<float>(std::bit_cast<uint32_t>(swap ? s : c) ^ cosine_sign);
}

#endif

// Words of one block to its 16 normals.
[[gnu::always_inline]] inline void normal_block(const uint32_t* words, float mean, float std, float* out) {
  for (int i = 0; i < kHalfBlock; ++i) {
#ifdef __aarch64__  // the functions of the C library there
    float radius = __builtin_sqrtf(-2.0f * std::log(1.0f - uniform_from(words[i])));
    float angle = static_cast<float>(6.283185307179586 * static_cast<double>(uniform_from(words[i + kHalfBlock])));
    float sine = std::sin(angle), cosine = std::cos(angle);
#else
    float radius = __builtin_sqrtf(-2.0f * log_unit(1.0f - uniform_from(words[i])));
    float sine, cosine;
    sin_cos(6.283185307179586f * uniform_from(words[i + kHalfBlock]), sine, cosine);
#endif
    out[i] = fused(radius * cosine, std, mean);
    out[i + kHalfBlock] = fused(radius * sine, std, mean);
  }
}

// float to a 16-bit dtype, in runs that stay in registers and the first cache; n is a multiple of 8.
constexpr int64_t kRun = 256;

inline void round_run(const float* from, int64_t n, BFloat16* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = BFloat16(from[i]);
}
inline void round_run(const float* from, int64_t n, Half* out) {
#if defined(__F16C__)
  for (int64_t i = 0; i < n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  }
#else
  for (int64_t i = 0; i < n; ++i) out[i] = Half(from[i]);
#endif
}

void normal_floats(const uint32_t* words, int64_t blocks, float mean, float std, float* out) {
  for (int64_t b = 0; b < blocks; ++b) normal_block(words + b * kBlock, mean, std, out + b * kBlock);
}

template <class T>
void normal_blocks(const uint32_t* words, int64_t blocks, float mean, float std, T* out) {
  float run[kRun];
  for (int64_t start = 0; start < blocks; start += kRun / kBlock) {
    int64_t count = std::min(kRun / kBlock, blocks - start);
    normal_floats(words + start * kBlock, count, mean, std, run);
    round_run(run, count * kBlock, out + start * kBlock);
  }
}

void uniform24(const uint32_t* words, int64_t n, float from, float to, float* out) {
  float range = to - from;
  for (int64_t i = 0; i < n; ++i) {
    float value = fused(uniform_from(words[i]), range, from);
    out[i] = value == to ? from : value;
  }
}

template <class T>
void uniform24(const uint32_t* words, int64_t n, float from, float to, T* out) {
  float range = to - from;
  uint16_t first = T(from).bits, last = T(to).bits;
  // Where `to` is zero, what rounds to -0 equals it too.
  uint16_t significant = (last & 0x7fffu) == 0 ? 0x7fffu : 0xffffu;
  float run[kRun];
  T rounded[kRun];
  for (int64_t start = 0; start < n; start += kRun) {
    int64_t count = std::min(kRun, n - start);
    for (int64_t i = 0; i < count; ++i) run[i] = fused(uniform_from(words[start + i]), range, from);
    for (int64_t i = count; i % 8 != 0; ++i) run[i] = 0.0f;
    round_run(run, (count + 7) / 8 * 8, rounded);
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits = rounded[i].bits;
      out[start + i].bits = ((bits ^ last) & significant) == 0 ? first : bits;
    }
  }
}

void uniform53(const uint32_t* words, int64_t n, double from, double to, double* out) {
  double range = to - from;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t bits = static_cast<uint64_t>(words[2 * i] & 0x1fffffu) << 32 | words[2 * i + 1];
    // Two exact halves instead of one 64-bit conversion, which few instruction sets have for vectors.
    double high = std::bit_cast<double>((bits >> 32) | 0x4530000000000000u) - 0x1p84;
    double low = std::bit_cast<double>((bits & 0xffffffffu) | 0x4330000000000000u) - 0x1p52;
    double value = std::fma((high + low) * 0x1p-53, range, from);
    out[i] = value == to ? from : value;
  }
}

void uniform24_of(DType dtype, const uint32_t* words, int64_t n, float from, float to, void* out) {
  switch (dtype) {
    case DType::Float32:
      return uniform24(words, n, from, to, static_cast<float*>(out));
    case DType::Float16:
      return uniform24(words, n, from, to, static_cast<Half*>(out));
    case DType::BFloat16:
      return uniform24(words, n, from, to, static_cast<BFloat16*>(out));
    default:
      __builtin_unreachable();
  }
}

void normal_blocks_of(DType dtype, const uint32_t* words, int64_t blocks, float mean, float std, void* out) {
  switch (dtype) {
    case DType::Float32:
      return normal_floats(words, blocks, mean, std, static_cast<float*>(out));
    case DType::Float16:
      return normal_blocks(words, blocks, mean, std, static_cast<Half*>(out));
    case DType::BFloat16:
      return normal_blocks(words, blocks, mean, std, static_cast<BFloat16*>(out));
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace random
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {

extern const RandomKernels random_kernels;
const RandomKernels random_kernels = {random::uniform24_of, random::uniform53, random::normal_blocks_of};

}  // namespace tocha::cpu::TOCHA_ISA_TABLES
