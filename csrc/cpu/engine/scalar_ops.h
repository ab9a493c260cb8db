// The scalar functions that generated kernels name beyond the elementary and special ones: wrapping integer
// arithmetic, division with a remainder, order, rounding, conversions, classification. Written as selects, so that
// loops over them vectorize (but for the divisions, powers and float remainders).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/complex.h"
#include "core/half.h"
#include "core/isa.h"
#include "cpu/vecmath/vecmath.h"

TOCHA_ISA_BEGIN
namespace math {

template <class T>
concept Integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
concept Floating = std::is_floating_point_v<T>;
template <class T>
concept Real = Integer<T> || Floating<T>;
template <class T>
concept Reduced = is_small_float<T>;

// Integers wrap. Unsigned, and at least unsigned int wide: narrower ones would be promoted to int, which overflows.
template <Integer T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

template <Integer T>
TOCHA_MATH T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <Integer T>
TOCHA_MATH T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <Integer T>
TOCHA_MATH T wrap_mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <Integer T>
TOCHA_MATH T wrap_neg(T a) {
  return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
}

// Division of integers. A zero divisor sets fault and gives 0; the caller reports it after the loop. Dividing by -1
// is a negation: the hardware traps on the least integer.
template <Integer T>
TOCHA_MATH T truncdiv(T a, T b, unsigned& fault) {
  fault |= b == 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return wrap_neg(a);
  }
  return b == 0 ? T(0) : static_cast<T>(a / b);
}
template <Integer T>
TOCHA_MATH T fmod(T a, T b, unsigned& fault) {
  fault |= b == 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return b == 0 ? T(0) : static_cast<T>(a % b);
}
template <Integer T>
TOCHA_MATH T remainder(T a, T b, unsigned& fault) {
  T r = fmod(a, b, fault);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <Integer T>
TOCHA_MATH T floordiv(T a, T b, unsigned& fault) {
  T q = truncdiv(a, b, fault);
  if constexpr (std::is_unsigned_v<T>) return q;
  // Rounded toward zero is one too high exactly when the signs differ and something was cut off.
  return (a < 0) != (b < 0) && wrap_mul(q, b) != a && b != 0 ? static_cast<T>(q - 1) : q;
}

// floor of the exact quotient a / b: subtracting the remainder first makes the division exact up to rounding, which
// the final step to the nearest integer removes. Infinite a gives NaN, a zero divisor a / b, a zero quotient its sign.
template <Floating T>
TOCHA_MATH T floor_quotient(T a, T b, T r) {
  T quotient = (a - r) / b;
  quotient = (r != 0) & ((r < 0) != (b < 0)) ? quotient - 1 : quotient;
  T below = floor(quotient);
  T nearest = quotient - below > T(0.5) ? below + 1 : below;
  return quotient == 0 ? copysign(T(0), a / b) : nearest;
}
template <Floating T>
TOCHA_MATH T floordiv(T a, T b) {
  return b == 0 ? a / b : floor_quotient(a, b, std::fmod(a, b));
}
template <Floating T>
TOCHA_MATH T floordiv_fast(T a, T b) {
  return floor_quotient(a, b, fmod_fast(a, b));
}

// base**exponent modulo 2**bits. Negative exponents leave 1 and -1, and round everything else to 0.
template <Integer T>
TOCHA_MATH T integer_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) return base == 1 ? T(1) : base == -1 ? ((exponent & 1) != 0 ? T(-1) : T(1)) : T(0);
  }
  T result = 1;
  for (; exponent != 0; exponent = static_cast<T>(exponent >> 1)) {
    if ((exponent & 1) != 0) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}

// A shift by less than 0 or by all the bits: to the left nothing remains, to the right the sign.
template <Integer T>
TOCHA_MATH T shift_left(T a, T n) {
  constexpr T kBits = static_cast<T>(8 * sizeof(T));
  bool inside = n >= 0 && n < kBits;
  Wrapping<T> shifted = static_cast<Wrapping<T>>(a) << (inside ? n : T(0));
  return inside ? static_cast<T>(shifted) : T(0);
}
template <Integer T>
TOCHA_MATH T shift_right(T a, T n) {
  constexpr T kBits = static_cast<T>(8 * sizeof(T));
  bool inside = n >= 0 && n < kBits;
  T shifted = static_cast<T>(a >> (inside ? n : T(0)));
  return inside ? shifted : a < 0 ? T(-1) : T(0);
}

