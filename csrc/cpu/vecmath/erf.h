// The error function family: erf, erfc, erfinv, and the two forms of gelu.
#pragma once

#include "cpu/vecmath/log.h"

TOCHA_ISA_BEGIN
namespace math {

// -log(erfc a) / a - 1: smooth where erfc itself falls off a cliff, so one polynomial serves 0 <= a <= 4 (6), and
// erf = -expm1(log erfc) is accurate at both ends.
TOCHA_MATH float log_erfc_slope(float a) {
  return poly(a, 0x1.06eba8p-3f, 0x1.45f2fap-1f, 0x1.a4fa5ep-4f, -0x1.39cdc8p-6f, -0x1.505b84p-13f, 0x1.b4ff66p-10f,
              -0x1.4bc878p-11f, 0x1.ed67eap-14f, -0x1.369188p-17f);
}
TOCHA_MATH double log_erfc_slope(double a) {
  return poly(a, 0x1.06eba8214db68p-3, 0x1.45f306dc9c897p-1, 0x1.a4f4e2a1b207ep-4, -0x1.39668593d7d2ep-6,
              -0x1.b6b68bee7595bp-13, 0x1.bca67bd13ef41p-10, -0x1.35654f9ecadf9p-11, 0x1.b22bc50b5153p-16,
              0x1.0e7f999a66119p-14, -0x1.f2afbb481722cp-16, 0x1.c94fbde7b5843p-19, 0x1.7c87ff12f5702p-19,
              -0x1.d380f462e3b07p-20, 0x1.69342efaf1544p-22, 0x1.268ccbd23d5f2p-23, -0x1.3068280168621p-23,
              0x1.1a4d63afd84b6p-24, -0x1.681b84f9fa917p-26, 0x1.5768ed9c0b76dp-28, -0x1.f3408535cbe97p-31,
              0x1.127f8451f0cd3p-33, -0x1.bba7dc6ac9ff4p-37, 0x1.f1e4e06458543p-41, -0x1.5ac5e72b565b5p-45,
              0x1.c389888820a25p-51);
}
template <class T>
TOCHA_MATH T erf_of(T x) {
  T a = at_most(fabs(x), sizeof(T) == 4 ? T(4) : T(5.95));
  T e = expm1_nonpositive(-madd(a, log_erfc_slope(a), a));
  return copysign(e, x);
}
TOCHA_MATH float erf(float x) { return erf_of(x); }
TOCHA_MATH double erf(double x) { return erf_of(x); }

// erfc a = e^(-a^2) / (1 + 2a) P(t), t = (a - K) / (a + K): P is nearly constant over the whole half line.
TOCHA_MATH float erfc(float x) {
  double a = at_most(fabs(static_cast<double>(x)), 10.2);
  double d1 = a + 3.0, d2 = madd(2.0, a, 1.0), inverse = 1.0 / (d1 * d2);
  double t = (a - 3.0) * d2 * inverse;
  double p = poly(t, 0x1.40c522dbf43bap0, -0x1.15c0894b5370ep-3, -0x1.85a19a33d7c13p-5, 0x1.098411b347accp-3,
                  -0x1.e8887ec177833p-4, 0x1.17bd4955fec8bp-4, -0x1.85ea4690c7364p-6, 0x1.50678a81d9f2bp-9,
                  0x1.06950a35dae55p-9, -0x1.9663bf2b7be59p-11, -0x1.182911e29a7bdp-12);
  double y = exp_lite(-a * a) * p * d1 * inverse;
  return static_cast<float>(x < 0.0f ? 2.0 - y : y);
}
// erfc a and e^(-a^2) for a >= 1/2.
struct ErfcPair {
  double value, gauss;
};
TOCHA_MATH ErfcPair erfc_outer(double x) {
  double a = at_most(x, 28.0);
  double top = a - 4.0, bottom = a + 4.0, t = top / bottom;
  double p = poly(t, 0x1.3ba5916e9fd7fp0, -0x1.1df1ad154a29bp-3, 0x1.f7f5df66fd7bbp-7, 0x1.16ecefcfa5fa8p-4,
                  -0x1.9ddb23c3e8ed9p-4, 0x1.7fee004df7cbbp-4, -0x1.0fb06dfe5227ep-4, 0x1.3079edf9dd3dep-5,
                  -0x1.09623881b4dbep-6, 0x1.49c671970e9a5p-8, -0x1.8d4a9ede0e17bp-11, -0x1.a1de85867b054p-13,
                  0x1.3be0c11c79796p-13, -0x1.9969e178a10f7p-16, -0x1.78a5a22a84b84p-17, 0x1.7fb0eac83f008p-18,
                  0x1.43b45c6533a58p-22, -0x1.c014c6ed79baap-21, 0x1.0d77c162419a5p-24, 0x1.eddd301c4de75p-24,
                  -0x1.0cc3fd6eecdcfp-27, -0x1.d25ae594a7234p-27, -0x1.e837387025f4fp-30);
  // What the rounding of t's two parts did, times the slope of P (roughly; it is steep only for small a).
  double top_lost = a - (top + 4.0), bottom_lost = a - (bottom - 4.0);
  double s = 0.5 - 0.5 * t, s2 = s * s, s4 = s2 * s2;
  double t_lost = nmadd(t, bottom_lost, top_lost) * (0.25 * s);
  p = madd(t_lost, madd(s4 * s4, 1.88, -0.14), p);
  double d = 1.0 + 2.0 * a, d_lost = 2.0 * a - (d - 1.0);
  double quotient = p / d;
  // The square of a in two parts, for e^(-a^2) magnifies its rounding by a^2. One correction for that and for what d
  // lost: 1 / d is known well enough from the quotient, since p is about 1.2.
  double head = from_bits(bits_of(a) & 0xfffffffff8000000u);
  double square_low = (a - head) * (a + head);
  auto e = reduce_exp(-head * head);
  double r = e.r - madd(d_lost * 0.8, quotient, square_low);
  double q = madd(r * r, exp_tail(r), r);
  return {scale_exp(madd(quotient, q, quotient), e.bits), scale_exp(1.0 + q, e.bits)};
}
TOCHA_MATH double erfc(double x) {
  double a = fabs(x), z = a * a;
  double inner = poly(z, 0x1.06eba8214db68p-3, -0x1.812746b0379b3p-2, 0x1.ce2f21a03d692p-4, -0x1.b82ce30f1f212p-6,
                      0x1.565bcbf5ed95cp-8, -0x1.c02d4ea578a84p-11, 0x1.f98d95b355cc2p-14, -0x1.f22299d7bb47p-17,
                      0x1.8b3938f882e7cp-20);
  double y = a < 0.5 ? 1.0 - madd(a, inner, a) : erfc_outer(a).value;
  return x < 0.0 ? 2.0 - y : y;
}

// erfinv(x) / x as a polynomial in w = -log(1 - x^2), or in sqrt(w) towards the ends; relative error 2^-25.
TOCHA_MATH double erfinv_estimate(double x, double w, double root) {
  double u = w - 2.5, v = root - 4.0;
  double central = poly(u, 0x1.805c5d072fee4p0, 0x1.f91e8b14adf45p-3, -0x1.11c41f07bb3b3p-8, -0x1.486653dabd0cap-10,
                        0x1.c9c550e08af1bp-13, -0x1.4cf3064b72bfcp-18, -0x1.ccf160854c1c5p-19, 0x1.f417f87ec0087p-22,
                        0x1.349a96b8be33ap-26, -0x1.2d08903b92491p-27, 0x1.773bd99d7d03ep-32);
  double outer = poly(v, 0x1.eb7e09742f04ep1, 0x1.026e1da05aaf7p0, 0x1.49ef023638c7fp-10, -0x1.c556f5616ec93p-11,
                      0x1.56267efc5801fp-12, -0x1.0d7ee904213bfp-13, 0x1.905a3ba0c842cp-15, -0x1.5b5e97cc9561ap-16,
                      0x1.8c7a79d915857p-16, -0x1.0776fea741ac2p-16, 0x1.0568aa70bd26bp-19, 0x1.b0dbd1bd3ad5dp-20,
                      -0x1.d5d4fc11f793ap-22);
  return x * (w < 5.0 ? central : outer);
}
template <class T>
TOCHA_MATH T erfinv_edges(T y, T x) {
  T a = fabs(x);
  y = a < T(1) ? y : kNan<T>;
  return a == T(1) ? copysign(kInf<T>, x) : y;
}
// Up to |x| = 0.99 shorter polynomials serve, for the logarithm (to 2^-29) and in w (to 2^-30).
TOCHA_MATH float inner_erfinv(float x) {
  double d = x;
  auto a = reduce_log(nmadd(d, d, 1.0));
  double p = poly(a.f, 0x1.555551efec591p-2, -0x1.0002c711f2f33p-2, 0x1.99a211ee8cb0dp-3, -0x1.544e6c5bc09dbp-3,
                  0x1.229c8bf31251bp-3, -0x1.0e7f8560858ddp-3, 0x1.074490010befap-3, -0x1.3891a4a85fb89p-4);
  double u = -1.5 - madd(a.k, 0x1.62e42fefa39efp-1, madd(a.f * a.f, madd(a.f, p, -0.5), a.f));
  double q = poly(u, 0x1.4087417ee686ep0, 0x1.005f02e53f52ap-2, 0x1.cd40594eb35e4p-11, -0x1.123de7890e19fp-9,
                  0x1.7494aaa4b3231p-13, 0x1.8612df16528c5p-16, -0x1.679553ec4cf49p-18, -0x1.93e9f0a94d344p-25,
                  0x1.d1644beb33bd2p-24, -0x1.44c759ddb26a3p-27);
  return static_cast<float>(d * q);
}
TOCHA_MATH bool beyond_inner_erfinv(float x) { return !(fabs(x) <= 0.99f); }
TOCHA_MATH float precise_erfinv(float x) {
  double d = x, w = -log_lite((1.0 - d) * (1.0 + d));
  float root = sqrt(static_cast<float>(w));
  float outer = erfinv_edges(static_cast<float>(erfinv_estimate(d, w, root)), x);
  return beyond_inner_erfinv(x) ? outer : inner_erfinv(x);
}
// Up to 1/2 a polynomial. Beyond, one step of Halley's method from the estimate triples its digits; the distance from 1
// is exact there, and erfc can tell how far off it is.
TOCHA_MATH double precise_erfinv(double x) {
  double a = fabs(x), z = a * a;
  double inner = poly(z, -0x1.dc01d9929be67p-59, 0x1.db29fb2fee698p-3, 0x1.053c2c0aadd5ep-3, 0x1.62847c50c0c2fp-4,
                      0x1.0a1316c97561fp-4, 0x1.a7c8cf116e734p-5, 0x1.5ee20c2526c11p-5, 0x1.2b36b9b6d68ep-5,
                      0x1.fe00ce6172ddbp-6, 0x1.0395e829a16fcp-5, 0x1.094294f4b947ap-7, 0x1.304c34f93c72fp-4,
                      -0x1.3c67b72a7931dp-4, 0x1.d264fb433c946p-4);
  constexpr double half_sqrt_pi = 0x1.c5bf891b4ef6bp-1;
  double small = madd(a, inner, a * half_sqrt_pi);
  double w = -log_lite((1.0 - a) * (1.0 + a));
  double y = erfinv_estimate(a, w, sqrt(w));
  auto e = erfc_outer(y);
  double step = half_sqrt_pi * ((1.0 - a) - e.value) / e.gauss;
  y -= step / madd(y, step, 1.0);
  return erfinv_edges(copysign(a < 0.5 ? small : y, x), x);
}

// Weights drawn from a truncated normal distribution are to be PyTorch's to the last bit. On ARM that library takes the
// well-known quotients of polynomials and two steps of Newton's method, all in T; elsewhere the result is the nearest
// number, or next to it.
#ifdef __aarch64__
template <class T>
TOCHA_MATH T erfinv_start(T y) {
  T a = std::abs(y);
  if (a <= T(0.7)) {
    T z = y * y;
    T over = std::fma(std::fma(std::fma(T(-0.140543331), z, T(0.914624893)), z, T(-1.645349621)), z, T(0.886226899));
    T under = std::fma(std::fma(T(0.012229801), z, T(-0.329097515)), z, T(1.442710462));
    under = std::fma(std::fma(under, z, T(-2.118377725)), z, T(1));
    return y * over / under;
  }
  T z = std::sqrt(-std::log((T(1) - a) / T(2)));
  T over = std::fma(std::fma(std::fma(T(1.641345311), z, T(3.429567803)), z, T(-1.624906493)), z, T(-1.970840454));
  T under = std::fma(std::fma(T(1.637067800), z, T(3.543889200)), z, T(1));
  return std::copysign(over, y) / under;
}
template <class T>
TOCHA_MATH T newton_erfinv(T y) {
  constexpr T slope = T(1.1283791670955126);  // of erf at 0
  T x = erfinv_start(y);
  for (int i = 0; i < 2; ++i) x -= (std::erf(x) - y) / (slope * std::exp(-x * x));
  return erfinv_edges(x, y);
}
TOCHA_MATH float erfinv(float x) { return newton_erfinv(x); }
TOCHA_MATH double erfinv(double x) { return newton_erfinv(x); }
TOCHA_MATH float erfinv_fast(float x) { return erfinv(x); }
TOCHA_MATH bool erfinv_needs_slow(float) { return false; }
#else
TOCHA_MATH float erfinv(float x) { return precise_erfinv(x); }
TOCHA_MATH double erfinv(double x) { return precise_erfinv(x); }
TOCHA_MATH float erfinv_fast(float x) { return inner_erfinv(x); }
TOCHA_MATH bool erfinv_needs_slow(float x) { return beyond_inner_erfinv(x); }
#endif
TOCHA_MATH double erfinv_fast(double x) { return erfinv(x); }
TOCHA_MATH bool erfinv_needs_slow(double) { return false; }

// x Phi(x) as PyTorch has it: its left tail is what 1 + erf leaves.
template <class T>
TOCHA_MATH T gelu(T x) {
  return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752)));
}
// 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
template <class T>
TOCHA_MATH T gelu_tanh(T x) {
  constexpr T c1 = T(1.5957691216057308), c3 = T(0.07135481627260025);
  return x * sigmoid(x * madd(x * x, c3, c1));
}

}  // namespace math
TOCHA_ISA_END
