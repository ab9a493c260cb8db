// lgamma on whole AVX-512 vectors of float, computed in double as the scalar form of vecmath/gamma.h.
#pragma once

#include "cpu/vecmath/avx512.h"
#include "cpu/vecmath/gamma.h"

#if TOCHA_VECTOR_F32

TOCHA_ISA_BEGIN
namespace math {

inline constexpr __mmask8 kAllEight = 0xff;

TOCHA_MATH F64x8 pick(__mmask8 which, F64x8 yes, F64x8 no) { return _mm512_mask_mov_pd(no, which, yes); }
TOCHA_MATH F64x8 size_of(F64x8 x) { return _mm512_abs_pd(x); }
TOCHA_MATH __mmask8 less(F64x8 a, double b) { return _mm512_cmp_pd_mask(a, splat8(b), _CMP_LT_OQ); }
TOCHA_MATH __mmask8 at_least(F64x8 a, double b) { return _mm512_cmp_pd_mask(a, splat8(b), _CMP_GE_OQ); }

// As the scalar form: of normal positive numbers, to 2^-35.
TOCHA_MATH F64x8 log_lite(F64x8 x) {
  constexpr long long one = 0x3ff0000000000000, sqrt_half = 0x3fe6a09e667f3bcd, mantissa = 0xfffffffffffff;
  const __m512i u = _mm512_add_epi64(_mm512_castpd_si512(x), _mm512_set1_epi64(one - sqrt_half));
  const __m512i exponent = _mm512_maskz_srli_epi64(kAllEight, u, 52);
  const __m512i m = _mm512_add_epi64(_mm512_and_si512(u, _mm512_set1_epi64(mantissa)), _mm512_set1_epi64(sqrt_half));
  const F64x8 k = _mm512_maskz_cvtepi64_pd(kAllEight, exponent) - splat8(1023.0);
  return log_sum_lite(k, _mm512_castsi512_pd(m) - splat8(1.0));
}

// Of eight floats from kLgammaShort on; others are left to the scalar form.
TOCHA_MATH F64x8 lgamma_short(F64x8 x) {
  const F64x8 size = size_of(x), one = splat8(1.0);
  const __mmask8 far = at_least(size, 4.0), below = less(size, 1.5), tiny = less(size, 0.5);
  F64x8 y = size, product = one;
  for (int i = 0; i < 2; ++i) {
    const __mmask8 down = at_least(y, 2.5);
    y = _mm512_mask_sub_pd(y, down, y, one);
    product = _mm512_mask_mul_pd(product, down, product, y);
  }
  const F64x8 u = pick(tiny, size, y - pick(below, one, splat8(2.0)));
  F64x8 factor = pick(below, size, product);
  factor = pick(tiny, size * (one + size), factor);
  const F64x8 logarithm = log_lite(pick(far, size, factor));
  const F64x8 near_two = u * lgamma_near_two<float>(u) + pick(below, -logarithm, logarithm);
  const F64x8 inverse = one / size;
  const F64x8 stirling = size * (logarithm - one) - splat8(0.5) * logarithm + splat8(0.91893853320467274178) +
                         lgamma_stirling<float>(inverse * inverse) * inverse;
  F64x8 positive = pick(far, stirling, near_two);
  const __mmask8 endless =
      _mm512_cmp_pd_mask(size, splat8(kInf<double>), _CMP_EQ_OQ) | _mm512_cmp_pd_mask(size, splat8(0.0), _CMP_EQ_OQ);
  positive = pick(endless, splat8(kInf<double>), positive);
  positive = pick(_mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q), x, positive);
  const F64x8 r = size - _mm512_maskz_roundscale_pd(kAllEight, size, 0), z = r * r;
  const F64x8 sine = size * size_of(madd(r * z, sinc_tail(z), r));
  const F64x8 negative = pick(at_least(sine, 0x1p-1000), -log_lite(sine) - positive, splat8(kInf<double>));
  return pick(less(x, 0.0), negative, positive);
}

TOCHA_MATH F32x16 lgamma(F32x16 x) {
  const F64x8 low = lgamma_short(_mm512_maskz_cvtps_pd(kAllEight, _mm512_castps512_ps256(x)));
  const F64x8 high = lgamma_short(_mm512_maskz_cvtps_pd(kAllEight, _mm512_maskz_extractf32x8_ps(kAllEight, x, 1)));
  const F32x16 result =
      _mm512_maskz_insertf32x8(kAllLanes, _mm512_zextps256_ps512(_mm512_maskz_cvtpd_ps(kAllEight, low)),
                               _mm512_maskz_cvtpd_ps(kAllEight, high), 1);
  const __mmask16 slow = _mm512_cmp_ps_mask(x, splat(kLgammaShort), _CMP_LT_OQ);
  if (!slow) [[likely]]
    return result;
  alignas(64) float given[kLanes], found[kLanes];
  store(given, x);
  store(found, result);
  for (int i = 0; i < kLanes; ++i)
    if (slow >> i & 1) found[i] = static_cast<float>(lgamma_reflected(-given[i]));
  return load(found);
}

}  // namespace math
TOCHA_ISA_END

#endif
