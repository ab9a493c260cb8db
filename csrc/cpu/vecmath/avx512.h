// Elementwise math on whole AVX-512 vectors of float: what generated loops call as math::exp(v) where the instruction
// set has it. Same names and accuracy as the scalar forms, about half their instructions; right for every float.
// tests/native/vecmath_test.cpp holds them to their bounds.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define TOCHA_VECTOR_F32 1

#include <immintrin.h>

#include "cpu/vecmath/avx512_tables.h"
#include "cpu/vecmath/core.h"
#include "cpu/vecmath/trig.h"

TOCHA_ISA_BEGIN
namespace math {

using F32x16 = __m512;
inline constexpr int kLanes = 16;
// GCC 12 warns of an uninitialized value in the unmasked forms of some intrinsics; masked by this they are the same.
inline constexpr __mmask16 kAllLanes = 0xffff;

TOCHA_MATH F32x16 splat(float x) { return _mm512_set1_ps(x); }
TOCHA_MATH F32x16 load(const float* p) { return _mm512_loadu_ps(p); }
TOCHA_MATH void store(float* p, F32x16 x) { _mm512_storeu_ps(p, x); }
// Asks for what a loop over p will need soon: the hardware's own look-ahead stops at the end of a page.
TOCHA_MATH void look_ahead(const float* p) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + 2048));
}
// The first `count` elements, fewer than a vector has; the other lanes are 0.
TOCHA_MATH __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
TOCHA_MATH F32x16 load_first(const float* p, int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), p); }
TOCHA_MATH void store_first(float* p, F32x16 x, int64_t count) { _mm512_mask_storeu_ps(p, first_lanes(count), x); }

// The first `count` lanes of one, the others of the other.
TOCHA_MATH F32x16 keep_first(F32x16 one, F32x16 other, int64_t count) {
  return _mm512_mask_mov_ps(other, first_lanes(count), one);
}
TOCHA_MATH float first(F32x16 x) { return _mm512_cvtss_f32(x); }
// Every lane exchanged with the one so far from it.
template <int kDistance>
TOCHA_MATH F32x16 swapped(F32x16 x) {
  if constexpr (kDistance == 8) return _mm512_maskz_shuffle_f32x4(kAllLanes, x, x, 0x4e);
  if constexpr (kDistance == 4) return _mm512_maskz_shuffle_f32x4(kAllLanes, x, x, 0xb1);
  if constexpr (kDistance == 2) return _mm512_maskz_permute_ps(kAllLanes, x, 0x4e);
  if constexpr (kDistance == 1) return _mm512_maskz_permute_ps(kAllLanes, x, 0xb1);
}

TOCHA_MATH F32x16 madd(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmadd_ps(a, b, c); }
TOCHA_MATH F32x16 madd(F32x16 a, F32x16 b, float c) { return madd(a, b, splat(c)); }
TOCHA_MATH F32x16 madd(F32x16 a, float b, F32x16 c) { return madd(a, splat(b), c); }
TOCHA_MATH F32x16 madd(F32x16 a, float b, float c) { return madd(a, splat(b), splat(c)); }
TOCHA_MATH F32x16 nmadd(F32x16 a, float b, F32x16 c) { return _mm512_fnmadd_ps(a, splat(b), c); }

TOCHA_MATH F32x16 horner(F32x16, float c0) { return splat(c0); }
template <class... C>
TOCHA_MATH F32x16 horner(F32x16 x, float c0, C... c) {
  return madd(x, horner(x, c...), c0);
}

TOCHA_MATH F32x16 abs(F32x16 x) { return _mm512_abs_ps(x); }
TOCHA_MATH F32x16 sqrt(F32x16 x) { return _mm512_maskz_sqrt_ps(kAllLanes, x); }
// As the scalar forms in engine/scalar_ops.h: a NaN wins, and of two equal operands the first. The instructions give
// their second operand where both are equal or one is NaN: only a NaN that comes as b is left to be kept.
TOCHA_MATH F32x16 maximum(F32x16 a, F32x16 b) {
  return _mm512_mask_max_ps(b, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), b, a);
}
TOCHA_MATH F32x16 minimum(F32x16 a, F32x16 b) {
  return _mm512_mask_min_ps(b, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), b, a);
}
// Both keep a NaN that comes as x: the instructions give their second operand then.
TOCHA_MATH F32x16 at_least(F32x16 x, float low) { return _mm512_maskz_max_ps(kAllLanes, splat(low), x); }
TOCHA_MATH F32x16 at_most(F32x16 x, float high) { return _mm512_maskz_min_ps(kAllLanes, splat(high), x); }
// The sign of x and the lesser of the magnitudes; the limit where x is NaN.
TOCHA_MATH F32x16 bounded(F32x16 x, float limit) { return _mm512_maskz_range_ps(kAllLanes, x, splat(limit), 2); }
TOCHA_MATH F32x16 copysign(F32x16 magnitude, F32x16 sign) {
  __m512i pick = _mm512_set1_epi32(static_cast<int>(FloatFormat<float>::kSign));
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(pick, _mm512_castps_si512(sign), _mm512_castps_si512(magnitude), 0xca));
}
TOCHA_MATH F32x16 scale_by_power(F32x16 x, F32x16 exponent) { return _mm512_maskz_scalef_ps(kAllLanes, x, exponent); }

