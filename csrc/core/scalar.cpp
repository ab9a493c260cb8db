#include "core/scalar.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "core/dtype_messages.h"

namespace tocha {

std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  if (s.is_boolean()) return out << (s.to_bool() ? "True" : "False");
  if (s.is_integral()) return out << s.to_int();
  if (s.is_floating()) return out << s.to_double();
  return out << '(' << s.to_complex().re << (s.to_complex().im < 0 ? "" : "+") << s.to_complex().im << "j)";
}

namespace {

template <class T>
void store_as(const Scalar& s, void* out) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (s.is_integral()) {
      int64_t v = s.to_int();
      bool fits = std::is_same_v<T, uint64_t> ? true
                                              : v >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
                                                    v <= static_cast<int64_t>(std::numeric_limits<T>::max());
      // PyTorch lets a negative number wrap into an unsigned type as long as its magnitude fits.
      if (!fits && std::is_unsigned_v<T> && v < 0 && sizeof(T) < 8) {
        fits = -v <= static_cast<int64_t>(std::numeric_limits<T>::max());
      }
      TOCHA_CHECK(fits, Runtime, "value cannot be converted to type ", overflow_name(DTypeOf<T>::value),
                  " without overflow");
    }
  }
  constexpr bool real =
      !std::is_same_v<T, bool> && !std::is_same_v<T, Complex<float>> && !std::is_same_v<T, Complex<double>>;
  TOCHA_CHECK(!real || !s.is_complex() || s.to_complex().im == 0, Runtime, "value cannot be converted to type ",
              overflow_name(DTypeOf<T>::value), " without overflow");
  T v = s.to<T>();
  std::memcpy(out, &v, sizeof(T));
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
  } else if constexpr (std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>) {
    return Scalar(Complex<double>(v));
  } else {
    return Scalar(static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(v)));
  }
}

}  // namespace

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
