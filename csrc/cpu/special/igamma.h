// The regularized incomplete gamma functions P(a, x) = igamma and Q(a, x) = igammac on scalars, for the pointwise
// kernels. Method by region: Temme's uniform expansion (DLMF 8.12) for large a near x, else the power series of P,
// the small-x series of Q, or the continued fraction of Q, whichever gives the smaller of the two without cancellation.
#pragma once

#include <cmath>
#include <cstddef>

#include "cpu/special/gamma.h"

TOCHA_ISA_BEGIN
namespace math {
namespace special {

// Both functions at once: one is computed, the other is its complement.
struct IncompleteGamma {
  double lower, upper;
};

inline IncompleteGamma from_lower(double p) { return {p, 1 - p}; }
inline IncompleteGamma from_upper(double q) { return {1 - q, q}; }

// From here on the uniform expansion serves |x - a| < kUniformWidth a; its table is sized for these two numbers.
inline constexpr double kUniformFrom = 40;
inline constexpr double kUniformWidth = 0.3;

// Row k holds the coefficients of C_k(eta) in powers of eta.
inline constexpr double kTemme0[] = {-0.3333333333333333,    0.08333333333333333,     -0.014814814814814815,
                                     0.0011574074074074073,  0.0003527336860670194,   -0.0001787551440329218,
                                     3.919263178522438e-05,  -2.185448510679992e-06,  -1.85406221071516e-06,
                                     8.296711340953087e-07,  -1.7665952736826078e-07, 6.707853543401498e-09,
                                     1.0261809784240309e-08, -4.382036018453353e-09,  9.14769958223679e-10};
inline constexpr double kTemme1[] = {-0.001851851851851852,   -0.003472222222222222,   0.0026455026455026454,
                                     -0.0009902263374485596,  0.00020576131687242798,  -4.018775720164609e-07,
                                     -1.8098550334489977e-05, 7.64916091608111e-06,    -1.6120900894563446e-06,
                                     4.647127802807434e-09,   1.378633446915721e-07,   -5.752545603517705e-08,
                                     1.1951628599778148e-08,  -1.7543241719747647e-11, -1.0091543710600413e-09};
inline constexpr double kTemme2[] = {0.004133597883597883,    -0.0026813271604938273, 0.0007716049382716049,
                                     2.0093878600823047e-06,  -0.0001073665322636516, 5.2923448829120125e-05,
                                     -1.2760635188618728e-05, 3.423578734096138e-08,  1.3721957309062934e-06,
                                     -6.298992138380055e-07,  1.4280614206064242e-07, -2.0477098421990866e-10,
                                     -1.409252991086752e-08};
inline constexpr double kTemme3[] = {0.0006494341563786008,   0.00022947209362139917,  -0.0004691894943952557,
                                     0.00026772063206283885,  -7.561801671883977e-05,  -2.396505113867297e-07,
                                     1.1082654115347302e-05,  -5.6749528269915965e-06, 1.4230900732435883e-06,
                                     -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08};
inline constexpr double kTemme4[] = {-0.0008618882909167117,  0.0007840392217200666, -0.0002990724803031902,
                                     -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
                                     1.1375726970678419e-05,  2.507497226237533e-10, -1.6954149536558305e-06,
                                     8.907507532205309e-07};
inline constexpr double kTemme5[] = {-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
                                     -0.00019932570516188847, 6.797780477937208e-05,  1.419062920643967e-07,
                                     -1.3594048189768693e-05, 8.018470256334202e-06};
inline constexpr double kTemme6[] = {0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045,
                                     7.902353232660328e-07, -8.153969367561969e-05, 5.61168275310625e-05};
inline constexpr double kTemme7[] = {0.00034436760689237765, 5.171790908260592e-05, -0.00033493161081142234,
                                     0.0002812695154763237, -0.00010976582244684731};

// log(x / a) - u with u = x / a - 1; for small u through log(1 + u) = 2 atanh(u / (2 + u)), which does not cancel.
inline double log_ratio_minus(double x, double a) {
  double u = (x - a) / a;
  if (std::fabs(u) > 0.4) return std::log(x / a) - u;
  double r = u / (2 + u);
  double square = r * r;
  double power = square;
  double sum = 0;
  for (int k = 3; k < 31; k += 2) {
    double term = power / k;
    sum += term;
    if (term <= sum * 0x1p-56) break;
    power *= square;
  }
  return r * (2 * sum - u);
}

// x^a e^-x / Gamma(a + 1). For large a the powers are taken relative to their peak at x = a.
inline double gamma_density(double a, double x) {
  if (a < 10) return std::exp(a * std::log(x) - x - lgamma(a + 1));
  return std::exp(a * log_ratio_minus(x, a) - stirling_correction(a)) / std::sqrt(2 * kPi * a);
}

inline IncompleteGamma uniform_expansion(double a, double x) {
  double u = x - a;
  double half_square = -log_ratio_minus(x, a);
  double eta = std::copysign(std::sqrt(2 * half_square), u);
  const double rows[] = {horner(kTemme0, eta), horner(kTemme1, eta), horner(kTemme2, eta), horner(kTemme3, eta),
                         horner(kTemme4, eta), horner(kTemme5, eta), horner(kTemme6, eta), horner(kTemme7, eta)};
  double rest = std::exp(-a * half_square) / std::sqrt(2 * kPi * a) * horner(rows, 1 / a);
  double tail = 0.5 * std::erfc(std::sqrt(a * half_square));
  return u > 0 ? from_upper(tail + rest) : from_lower(tail - rest);
}

// P = density * (1 + x / (a + 1) + x^2 / ((a + 1)(a + 2)) + ...).
inline double lower_series(double a, double x) {
  double density = gamma_density(a, x);
  if (density == 0) return 0;
  double term = 1, sum = 1;
  for (double k = a + 1; term > sum * 0x1p-56; k += 1) {
    term *= x / k;
    sum += term;
  }
  return density * sum;
}

// Q for small a and x <= 1.1, where 1 - P would cancel:
// 1 - x^a / Gamma(1 + a) * (1 + sum over k >= 1 of a (-x)^k / (k! (a + k))).
inline double upper_small(double a, double x) {
  double exponent = a * std::log(x) - (a <= 0.5 ? lgamma1p(a) : lgamma(1 + a));
  double term = 1, sum = 0;
  for (int k = 1; k < 40; ++k) {
    term *= -x / k;
    double part = term / (a + k);
    sum += part;
    if (std::fabs(part) <= std::fabs(sum) * 0x1p-56) break;
  }
  return -std::expm1(exponent) - std::exp(exponent) * a * sum;
}

// Legendre's continued fraction, 1/(x + 1 - a - 1 (1 - a)/(x + 3 - a - ...)), by the modified Lentz method.
inline double upper_fraction(double a, double x) {
  double density = gamma_density(a, x);
  if (density == 0) return 0;
  const double tiny = 1e-300;
  double b = x + 1 - a;
  double c = 1 / tiny;
  double d = 1 / (b == 0 ? tiny : b);
  double value = d;
  for (int k = 1; k < 2000; ++k) {
    double numerator = k * (a - k);
    b += 2;
    d = numerator * d + b;
    c = b + numerator / c;
    if (d == 0) d = tiny;
    if (c == 0) c = tiny;
    d = 1 / d;
    double step = c * d;
    value *= step;
    if (std::fabs(step - 1) <= 0x1p-53) break;
  }
  return density * a * value;
}

// a > 0 and x > 0, both finite.
inline IncompleteGamma incomplete_gamma(double a, double x) {
  if (a >= kUniformFrom && std::fabs(x - a) < kUniformWidth * a) return uniform_expansion(a, x);
  if (x <= 1.1) {
    // Q is the smaller one when a is below about -0.4 / log(x) (and for any a < x above 1/2).
    bool upper_is_small = x < 0.5 ? a < -0.4 / std::log(x) : a < x;
    return upper_is_small ? from_upper(upper_small(a, x)) : from_lower(lower_series(a, x));
  }
  return x < a ? from_lower(lower_series(a, x)) : from_upper(upper_fraction(a, x));
}

// The order of these tests decides what NaN meets infinity gives; it is PyTorch's.
inline IncompleteGamma incomplete_gamma_checked(double a, double x) {
  if (a < 0 || x < 0) return {kNan, kNan};
  if (a == 0) return x > 0 ? IncompleteGamma{1, 0} : IncompleteGamma{kNan, kNan};
  if (x == 0) return {0, 1};
  if (a == kInf) return x == kInf ? IncompleteGamma{kNan, kNan} : IncompleteGamma{0, 1};
  if (x == kInf) return {1, 0};
  if (std::isnan(a) || std::isnan(x)) return {kNan, kNan};
  return incomplete_gamma(a, x);
}

}  // namespace special

template <class T>
inline T igamma(T a, T x) {
  return static_cast<T>(special::incomplete_gamma_checked(a, x).lower);
}
template <class T>
inline T igammac(T a, T x) {
  return static_cast<T>(special::incomplete_gamma_checked(a, x).upper);
}

}  // namespace math
TOCHA_ISA_END
