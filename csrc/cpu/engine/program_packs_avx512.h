// Packs of sixteen floats where one register holds them: as in program_packs.h, with the masks of AVX-512.
#pragma once

#include "cpu/engine/program_vectors.h"

TOCHA_ISA_BEGIN
namespace vec {

struct Pack {
  math::F32x16 lanes;
};
struct Mask {
  __mmask16 lanes;
};

TOCHA_MATH Pack pack(float x) { return {math::splat(x)}; }
TOCHA_MATH Pack pack(Pack x) { return x; }
TOCHA_MATH Mask pack(bool x) { return {static_cast<__mmask16>(x ? 0xffff : 0)}; }

TOCHA_MATH __mmask16 first_lanes(First n) { return static_cast<__mmask16>((1u << n.count) - 1); }
TOCHA_MATH Pack load(const float* p, Whole) { return {math::load(p)}; }
TOCHA_MATH Pack load(const float* p, First n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
TOCHA_MATH Mask load(const uint8_t* p, First n) {  // truths
  uint8_t lanes[kPack] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n.count));
  __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes)));
  return {_mm512_test_epi32_mask(wide, wide)};
}
TOCHA_MATH Mask load(const uint8_t* p, Whole) {
  __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm512_test_epi32_mask(wide, wide)};
}
TOCHA_MATH void store(float* p, Pack x, Whole) { math::store(p, x.lanes); }
TOCHA_MATH void store(float* p, Pack x, First n) { _mm512_mask_storeu_ps(p, first_lanes(n), x.lanes); }

#define TOCHA_PACK_ARITHMETIC(OP)                                                      \
  TOCHA_MATH Pack operator OP(Pack a, Pack b) { return {a.lanes OP b.lanes}; }         \
  TOCHA_MATH Pack operator OP(Pack a, float b) { return {a.lanes OP math::splat(b)}; } \
  TOCHA_MATH Pack operator OP(float a, Pack b) { return {math::splat(a) OP b.lanes}; }
TOCHA_PACK_ARITHMETIC(+)
TOCHA_PACK_ARITHMETIC(-)
TOCHA_PACK_ARITHMETIC(*)
TOCHA_PACK_ARITHMETIC(/)
#undef TOCHA_PACK_ARITHMETIC
TOCHA_MATH Pack operator-(Pack a) { return {-a.lanes}; }

#define TOCHA_PACK_COMPARISON(OP, PREDICATE)                                                                \
  TOCHA_MATH Mask operator OP(Pack a, Pack b) { return {_mm512_cmp_ps_mask(a.lanes, b.lanes, PREDICATE)}; } \
  TOCHA_MATH Mask operator OP(Pack a, float b) { return a OP pack(b); }
TOCHA_PACK_COMPARISON(<, _CMP_LT_OQ)
TOCHA_PACK_COMPARISON(<=, _CMP_LE_OQ)
TOCHA_PACK_COMPARISON(>, _CMP_GT_OQ)
TOCHA_PACK_COMPARISON(>=, _CMP_GE_OQ)
TOCHA_PACK_COMPARISON(==, _CMP_EQ_OQ)
TOCHA_PACK_COMPARISON(!=, _CMP_NEQ_UQ)
#undef TOCHA_PACK_COMPARISON

#define TOCHA_POSITIONS(OP, PREDICATE)                                                           \
  TOCHA_MATH Mask operator OP(Positions a, Same b) {                                             \
    return {_mm512_cmp_epi32_mask(lane_numbers(), _mm512_set1_epi32(lane_of(b, a)), PREDICATE)}; \
  }                                                                                              \
  TOCHA_MATH Mask operator OP(Same a, Positions b) {                                             \
    return {_mm512_cmp_epi32_mask(_mm512_set1_epi32(lane_of(a, b)), lane_numbers(), PREDICATE)}; \
  }
TOCHA_MATH __m512i lane_numbers() { return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0); }
TOCHA_POSITIONS(<, _MM_CMPINT_LT)
TOCHA_POSITIONS(<=, _MM_CMPINT_LE)
TOCHA_POSITIONS(>, _MM_CMPINT_NLE)
TOCHA_POSITIONS(>=, _MM_CMPINT_NLT)
TOCHA_POSITIONS(==, _MM_CMPINT_EQ)
TOCHA_POSITIONS(!=, _MM_CMPINT_NE)
#undef TOCHA_POSITIONS

#define TOCHA_PACK_LOGIC(OP) \
  TOCHA_MATH Mask operator OP(Mask a, Mask b) { return {static_cast<__mmask16>(a.lanes OP b.lanes)}; }
TOCHA_PACK_LOGIC(&)
TOCHA_PACK_LOGIC(|)
TOCHA_PACK_LOGIC(^)
#undef TOCHA_PACK_LOGIC
TOCHA_MATH Mask operator!(Mask a) { return {static_cast<__mmask16>(~a.lanes)}; }

TOCHA_MATH Pack choose(Mask m, Pack a, Pack b) { return {_mm512_mask_mov_ps(b.lanes, m.lanes, a.lanes)}; }
TOCHA_MATH Pack choose(Mask m, float a, Pack b) { return choose(m, pack(a), b); }
TOCHA_MATH Pack choose(Mask m, Pack a, float b) { return choose(m, a, pack(b)); }
TOCHA_MATH Pack zero_where(Mask m, Pack x) { return {_mm512_maskz_mov_ps((!m).lanes, x.lanes)}; }

TOCHA_MATH float first(Pack x) { return first(x.lanes); }
template <int kDistance>
TOCHA_MATH Pack swapped(Pack x) {
  return {swapped<kDistance>(x.lanes)};
}

}  // namespace vec

// What eager kernels compute on whole vectors: vecmath/avx512.h.
namespace math {

#define TOCHA_PACK_FUNCTION(F) \
  TOCHA_MATH vec::Pack F(vec::Pack x) { return {F(x.lanes)}; }
TOCHA_PACK_FUNCTION(abs)
TOCHA_PACK_FUNCTION(sqrt)
TOCHA_PACK_FUNCTION(exp)
TOCHA_PACK_FUNCTION(exp2)
TOCHA_PACK_FUNCTION(expm1)
TOCHA_PACK_FUNCTION(log)
TOCHA_PACK_FUNCTION(log2)
TOCHA_PACK_FUNCTION(log10)
TOCHA_PACK_FUNCTION(log1p)
TOCHA_PACK_FUNCTION(sin)
TOCHA_PACK_FUNCTION(cos)
TOCHA_PACK_FUNCTION(tanh)
TOCHA_PACK_FUNCTION(sigmoid)
TOCHA_PACK_FUNCTION(erf)
TOCHA_PACK_FUNCTION(gelu)
#undef TOCHA_PACK_FUNCTION
TOCHA_MATH vec::Pack exp_below_zero(vec::Pack x) { return exp(x); }  // as the eager softmax does here
TOCHA_MATH vec::Pack copysign(vec::Pack magnitude, vec::Pack sign) { return {copysign(magnitude.lanes, sign.lanes)}; }
TOCHA_MATH vec::Pack madd(vec::Pack a, vec::Pack b, vec::Pack c) { return {madd(a.lanes, b.lanes, c.lanes)}; }
TOCHA_MATH vec::Pack maximum(vec::Pack a, vec::Pack b) { return {maximum(a.lanes, b.lanes)}; }
TOCHA_MATH vec::Pack minimum(vec::Pack a, vec::Pack b) { return {minimum(a.lanes, b.lanes)}; }

}  // namespace math
TOCHA_ISA_END