// The cell's column of a table row; only the low 5 bits of the cell count.
TOCHA_MATH F32x16 lookup(const Cells& row, __m512i cell) {
  return _mm512_permutex2var_ps(_mm512_load_ps(row), cell, _mm512_load_ps(row + kLanes));
}

TOCHA_MATH F32x16 lookup(const Sixteenths& row, __m512i cell) {
  return _mm512_maskz_permutexvar_ps(kAllLanes, cell, _mm512_load_ps(row));
}

// Exponentials. Scaling by a power of two rounds once, to 0, subnormals and infinity too: no selects for the ends.

struct VectorExpArgument {
  F32x16 n, r;
  __m512i low_bits;  // of n kSteps
};
// x = n ln2 + r with n a multiple of 1 / kSteps. n is NaN where x is; r is bounded also where x is too great for that.
template <int kSteps>
TOCHA_MATH VectorExpArgument reduce_exp(F32x16 x) {
  constexpr float rounder = FloatFormat<float>::kRounder / kSteps;
  F32x16 t = madd(x, 0x1.715476p0f, rounder), n = t - splat(rounder);
  return {n, bounded(nmadd(n, -0x1.05c61p-29f, nmadd(n, 0x1.62e43p-1f, x)), 0.5f / kSteps), _mm512_castps_si512(t)};
}
TOCHA_MATH F32x16 exp(F32x16 x) {
  auto a = reduce_exp<16>(x);
  F32x16 power = lookup(kExpSixteenths[0], a.low_bits), lost = lookup(kExpSixteenths[1], a.low_bits);
  F32x16 growth = horner(a.r, 1.0f, 0x1.000222p-1f, 0x1.555734p-3f);
  return scale_by_power(madd(madd(power, a.r, lost), growth, power), a.n);
}
// 1 / (1 + e^-x) = u / (u + p), where u = 2^floor(n) and p = e^-r 2^-(n - floor(n)): this keeps the left tail down to
// the subnormals.
TOCHA_MATH F32x16 sigmoid(F32x16 x) {
  auto a = reduce_exp<16>(x);
  F32x16 power = lookup(kExpMinusSixteenths[0], a.low_bits), lost = lookup(kExpMinusSixteenths[1], a.low_bits);
  F32x16 decline = horner(a.r, 1.0f, -0x1.000222p-1f, 0x1.555734p-3f);
  F32x16 u = scale_by_power(splat(1.0f), at_most(a.n, 60.0f));
  return u / (u + madd(_mm512_fnmadd_ps(power, a.r, lost), decline, power));
}
TOCHA_MATH F32x16 exp2(F32x16 x) {
  F32x16 r = _mm512_maskz_reduce_ps(kAllLanes, x, 0), square = r * r;
  F32x16 low = madd(r, 0x1.c6af86p-5f, 0x1.ebfbdcp-3f), high = madd(r, 0x1.5f055ep-10f, 0x1.3b2e12p-7f);
  F32x16 tail = madd(square, madd(square, 0x1.414d42p-13f, high), low);
  return scale_by_power(madd(r, madd(r, tail, 0x1.62e43p-1f), 1.0f), x - r);
}
// 2^n (e^r - 1 + (1 - 2^-n)): with n = 0 nothing is lost.
TOCHA_MATH F32x16 expm1(F32x16 x) {
  auto a = reduce_exp<1>(x);
  F32x16 square = a.r * a.r;
  F32x16 low = madd(a.r, 0x1.555466p-3f, 0x1p-1f), high = madd(a.r, 0x1.1257ap-7f, 0x1.555302p-5f);
  F32x16 tail = madd(square, madd(square, 0x1.6fe43ep-10f, high), low);
  F32x16 n = at_least(a.n, -40.0f);
  F32x16 below = splat(1.0f) - scale_by_power(splat(1.0f), -n);
  return copysign(scale_by_power(madd(square, tail, a.r) + below, n), x);
}

