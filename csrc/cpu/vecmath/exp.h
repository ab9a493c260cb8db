// Exponentials and what is made of them: exp, exp2, expm1, sinh, cosh, tanh, sigmoid.
// x = n ln2 + r with |r| <= ln2 / 2, then a polynomial in r and an exponent built from n.
#pragma once

#include "cpu/vecmath/core.h"

TOCHA_ISA_BEGIN
namespace math {

// ln2 in two parts: n times the first is exact for every n that occurs.
template <class T>
struct Ln2;
template <>
struct Ln2<float> {
  static constexpr float kHigh = 0x1.62e4p-1f, kLow = 0x1.7f7d1cp-20f, kInverse = 0x1.715476p0f;
};
template <>
struct Ln2<double> {
  static constexpr double kHigh = 0x1.62e42feep-1, kLow = 0x1.a39ef35793c76p-33, kInverse = 0x1.71547652b82fep0;
};

template <class T>
struct ExpArgument {
  T n, r;
  typename FloatFormat<T>::Bits bits;
};
template <class T>
TOCHA_MATH ExpArgument<T> reduce_exp(T x) {
  auto [n, bits] = nearest(x, Ln2<T>::kInverse);
  T r = nmadd(n, Ln2<T>::kLow, nmadd(n, Ln2<T>::kHigh, x));
  return {n, r, bits};
}

// (e^r - 1 - r) / r^2 on |r| <= ln2 / 2, to 2^-26 and 2^-61 of e^r - 1.
TOCHA_MATH float exp_tail(float r) {
  return poly(r, 0x1.fffffep-2f, 0x1.5554aep-3f, 0x1.55567ep-5f, 0x1.12291ap-7f, 0x1.6be6e4p-10f);
}
TOCHA_MATH double exp_tail(double r) {
  return poly(r, 0x1p-1, 0x1.5555555555559p-3, 0x1.555555555553ep-5, 0x1.111111110f63dp-7, 0x1.6c16c16c1f387p-10,
              0x1.a01a01b01a769p-13, 0x1.a01a017b256eap-16, 0x1.71ddf7ba40c06p-19, 0x1.27e536d8ec23cp-22,
              0x1.af5fe9496984ep-26, 0x1.1ee8826e45831p-29);
}
// (2^r - 1 - r ln2) / r^2 on |r| <= 1/2.
TOCHA_MATH float exp2_tail(float r) {
  return poly(r, 0x1.ebfbdcp-3f, 0x1.c6af86p-5f, 0x1.3b2e12p-7f, 0x1.5f055ep-10f, 0x1.414d42p-13f);
}
TOCHA_MATH double exp2_tail(double r) {
  return poly(r, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0c8p-5, 0x1.3b2ab6fba4e29p-7, 0x1.5d87fe78a3782p-10,
              0x1.430912f88380dp-13, 0x1.ffcbfc70a9b73p-17, 0x1.62c021df3053bp-20, 0x1.b524e4dc94d39p-24,
              0x1.e4d083155b267p-28, 0x1.e9f73c44fd0a2p-32, 0x1.c2a5c1e6cd99ep-36);
}

// Below the first exp is 0, above the second it is infinite. Between the true limits and these the arithmetic gives
// the right answer by itself, and so the ends need one select each, after the fact.
template <class T>
struct ExpRange;
template <>
struct ExpRange<float> {
  static constexpr float kLowest = -104.0f, kHighest = 89.0f;
};
template <>
struct ExpRange<double> {
  static constexpr double kLowest = -746.0, kHighest = 710.0;
};

// p 2^n for p near 1 and n over the whole range of results: two factors that are both normal numbers, so that results
// which are subnormal or infinite come out of the last multiplication.
template <class T>
TOCHA_MATH T scale_exp(T p, typename FloatFormat<T>::Bits bits) {
  auto half = bits >> 1;
  return p * power_of_two<T>(half) * power_of_two<T>(bits - half);
}

// e^r on |r| <= ln2 / 2. Horner's scheme to the end is one operation shorter, but only fused is it within 1 ulp.
template <class T>
TOCHA_MATH T exp_reduced(T r) {
#if TOCHA_HAS_FMA
  return madd(r, madd(r, exp_tail(r), T(1)), T(1));
#else
  return madd(r * r, exp_tail(r), r) + T(1);
#endif
}

template <class T>
TOCHA_MATH T exp_of(T x) {
  auto a = reduce_exp(x);
  T y = scale_exp(exp_reduced(a.r), a.bits);
  y = x < ExpRange<T>::kLowest ? T(0) : y;
  return x > ExpRange<T>::kHighest ? kInf<T> : y;
}
TOCHA_MATH float exp(float x) { return exp_of(x); }
TOCHA_MATH double exp(double x) { return exp_of(x); }

template <class T>
TOCHA_MATH T exp2_of(T x) {
  auto [n, bits] = nearest(x, T(1));
  T r = x - n;
  constexpr T ln2 = T(0x1.62e42fefa39efp-1);
#if TOCHA_HAS_FMA
  T p = madd(r, madd(r, exp2_tail(r), ln2), T(1));
#else
  T p = madd(r * r, exp2_tail(r), r * ln2) + T(1);
#endif
  T y = scale_exp(p, bits);
  y = x < ExpRange<T>::kLowest * Ln2<T>::kInverse ? T(0) : y;
  return x > ExpRange<T>::kHighest * Ln2<T>::kInverse ? kInf<T> : y;
}
TOCHA_MATH float exp2(float x) { return exp2_of(x); }
TOCHA_MATH double exp2(double x) { return exp2_of(x); }

// e^x to 2^-28 for |x| <= 700.
TOCHA_MATH double exp_lite(double x) {
  auto a = reduce_exp(x);
  double p = poly(a.r, 1.0, 1.0, 0x1.0000005379bb7p-1, 0x1.55548efd6a372p-3, 0x1.55545b5cb02bfp-5, 0x1.123b484b77a9p-7,
                  0x1.6db5e0ca7aa01p-10);
  return p * power_of_two<double>(a.bits);
}

// e^x for x <= 0, a little more accurate than exp: the callers add roundings of their own.
template <class T>
TOCHA_MATH T exp_nonpositive(T x) {
  auto a = reduce_exp(x);
  T y = scale_exp(madd(a.r * a.r, exp_tail(a.r), a.r) + T(1), a.bits);
  return x < ExpRange<T>::kLowest ? T(0) : y;
}

// e^x - 1 for -60 <= x <= 0, with all its relative accuracy near 0.
template <class T>
TOCHA_MATH T expm1_nonpositive(T x) {
  auto a = reduce_exp(x);
  T p = madd(a.r * a.r, exp_tail(a.r), a.r);
  T scale = power_of_two<T>(a.bits);
  return madd(scale, p, scale - T(1));
}

template <class T>
TOCHA_MATH T expm1_of(T x) {
  auto a = reduce_exp(x);
  T p = madd(a.r * a.r, exp_tail(a.r), a.r);
  // Half the scale, twice the sum: 2^n itself overflows at the upper end.
  T half_scale = power_of_two<T>(a.bits, -1);
  T y = T(2) * madd(half_scale, p, half_scale - T(0.5));
  y = x < T(-60) ? T(-1) : y;
  y = x > ExpRange<T>::kHighest ? kInf<T> : y;
  return fabs(x) < std::numeric_limits<T>::epsilon() / 4 ? x : y;
}
TOCHA_MATH float expm1(float x) { return expm1_of(x); }
TOCHA_MATH double expm1(double x) { return expm1_of(x); }

// (sinh r - r) / r^3 and (cosh r - 1) / r^2 in z = r^2, |r| <= ln2 / 2.
TOCHA_MATH float sinh_tail(float z) { return poly(z, 0x1.555556p-3f, 0x1.1110bp-7f, 0x1.a171fp-13f); }
TOCHA_MATH double sinh_tail(double z) {
  return poly(z, 0x1.5555555555559p-3, 0x1.111111110f61p-7, 0x1.a01a01b02c3e6p-13, 0x1.71ddf78e1ceb3p-19,
              0x1.af6034a4d7467p-26);
}
TOCHA_MATH float cosh_tail(float z) { return poly(z, 0x1p-1f, 0x1.55547cp-5f, 0x1.6d99dp-10f); }
TOCHA_MATH double cosh_tail(double z) {
  return poly(z, 0x1p-1, 0x1.5555555555451p-5, 0x1.6c16c16c63438p-10, 0x1.a01a006878b2ap-16, 0x1.27e730cb5648dp-22,
              0x1.1c3068701d8bap-29);
}

// With u = 2^n and r as above, sinh x = (u - 1/u)/2 cosh r + (u + 1/u)/2 sinh r, and cosh with the two halves
// exchanged: no division, and no cancellation near 0 where u - 1/u = 0. All by a quarter, against overflow.
template <class T>
struct HyperbolicParts {
  T up, down, sinh_r, cosh_r_minus_1;
};
template <class T>
TOCHA_MATH HyperbolicParts<T> hyperbolic_parts(T magnitude) {
  auto a = reduce_exp(at_most(magnitude, ExpRange<T>::kHighest + T(0.65)));
  T z = a.r * a.r;
  T up = power_of_two<T>(a.bits, -2);
  T down = power_of_two<T>(0 - a.bits, -2);
  down = a.n > T(60) ? T(0) : down;
  return {up, down, madd(a.r * z, sinh_tail(z), a.r), z * cosh_tail(z)};
}
template <class T>
TOCHA_MATH T sinh_of(T x) {
  auto h = hyperbolic_parts(fabs(x));
  T sum = h.up + h.down, difference = h.up - h.down, lost = (h.up - difference) - h.down;
  T y = T(2) * (difference + madd(sum, h.sinh_r, madd(difference, h.cosh_r_minus_1, lost)));
  return fabs(x) < std::numeric_limits<T>::epsilon() ? x : copysign(y, x);
}
template <class T>
TOCHA_MATH T cosh_of(T x) {
  auto h = hyperbolic_parts(fabs(x));
  T sum = h.up + h.down, difference = h.up - h.down, lost = (h.up - sum) + h.down;
  return T(2) * (sum + madd(difference, h.sinh_r, madd(sum, h.cosh_r_minus_1, lost)));
}
TOCHA_MATH float sinh(float x) { return sinh_of(x); }
TOCHA_MATH double sinh(double x) { return sinh_of(x); }
TOCHA_MATH float cosh(float x) { return cosh_of(x); }
TOCHA_MATH double cosh(double x) { return cosh_of(x); }

// a / (1 + e) for 0 <= e <= 1, making up for what the sum loses.
template <class T>
TOCHA_MATH T divide_by_sum(T a, T e) {
  T d = T(1) + e, lost = e - (d - T(1));
  T q = a / d;
  return nmadd(q * lost, madd(T(-0.5), e, T(1)), q);  // 1 / d is 1 - e/2 nearly enough
}

// (tanh x - x) / x^3 in z = x^2, |x| <= 0.55.
TOCHA_MATH float tanh_tail(float z) {
  return poly(z, -0x1.55554ap-2f, 0x1.110d2p-3f, -0x1.b9277p-5f, 0x1.59338ep-6f, -0x1.9af642p-8f);
}
TOCHA_MATH double tanh_tail(double z) {
  return poly(z, -0x1.555555555554fp-2, 0x1.1111111110779p-3, -0x1.ba1ba1b97b55ep-5, 0x1.664f4858ef331p-6,
              -0x1.226e2f0372c49p-7, 0x1.d6d298d3d7053p-9, -0x1.7d8faf27a025dp-10, 0x1.34827a30ae4dbp-11,
              -0x1.e96333e76c1afp-13, 0x1.5d4f6f3d09887p-14, -0x1.46b3b66e5c861p-16);
}
// A polynomial near 0; from 0.55 on 1 - 2 e / (1 + e) with e = e^(-2|x|), where the errors of e count little.
template <class T>
TOCHA_MATH T tanh_of(T x) {
  T a = fabs(x), z = x * x;
  T inner = madd(a * z, tanh_tail(z), a);
  auto s = reduce_exp(T(-2) * at_most(a, T(22)));
  T e = exp_reduced(s.r) * power_of_two<T>(s.bits);
  T outer = T(1) - divide_by_sum(T(2) * e, e);
  return copysign(a < T(0.55) ? inner : outer, x);
}
TOCHA_MATH float tanh(float x) { return tanh_of(x); }
TOCHA_MATH double tanh(double x) { return tanh_of(x); }

// 1 / (1 + e^-x), written so that neither side overflows and the left tail keeps its relative accuracy.
template <class T>
TOCHA_MATH T sigmoid_of(T x) {
  T e = exp_nonpositive(-fabs(x));
  return divide_by_sum(x < T(0) ? e : T(1), e);
}
TOCHA_MATH float sigmoid(float x) { return sigmoid_of(x); }
TOCHA_MATH double sigmoid(double x) { return sigmoid_of(x); }

}  // namespace math
TOCHA_ISA_END
