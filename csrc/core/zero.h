// What a tensor of zeros is filled with.
#pragma once

#include "core/scalar.h"

namespace tocha {

// The number whose bits are all zero: e8m0 has no zero, but its least power of two.
inline Scalar zero_of(DType d) { return d == DType::Float8_e8m0fnu ? Scalar(0x1p-127) : Scalar(int64_t{0}); }

}  // namespace tocha
