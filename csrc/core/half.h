// Storage-only number types: float16, bfloat16 and the float8 formats.
// Each holds its bits, converts exactly to float, and rounds to nearest-even from float.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "core/isa.h"

TOCHA_ISA_BEGIN

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit BFloat16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>(f != f ? 0x7fc0u : rounded);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

inline float half_to_float(uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h);
#elif defined(__aarch64__)
  return static_cast<float>(std::bit_cast<__fp16>(h));
#else
  // Shift exponent and mantissa into place, then let one multiplication rescale normals and
  // subnormals alike; infinities and NaNs get their exponent filled afterwards.
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t magnitude = static_cast<uint32_t>(h & 0x7fffu) << 13;
  float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t value = std::bit_cast<uint32_t>(scaled);
  value = (h & 0x7c00u) == 0x7c00u ? (magnitude | 0x7f800000u) : value;
  return std::bit_cast<float>(sign | value);
#endif
}

inline uint16_t float_to_half(float f) {
#if defined(__F16C__)
  return static_cast<uint16_t>(_cvtss_sh(f, 0));
#elif defined(__aarch64__)
  return std::bit_cast<uint16_t>(static_cast<__fp16>(f));
#else
  uint32_t u = std::bit_cast<uint32_t>(f);
  uint32_t sign = (u >> 16) & 0x8000u;
  uint32_t a = u & 0x7fffffffu;
  // Subnormal results: adding a power of two makes the hardware round to the half's last place.
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5f) - 0x3f000000u;
  uint32_t normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  uint32_t r = a < 0x38800000u ? subnormal : normal;
  r = a >= 0x47800000u ? 0x7c00u : r;
  r = a > 0x7f800000u ? 0x7e00u : r;
  return static_cast<uint16_t>(sign | r);
#endif
}

struct Half {
  uint16_t bits;

  Half() = default;
  explicit Half(float f) : bits(float_to_half(f)) {}
  operator float() const { return half_to_float(bits); }
};

// Four exponent bits, three of mantissa, no infinity; S.1111.111 is NaN; what is out of range becomes
// the greatest number, as PyTorch has it.
struct Float8_e4m3fn {
  uint8_t bits;

  Float8_e4m3fn() = default;
  explicit Float8_e4m3fn(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    uint8_t sign = static_cast<uint8_t>((u >> 24) & 0x80u);
    uint32_t a = u & 0x7fffffffu;
    // 2^14 has the wanted last place (2^-9) in float's 24 bits.
    uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 16384.0f) - 0x46800000u;
    uint32_t normal = (a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u)) >> 20;
    uint32_t r = a < 0x3c800000u ? subnormal : normal;
    r = a >= 0x43e00000u ? 0x7eu : r;  // from 448 on
    r = a > 0x7f800000u ? 0x7fu : r;
    bits = static_cast<uint8_t>(sign | r);
  }
  operator float() const {
    uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
    uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fu) << 20;
    uint32_t value = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p120f);
    value = (bits & 0x7fu) == 0x7fu ? 0x7fc00000u : value;
    return std::bit_cast<float>(sign | value);
  }
};

// Five exponent bits, two of mantissa: the upper byte of a float16.
struct Float8_e5m2 {
  uint8_t bits;

  Float8_e5m2() = default;
  explicit Float8_e5m2(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    uint8_t sign = static_cast<uint8_t>((u >> 24) & 0x80u);
    uint32_t a = u & 0x7fffffffu;
    // 2^7 has the wanted last place (2^-16) in float's 24 bits.
    uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 128.0f) - 0x43000000u;
    uint32_t normal = (a - 0x38000000u + 0xfffffu + ((a >> 21) & 1u)) >> 21;
    uint32_t r = a < 0x38800000u ? subnormal : normal;
    r = a >= 0x47800000u || r > 0x7cu ? 0x7cu : r;
    r = a > 0x7f800000u ? 0x7fu : r;
    bits = static_cast<uint8_t>(sign | r);
  }
  operator float() const { return half_to_float(static_cast<uint16_t>(bits << 8)); }
};

// The "fnuz" formats: finite, one NaN (0x80), no negative zero. Given are the bits of mantissa and the exponent's bias.
template <int kMantissa, int kBias>
struct Float8Fnuz {
  uint8_t bits;

  Float8Fnuz() = default;
  explicit Float8Fnuz(float f) {
    constexpr int kShift = 23 - kMantissa;
    constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
    // The power of two whose last place among float's 24 bits is that of the subnormals.
    constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 24 - kBias - kMantissa) << 23;
    uint32_t u = std::bit_cast<uint32_t>(f);
    uint32_t a = u & 0x7fffffffu;
    uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(kMagic)) - kMagic;
    uint32_t normal = (a - kRebias + (1u << (kShift - 1)) - 1 + ((a >> kShift) & 1u)) >> kShift;
    uint32_t r = a < kRebias + 0x800000u ? subnormal : normal;
    uint32_t sign = r == 0 ? 0 : (u >> 24) & 0x80u;
    bits = static_cast<uint8_t>(r > 0x7fu ? 0x80u : sign | r);
  }
  operator float() const {
    uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
    uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fu) << (23 - kMantissa);
    const float scale = std::bit_cast<float>(static_cast<uint32_t>(254 - kBias) << 23);
    uint32_t value = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * scale);
    return std::bit_cast<float>(bits == 0x80u ? 0x7fc00000u : sign | value);
  }
};
using Float8_e4m3fnuz = Float8Fnuz<3, 8>;
using Float8_e5m2fnuz = Float8Fnuz<2, 16>;

// Powers of two from 2^-127 to 2^127: an exponent and nothing else; 0xff is NaN. Signs are dropped, ties go up.
struct Float8_e8m0fnu {
  uint8_t bits;

  Float8_e8m0fnu() = default;
  explicit Float8_e8m0fnu(float f) {
    uint32_t a = std::bit_cast<uint32_t>(f) & 0x7fffffffu;
    uint32_t exponent = a >> 23, fraction = a & 0x7fffffu;
    // Below 2^-126 there is no leading one: 2^-127 itself is no tie but the lower neighbour.
    uint32_t half = exponent == 0 ? 0x400001u : 0x400000u;
    uint32_t r = exponent + (fraction >= half ? 1u : 0u);
    bits = static_cast<uint8_t>(exponent == 0xffu ? 0xffu : r);
  }
  operator float() const {
    uint32_t value = bits == 0 ? 0x00400000u : static_cast<uint32_t>(bits) << 23;
    return std::bit_cast<float>(bits == 0xffu ? 0x7fc00000u : value);
  }
};

// Whether T is one of the types above: held in few bits, computed with in float.
template <class T>
inline constexpr bool is_small_float =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float8_e4m3fn> ||
    std::is_same_v<T, Float8_e5m2> || std::is_same_v<T, Float8_e4m3fnuz> || std::is_same_v<T, Float8_e5m2fnuz> ||
    std::is_same_v<T, Float8_e8m0fnu>;

TOCHA_ISA_END