// Functions that level off: of |x| a polynomial per cell.

template <int kShift, bool kSteep>
TOCHA_MATH F32x16 by_cells(F32x16 a, const Cells (&rows)[6], float start) {
  __m512i cell = _mm512_maskz_srli_epi32(kAllLanes, _mm512_castps_si512(a + splat(start)), kShift);
  F32x16 r = a - lookup(rows[0], cell);
  F32x16 y = lookup(rows[5], cell);
  y = madd(y, r, lookup(rows[4], cell));
  y = madd(y, r, lookup(rows[3], cell));
  y = madd(y, r, lookup(rows[2], cell));
  F32x16 y0 = lookup(rows[1], cell);
  return madd(y, r, kSteep ? y0 + r : y0);
}
template <int kShift, bool kSteep>
TOCHA_MATH F32x16 odd_by_cells(F32x16 x, const Cells (&rows)[6], float start, float end) {
  return copysign(by_cells<kShift, kSteep>(at_most(abs(x), end), rows, start), x);
}
// From the end on it is 1 itself: 1 - tanh^2 must not be left with a rounding error there.
TOCHA_MATH F32x16 tanh(F32x16 x) {
  constexpr float end = 9.02f;
  F32x16 y = odd_by_cells<20, false>(x, kTanhCells, 0.625f, end);
  return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(abs(x), splat(end), _CMP_GE_OQ), copysign(splat(1.0f), x));
}
TOCHA_MATH F32x16 erf(F32x16 x) { return odd_by_cells<19, true>(x, kErfCells, 1.3125f, 3.93f); }
// x (1 + erf(x / sqrt2)) / 2 = x / 2 + |x| erf(|x| / sqrt2) / 2: no sign to be taken off and put back.
TOCHA_MATH F32x16 gelu(F32x16 x) {
  F32x16 magnitude = abs(x);
  return madd(magnitude, by_cells<19, false>(at_most(magnitude, 5.625f), kGeluCells, 2.25f), splat(0.5f) * x);
}

// Logarithms: x = 2^k m with 0.75 <= m < 1.5, and log m = -log c + log(1 + r) with r = m c - 1. The parts of x are
// such that 0 gives -inf, infinity itself, and negative numbers NaN: the hardware's k is -inf and inf for the first
// two, with m = 1, and its m is NaN for the last.

struct VectorLogArgument {
  F32x16 k, c, r, minus_log_c;
};
TOCHA_MATH VectorLogArgument reduce_log(F32x16 x, const Cells (&rows)[2]) {
  F32x16 m = _mm512_maskz_getmant_ps(kAllLanes, x, _MM_MANT_NORM_p75_1p5, static_cast<_MM_MANTISSA_SIGN_ENUM>(3));
  F32x16 k = _mm512_maskz_getexp_ps(kAllLanes, x) - _mm512_maskz_getexp_ps(kAllLanes, m);
  __m512i cell = _mm512_maskz_srli_epi32(kAllLanes, _mm512_castps_si512(m), 18);
  F32x16 c = lookup(rows[0], cell);
  return {k, c, madd(m, c, splat(-1.0f)), lookup(rows[1], cell)};
}
// log(1 + r)
TOCHA_MATH F32x16 log_near_one(F32x16 r) {
  return madd(r * r, horner(r, -0x1.00002ap-1f, 0x1.555dbp-2f, -0x1.f37ffp-3f), r);
}

