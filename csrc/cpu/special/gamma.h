// The gamma family on scalars: lgamma, digamma, Hurwitz zeta, polygamma. Called by the pointwise kernels and by
// igamma.h. Everything is computed in double; float arguments are rounded once at the end.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "cpu/special/series.h"
#include "cpu/vecmath/avx512_gamma.h"
#include "cpu/vecmath/gamma.h"

TOCHA_ISA_BEGIN
namespace math {
namespace special {

// Bernoulli numbers as Euler-Maclaurin's formula for zeta takes them: B_2k / (2k)!.
inline constexpr double kEulerMaclaurin[] = {0.08333333333333333,    -0.001388888888888889,   3.306878306878307e-05,
                                             -8.267195767195768e-07, 2.08767569878681e-08,    -5.284190138687493e-10,
                                             1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
                                             -2.174868698558062e-16, 5.5090028283602295e-18,  -1.3954464685812522e-19};

// log of Gamma*(x) = Gamma(x) e^x x^(1/2 - x) / sqrt(2 pi), for x >= 8.
inline double stirling_correction(double x) {
  double inverse = 1 / x;
  return lgamma_stirling<double>(inverse * inverse) * inverse;
}

// lgamma(1 + a) for 0 <= a <= 1/2, where forming 1 + a would lose a's last digits.
inline double lgamma1p(double a) { return a * lgamma_near_two<double>(a) - std::log1p(a); }

inline double lgamma(double x) {
  // libm keeps full relative accuracy around the zeros between negative integers; lgamma_r does not touch signgam.
  if (x < 0) {
    int sign;
    return ::lgamma_r(x, &sign);
  }
  return lgamma_positive<double>(x);
}

inline double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (x > 0) return digamma_positive<double>(x);
  if (x == std::floor(x)) return kNan;  // the poles, and -inf
  return digamma_positive<double>(1 - x) - kPi / tan_pi(x);
}

// Euler-Maclaurin: terms are summed until the argument is large, the rest is an integral and its corrections.
inline double zeta_positive(double s, double q) {
  double sum = 0;
  double a = q;
  for (int i = 0; i < 10 || a < 10; ++i, a += 1) {
    double term = std::pow(a, -s);
    sum += term;
    if (term <= sum * 0x1p-60) return sum;
  }
  double power = std::pow(a, -s);
  sum += power * a / (s - 1) + 0.5 * power;
  double rising = s;  // s (s + 1) ... (s + 2k) a^-(2k + 1)
  rising /= a;
  for (int k = 0; k < 12; ++k) {
    double term = kEulerMaclaurin[k] * rising * power;
    sum += term;
    if (std::fabs(term) <= std::fabs(sum) * 0x1p-60) break;
    rising *= (s + 2 * k + 1) / a * ((s + 2 * k + 2) / a);
  }
  return sum;
}

// q < 0 between integers, s a whole number: floor(-q) + 1 terms lie left of zero. They are paired with their mirror
// images on the right before anything is added, because for odd s the two nearly cancel.
inline double zeta_negative(double s, double q) {
  double below = -q - std::floor(-q);  // distance of the last negative term from zero; the first positive one's is:
  double above = 1 - below;
  double sign = std::fmod(s, 2) == 1 ? -1 : 1;
  double count = std::floor(-q) + 1;
  double pairs = count < 32 ? count : 32;
  double sum = zeta_positive(s, above + pairs);
  if (count > pairs) sum += sign * (zeta_positive(s, below + pairs) - zeta_positive(s, 1 - q));
  for (double j = pairs - 1; j >= 0; --j) sum += std::pow(above + j, -s) + sign * std::pow(below + j, -s);
  return sum;
}

inline double zeta(double s, double q) {
  if (s == 1) return kInf;
  if (s < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    return s == std::floor(s) ? zeta_negative(s, q) : kNan;
  }
  if (q == kInf || std::isnan(s) || std::isnan(q)) return kNan;
  return zeta_positive(s, q);
}

// At its poles left of zero trigamma is what PyTorch's reflection makes of a rounded pi: large, and finite.
template <class T>
inline T trigamma_pole(T x) {
  T ratio = std::numbers::pi_v<T> / std::sin(std::numbers::pi_v<T> * x);
  return ratio * ratio;
}

inline double polygamma(int64_t n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1 && x > 0) return trigamma_positive(x);
  if (n == 1 && std::isinf(x)) return x > 0 ? 0 : kNan;
  double value = std::exp(lgamma(static_cast<double>(n) + 1)) * zeta(static_cast<double>(n) + 1, x);
  return n % 2 == 0 ? -value : value;
}

}  // namespace special

// The fast forms where they are right, so that an element's value does not depend on its neighbours'.
template <class T>
inline T lgamma(T x) {
  if (!lgamma_needs_slow(x)) return lgamma_fast(x);
  return static_cast<T>(sizeof(T) == 4 ? lgamma_reflected(-x) : special::lgamma(x));
}
template <class T>
inline T digamma(T x) {
  return digamma_needs_slow(x) ? static_cast<T>(special::digamma(x)) : digamma_fast(x);
}
// Hurwitz's zeta: the sum over k >= 0 of (q + k)^-x.
template <class T>
inline T zeta(T x, T q) {
  return static_cast<T>(special::zeta(x, q));
}
// The n-th derivative of digamma.
template <class T>
inline T polygamma(int64_t n, T x) {
  if (n == 1 && x < 0 && x == std::floor(x) && !std::isinf(x)) return special::trigamma_pole(x);
  return static_cast<T>(special::polygamma(n, x));
}

}  // namespace math
TOCHA_ISA_END
