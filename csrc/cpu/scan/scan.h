// Cumulative operations on raw memory, over the middle dimension of a contiguous [outer, n, inner] block.
// Output and input may be the same memory where their dtypes agree. An unsupported dtype fails
// with NotImplemented.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace tocha::cpu {

struct ScanShape {
  int64_t outer, n, inner;
};

// Sums and products up to and including each element. in_dtype is out_dtype, or an integer (or bool) under an
// Int64 output. Integers wrap; floats accumulate in the next wider type and are rounded once per element.
void cumsum(DType in_dtype, const void* in, DType out_dtype, void* out, ScanShape shape);
void cumprod(DType in_dtype, const void* in, DType out_dtype, void* out, ScanShape shape);

// The largest (smallest) so far and where it is: the last of equal ones. A NaN wins and stays.
void cummax(DType dtype, const void* in, void* values, int64_t* indices, ScanShape shape);
void cummin(DType dtype, const void* in, void* values, int64_t* indices, ScanShape shape);

// log(sum(exp(x))) up to and including each element, without overflow. Floating and complex dtypes.
void logcumsumexp(DType dtype, const void* in, void* out, ScanShape shape);

}  // namespace tocha::cpu
