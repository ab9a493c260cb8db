// The exponential of softmax: shorter than exp, as its operand is never above 0.
#pragma once

#include "cpu/vecmath/exp.h"

TOCHA_ISA_BEGIN
namespace math {

// e^x for x <= 0: nothing overflows, and what would be subnormal is 0, as little beside a sum that is at least 1.
template <class T>
TOCHA_MATH T exp_below_zero(T x) {
  constexpr T kLeast = sizeof(T) == 4 ? T(-87.33) : T(-708.39);
  auto a = reduce_exp(x);
  T y = exp_reduced(a.r) * power_of_two<T>(a.bits);
  return x < kLeast ? T(0) : y;
}

}  // namespace math
TOCHA_ISA_END
