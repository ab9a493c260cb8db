// Complex numbers as two reals. Products are the plain four-multiplication form, as in PyTorch;
// quotients scale by the larger part of the divisor so that they neither overflow nor underflow early.
#pragma once

#include "core/isa.h"

TOCHA_ISA_BEGIN

template <class T>
struct Complex {
  using value_type = T;
  T re, im;

  Complex() = default;
  constexpr Complex(T r) : re(r), im(0) {}
  constexpr Complex(T r, T i) : re(r), im(i) {}
  template <class U>
  constexpr explicit Complex(Complex<U> c) : re(static_cast<T>(c.re)), im(static_cast<T>(c.im)) {}

  friend constexpr Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend constexpr Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend constexpr Complex operator/(Complex a, Complex b) {
    T p = __builtin_fabs(b.re);
    T q = __builtin_fabs(b.im);
    if (p >= q) {
      if (p == 0 && q == 0) return {a.re / p, a.im / q};
      T ratio = b.im / b.re;
      T scale = T(1) / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    T ratio = b.re / b.im;
    T scale = T(1) / (b.re * ratio + b.im);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
  friend constexpr Complex operator-(Complex a) { return {-a.re, -a.im}; }
  friend constexpr bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
  friend constexpr bool operator!=(Complex a, Complex b) { return !(a == b); }
  Complex& operator+=(Complex b) { return *this = *this + b; }
  Complex& operator*=(Complex b) { return *this = *this * b; }
};

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<Complex<T>> = true;

TOCHA_ISA_END
