// Orthogonal polynomials p_n(x) on scalars, for the pointwise kernels. The degree arrives as a floating value and is
// truncated; a negative (or absurd) degree gives 0. Three-term recurrences run in T, so that they overflow where T
// does.
#pragma once

#include <cmath>
#include <cstdint>

#include "cpu/special_series.h"

TOCHA_ISA_BEGIN
namespace math {
namespace special {

// The degree as an integer; -1 stands for every degree that has no polynomial.
template <class T>
inline int64_t degree(T n) {
  return n > T(-1) && n < T(0x1p63) ? static_cast<int64_t>(n) : -1;
}

// Runs p_{k+1} = step(k, p_k, p_{k-1}) from p_0 = 1 and p_1 = first up to p_n; a NaN ends it early.
template <class T, class Step>
inline T recurrence(int64_t n, T first, Step step) {
  if (n <= 0) return n == 0 ? T(1) : T(0);
  T previous = 1, current = first;
  for (int64_t k = 1; k < n && current == current; ++k) {
    T next = step(static_cast<T>(k), current, previous);
    previous = current;
    current = next;
  }
  return current;
}

// The four kinds share the recurrence p_{k+1} = 2 x p_k - p_{k-1} and differ in p_1.
template <class T>
inline T chebyshev_recurrence(T x, int64_t n, T first) {
  return recurrence(n, first, [x](T, T p, T q) { return (x + x) * p - q; });
}

inline double odd_sign(double x, int64_t n) { return x < 0 && n % 2 != 0 ? -1 : 1; }

// Inside (-1, 1) high degrees are trigonometric; |x| and the symmetry keep acos away from pi, where sines lose digits.
inline constexpr int64_t kTrigonometricFrom = 8;
template <class T>
inline bool trigonometric(T x, int64_t n) {
  return n > kTrigonometricFrom && x > -1 && x < 1;
}

inline double third_kind(double x, int64_t n) {  // x in [0, 1)
  double angle = std::acos(x);
  return std::cos((static_cast<double>(n) + 0.5) * angle) / std::cos(0.5 * angle);
}
inline double fourth_kind(double x, int64_t n) {
  double angle = std::acos(x);
  return std::sin((static_cast<double>(n) + 0.5) * angle) / std::sin(0.5 * angle);
}

template <class T>
inline T chebyshev_t(T x, int64_t n) {
  if (n > 0 && std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? T(1) : T(-1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x);
  double angle = std::acos(std::fabs(static_cast<double>(x)));
  return static_cast<T>(odd_sign(x, n) * std::cos(static_cast<double>(n) * angle));
}

template <class T>
inline T chebyshev_u(T x, int64_t n) {
  if (n > 0 && std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? static_cast<T>(n + 1) : -static_cast<T>(n + 1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x + x);
  double angle = std::acos(std::fabs(static_cast<double>(x)));
  return static_cast<T>(odd_sign(x, n) * std::sin((static_cast<double>(n) + 1) * angle) / std::sin(angle));
}

template <class T>
inline T chebyshev_v(T x, int64_t n) {
  if (n > 0 && x == 1) return 1;
  if (n > 0 && x == -1) return n % 2 == 0 ? static_cast<T>(2 * n + 1) : -static_cast<T>(2 * n + 1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x + x - 1);
  double value = x < 0 ? odd_sign(x, n) * fourth_kind(-x, n) : third_kind(x, n);
  return static_cast<T>(value);
}

template <class T>
inline T chebyshev_w(T x, int64_t n) {
  if (n > 0 && x == 1) return static_cast<T>(2 * n + 1);
  if (n > 0 && x == -1) return n % 2 == 0 ? T(1) : T(-1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x + x + 1);
  double value = x < 0 ? odd_sign(x, n) * third_kind(-x, n) : fourth_kind(x, n);
  return static_cast<T>(value);
}

}  // namespace special

template <class T>
inline T chebyshev_polynomial_t(T x, T n) {
  return special::chebyshev_t(x, special::degree(n));
}
template <class T>
inline T chebyshev_polynomial_u(T x, T n) {
  return special::chebyshev_u(x, special::degree(n));
}
template <class T>
inline T chebyshev_polynomial_v(T x, T n) {
  return special::chebyshev_v(x, special::degree(n));
}
template <class T>
inline T chebyshev_polynomial_w(T x, T n) {
  return special::chebyshev_w(x, special::degree(n));
}
template <class T>
inline T shifted_chebyshev_polynomial_t(T x, T n) {
  return special::chebyshev_t(x + x - 1, special::degree(n));
}
template <class T>
inline T shifted_chebyshev_polynomial_u(T x, T n) {
  return special::chebyshev_u(x + x - 1, special::degree(n));
}
template <class T>
inline T shifted_chebyshev_polynomial_v(T x, T n) {
  return special::chebyshev_v(x + x - 1, special::degree(n));
}
template <class T>
inline T shifted_chebyshev_polynomial_w(T x, T n) {
  return special::chebyshev_w(x + x - 1, special::degree(n));
}
// The physicists' Hermite polynomials; _he below are the probabilists'.
template <class T>
inline T hermite_polynomial_h(T x, T n) {
  return special::recurrence(special::degree(n), x + x, [x](T k, T p, T q) { return 2 * (x * p - k * q); });
}
template <class T>
inline T hermite_polynomial_he(T x, T n) {
  return special::recurrence(special::degree(n), x, [x](T k, T p, T q) { return x * p - k * q; });
}
template <class T>
inline T laguerre_polynomial_l(T x, T n) {
  return special::recurrence(special::degree(n), 1 - x,
                             [x](T k, T p, T q) { return p + (k * (p - q) - x * p) / (k + 1); });
}
template <class T>
inline T legendre_polynomial_p(T x, T n) {
  return special::recurrence(special::degree(n), x,
                             [x](T k, T p, T q) { return ((k + k + 1) * x * p - k * q) / (k + 1); });
}

}  // namespace math
TOCHA_ISA_END
