// Polynomial evaluation shared by the special functions of this folder, which scalar kernels call.
// The coefficient tables there were fitted with mpmath at 45 digits to a relative error below 1e-16.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "core/isa.h"

TOCHA_ISA_BEGIN
namespace math {
namespace special {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kSqrtHalf = 0.70710678118654752440;

// Coefficients run from the constant term up. Even and odd powers are summed side by side, which halves the wait.
template <std::size_t N>
inline double horner(const double (&c)[N], double x) {
  static_assert(N >= 2);
  double square = x * x;
  double first = c[N - 2], second = c[N - 1];
  for (std::size_t i = N; i >= 4; i -= 2) {
    first = first * square + c[i - 4];
    second = second * square + c[i - 3];
  }
  double sum = first + second * x;
  return N % 2 == 0 ? sum : sum * x + c[0];
}

// Sum of c[k] T_k(x) for x in [-1, 1], by Clenshaw's recurrence: stable where the powers of x would cancel.
template <std::size_t N>
inline double clenshaw(const double (&c)[N], double x) {
  double next = 0, after = 0;
  for (std::size_t i = N - 1; i > 0; --i) {
    double current = 2 * x * next - after + c[i];
    after = next;
    next = current;
  }
  return x * next - after + c[0];
}

// tan(pi x) with the argument reduced before it meets pi, which keeps its accuracy for large x.
inline double tan_pi(double x) { return std::tan(kPi * (x - std::nearbyint(x))); }

}  // namespace special
}  // namespace math
TOCHA_ISA_END
