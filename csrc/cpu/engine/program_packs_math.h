// Functions on packs of sixteen floats: the arithmetic of cpu/vecmath and engine/scalar_ops.h, operation by operation,
// so that compiled graphs round as eager kernels do. tests/native/packs_test.cpp holds every function to the bits of
// its scalar form.
#pragma once

#include "cpu/engine/program_packs.h"
#include "cpu/engine/scalar_ops.h"
#include "cpu/vecmath/exp_below_zero.h"

TOCHA_ISA_BEGIN
namespace math {

using vec::choose;
using vec::Mask;
using vec::Pack;

#if !TOCHA_VECTOR_F32
using vec::Bits;
using vec::madd;
TOCHA_MATH Pack abs(Pack x) { return vec::from_bits(vec::bits_of(x) & 0x7fffffffu); }
TOCHA_MATH Pack sqrt(Pack x) { return vec::roots(x); }
TOCHA_MATH Pack copysign(Pack magnitude, Pack sign) { return vec::with_signs(magnitude, sign); }
TOCHA_MATH Pack maximum(Pack a, Pack b) {
#pragma GCC unroll 4
  for (int i = 0; i < vec::kParts; ++i) a.part[i] = maximum(a.part[i], b.part[i]);
  return a;
}
TOCHA_MATH Pack minimum(Pack a, Pack b) {
#pragma GCC unroll 4
  for (int i = 0; i < vec::kParts; ++i) a.part[i] = minimum(a.part[i], b.part[i]);
  return a;
}
TOCHA_MATH Pack at_most(Pack x, float high) { return vec::least(x, vec::pack(high)); }
#endif

TOCHA_MATH Pack rsqrt(Pack x) { return 1.0f / sqrt(x); }
TOCHA_MATH Mask isnan(Pack x) { return x != x; }
TOCHA_MATH Pack fmax(Pack a, Pack b) { return choose((a < b) | (a != a), b, a); }
TOCHA_MATH Pack fmin(Pack a, Pack b) { return choose((a > b) | (a != a), b, a); }
TOCHA_MATH Pack clamp_min(Pack x, Pack low) { return maximum(x, low); }
TOCHA_MATH Pack clamp_max(Pack x, Pack high) { return minimum(x, high); }
#if defined(__aarch64__)
TOCHA_MATH Pack clamp(Pack x, Pack low, Pack high) {
#pragma GCC unroll 4
  for (int i = 0; i < vec::kParts; ++i) {
    const vec::F32 within = vminq_f32(vmaxq_f32(x.part[i], low.part[i]), high.part[i]);
    x.part[i] = vec::one_of(within == x.part[i], x.part[i], within);  // a zero that is its bound keeps its sign
  }
  return x;
}
#else
TOCHA_MATH Pack clamp(Pack x, Pack low, Pack high) { return minimum(maximum(x, low), high); }
#endif
TOCHA_MATH Pack relu(Pack x) { return vec::zero_where(x < 0.0f, x); }

#if !TOCHA_VECTOR_F32

// Exponentials: exp.h.

constexpr auto kRounder = vec::addends(FloatFormat<float>::kRounder);
constexpr auto kOne = vec::addends(1.0f);
constexpr auto kExpTail = vec::addends(0x1.fffffep-2f, 0x1.5554aep-3f, 0x1.55567ep-5f, 0x1.12291ap-7f, 0x1.6be6e4p-10f);
constexpr auto kTanhTail =
    vec::addends(-0x1.55554ap-2f, 0x1.110d2p-3f, -0x1.b9277p-5f, 0x1.59338ep-6f, -0x1.9af642p-8f);
constexpr auto kLogTail = vec::addends(-0.5f, 0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a00ap-3f, -0x1.547246p-3f,
                                       0x1.22d9eep-3f, -0x1.0d850cp-3f, 0x1.055c88p-3f, -0x1.38b938p-4f);
constexpr auto kErfSlope =
    vec::addends(0x1.06eba8p-3f, 0x1.45f2fap-1f, 0x1.a4fa5ep-4f, -0x1.39cdc8p-6f, -0x1.505b84p-13f, 0x1.b4ff66p-10f,
                 -0x1.4bc878p-11f, 0x1.ed67eap-14f, -0x1.369188p-17f);

struct PackExponent {
  Pack n, r;
  Bits bits;
};
TOCHA_MATH PackExponent reduce_exp(Pack x) {
  using L = Ln2<float>;
  constexpr float rounder = FloatFormat<float>::kRounder;
  Pack t = madd(x, vec::pack(L::kInverse), kRounder.rows[0]), n = t - rounder;
  return {n, nmadd(n, L::kLow, nmadd(n, L::kHigh, x)), vec::bits_of(t)};
}
TOCHA_MATH Pack power_of_two(Bits bits, int shift = 0) {
  using F = FloatFormat<float>;
  return vec::from_bits((bits << uint32_t(F::kMantissa)) + ((F::kBias + static_cast<uint32_t>(shift)) << F::kMantissa));
}
TOCHA_MATH Pack exp_tail(Pack r) { return poly(r, kExpTail); }
TOCHA_MATH Pack exp_reduced(Pack r) {
#if TOCHA_HAS_FMA
  return madd(r, madd(r, exp_tail(r), kOne.rows[0]), kOne.rows[0]);
#else
  return madd(r * r, exp_tail(r), r) + 1.0f;
#endif
}
TOCHA_MATH Pack scale_exp(Pack p, Bits bits) {
  Bits half = bits >> 1u;
  return p * power_of_two(half) * power_of_two(bits - half);
}
TOCHA_MATH Pack exp(Pack x) {
  using R = ExpRange<float>;
  PackExponent a = reduce_exp(x);
  Pack y = vec::zero_where(x < R::kLowest, scale_exp(exp_reduced(a.r), a.bits));
  return choose(x > R::kHighest, kInf<float>, y);
}
TOCHA_MATH Pack exp_below_zero(Pack x) {
  PackExponent a = reduce_exp(x);
  return vec::zero_where(x < -87.33f, exp_reduced(a.r) * power_of_two(a.bits));
}
TOCHA_MATH Pack exp_nonpositive(Pack x) {
  PackExponent a = reduce_exp(x);
  Pack y = scale_exp(madd(a.r * a.r, exp_tail(a.r), a.r) + 1.0f, a.bits);
  return vec::zero_where(x < ExpRange<float>::kLowest, y);
}
TOCHA_MATH Pack expm1_nonpositive(Pack x) {
  PackExponent a = reduce_exp(x);
  Pack p = madd(a.r * a.r, exp_tail(a.r), a.r), scale = power_of_two(a.bits);
  return madd(scale, p, scale - 1.0f);
}
TOCHA_MATH Pack expm1(Pack x) {
  PackExponent a = reduce_exp(x);
  Pack p = madd(a.r * a.r, exp_tail(a.r), a.r), half_scale = power_of_two(a.bits, -1);
  Pack y = 2.0f * madd(half_scale, p, half_scale - 0.5f);
  y = choose(x < -60.0f, -1.0f, y);
  y = choose(x > ExpRange<float>::kHighest, kInf<float>, y);
  return choose(abs(x) < std::numeric_limits<float>::epsilon() / 4, x, y);
}
TOCHA_MATH Pack divide_by_sum(Pack a, Pack e) {
  Pack d = 1.0f + e, lost = e - (d - 1.0f), q = a / d;
  return nmadd(q * lost, madd(e, vec::pack(-0.5f), kOne.rows[0]), q);
}
TOCHA_MATH Pack tanh(Pack x) {
  Pack a = abs(x), z = x * x;
  Pack inner = madd(a * z, poly(z, kTanhTail), a);
  PackExponent s = reduce_exp(-2.0f * at_most(a, 22.0f));
  Pack e = exp_reduced(s.r) * power_of_two(s.bits);
  Pack outer = 1.0f - divide_by_sum(2.0f * e, e);
  return copysign(choose(a < 0.55f, inner, outer), x);
}
TOCHA_MATH Pack sigmoid(Pack x) {
  Pack e = exp_nonpositive(-abs(x));
  return divide_by_sum(choose(x < 0.0f, e, 1.0f), e);
}

// Logarithms: log.h.

TOCHA_MATH Pack log_tail(Pack f) {
  Pack z = f * f;
  return z * poly(f, kLogTail);
}
TOCHA_MATH Pack log_sum(Pack k, Pack f) {
  return madd(k, Ln2<float>::kHigh, f + madd(k, Ln2<float>::kLow, log_tail(f)));
}
TOCHA_MATH Pack log_edges(Pack y, Pack x) {
  y = choose(x == kInf<float>, x, y);
  return choose(x > 0.0f, y, choose(x == 0.0f, vec::pack(-kInf<float>), vec::pack(kNan<float>)));
}
struct PackLogarithm {
  Pack k, f;
  Bits exponent;
};
// x stands for x / 2^lifted.
TOCHA_MATH PackLogarithm reduce_log(Pack x, Bits lifted = {}) {
  using F = FloatFormat<float>;
  constexpr uint32_t one = F::kBias << F::kMantissa, sqrt_half = 0x3f3504f3u;
  Bits u = vec::bits_of(x) + (one - sqrt_half), exponent = u >> uint32_t(F::kMantissa);
  Pack m = vec::from_bits((u & F::kMantissaMask) + sqrt_half);
  // Lifted by less than a bias: counted from one further down, the exponent stays positive.
  Pack k = vec::from_bits((exponent + F::kBias - lifted) | math::bits_of(0x1p23f)) - (0x1p23f + 2 * float(F::kBias));
  return {k, m - 1.0f, exponent};
}
TOCHA_MATH Pack log(Pack x) {
  Mask small = x < std::numeric_limits<float>::min();
  Bits lifted = vec::bits_of(small) & 23u;
  PackLogarithm a = reduce_log(x * choose(small, 0x1p23f, vec::pack(1.0f)), lifted);
  return log_edges(log_sum(a.k, a.f), x);
}
TOCHA_MATH Pack log1p(Pack x) {
  using F = FloatFormat<float>;
  Pack u = 1.0f + x;
  Pack lost = choose(x > 1.0f, 1.0f - (u - x), x - (u - 1.0f));
  PackLogarithm a = reduce_log(u);
  Bits inverse = (F::kBias * 2 - a.exponent) << uint32_t(F::kMantissa);
  Pack scale = vec::zero_where(!(x < 0x1p60f), vec::from_bits(inverse));
  Pack y = log_edges(log_sum(a.k, madd(lost, scale, a.f)), u);
  return choose(abs(x) < std::numeric_limits<float>::epsilon() / 4, x, y);
}

// The error function: erf.h.

TOCHA_MATH Pack erf(Pack x) {
  Pack a = at_most(abs(x), 4.0f);
  return copysign(expm1_nonpositive(-madd(a, poly(a, kErfSlope), a)), x);
}
TOCHA_MATH Pack gelu(Pack x) { return 0.5f * x * (1.0f + erf(x * 0.70710678118654752f)); }

#endif

// Functions that have no form on packs: lane by lane, in loops that the compiler makes vectors of.

template <class F>
TOCHA_MATH Pack each_lane(Pack x, F f) {
  alignas(64) float lanes[vec::kPack];
  vec::store(lanes, x, vec::Whole());
#pragma GCC ivdep
#pragma GCC unroll 1  // unrolled, it would not be vectors
  for (int i = 0; i < vec::kPack; ++i) lanes[i] = f(lanes[i]);
  return vec::load(lanes, vec::Whole());
}
#define TOCHA_LANE_BY_LANE(NAME)                                                         \
  TOCHA_MATH Pack NAME(Pack x) {                                                         \
    return each_lane(x, [](float v) __attribute__((always_inline)) { return NAME(v); }); \
  }
TOCHA_LANE_BY_LANE(floor)
TOCHA_LANE_BY_LANE(ceil)
TOCHA_LANE_BY_LANE(trunc)
TOCHA_LANE_BY_LANE(round)
TOCHA_LANE_BY_LANE(sinh)
TOCHA_LANE_BY_LANE(cosh)
TOCHA_LANE_BY_LANE(asin)
TOCHA_LANE_BY_LANE(acos)
TOCHA_LANE_BY_LANE(atan)
#if !TOCHA_VECTOR_F32
TOCHA_LANE_BY_LANE(exp2)
TOCHA_LANE_BY_LANE(log2)
TOCHA_LANE_BY_LANE(log10)
#endif
#undef TOCHA_LANE_BY_LANE

}  // namespace math
TOCHA_ISA_END
