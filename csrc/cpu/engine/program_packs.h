// Packs of sixteen floats: several registers side by side, so that the long chains of an exponential overlap. What
// compiled graphs compute dear formulas on (codegen/cpp_packs.py); the functions on them are in program_packs_math.h.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/engine/program_vectors.h"

TOCHA_ISA_BEGIN
namespace vec {

constexpr int kPack = 16;
// How much of a pack is in memory: all of it, or the first so many elements.
struct Whole {};
struct First {
  int64_t count;
};

// The first so many, all of it if there are as many: long formulas are compiled once, not for both of the others.
struct Part {
  int64_t count;
};

// Positions of neighbours, by the first; and a number that is the same for all of them.
struct Positions {
  int64_t first;
};
struct Same {
  int64_t value;
};
TOCHA_MATH Same pack(int64_t x) { return {x}; }
// The lane in which a number lies: -1 before the first, 16 after the last.
TOCHA_MATH int32_t lane_of(Same x, Positions at) {
  return x.value < at.first ? -1 : x.value - at.first < kPack ? static_cast<int32_t>(x.value - at.first) : kPack;
}

}  // namespace vec
TOCHA_ISA_END

#if TOCHA_VECTOR_F32
#include "cpu/engine/program_packs_avx512.h"
#else

TOCHA_ISA_BEGIN
namespace vec {

typedef uint32_t U32 __attribute__((vector_size(kBytes)));

constexpr int kParts = kPack * 4 / kBytes;

template <class V>
struct Lanes {
  V part[kParts];
};
using Pack = Lanes<F32>;
using Bits = Lanes<U32>;
using Mask = Lanes<I32>;

// A function's body: the parts of a pack one by one, i naming them. Written out, as lambdas take a compiler long to see
// through.
#define TOCHA_EACH(I, EXPRESSION) \
  {                               \
    constexpr int i = I;          \
    out.part[i] = EXPRESSION;     \
  }
#define TOCHA_BY_PARTS(V, EXPRESSION)                            \
  {                                                              \
    Lanes<V> out;                                                \
    TOCHA_EACH(0, EXPRESSION)                                    \
    TOCHA_EACH(1, EXPRESSION)                                    \
    if constexpr (kParts > 2) TOCHA_EACH(kParts / 2, EXPRESSION) \
    if constexpr (kParts > 2) TOCHA_EACH(kParts - 1, EXPRESSION) \
    return out;                                                  \
  }

// One register: what the language has no operator for.
TOCHA_MATH F32 fused(F32 a, F32 b, F32 c) {  // a * b + c, rounded as math::madd rounds
#if defined(__aarch64__)
  return (F32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif defined(__AVX__) && defined(__FMA__)
  return (F32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}
TOCHA_MATH F32 root(F32 x) {
#if defined(__aarch64__)
  return (F32)vsqrtq_f32((float32x4_t)x);
#elif defined(__AVX__)
  return (F32)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
  return (F32)_mm_sqrt_ps((__m128)x);
#else
  for (int i = 0; i < kBytes / 4; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
// A compiler turns `m ? a : b` around where it thinks that better, which costs comparisons that mind NaNs; bits it
// leaves alone.
TOCHA_MATH F32 one_of(I32 m, F32 a, F32 b) {
#if defined(__aarch64__)
  return (F32)vbslq_f32((uint32x4_t)m, (float32x4_t)a, (float32x4_t)b);
#else
  return m ? a : b;
#endif
}

TOCHA_MATH F32 with_sign(F32 magnitude, F32 sign) {
  const I32 bit = I32{} + static_cast<int32_t>(0x80000000u);
#if defined(__aarch64__)
  return one_of(bit, sign, magnitude);
#else
  return (F32)(((I32)magnitude & ~bit) | ((I32)sign & bit));
#endif
}
TOCHA_MATH F32 lesser(F32 x, F32 high) {  // x where it is NaN
#if defined(__aarch64__)
  return (F32)vminq_f32((float32x4_t)x, (float32x4_t)high);
#else
  return x > high ? high : x;
#endif
}

TOCHA_MATH Pack pack(float x) TOCHA_BY_PARTS(F32, all(x)) TOCHA_MATH Pack pack(Pack x) { return x; }
TOCHA_MATH Mask pack(bool x) TOCHA_BY_PARTS(I32, I32{} - static_cast<int32_t>(x))

    TOCHA_MATH Pack load(const float* p, Whole) TOCHA_BY_PARTS(F32, load(p + i * (kBytes / 4))) TOCHA_MATH Pack
    load(const float* p, First n) {
  float lanes[kPack] = {};
  for (int64_t i = 0; i < n.count; ++i) lanes[i] = p[i];
  return load(lanes, Whole());
}
TOCHA_MATH Mask load(const uint8_t* p, Whole) {  // truths
  Mask m;
#if defined(__aarch64__)
  const uint8x16_t bytes = vld1q_u8(p);
  const int8x16_t set = vreinterpretq_s8_u8(vtstq_u8(bytes, bytes));
  const int16x8_t low = vmovl_s8(vget_low_s8(set)), high = vmovl_high_s8(set);
  m.part[0] = (I32)vmovl_s16(vget_low_s16(low));
  m.part[1] = (I32)vmovl_high_s16(low);
  m.part[2] = (I32)vmovl_s16(vget_low_s16(high));
  m.part[3] = (I32)vmovl_high_s16(high);
#else
  alignas(64) int32_t lanes[kPack];
#pragma GCC ivdep
#pragma GCC unroll 1
  for (int i = 0; i < kPack; ++i) lanes[i] = -static_cast<int32_t>(p[i] != 0);
  std::memcpy(&m, lanes, sizeof m);
#endif
  return m;
}
TOCHA_MATH Mask load(const uint8_t* p, First n) {
  uint8_t lanes[kPack] = {};
  for (int64_t i = 0; i < n.count; ++i) lanes[i] = p[i];
  return load(lanes, Whole());
}
TOCHA_MATH void store(float* p, Pack x, Whole) {  // not as one piece: that would go through the stack
  for (int i = 0; i < kParts; ++i) store(p + i * (kBytes / 4), x.part[i]);
}
TOCHA_MATH void store(float* p, Pack x, First n) {
  float lanes[kPack];
  store(lanes, x, Whole());
  for (int64_t i = 0; i < n.count; ++i) p[i] = lanes[i];
}

#define TOCHA_PACK_ARITHMETIC(OP)                                                                                      \
  TOCHA_MATH Pack operator OP(Pack a, Pack b) TOCHA_BY_PARTS(F32, a.part[i] OP b.part[i]) TOCHA_MATH Pack operator OP( \
      Pack a, float b) {                                                                                               \
    return a OP pack(b);                                                                                               \
  }                                                                                                                    \
  TOCHA_MATH Pack operator OP(float a, Pack b) { return pack(a) OP b; }
TOCHA_PACK_ARITHMETIC(+)
TOCHA_PACK_ARITHMETIC(-)
TOCHA_PACK_ARITHMETIC(*)
TOCHA_PACK_ARITHMETIC(/)
#undef TOCHA_PACK_ARITHMETIC
TOCHA_MATH Pack operator-(Pack a) TOCHA_BY_PARTS(F32, -a.part[i])
#define TOCHA_PACK_COMPARISON(OP)                                                                                      \
  TOCHA_MATH Mask operator OP(Pack a, Pack b) TOCHA_BY_PARTS(I32, a.part[i] OP b.part[i]) TOCHA_MATH Mask operator OP( \
      Pack a, float b) {                                                                                               \
    return a OP pack(b);                                                                                               \
  }
    TOCHA_PACK_COMPARISON(<) TOCHA_PACK_COMPARISON(<=) TOCHA_PACK_COMPARISON(>) TOCHA_PACK_COMPARISON(>=)
        TOCHA_PACK_COMPARISON(==) TOCHA_PACK_COMPARISON(!=)
#undef TOCHA_PACK_COMPARISON

            alignas(64) constexpr int32_t kLaneNumbers[kPack] = {
              0,
              1,
              2,
              3,
              4,
              5,
              6,
              7,
              8,
              9,
              10,
              11,
              12,
              13,
              14,
              15
            };
TOCHA_MATH I32 lane_numbers(int part) {
  I32 x;
  std::memcpy(&x, kLaneNumbers + part * (kBytes / 4), sizeof x);
  return x;
}
#define TOCHA_POSITIONS(OP)                                \
  TOCHA_MATH Mask operator OP(Positions a, Same b) {       \
    const int32_t lane = lane_of(b, a);                    \
    TOCHA_BY_PARTS(I32, lane_numbers(i) OP(I32{} + lane))  \
  }                                                        \
  TOCHA_MATH Mask operator OP(Same a, Positions b) {       \
    const int32_t lane = lane_of(a, b);                    \
    TOCHA_BY_PARTS(I32, (I32{} + lane) OP lane_numbers(i)) \
  }
TOCHA_POSITIONS(<)
TOCHA_POSITIONS(<=)
TOCHA_POSITIONS(>)
TOCHA_POSITIONS(>=)
TOCHA_POSITIONS(==)
TOCHA_POSITIONS(!=)
#undef TOCHA_POSITIONS

#define TOCHA_PACK_LOGIC(OP) TOCHA_MATH Mask operator OP(Mask a, Mask b) TOCHA_BY_PARTS(I32, a.part[i] OP b.part[i])
TOCHA_PACK_LOGIC(&)
TOCHA_PACK_LOGIC(|)
TOCHA_PACK_LOGIC(^)
#undef TOCHA_PACK_LOGIC
TOCHA_MATH Mask operator!(Mask a) TOCHA_BY_PARTS(I32, ~a.part[i])

#define TOCHA_PACK_BITS(OP)                                                                                            \
  TOCHA_MATH Bits operator OP(Bits a, Bits b) TOCHA_BY_PARTS(U32, a.part[i] OP b.part[i]) TOCHA_MATH Bits operator OP( \
      Bits a, uint32_t b) TOCHA_BY_PARTS(U32, a.part[i] OP b)
    TOCHA_PACK_BITS(+) TOCHA_PACK_BITS(-) TOCHA_PACK_BITS(&) TOCHA_PACK_BITS(|) TOCHA_PACK_BITS(<<) TOCHA_PACK_BITS(>>)
#undef TOCHA_PACK_BITS

        TOCHA_MATH Bits bits_of(Pack x) TOCHA_BY_PARTS(U32, (U32)x.part[i]) TOCHA_MATH Bits bits_of(Mask x)
            TOCHA_BY_PARTS(U32, (U32)x.part[i]) TOCHA_MATH Bits operator-(uint32_t a, Bits b)
                TOCHA_BY_PARTS(U32, a - b.part[i]) TOCHA_MATH Pack
    roots(Pack x) TOCHA_BY_PARTS(F32, root(x.part[i])) TOCHA_MATH Pack from_bits(Bits x)
        TOCHA_BY_PARTS(F32, (F32)x.part[i]) TOCHA_MATH Pack madd(Pack a, Pack b, Pack c)
            TOCHA_BY_PARTS(F32, fused(a.part[i], b.part[i], c.part[i])) TOCHA_MATH Pack madd(Pack a, float b, Pack c) {
  return madd(a, pack(b), c);
}
TOCHA_MATH Pack madd(Pack a, Pack b, float c) { return madd(a, b, pack(c)); }
TOCHA_MATH Pack madd(Pack a, float b, float c) { return madd(a, pack(b), pack(c)); }
TOCHA_MATH Pack nmadd(Pack a, float b, Pack c) { return madd(-a, b, c); }
TOCHA_MATH Pack nmadd(Pack a, Pack b, Pack c) { return madd(-a, b, c); }

// Numbers that are added to products, and the coefficients of a polynomial, lowest first.
template <int N>
struct Addends {
  alignas(16) float rows[N][4];
};
template <class... C>
constexpr Addends<sizeof...(C)> addends(C... c) {
  return {{{c, c, c, c}...}};
}
// NEON's fused multiply-add writes over its addend. Read from memory each time it costs nothing beside the arithmetic;
// a copy between registers, which is what a compiler makes of a constant, takes as long as the multiply-add itself.
TOCHA_MATH F32 addend(const float (&row)[4]) {
#if defined(__aarch64__)
  F32 x;
  asm volatile("ldr %q0, %1" : "=w"(x) : "m"(row));
  return x;
#else
  return all(row[0]);
#endif
}
TOCHA_MATH Pack madd(Pack a, Pack b, const float (&row)[4])
    TOCHA_BY_PARTS(F32, fused(a.part[i], b.part[i], addend(row))) template <int K = 0, int N>
    TOCHA_MATH Pack poly(Pack x, const Addends<N>& c) {
  if constexpr (K == N - 1) {
    return pack(c.rows[K][0]);
  } else {
    return madd(x, poly<K + 1>(x, c), c.rows[K]);
  }
}

TOCHA_MATH Pack choose(Mask m, Pack a, Pack b)
    TOCHA_BY_PARTS(F32, one_of(m.part[i], a.part[i], b.part[i])) TOCHA_MATH Pack choose(Mask m, float a, Pack b) {
  return choose(m, pack(a), b);
}
TOCHA_MATH Pack choose(Mask m, Pack a, float b) { return choose(m, a, pack(b)); }
TOCHA_MATH Pack with_signs(Pack magnitude, Pack sign)
    TOCHA_BY_PARTS(F32, with_sign(magnitude.part[i], sign.part[i])) TOCHA_MATH Pack least(Pack a, Pack b)
        TOCHA_BY_PARTS(F32, lesser(a.part[i], b.part[i])) TOCHA_MATH Pack zero_where(Mask m, Pack x)
            TOCHA_BY_PARTS(F32, (F32)((I32)x.part[i] & ~m.part[i]))

                TOCHA_MATH bool any(Mask m) {
  I32 found = m.part[0];
  for (int i = 1; i < kParts; ++i) found |= m.part[i];
#if defined(__aarch64__)
  return vmaxvq_u32((uint32x4_t)found) != 0;
#elif defined(__AVX__)
  return _mm256_movemask_ps((__m256)found) != 0;
#elif defined(__x86_64__)
  return _mm_movemask_ps((__m128)found) != 0;
#else
  int32_t lanes = 0;
  for (int i = 0; i < kBytes / 4; ++i) lanes |= found[i];
  return lanes != 0;
#endif
}

TOCHA_MATH float first(Pack x) { return first(x.part[0]); }
template <int kDistance>
TOCHA_MATH Pack swapped(Pack x) {
  constexpr int kLanes = kBytes / 4;
  if constexpr (kDistance >= kLanes) {
    TOCHA_BY_PARTS(F32, x.part[i ^ (kDistance / kLanes)])
  } else {
    TOCHA_BY_PARTS(F32, swapped<kDistance>(x.part[i]))
  }
}

}  // namespace vec
TOCHA_ISA_END

#endif

TOCHA_ISA_BEGIN
namespace vec {

// Elements of several packs in turn: those of one lane side by side.
template <int kPacks>
TOCHA_MATH void store_in_turn(float* p, const Pack (&x)[kPacks], int64_t count) {
  alignas(64) float lanes[kPacks][kPack];
  for (int k = 0; k < kPacks; ++k) store(lanes[k], x[k], Whole());
  for (int64_t i = 0; i < count; ++i) {
    for (int k = 0; k < kPacks; ++k) p[i * kPacks + k] = lanes[k][i];
  }
}
template <int kPacks>
TOCHA_MATH void store_in_turn(float* p, const Pack (&x)[kPacks], Whole) {
  store_in_turn(p, x, kPack);
}
template <int kPacks>
TOCHA_MATH void store_in_turn(float* p, const Pack (&x)[kPacks], First n) {
  store_in_turn(p, x, n.count);
}
template <int kPacks>
TOCHA_MATH void store_in_turn(float* p, const Pack (&x)[kPacks], Part n) {
  store_in_turn(p, x, n.count < kPack ? n.count : kPack);
}
template <class T>
TOCHA_MATH auto load(const T* p, Part n) {
  return n.count < kPack ? load(p, First{n.count}) : load(p, Whole());
}
TOCHA_MATH void store(float* p, Pack x, Part n) {
  if (n.count < kPack) {
    store(p, x, First{n.count});
  } else {
    store(p, x, Whole());
  }
}

}  // namespace vec
TOCHA_ISA_END
