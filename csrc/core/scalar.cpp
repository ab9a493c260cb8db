#include "core/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "core/dtype_messages.h"

namespace tocha {

std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  if (s.is_boolean()) return out << (s.to_bool() ? "True" : "False");
  if (s.is_beyond_int64()) return out << s.to<uint64_t>();
  if (s.is_integral()) return out << s.to_int();
  if (s.is_floating()) return out << s.to_double();
  return out << '(' << s.to_complex().re << (s.to_complex().im < 0 ? "" : "+") << s.to_complex().im << "j)";
}

namespace {

[[noreturn]] void refuse(const Scalar& s, DType d) {
  fail(ErrorKind::Runtime, "value cannot be converted to type ", overflow_name(d), " without overflow: got ", s);
}

template <class T>
bool integer_fits(const Scalar& s) {
  int64_t v = s.to_int();
  if (s.is_beyond_int64()) return std::is_same_v<T, uint64_t>;
  if constexpr (std::is_same_v<T, uint64_t>) return true;
  constexpr auto high = static_cast<int64_t>(std::numeric_limits<T>::max());
  // PyTorch lets a negative number wrap into an unsigned type as long as its magnitude fits.
  int64_t low = std::is_unsigned_v<T> ? -high : static_cast<int64_t>(std::numeric_limits<T>::min());
  return v >= low && v <= high;
}

// The largest finite number of a real floating type.
template <class T>
constexpr double kLargest = std::is_same_v<T, Half>              ? 65504
                            : std::is_same_v<T, BFloat16>        ? 3.3895313892515355e38
                            : std::is_same_v<T, Float8_e4m3fn>   ? 448
                            : std::is_same_v<T, Float8_e4m3fnuz> ? 240
                            : std::is_same_v<T, Float8_e5m2>     ? 57344
                            : std::is_same_v<T, Float8_e5m2fnuz> ? 57344
                            : std::is_same_v<T, Float8_e8m0fnu>  ? 0x1p127
                            : std::is_same_v<T, float> ? static_cast<double>(std::numeric_limits<float>::max())
                                                       : std::numeric_limits<double>::max();
template <class T>
constexpr bool has_infinity = !is_small_float<T> || sizeof(T) > 1 || std::is_same_v<T, Float8_e5m2>;

template <class T>
bool real_fits(double v) {
  if constexpr (std::is_integral_v<T>) {
    return v >= static_cast<double>(std::numeric_limits<T>::min()) &&
           v <= static_cast<double>(std::numeric_limits<T>::max());
  } else if constexpr (std::is_same_v<T, Float8_e8m0fnu>) {
    return std::isnan(v) || (v >= 0x1p-127 && v <= kLargest<T>);
  } else {
    return std::abs(v) <= kLargest<T> || std::isnan(v) || (has_infinity<T> && std::isinf(v));
  }
}

template <class T>
bool fits(const Scalar& s) {
  if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (is_complex_type<T>) {
    using Part = decltype(T().re);
    if constexpr (std::is_same_v<Part, Half>) return true;  // what is too large becomes infinite
    return real_fits<Part>(s.to_complex().re) && real_fits<Part>(s.to_complex().im);
  } else if constexpr (std::is_integral_v<T>) {
    if (s.is_boolean() || s.is_integral()) return integer_fits<T>(s);
    return s.to_complex().im == 0 && real_fits<T>(s.to_double());
  } else {
    return s.to_complex().im == 0 && real_fits<T>(s.to_double());
  }
}

template <class T>
void write(const Scalar& s, void* out) {
  T v = s.to<T>();
  std::memcpy(out, &v, sizeof(T));
}

template <class T>
void store_as(const Scalar& s, void* out) {
  if (!fits<T>(s)) [[unlikely]]
    refuse(s, DTypeOf<T>::value);
  write<T>(s, out);
}

template <class T>
Scalar load_as(const void* in) {
  T v;
  std::memcpy(&v, in, sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    return Scalar(v);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return Scalar(v);
  } else if constexpr (std::is_integral_v<T>) {
    return Scalar(static_cast<int64_t>(v));
  } else if constexpr (is_complex_type<T>) {
    return Scalar(Complex<double>(v));
  } else {
    return Scalar(static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(v)));
  }
}

}  // namespace

void Scalar::refuse_imaginary(DType wanted) const { refuse(*this, wanted); }

void Scalar::store(DType dtype, void* out) const {
  switch (dtype) {
#define _(e, t, n, c) \
  case DType::e:      \
    return store_as<t>(*this, out);
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      fail(ErrorKind::Runtime, "undefined dtype");
  }
}

bool Scalar::fits(DType dtype) const {
  switch (dtype) {
#define _(e, t, n, c) \
  case DType::e:      \
    return tocha::fits<t>(*this);
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      return false;
  }
}

Scalar Scalar::rounded_to(DType dtype) const {
  if (!is_reduced(dtype)) return *this;
  if (!tocha::is_complex(dtype) && to_complex().im != 0) refuse(*this, DType::Float64);
  switch (dtype) {
#define _(e, t, n, c)      \
  case DType::e: {         \
    t v = to<t>();         \
    return load_as<t>(&v); \
  }
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      return *this;
  }
}

Scalar Scalar::load(DType dtype, const void* in) {
  switch (dtype) {
#define _(e, t, n, c) \
  case DType::e:      \
    return load_as<t>(in);
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      fail(ErrorKind::Runtime, "undefined dtype");
  }
}

}  // namespace tocha
