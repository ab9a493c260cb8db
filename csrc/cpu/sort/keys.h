// Order-preserving keys: every sortable element maps to an unsigned integer whose order is PyTorch's order
// (NaN above everything, -0.0 equal to 0.0, all NaNs equal). Used by the sorting, selection and search kernels.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/dtype.h"
#include "core/dtype_messages.h"
#include "core/isa.h"

TOCHA_ISA_BEGIN
namespace sorting {

template <int Bytes>
using UIntOf =
    std::conditional_t<Bytes == 1, uint8_t,
                       std::conditional_t<Bytes == 2, uint16_t, std::conditional_t<Bytes == 4, uint32_t, uint64_t>>>;

template <class T>
constexpr bool kIsFloat =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Keys are worked on in 32 or 64 bits; a narrower element leaves the upper bits zero.
template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  static constexpr uint32_t infinity = 0x7f800000u;
};
template <>
struct FloatBits<double> {
  static constexpr uint64_t infinity = 0x7ff0000000000000ull;
};
template <>
struct FloatBits<Half> {
  static constexpr uint16_t infinity = 0x7c00u;
};
template <>
struct FloatBits<BFloat16> {
  static constexpr uint16_t infinity = 0x7f80u;
};

template <class T>
constexpr KeyOf<T> kSignBit = KeyOf<T>(1) << (sizeof(T) * 8 - 1);
template <class T>
constexpr KeyOf<T> kNanKey = static_cast<KeyOf<T>>(kSignBit<T> - 1 + kSignBit<T>);
template <class T>
constexpr KeyOf<T> kZeroKey = kSignBit<T>;

template <class T>
inline KeyOf<T> to_key(T x) {
  using K = KeyOf<T>;
  using U = UIntOf<sizeof(T)>;
  if constexpr (std::is_same_v<T, bool>) {
    return x;
  } else if constexpr (kIsFloat<T>) {
    K u = std::bit_cast<U>(x);
    K magnitude = u & (kSignBit<T> - 1);
    K key = (u & kSignBit<T>) ? static_cast<K>(kSignBit<T> - magnitude) : static_cast<K>(kSignBit<T> + magnitude);
    return magnitude > FloatBits<T>::infinity ? kNanKey<T> : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(static_cast<U>(x)) ^ kSignBit<T>;
  } else {
    return x;
  }
}

// Two keys stand for several elements each (the zeros, the NaNs); the caller reads those from the input.
template <class T>
inline bool key_is_ambiguous(KeyOf<T> key) {
  if constexpr (kIsFloat<T>) return key == kZeroKey<T> || key == kNanKey<T>;
  return false;
}

template <class T>
inline T from_key(KeyOf<T> key) {
  using K = KeyOf<T>;
  using U = UIntOf<sizeof(T)>;
  if constexpr (std::is_same_v<T, bool>) {
    return key != 0;
  } else if constexpr (kIsFloat<T>) {
    K u = key >= kSignBit<T> ? static_cast<K>(key - kSignBit<T>) : static_cast<K>((kSignBit<T> - key) | kSignBit<T>);
    return std::bit_cast<T>(static_cast<U>(u));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<U>(key ^ kSignBit<T>));
  } else {
    return static_cast<T>(key);
  }
}

// Equality under which every NaN differs from everything.
template <class T>
inline bool same_value(T a, T b) {
  if constexpr (kIsFloat<T>)
    return to_key(a) == to_key(b) && to_key(a) != kNanKey<T>;
  else
    return a == b;
}

}  // namespace sorting
TOCHA_ISA_END

// The dtypes that have an order: CASE(enumerator, C++ type).
#define TOCHA_FORALL_SORTABLE(_) \
  _(Bool, bool)                  \
  _(UInt8, uint8_t)              \
  _(Int8, int8_t)                \
  _(Int16, int16_t)              \
  _(Int32, int32_t)              \
  _(Int64, int64_t)              \
  _(UInt16, uint16_t)            \
  _(UInt32, uint32_t)            \
  _(UInt64, uint64_t)            \
  _(Float16, Half)               \
  _(BFloat16, BFloat16)          \
  _(Float32, float)              \
  _(Float64, double)

// switch over the sortable dtypes with `call` as the case; `op` names the operator in the error (core/error.h).
#define TOCHA_SORTABLE_SWITCH(op, dtype, call) \
  switch (dtype) {                             \
    TOCHA_FORALL_SORTABLE(call)                \
    default:                                   \
      refuse_dtype(op, dtype);                 \
  }
