// From a DType to the C++ types of the random functions, and the conversions they use. Included by random.cpp and
// rejection.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dtype.h"
#include "core/dtype_messages.h"
#include "core/error.h"

namespace tocha::cpu {

template <class T>
struct Type {
  using type = T;
};

inline void require_floating(const char* name, DType dtype) {
  if (!is_floating(dtype) || is_float8(dtype)) refuse_dtype(name, dtype);
}

template <class F>
void visit_floating(const char* name, DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float16:
      return f(Type<Half>{});
    case DType::BFloat16:
      return f(Type<BFloat16>{});
    case DType::Float32:
      return f(Type<float>{});
    case DType::Float64:
      return f(Type<double>{});
    default:
      refuse_dtype(name, dtype);
  }
}

// The dtypes PyTorch has had from the start, without bool.
template <class F>
void visit_numeric(const char* name, DType dtype, F&& f) {
  switch (dtype) {
    case DType::UInt8:
      return f(Type<uint8_t>{});
    case DType::Int8:
      return f(Type<int8_t>{});
    case DType::Int16:
      return f(Type<int16_t>{});
    case DType::Int32:
      return f(Type<int32_t>{});
    case DType::Int64:
      return f(Type<int64_t>{});
    default:
      return visit_floating(name, dtype, f);
  }
}

template <class F>
void visit_classic(const char* name, DType dtype, F&& f) {
  if (dtype == DType::Bool) return f(Type<bool>{});
  visit_numeric(name, dtype, f);
}

// The same and the wider unsigned integers.
template <class F>
void visit_real(const char* name, DType dtype, F&& f) {
  switch (dtype) {
    case DType::UInt16:
      return f(Type<uint16_t>{});
    case DType::UInt32:
      return f(Type<uint32_t>{});
    case DType::UInt64:
      return f(Type<uint64_t>{});
    default:
      return visit_classic(name, dtype, f);
  }
}

template <class T>
T to_number(int64_t value) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) {
    return static_cast<T>(value);
  } else {
    return T(static_cast<float>(value));
  }
}

// Out-of-range integers come out as on x86: the smallest int32 (int64 for int64), cut to the width of T.
template <class T>
T to_number(double value) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    constexpr double limit = sizeof(T) == 8 ? 0x1p63 : 0x1p31;
    bool fits = value >= -limit && value < limit;
    return static_cast<T>(fits ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min());
  } else if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return T(static_cast<float>(value));
  }
}

}  // namespace tocha::cpu
