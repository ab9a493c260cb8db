// Elementary functions of Complex<T> for float and double, called by the pointwise kernels. Branch cuts, signed zeros
// and infinities are C99's, which is what PyTorch has: most go to libm's complex functions. std::complex is avoided
// because its templates, compiled once per instruction set, would be merged by the linker.
#pragma once

#include <cmath>

#include "core/complex.h"
#include "core/isa.h"
#include "cpu/vecmath/atrig.h"
#include "cpu/vecmath/basic.h"

TOCHA_ISA_BEGIN
namespace math {
namespace libm {

__extension__ typedef _Complex float ComplexFloat;
__extension__ typedef _Complex double ComplexDouble;

inline ComplexFloat pack(Complex<float> z) {
  ComplexFloat c;
  __real__ c = z.re;
  __imag__ c = z.im;
  return c;
}
inline ComplexDouble pack(Complex<double> z) {
  ComplexDouble c;
  __real__ c = z.re;
  __imag__ c = z.im;
  return c;
}
inline Complex<float> unpack(ComplexFloat c) { return {__real__ c, __imag__ c}; }
inline Complex<double> unpack(ComplexDouble c) { return {__real__ c, __imag__ c}; }

}  // namespace libm

#define TOCHA_COMPLEX_FROM_LIBM(NAME)                                                                        \
  inline Complex<float> NAME(Complex<float> z) { return libm::unpack(__builtin_c##NAME##f(libm::pack(z))); } \
  inline Complex<double> NAME(Complex<double> z) { return libm::unpack(__builtin_c##NAME(libm::pack(z))); }

TOCHA_COMPLEX_FROM_LIBM(exp)
TOCHA_COMPLEX_FROM_LIBM(log)
TOCHA_COMPLEX_FROM_LIBM(sqrt)
TOCHA_COMPLEX_FROM_LIBM(sin)
TOCHA_COMPLEX_FROM_LIBM(cos)
TOCHA_COMPLEX_FROM_LIBM(tan)
TOCHA_COMPLEX_FROM_LIBM(asin)
TOCHA_COMPLEX_FROM_LIBM(acos)
TOCHA_COMPLEX_FROM_LIBM(atan)
TOCHA_COMPLEX_FROM_LIBM(sinh)
TOCHA_COMPLEX_FROM_LIBM(cosh)
TOCHA_COMPLEX_FROM_LIBM(tanh)
TOCHA_COMPLEX_FROM_LIBM(asinh)
TOCHA_COMPLEX_FROM_LIBM(acosh)
TOCHA_COMPLEX_FROM_LIBM(atanh)

#undef TOCHA_COMPLEX_FROM_LIBM

template <class T>
TOCHA_MATH T abs(Complex<T> z) {
  return math::hypot(z.re, z.im);
}
template <class T>
TOCHA_MATH T arg(Complex<T> z) {
  return math::atan2(z.im, z.re);
}

template <class T>
inline bool isnan(Complex<T> z) {
  return std::isnan(z.re) || std::isnan(z.im);
}
template <class T>
inline bool isinf(Complex<T> z) {
  return std::isinf(z.re) || std::isinf(z.im);
}
template <class T>
inline bool isfinite(Complex<T> z) {
  return std::isfinite(z.re) && std::isfinite(z.im);
}

template <class T>
inline Complex<T> square(Complex<T> z) {
  return z * z;
}
template <class T>
inline Complex<T> reciprocal(Complex<T> z) {
  return Complex<T>(1) / z;
}
template <class T>
inline Complex<T> rsqrt(Complex<T> z) {
  return Complex<T>(1) / math::sqrt(z);
}
template <class T>
inline Complex<T> sigmoid(Complex<T> z) {
  return Complex<T>(1) / (Complex<T>(1) + math::exp(-z));
}
template <class T>
inline Complex<T> exp2(Complex<T> z) {
  return math::exp(Complex<T>(T(0.69314718055994530942) * z.re, T(0.69314718055994530942) * z.im));
}
template <class T>
inline Complex<T> log2(Complex<T> z) {
  Complex<T> l = math::log(z);
  return {l.re / T(0.69314718055994530942), l.im / T(0.69314718055994530942)};
}
template <class T>
inline Complex<T> log10(Complex<T> z) {
  Complex<T> l = math::log(z);
  return {l.re / T(2.30258509299404568402), l.im / T(2.30258509299404568402)};
}

// z / |z|, and 0 at 0.
template <class T>
inline Complex<T> sgn(Complex<T> z) {
  T size = math::abs(z);
  if (size == 0) return Complex<T>(0, 0);
  return {z.re / size, z.im / size};
}

// e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y / 2).
template <class T>
inline Complex<T> expm1(Complex<T> z) {
  T sine = std::sin(z.im / 2);
  return {std::expm1(z.re) * std::cos(z.im) - 2 * sine * sine, std::exp(z.re) * std::sin(z.im)};
}

// |1 + z|^2 - 1 = x (2 + x) + y^2 keeps the small arguments' digits.
template <class T>
inline Complex<T> log1p(Complex<T> z) {
  T x = z.re, y = z.im;
  T real = std::fabs(x) < T(0.5) && std::fabs(y) < T(0.5) ? std::log1p(x * (2 + x) + y * y) / 2
                                                          : std::log(std::hypot(1 + x, y));
  return {real, std::atan2(y, 1 + x)};
}

inline Complex<float> pow(Complex<float> z, Complex<float> w) {
  return libm::unpack(__builtin_cpowf(libm::pack(z), libm::pack(w)));
}
inline Complex<double> pow(Complex<double> z, Complex<double> w) {
  return libm::unpack(__builtin_cpow(libm::pack(z), libm::pack(w)));
}

}  // namespace math
TOCHA_ISA_END
