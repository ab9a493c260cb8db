// The element types, their C++ types and their properties.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/complex.h"
#include "core/half.h"
#include "core/isa.h"

namespace tocha {

// TYPE(enumerator, C++ type, python name, short code)
#define TOCHA_FORALL_DTYPES(_)                                       \
  _(Bool, bool, "bool", b)                                           \
  _(UInt8, uint8_t, "uint8", u8)                                     \
  _(Int8, int8_t, "int8", i8)                                        \
  _(Int16, int16_t, "int16", i16)                                    \
  _(Int32, int32_t, "int32", i32)                                    \
  _(Int64, int64_t, "int64", i64)                                    \
  _(UInt16, uint16_t, "uint16", u16)                                 \
  _(UInt32, uint32_t, "uint32", u32)                                 \
  _(UInt64, uint64_t, "uint64", u64)                                 \
  _(Float16, Half, "float16", f16)                                   \
  _(BFloat16, BFloat16, "bfloat16", bf16)                            \
  _(Float32, float, "float32", f32)                                  \
  _(Float64, double, "float64", f64)                                 \
  _(Complex64, Complex<float>, "complex64", c64)                     \
  _(Complex128, Complex<double>, "complex128", c128)                 \
  _(Float8_e4m3fn, Float8_e4m3fn, "float8_e4m3fn", f8e4m3fn)         \
  _(Float8_e5m2, Float8_e5m2, "float8_e5m2", f8e5m2)                 \
  _(Complex32, Complex<Half>, "complex32", c32)                      \
  _(Float8_e4m3fnuz, Float8_e4m3fnuz, "float8_e4m3fnuz", f8e4m3fnuz) \
  _(Float8_e5m2fnuz, Float8_e5m2fnuz, "float8_e5m2fnuz", f8e5m2fnuz) \
  _(Float8_e8m0fnu, Float8_e8m0fnu, "float8_e8m0fnu", f8e8m0fnu)

enum class DType : uint8_t {
#define _(e, t, n, c) e,
  TOCHA_FORALL_DTYPES(_)
#undef _
      Undefined
};
constexpr int kNumDTypes = static_cast<int>(DType::Undefined);

enum class Kind : uint8_t { boolean, integer, floating, complex };

struct DTypeInfo {
  const char* name;
  uint8_t itemsize;
  Kind kind;
  bool is_signed;
};

template <class T>
constexpr Kind kind_of() {
  if (std::is_same_v<T, bool>) return Kind::boolean;
  if (std::is_integral_v<T>) return Kind::integer;
  if (is_complex_type<T>) return Kind::complex;
  return Kind::floating;
}

template <class T>
constexpr bool signed_of() {
  return !(std::is_same_v<T, bool> || std::is_unsigned_v<T> || std::is_same_v<T, Float8_e8m0fnu>);
}

// PyTorch's word for a dtype, which messages use.
constexpr const char* scalar_name(DType d) {
  constexpr const char* names[kNumDTypes] = {
      "Bool",           "Byte",        "Char",        "Short",           "Int",
      "Long",           "UInt16",      "UInt32",      "UInt64",          "Half",
      "BFloat16",       "Float",       "Double",      "ComplexFloat",    "ComplexDouble",
      "Float8_e4m3fn",  "Float8_e5m2", "ComplexHalf", "Float8_e4m3fnuz", "Float8_e5m2fnuz",
      "Float8_e8m0fnu",
  };
  return names[static_cast<int>(d)];
}

// In the header, so that what asks for a dtype's size knows the table.
inline constexpr DTypeInfo kDTypes[kNumDTypes] = {
#define _(e, t, n, c) {scalar_name(DType::e), sizeof(t), kind_of<t>(), signed_of<t>()},
    TOCHA_FORALL_DTYPES(_)
#undef _
};

inline const DTypeInfo& info(DType d) { return kDTypes[static_cast<int>(d)]; }
inline int64_t itemsize(DType d) { return info(d).itemsize; }
inline bool is_floating(DType d) { return info(d).kind == Kind::floating; }
inline bool is_complex(DType d) { return info(d).kind == Kind::complex; }
inline bool is_integral(DType d) { return info(d).kind == Kind::integer; }
inline bool is_boolean(DType d) { return d == DType::Bool; }
inline bool is_reduced_floating(DType d) { return is_floating(d) && itemsize(d) < 4; }
inline bool is_float8(DType d) { return is_floating(d) && itemsize(d) == 1; }
// What formulas compute in: values of the small types are only stored in them.
inline DType math_dtype(DType d) {
  return is_reduced_floating(d) ? DType::Float32 : d == DType::Complex32 ? DType::Complex64 : d;
}
inline bool is_reduced(DType d) { return math_dtype(d) != d; }

// complex64 -> float32 and so on; any other dtype is its own value type.
inline DType real_dtype(DType d) {
  return d == DType::Complex64    ? DType::Float32
         : d == DType::Complex128 ? DType::Float64
         : d == DType::Complex32  ? DType::Float16
                                  : d;
}
inline DType complex_dtype(DType d) {
  if (is_complex(d)) return d;
  return d == DType::Float64 ? DType::Complex128 : d == DType::Float16 ? DType::Complex32 : DType::Complex64;
}

}  // namespace tocha

TOCHA_ISA_BEGIN

template <class T>
struct DTypeOf;
#define _(e, t, n, c)                        \
  template <>                                \
  struct DTypeOf<t> {                        \
    static constexpr DType value = DType::e; \
  };
TOCHA_FORALL_DTYPES(_)
#undef _

template <DType d>
struct CTypeOf;
#define _(e, t, n, c)        \
  template <>                \
  struct CTypeOf<DType::e> { \
    using type = t;          \
  };
TOCHA_FORALL_DTYPES(_)
#undef _

TOCHA_ISA_END