TOCHA_MATH F32x16 log(F32x16 x) {
  auto a = reduce_log(x, kLogCells);
  return madd(a.k, 0x1.62e43p-1f, a.minus_log_c) + log_near_one(a.r);
}
TOCHA_MATH F32x16 log2(F32x16 x) {
  auto a = reduce_log(x, kLog2Cells);
  F32x16 tail = horner(a.r, -0x1.7154b2p-1f, 0x1.ec7cep-2f, -0x1.686024p-2f);
  return (a.k + a.minus_log_c) + madd(a.r * a.r, tail, a.r * splat(0x1.715476p0f));
}
TOCHA_MATH F32x16 log10(F32x16 x) {
  auto a = reduce_log(x, kLog10Cells);
  F32x16 tail = horner(a.r, -0x1.bcb7f8p-3f, 0x1.2881eep-3f, -0x1.b2010ap-4f);
  F32x16 low = madd(a.k, 0x1.3509f8p-18f, madd(a.r * a.r, tail, a.r * splat(0x1.bcb7b2p-2f)));
  return madd(a.k, 0x1.344p-2f, a.minus_log_c) + low;
}
// What the sum 1 + x loses is added to r, scaled as r is: nothing up to -1/2, and from 2^30 on less than r can hold.
TOCHA_MATH F32x16 log1p(F32x16 x) {
  F32x16 one = splat(1.0f), u = one + x, b = u - one;
  F32x16 lost = (one - (u - b)) + (x - b);
  auto a = reduce_log(u, kLogCells);
  __mmask16 counts =
      _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(x, splat(0x1p30f), _CMP_LT_OQ), x, splat(-0.5f), _CMP_GT_OQ);
  F32x16 scaled = _mm512_maskz_scalef_ps(counts, lost, -a.k);
  F32x16 y = madd(a.k, 0x1.62e43p-1f, a.minus_log_c) + log_near_one(madd(scaled, a.c, a.r));
  return copysign(y, x);
}

// Circular functions: r = x - n pi with |r| <= pi / 2, n an integer for sin, half of an odd one for cos.

// Arguments so large that n pi needs more digits than three floats have: a lane at a time, the others keep y.
template <class F>
__attribute__((noinline, cold)) F32x16 replace_lanes(F32x16 y, __mmask16 replaced, F32x16 x, F f) {
  alignas(64) float lanes[kLanes], arguments[kLanes];
  _mm512_store_ps(lanes, y);
  _mm512_store_ps(arguments, x);
  for (int i = 0; i < kLanes; ++i) {
    if (replaced >> i & 1) lanes[i] = f(arguments[i]);
  }
  return _mm512_load_ps(lanes);
}
// sin r, its sign changed where `flip` has the sign bit.
TOCHA_MATH F32x16 sin_of_remainder(F32x16 x, F32x16 n, __m512i flip) {
  F32x16 r = nmadd(n, 0x1.921fb6p1f, x);
  r = nmadd(n, -0x1.777a5cp-24f, r);
  F32x16 z = r * r;  // does not need the last step
  r = nmadd(n, -0x1.ee59dap-49f, r);
  F32x16 tail = horner(z, -0x1.55554cp-3f, 0x1.110edap-7f, -0x1.9f7054p-13f, 0x1.5db142p-19f);
  F32x16 y = madd(r * z, tail, r);
  return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(y), flip));
}
// The lowest bit of each lane as a sign bit.
TOCHA_MATH __m512i parity(F32x16 x) { return _mm512_maskz_slli_epi32(kAllLanes, _mm512_castps_si512(x), 31); }
TOCHA_MATH F32x16 sin(F32x16 x) {
  // The sign is carried apart from the magnitude so that -0 keeps it.
  F32x16 a = abs(x);
  constexpr float rounder = FloatFormat<float>::kRounder;
  F32x16 t = madd(a, 0x1.45f306p-2f, rounder);
  __m512i sign = _mm512_set1_epi32(static_cast<int>(FloatFormat<float>::kSign));
  __m512i flip = _mm512_ternarylogic_epi32(parity(t), _mm512_castps_si512(x), sign, 0x78);
  F32x16 y = sin_of_remainder(a, t - splat(rounder), flip);
  __mmask16 large = _mm512_cmp_ps_mask(a, splat(kTrigLimit<float>), _CMP_GT_OQ);
  if (large != 0) [[unlikely]]
    y = replace_lanes(y, large, x, [](float v) { return std::sin(v); });
  return y;
}
TOCHA_MATH F32x16 cos(F32x16 x) {
  constexpr float rounder = FloatFormat<float>::kRounder;
  F32x16 t = madd(x, 0x1.45f306p-2f, 0.5f) + splat(rounder);
  F32x16 y = sin_of_remainder(x, (t - splat(rounder)) - splat(0.5f), parity(t));
  __mmask16 large = _mm512_cmp_ps_mask(abs(x), splat(kTrigLimit<float>), _CMP_GT_OQ);
  if (large != 0) [[unlikely]]
    y = replace_lanes(y, large, x, [](float v) { return std::cos(v); });
  return y;
}

}  // namespace math
TOCHA_ISA_END

#else
#define TOCHA_VECTOR_F32 0
#endif
