// Circular functions and their inverses. sin, cos and tan come twice: `sin_fast` is branch-free and right for
// |x| <= kTrigLimit; `sin` is right everywhere but has a branch, so a loop over it stays scalar. A kernel tests
// `trig_needs_slow` over a chunk of arguments and picks the loop; `map_trig` does so for contiguous memory.
#pragma once

#include "cpu/vecmath/core.h"

TOCHA_ISA_BEGIN
namespace math {

template <class T>
inline constexpr T kTrigLimit = sizeof(T) == 4 ? T(0x1p16) : T(0x1p20);

// Infinities and NaNs need no slow path: the fast one makes NaN of both.
template <class T>
TOCHA_MATH bool trig_needs_slow(T x) {
  return (fabs(x) > kTrigLimit<T>)&(fabs(x) < kInf<T>);
}

// |x| = n pi/2 + r + r_low, |r| <= pi/4; n modulo 4 in the low bits of `quadrant`.
template <class T>
struct TrigArgument {
  T r, r_low;
  typename FloatFormat<T>::Bits quadrant;
};
// pi/2 in three parts; n times the first two is exact (33 bits each, n below 2^20).
inline constexpr double kHalfPi1 = 0x1.921fb544p0, kHalfPi2 = 0x1.0b4611a6p-34, kHalfPi3 = 0x1.3198a2e037073p-69;
inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

TOCHA_MATH TrigArgument<double> reduce_trig(double x) {
  auto [n, bits] = nearest(x, kTwoOverPi);
  double first = nmadd(n, kHalfPi1, x);
  double w = n * kHalfPi2;
  double second = first - w;
  double rest = madd(n, kHalfPi3, -((first - second) - w));
  double r = second - rest;
  return {r, (second - r) - rest, bits};
}
// A float's argument in double, for those who go on in double.
struct TrigArgumentLite {
  double r;
  uint64_t quadrant;
};
TOCHA_MATH TrigArgumentLite reduce_trig_lite(double x) {
  auto [n, bits] = nearest(x, kTwoOverPi);
  return {nmadd(n, 0x1.0b4611a626331p-34, nmadd(n, kHalfPi1, x)), bits};
}
TOCHA_MATH TrigArgument<float> reduce_trig(float x) {
#if TOCHA_HAS_FMA
  // x - n P1 is exact, and each of the next two steps rounds r once: no bits are lost near multiples of pi/2.
  auto [n, bits] = nearest(x, 0x1.45f306p-1f);
  float r = nmadd(n, 0x1.921fb6p0f, x);
  r = nmadd(n, -0x1.777a5cp-25f, r);
  r = nmadd(n, -0x1.ee59dap-50f, r);
  return {r, 0.0f, bits};
#else
  auto a = reduce_trig_lite(x);
  return {static_cast<float>(a.r), 0.0f, static_cast<uint32_t>(a.quadrant)};
#endif
}

// (sin r - r) / r^3 and (cos r - 1 + r^2/2) / r^4 in z = r^2, a little beyond |r| <= pi/4.
TOCHA_MATH float sin_tail(float z) { return poly(z, -0x1.555544p-3f, 0x1.1106d4p-7f, -0x1.9920d2p-13f); }
TOCHA_MATH float cos_tail(float z) { return poly(z, 0x1.55554ap-5f, -0x1.6c0bc4p-10f, 0x1.99cb84p-16f); }
TOCHA_MATH double sin_tail(double z) {
  return poly(z, -0x1.5555555555547p-3, 0x1.111111110f52ap-7, -0x1.a01a019ba6837p-13, 0x1.71de351a0ac67p-19,
              -0x1.ae5e1c4b9d9ddp-26, 0x1.5d7d68e534cbp-33);
}
TOCHA_MATH double cos_tail(double z) {
  return poly(z, 0x1.5555555555549p-5, -0x1.6c16c16c14c8ap-10, 0x1.a01a019c3750cp-16, -0x1.27e4f7b24102dp-22,
              0x1.1ee9b0bb7d07dp-29, -0x1.8f9027713a8b3p-37);
}

TOCHA_MATH float sin_reduced(TrigArgument<float> a) {
  float z = a.r * a.r;
  return madd(a.r * z, sin_tail(z), a.r);
}
TOCHA_MATH float cos_reduced(TrigArgument<float> a) {
  float z = a.r * a.r;
  return madd(z * z, cos_tail(z), madd(z, -0.5f, 1.0f));
}
// As value and what its last rounding lost.
struct TrigPair {
  double value, low;
};
TOCHA_MATH TrigPair sin_pair(TrigArgument<double> a) {
  double z = a.r * a.r;
  double tail = madd(a.r * z, sin_tail(z), madd(-0.5 * z, a.r_low, a.r_low));
  double value = a.r + tail;
  return {value, (a.r - value) + tail};
}
TOCHA_MATH TrigPair cos_pair(TrigArgument<double> a) {
  double z = a.r * a.r, half = 0.5 * z, head = 1.0 - half;
  double tail = ((1.0 - head) - half) + madd(z * z, cos_tail(z), -a.r * a.r_low);
  double value = head + tail;
  return {value, (head - value) + tail};
}
TOCHA_MATH double sin_reduced(TrigArgument<double> a) { return sin_pair(a).value; }
TOCHA_MATH double cos_reduced(TrigArgument<double> a) { return cos_pair(a).value; }

// sin(x + quarter pi/2)
template <class T>
TOCHA_MATH T sin_shifted(T x, unsigned quarter) {
  auto a = reduce_trig(x);
  auto q = a.quadrant + quarter;
  T v = (q & 1) != 0 ? cos_reduced(a) : sin_reduced(a);
  return flip_sign(v, (q << (sizeof(T) * 8 - 2)) & FloatFormat<T>::kSign);
}
template <class T>
TOCHA_MATH T sin_fast(T x) {
  // The sign is carried apart from the magnitude so that -0 keeps it.
  return flip_sign(sin_shifted(fabs(x), 0), bits_of(x) & FloatFormat<T>::kSign);
}
template <class T>
TOCHA_MATH T cos_fast(T x) {
  return sin_shifted(x, 1);
}
#if TOCHA_HAS_FMA
// (tan r - r) / r^3 in z = r^2, a little beyond |r| <= pi/4.
TOCHA_MATH float tan_tail(float z) {
  return poly(z, 0x1.55556p-2f, 0x1.110d9ep-3f, 0x1.bad9dp-5f, 0x1.5cbfa8p-6f, 0x1.62d424p-7f, 0x1.94c41p-14f,
              0x1.1ea2f6p-8f);
}
TOCHA_MATH float tan_fast(float x) {
  // |x| = n pi/2 + r + low. Where r is small, first - r is rounded and says nothing of what r has lost.
  auto [n, quadrant] = nearest(fabs(x), 0x1.45f306p-1f);
  float first = nmadd(n, 0x1.921fb6p0f, fabs(x)), r = nmadd(n, -0x1.777a5cp-25f, first);
  float lost = fabs(r) > 0x1p-8f ? nmadd(n, -0x1.777a5cp-25f, first - r) : 0.0f;
  float low = nmadd(n, -0x1.ee59dap-50f, lost);
  float z = r * r;
  float tail = madd(r * z, tan_tail(z), madd(low, z, low));  // the slope is nearly 1 + z
  float t = r + tail;
  // -1 / t, and once more for what it and t have lost.
  float q = -1.0f / t;
  float rest = madd(q, (r - t) + tail, madd(q, t, 1.0f));
  float y = (quadrant & 1) != 0 ? madd(q, rest, q) : t;
  return flip_sign(y, bits_of(x) & FloatFormat<float>::kSign);
}
#else
TOCHA_MATH float tan_fast(float x) {
  auto [r, quadrant] = reduce_trig_lite(fabs(x));
  double z = r * r;
  double s = madd(
      r * z, poly(z, -0x1.5555554c0566cp-3, 0x1.11110811e439bp-7, -0x1.a00f3291e1ca6p-13, 0x1.6cbec3e023beep-19), r);
  double c =
      madd(z * z, poly(z, 0x1.55554a0a3092cp-5, -0x1.6c0c207f19b48p-10, 0x1.99e2cf7e8415fp-16), madd(z, -0.5, 1.0));
  bool odd = (quadrant & 1) != 0;
  float y = static_cast<float>(odd ? -c : s) / static_cast<float>(odd ? s : c);
  return flip_sign(y, bits_of(x) & FloatFormat<float>::kSign);
}
#endif
TOCHA_MATH double tan_fast(double x) {
  auto a = reduce_trig(fabs(x));
  auto s = sin_pair(a), c = cos_pair(a);
  bool odd = (a.quadrant & 1) != 0;
  double top = odd ? -c.value : s.value, top_low = odd ? -c.low : s.low;
  double bottom = odd ? s.value : c.value, bottom_low = odd ? s.low : c.low;
  // One division for the quotient and for the correction that makes up for all roundings so far.
  double inverse = 1.0 / bottom;
  double q = top * inverse;
  double rest = remainder_of(top, q, bottom) + nmadd(q, bottom_low, top_low);
  return flip_sign(madd(rest, inverse, q), bits_of(x) & FloatFormat<double>::kSign);
}

template <class T>
TOCHA_MATH T sin(T x) {
  return trig_needs_slow(x) ? std::sin(x) : sin_fast(x);
}
template <class T>
TOCHA_MATH T cos(T x) {
  return trig_needs_slow(x) ? std::cos(x) : cos_fast(x);
}
template <class T>
TOCHA_MATH T tan(T x) {
  return trig_needs_slow(x) ? std::tan(x) : tan_fast(x);
}

// out[i] = fast(in[i]) where a whole chunk of arguments is within the limit, else full(in[i]). out may be in.
template <class T, class Fast, class Full>
TOCHA_MATH void map_trig(T* out, const T* in, int64_t size, Fast fast, Full full) {
  constexpr int64_t kChunk = 512;
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    int64_t end = begin + kChunk < size ? begin + kChunk : size;
    typename FloatFormat<T>::Bits slow = 0;
    for (int64_t i = begin; i < end; i++) slow |= trig_needs_slow(in[i]) ? 1 : 0;
    if (slow != 0) {
      for (int64_t i = begin; i < end; i++) out[i] = full(in[i]);
    } else {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; i++) out[i] = fast(in[i]);
    }
  }
}

