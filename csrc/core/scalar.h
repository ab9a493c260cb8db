// A number from Python: bool, int, float or complex, remembered as what it was.
#pragma once

#include <cmath>
#include <cstdint>
#include <ostream>

#include "core/dtype.h"
#include "core/error.h"

namespace tocha {

class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool v) : kind_(Kind::boolean), int_(v) {}
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}
  Scalar(int64_t v) : kind_(Kind::integer), int_(v) {}
  Scalar(uint64_t v) : kind_(Kind::integer), is_unsigned_(v >> 63), int_(static_cast<int64_t>(v)) {}
  Scalar(double v) : kind_(Kind::floating), re_(v) {}
  Scalar(Complex<double> v) : kind_(Kind::complex), re_(v.re), im_(v.im) {}

  Kind kind() const { return kind_; }
  bool is_complex() const { return kind_ == Kind::complex; }
  bool is_floating() const { return kind_ == Kind::floating; }
  bool is_integral() const { return kind_ == Kind::integer; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_beyond_int64() const { return is_unsigned_; }

  // These are refused for numbers with an imaginary part.
  double to_double() const {
    if (im_ != 0) [[unlikely]]
      refuse_imaginary(DType::Float64);
    return real();
  }
  int64_t to_int() const {
    if (im_ != 0) [[unlikely]]
      refuse_imaginary(DType::Int64);
    return kind_ <= Kind::integer ? int_ : signed_of(re_);
  }
  bool to_bool() const { return kind_ <= Kind::integer ? int_ != 0 : (re_ != 0 || im_ != 0); }
  Complex<double> to_complex() const { return {real(), im_}; }

  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>) {
      return to_bool();
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      return kind_ <= Kind::integer ? static_cast<uint64_t>(int_) : unsigned_of(re_);
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(to_int());
    } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) {
      return static_cast<T>(to_double());
    } else if constexpr (is_complex_type<T>) {
      return T(to_complex());
    } else {
      return T(static_cast<float>(to_double()));
    }
  }

  bool equals(double v) const { return im_ == 0 && real() == v; }
  Scalar operator-() const {
    switch (kind_) {
      case Kind::boolean:
        return Scalar(-int_);
      case Kind::integer:
        return Scalar(static_cast<int64_t>(0 - static_cast<uint64_t>(int_)));
      case Kind::floating:
        return Scalar(-re_);
      default:
        return Scalar(Complex<double>(-re_, -im_));
    }
  }

  // Writes the value as an element of `dtype`. What the dtype cannot hold is an error: integers and NaN outside an
  // integer's range, finite numbers beyond a float's, an imaginary part of a real one. Infinity is a value of floats.
  void store(DType dtype, void* out) const;
  bool fits(DType dtype) const;
  // The number that a half type stores: beyond its range, infinity. Other types leave it as it is.
  Scalar rounded_to(DType dtype) const;
  static Scalar load(DType dtype, const void* in);

 private:
  double real() const {
    return kind_ <= Kind::integer
               ? (is_unsigned_ ? static_cast<double>(static_cast<uint64_t>(int_)) : static_cast<double>(int_))
               : re_;
  }
  [[noreturn]] void refuse_imaginary(DType wanted) const;
  // Ends of the range for what lies beyond it, on every processor.
  static int64_t signed_of(double v) { return v >= 0x1p63 ? INT64_MAX : static_cast<int64_t>(v); }
  static uint64_t unsigned_of(double v) {
    return v >= 0x1p64 ? UINT64_MAX : v < 0 ? static_cast<uint64_t>(signed_of(v)) : static_cast<uint64_t>(v);
  }

  Kind kind_;
  bool is_unsigned_ = false;
  int64_t int_ = 0;
  double re_ = 0;
  double im_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Scalar& s);

}  // namespace tocha