// Order. Of two equal operands the first is kept.
template <Real T>
TOCHA_MATH T maximum(T a, T b) {
  return (a < b) | (b != b) ? b : a;
}
template <Real T>
TOCHA_MATH T minimum(T a, T b) {
  return (a > b) | (b != b) ? b : a;
}
template <Real T>
TOCHA_MATH T fmax(T a, T b) {
  return (a < b) | (a != a) ? b : a;
}
template <Real T>
TOCHA_MATH T fmin(T a, T b) {
  return (a > b) | (a != a) ? b : a;
}
template <Real T>
TOCHA_MATH T clamp_min(T x, T low) {
  return maximum(x, low);
}
template <Real T>
TOCHA_MATH T clamp_max(T x, T high) {
  return minimum(x, high);
}
template <Real T>
TOCHA_MATH T clamp(T x, T low, T high) {
#if defined(__aarch64__)
  // By bits: GCC makes twenty vector instructions of two comparisons that hang on each other, and six of this.
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    const auto bits = [](T v) { return std::bit_cast<Bits>(v); };
    const auto all_if = [](bool condition) { return -Bits(condition); };
    const Bits raised = bits(x) ^ ((bits(x) ^ bits(low)) & all_if(x < low));
    const Bits within = raised ^ ((raised ^ bits(high)) & all_if(std::bit_cast<T>(raised) > high));
    return std::bit_cast<T>(within | all_if(low != low) | all_if(high != high));
  }
#endif
  return minimum(maximum(x, low), high);
}
template <Real T>
TOCHA_MATH T relu(T x) {
#if defined(__aarch64__)
  // As bits, what is below zero is between minus zero and minus infinity. GCC makes six vector instructions of the
  // comparison, which may be unordered, and three of this.
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);
    const auto bits = std::bit_cast<Bits>(x);
    return std::bit_cast<T>(bits - (kSign + 1) < std::bit_cast<Bits>(kInf<T>) ? Bits(0) : bits);
  }
#endif
  return x < T(0) ? T(0) : x;
}
template <Real T>
TOCHA_MATH T sign(T x) {
  return static_cast<T>((x > T(0)) - (x < T(0)));
}

template <Integer T>
TOCHA_MATH T abs(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return x;
  } else {
    return x < 0 ? wrap_neg(x) : x;
  }
}
template <Floating T>
TOCHA_MATH T abs(T x) {
  return fabs(x);
}

// Classification; the complex ones are in vecmath/complex.h.
template <Floating T>
TOCHA_MATH bool isnan(T x) {
  return x != x;
}
template <Floating T>
TOCHA_MATH bool isinf(T x) {
  return abs(x) == kInf<T>;
}
template <Floating T>
TOCHA_MATH bool isfinite(T x) {
  return abs(x) < kInf<T>;
}
template <Integer T>
TOCHA_MATH bool signbit(T x) {
  return x < 0;
}

template <Floating T>
TOCHA_MATH T frexp_mantissa(T x) {
  int32_t exponent;
  return frexp(x, &exponent);
}
template <Floating T>
TOCHA_MATH int32_t frexp_exponent(T x) {
  int32_t exponent;
  frexp(x, &exponent);
  return exponent;
}

// The angle of a real number: pi left of zero; the complex one is math::arg.
template <Floating T>
TOCHA_MATH T angle(T x) {
  return x != x ? x : x < 0 ? T(3.14159265358979323846) : T(0);
}

// Conversions. From floating to integer toward zero; what does not fit gives the least int32 (int64 for 64-bit
// targets and uint32), of which narrower targets keep the low bits. x86-64 converts so by itself, and vectorizes it;
// elsewhere the range is tested.
template <Integer I, Floating T>
TOCHA_MATH I truncate(T x) {
#if defined(__x86_64__)
  return static_cast<I>(x);
#else
  constexpr T kLimit = sizeof(I) == 4 ? T(0x1p31) : T(0x1p63);
  // The least value itself is in range, and so is what truncates to it: in double -2^31 - 0.5 does.
  constexpr bool kFraction = sizeof(I) == 4 && sizeof(T) == 8;
  bool inside = (kFraction ? x > -kLimit - T(1) : x >= -kLimit) & (x < kLimit);
  return inside ? static_cast<I>(x) : std::numeric_limits<I>::min();
#endif
}

template <Integer To, Floating From>
TOCHA_MATH To to_integer(From x) {
  if constexpr (std::is_same_v<To, uint64_t>) {
    // Above 2^63 through x - 2^63; infinity comes out as 0.
    constexpr From kHalf = From(0x1p63);
    bool high = x >= kHalf;
    uint64_t low = static_cast<uint64_t>(truncate<int64_t>(high ? x - kHalf : x));
    return low ^ (high ? uint64_t{1} << 63 : 0);
  } else if constexpr (sizeof(To) == 8 || std::is_same_v<To, uint32_t>) {
    return static_cast<To>(truncate<int64_t>(x));
  } else {
    return static_cast<To>(truncate<int32_t>(x));
  }
}

template <class To, class From>
TOCHA_MATH To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_complex_type<From>) {
    if constexpr (is_complex_type<To>) {
      return To(x);
    } else if constexpr (std::is_same_v<To, bool>) {
      return (x.re != 0) | (x.im != 0);
    } else {
      return cast<To>(x.re);
    }
  } else if constexpr (Reduced<From>) {
    return cast<To>(static_cast<float>(x));
  } else if constexpr (is_complex_type<To>) {
    return To(cast<typename To::value_type>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (Reduced<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (Integer<To> && Floating<From>) {
    return to_integer<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
TOCHA_MATH To bitcast(From x) {
  return std::bit_cast<To>(x);
}

}  // namespace math
TOCHA_ISA_END