// (sin(pi r) / (pi r) - 1) / r^2 in z = r^2, |r| <= 1/2.
TOCHA_MATH float sinc_tail(float z) {
  return poly(z, -0x1.a51a66p0f, 0x1.9f9cacp-1f, -0x1.86a6dep-3f, 0x1.abe8f6p-6f, -0x1.253aa4p-9f);
}
template <class V>
TOCHA_MATH V sinc_tail(V z) {
  return poly(z, -0x1.a51a6625307d3p0, 0x1.9f9cb402bc46cp-1, -0x1.86a8e4720db2cp-3, 0x1.ac6805cf31fd9p-6,
              -0x1.33816aa2f1ffbp-9, 0x1.3747192a554d8p-13, -0x1.d424067beaaa7p-18, 0x1.0faa881d047d6p-22,
              -0x1.e75de6c1f4a48p-28);
}
// sin(pi x) / (pi x); x is reduced exactly, so every x is served and integers give 0.
template <class T>
TOCHA_MATH T sinc(T x) {
  T a = fabs(x);
  // From 2^22 (2^51) on, adding the rounder rounds to even integers; from 2^24 (2^53) on there are no others.
  constexpr T rounder = FloatFormat<T>::kRounder, unit = rounder / T(1.5);
  T even = a < unit / 2 ? T(0) : (a + rounder) - rounder;
  T b = a < unit * 2 ? a - even : T(0);
  auto [n, bits] = nearest(b, T(1));
  T r = b - n;
  T z = r * r;
  T s = madd(r * z, sinc_tail(z), r);
  s = flip_sign(s, (bits << (sizeof(T) * 8 - 1)) & FloatFormat<T>::kSign);
  T y = s / a;
  y = a < kInf<T> ? y : a - a;
  return a == T(0) ? T(1) : y;
}

}  // namespace math
TOCHA_ISA_END
