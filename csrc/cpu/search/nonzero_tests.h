// Which elements count as non-zero, by dtype. Shared by nonzero.cpp and isa/kernels.cpp.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

TOCHA_ISA_BEGIN
namespace searching {

// Zero tests on the bits: ignoring the sign bit makes -0.0 zero, and NaN is not.
template <class U, U Mask>
struct BitsTest {
  using type = U;
  static bool nonzero(U x) { return (x & Mask) != 0; }
};
template <class U, U Mask>
struct PairTest {
  struct type {
    U re, im;
  };
  static bool nonzero(type x) { return ((x.re | x.im) & Mask) != 0; }
};
// A format in which no bits mean zero.
struct NoZero {
  using type = uint8_t;
  static bool nonzero(uint8_t) { return true; }
};

// f(test) for the dtype's test.
template <class F>
void with_zero_test(DType dtype, F&& f) {
  constexpr uint64_t all = ~uint64_t{0};
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
    case DType::Int8:
      return f(BitsTest<uint8_t, 0xff>());
    case DType::Int16:
    case DType::UInt16:
      return f(BitsTest<uint16_t, 0xffff>());
    case DType::Int32:
    case DType::UInt32:
      return f(BitsTest<uint32_t, 0xffffffffu>());
    case DType::Int64:
    case DType::UInt64:
      return f(BitsTest<uint64_t, all>());
    case DType::Float16:
    case DType::BFloat16:
      return f(BitsTest<uint16_t, 0x7fff>());
    case DType::Float8_e4m3fn:
    case DType::Float8_e5m2:
      return f(BitsTest<uint8_t, 0x7f>());
    case DType::Float8_e4m3fnuz:
    case DType::Float8_e5m2fnuz:
      return f(BitsTest<uint8_t, 0xff>());
    case DType::Float8_e8m0fnu:
      return f(NoZero());
    case DType::Float32:
      return f(BitsTest<uint32_t, 0x7fffffffu>());
    case DType::Float64:
      return f(BitsTest<uint64_t, (all >> 1)>());
    case DType::Complex32:
      return f(PairTest<uint16_t, 0x7fff>());
    case DType::Complex64:
      return f(PairTest<uint32_t, 0x7fffffffu>());
    case DType::Complex128:
      return f(PairTest<uint64_t, (all >> 1)>());
    default:
      __builtin_unreachable();
  }
}

}  // namespace searching
TOCHA_ISA_END
