// Orthogonal polynomials p_n(x) on scalars, for the pointwise kernels. The degree arrives as a floating value and is
// truncated; a negative (or absurd) degree gives 0. Three-term recurrences run in T, so that they overflow where T
// does.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/special/bessel.h"
#include "cpu/special/series.h"

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

// Recurrences of more steps than this give way to formulas for high degrees, which take the same time for all of them.
inline constexpr int64_t kLongestRecurrence = int64_t{1} << 17;

// What a recurrence has come to once it overflowed.
template <class T>
inline T settled(double value) {
  T result = static_cast<T>(value);
  return std::isfinite(result) ? result : std::numeric_limits<T>::quiet_NaN();
}

inline double odd_sign(double x, int64_t n) { return x < 0 && n % 2 != 0 ? -1 : 1; }

// High degrees are trigonometric inside (-1, 1), and very high ones hyperbolic outside.
inline constexpr int64_t kTrigonometricFrom = 8;
template <class T>
inline bool trigonometric(T x, int64_t n) {
  return (n > kTrigonometricFrom && x > -1 && x < 1) || n > kLongestRecurrence;
}

// The angle whose cosine is |x|; the symmetry of the polynomials keeps it away from pi, where sines lose digits.
class Angle {
 public:
  explicit Angle(double x) : circular_(std::fabs(x) < 1) {
    angle_ = circular_ ? std::acos(std::fabs(x)) : std::acosh(std::fabs(x));
  }
  double cos(double times) const { return circular_ ? std::cos(times * angle_) : std::cosh(times * angle_); }
  double sin(double times) const { return circular_ ? std::sin(times * angle_) : std::sinh(times * angle_); }

 private:
  bool circular_;
  double angle_;
};

inline double third_kind(double x, int64_t n) {
  Angle a(x);
  return a.cos(static_cast<double>(n) + 0.5) / a.cos(0.5);
}
inline double fourth_kind(double x, int64_t n) {
  Angle a(x);
  return a.sin(static_cast<double>(n) + 0.5) / a.sin(0.5);
}

template <class T>
inline T chebyshev_t(T x, int64_t n) {
  if (n > 0 && std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? T(1) : T(-1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x);
  return settled<T>(odd_sign(x, n) * Angle(x).cos(static_cast<double>(n)));
}

template <class T>
inline T chebyshev_u(T x, int64_t n) {
  if (n > 0 && std::fabs(x) == 1) return x > 0 || n % 2 == 0 ? static_cast<T>(n + 1) : -static_cast<T>(n + 1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x + x);
  Angle a(x);
  return settled<T>(odd_sign(x, n) * a.sin(static_cast<double>(n) + 1) / a.sin(1));
}

template <class T>
inline T chebyshev_v(T x, int64_t n) {
  if (n > 0 && x == 1) return 1;
  if (n > 0 && x == -1) return n % 2 == 0 ? static_cast<T>(2 * n + 1) : -static_cast<T>(2 * n + 1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x + x - 1);
  return settled<T>(x < 0 ? odd_sign(x, n) * fourth_kind(x, n) : third_kind(x, n));
}

template <class T>
inline T chebyshev_w(T x, int64_t n) {
  if (n > 0 && x == 1) return static_cast<T>(2 * n + 1);
  if (n > 0 && x == -1) return n % 2 == 0 ? T(1) : T(-1);
  if (!trigonometric(x, n)) return chebyshev_recurrence(x, n, x + x + 1);
  return settled<T>(x < 0 ? odd_sign(x, n) * third_kind(x, n) : fourth_kind(x, n));
}

// Hilb's formula with its next term, for very high degrees: the error is of the order of n^-2.
inline double legendre_of_high_degree(double x, int64_t n) {
  const double y = std::fabs(x), times = static_cast<double>(n) + 0.5;
  if (y == 1) return odd_sign(x, n);
  const bool inside = y < 1;
  const double angle = inside ? std::acos(y) : std::acosh(y), sine = inside ? std::sin(angle) : std::sinh(angle);
  const double next = angle < 1e-4 ? (inside ? -angle : angle) / 24 : (y / sine - 1 / angle) / 8;
  const double z = times * angle;
  const double zeroth = inside ? bessel_j0(z) : i0(z), first = inside ? bessel_j1(z) : i1(z);
  return odd_sign(x, n) * std::sqrt(angle / sine) * (zeroth + next * first / times);
}

// The expansion in Bessel functions that holds from 0 up to the last zero, with its next term. Beyond, and far before
// it, exp(x / 2) has overflowed.
inline double laguerre_of_high_degree(double x, int64_t n) {
  if (x == 0) return 1;
  const double whole = 4 * static_cast<double>(n) + 2, t = x / whole, root = std::sqrt(std::fabs(t));
  if (!(t < 1)) return std::numeric_limits<double>::quiet_NaN();
  const double rest = std::sqrt(1 - t), ratio = t / (1 - t);
  const double xi = (root * rest + (t < 0 ? std::asinh(root) : std::asin(root))) / 2;
  const double next = -(0.125 + xi * rest / root * (-0.125 + ratio / 4 + ratio * ratio * (5.0 / 24)));
  const double z = whole * xi;
  const double zeroth = t > 0 ? bessel_j0(z) : i0(z), first = t > 0 ? bessel_j1(z) : i1(z);
  return std::exp(x / 2) / std::sqrt(root * rest) * (std::sqrt(xi) * zeroth + next / std::sqrt(xi) * first / whole);
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
  const int64_t degree = special::degree(n);
  if (degree > special::kLongestRecurrence) return special::settled<T>(special::laguerre_of_high_degree(x, degree));
  return special::recurrence(degree, 1 - x, [x](T k, T p, T q) { return p + (k * (p - q) - x * p) / (k + 1); });
}
template <class T>
inline T legendre_polynomial_p(T x, T n) {
  const int64_t degree = special::degree(n);
  if (degree > special::kLongestRecurrence) return special::settled<T>(special::legendre_of_high_degree(x, degree));
  return special::recurrence(degree, x, [x](T k, T p, T q) { return ((k + k + 1) * x * p - k * q) / (k + 1); });
}

}  // namespace math
TOCHA_ISA_END
