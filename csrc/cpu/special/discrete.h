// Small scalar functions with exact results for the pointwise kernels: gcd, lcm, heaviside, and nextafter for the
// 16-bit floats (vecmath/vecmath.h has it for float and double).
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/half.h"
#include "core/isa.h"

TOCHA_ISA_BEGIN
namespace math {

// Never negative, except that the least integer's magnitude wraps to itself.
template <class T>
inline T gcd(T a, T b) {
  using U = std::make_unsigned_t<T>;
  U p = a < 0 ? static_cast<U>(0 - static_cast<U>(a)) : static_cast<U>(a);
  U q = b < 0 ? static_cast<U>(0 - static_cast<U>(b)) : static_cast<U>(b);
  while (q != 0) {
    U r = static_cast<U>(p % q);
    p = q;
    q = r;
  }
  return static_cast<T>(p);
}

// The product wraps in int or wider, then loses its sign, then is narrowed: PyTorch's result when it does not fit.
template <class T>
inline T lcm(T a, T b) {
  using Wide = decltype(a + b);
  using U = std::make_unsigned_t<Wide>;
  T divisor = gcd(a, b);
  if (divisor == 0) return 0;
  // Dividing magnitudes: the least integer over -1 would trap.
  U part = a < 0 ? (0 - static_cast<U>(a)) : static_cast<U>(a);
  U measure = divisor < 0 ? (0 - static_cast<U>(divisor)) : static_cast<U>(divisor);
  Wide product = static_cast<Wide>(part / measure * static_cast<U>(b));
  return static_cast<T>(product < 0 ? 0 - static_cast<U>(product) : static_cast<U>(product));
}

// float16 and bfloat16: neighbours differ by one in the bits taken as sign and magnitude.
template <class T>
  requires std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>
inline T nextafter(T x, T toward) {
  float a = x, b = toward;
  if (a != a || b != b) return T(a + b);
  if (a == b) return toward;
  T result = x;
  if (a == 0) {
    result.bits = static_cast<uint16_t>((toward.bits & 0x8000u) | 1u);
  } else {
    bool outward = (a < b) == (a > 0);
    result.bits = static_cast<uint16_t>(outward ? x.bits + 1 : x.bits - 1);
  }
  return result;
}

// The step function with value at zero; a NaN x counts as neither zero nor positive.
template <class T>
inline T heaviside(T x, T at_zero) {
  return x == T(0) ? at_zero : x > T(0) ? T(1) : T(0);
}

}  // namespace math
TOCHA_ISA_END
