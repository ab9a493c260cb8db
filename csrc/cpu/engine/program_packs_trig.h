// Circular functions on packs, rounded as those of cpu/vecmath/trig.h.
#pragma once

#include "cpu/engine/program_packs_math.h"
#include "cpu/vecmath/trig.h"

TOCHA_ISA_BEGIN
namespace vec {

#if TOCHA_VECTOR_F32
TOCHA_MATH bool any(Mask m) { return m.lanes != 0; }
#else
TOCHA_MATH Mask is_odd(Bits n) TOCHA_BY_PARTS(I32, (I32)((n.part[i] & 1u) != 0u)) TOCHA_MATH Pack
    flipped(Pack x, Bits signs) TOCHA_BY_PARTS(F32, (F32)((U32)x.part[i] ^ signs.part[i]))
#endif

}  // namespace vec
namespace math {

// Great arguments have a branch of their own, for all lanes of a pack at once.
TOCHA_MATH bool any_is_great(Pack x) {
  Pack a = abs(x);
  return vec::any((a > kTrigLimit<float>)&(a < kInf<float>));
}
#define TOCHA_CIRCULAR(NAME)                                            \
  __attribute__((noinline, cold)) inline Pack NAME##_of_great(Pack x) { \
    return each_lane(x, [](float v) { return NAME(v); });               \
  }                                                                     \
  TOCHA_MATH Pack NAME(Pack x) {                                        \
    if (any_is_great(x)) [[unlikely]]                                   \
      return NAME##_of_great(x);                                        \
    return NAME##_fast(x);                                              \
  }

#if TOCHA_VECTOR_F32  // sin and cos are in vecmath/avx512.h

TOCHA_MATH Pack tan_fast(Pack x) {
  return each_lane(x, [](float v) __attribute__((always_inline)) { return tan_fast(v); });
}

#else
#if TOCHA_HAS_FMA

constexpr auto kSinTail = vec::addends(-0x1.555544p-3f, 0x1.1106d4p-7f, -0x1.9920d2p-13f);
constexpr auto kCosTail = vec::addends(0x1.55554ap-5f, -0x1.6c0bc4p-10f, 0x1.99cb84p-16f);
constexpr auto kTanTail = vec::addends(0x1.55556p-2f, 0x1.110d9ep-3f, 0x1.bad9dp-5f, 0x1.5cbfa8p-6f, 0x1.62d424p-7f,
                                       0x1.94c41p-14f, 0x1.1ea2f6p-8f);

TOCHA_MATH Bits sign_of(Bits x) { return x & FloatFormat<float>::kSign; }
TOCHA_MATH Pack nearest_quarter(Pack x) { return madd(x, vec::pack(0x1.45f306p-1f), kRounder.rows[0]); }
// sin(x + quarter pi/2)
TOCHA_MATH Pack sin_shifted(Pack x, uint32_t quarter, Bits signs) {
  Pack t = nearest_quarter(x), n = t - FloatFormat<float>::kRounder;
  Pack r = nmadd(n, 0x1.921fb6p0f, x);
  r = nmadd(n, -0x1.777a5cp-25f, r);
  r = nmadd(n, -0x1.ee59dap-50f, r);
  Pack z = r * r, sine = madd(r * z, poly(z, kSinTail), r);
  Pack cosine = madd(z * z, poly(z, kCosTail), madd(z, vec::pack(-0.5f), kOne.rows[0]));
  Bits q = vec::bits_of(t) + quarter;
  return flipped(flipped(choose(vec::is_odd(q), cosine, sine), sign_of(q << 30u)), signs);
}
TOCHA_MATH Pack sin_fast(Pack x) { return sin_shifted(abs(x), 0, sign_of(vec::bits_of(x))); }
TOCHA_MATH Pack cos_fast(Pack x) { return sin_shifted(x, 1, Bits{}); }
TOCHA_MATH Pack tan_fast(Pack x) {
  Pack a = abs(x), quarter = nearest_quarter(a), n = quarter - FloatFormat<float>::kRounder;
  Pack first = nmadd(n, 0x1.921fb6p0f, a), r = nmadd(n, -0x1.777a5cp-25f, first);
  Pack lost = choose(abs(r) > 0x1p-8f, nmadd(n, -0x1.777a5cp-25f, first - r), 0.0f);
  Pack low = nmadd(n, -0x1.ee59dap-50f, lost), z = r * r;
  Pack tail = madd(r * z, poly(z, kTanTail), madd(low, z, low)), t = r + tail, q = -1.0f / t;
  Pack rest = madd(q, (r - t) + tail, madd(q, t, kOne.rows[0]));
  Pack y = choose(vec::is_odd(vec::bits_of(quarter)), madd(q, rest, q), t);
  return flipped(y, sign_of(vec::bits_of(x)));
}

#else

#define TOCHA_LANE_BY_LANE(NAME)                                                         \
  TOCHA_MATH Pack NAME(Pack x) {                                                         \
    return each_lane(x, [](float v) __attribute__((always_inline)) { return NAME(v); }); \
  }
TOCHA_LANE_BY_LANE(sin_fast)
TOCHA_LANE_BY_LANE(cos_fast)
TOCHA_LANE_BY_LANE(tan_fast)
#undef TOCHA_LANE_BY_LANE

#endif
TOCHA_CIRCULAR(sin)
TOCHA_CIRCULAR(cos)
#endif
TOCHA_CIRCULAR(tan)
#undef TOCHA_CIRCULAR

}  // namespace math
TOCHA_ISA_END
