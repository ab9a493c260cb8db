// The CPU's elementwise engine: runs a contiguous loop over operands of any layout and dtype by
// gathering chunks that do not fit the loop into small buffers (and scattering results from them).
#pragma once

#include "core/tensor.h"
#include "dispatch/pointwise.h"

namespace tocha::cpu {

struct Elementwise {
  Loop loop;
  const void* params;
  int nout, nin;
  const Tensor* operands[kMaxOperands];  // outputs, inputs
  DType dtypes[kMaxOperands];            // what the loop reads and writes
  bool expensive;
};

// Output tensors share one shape; inputs broadcast to it. Returns nonzero on an integer division by zero.
unsigned run(const Elementwise& call);

// Copies (and converts) n elements between strided runs; strides in bytes.
using CastLoop = void (*)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n);
CastLoop cast_loop(DType from, DType to);

// dst[...] = value, any layout.
void fill(const Tensor& dst, const Scalar& value);
// NaN, or the greatest integer, where memory that nobody has written is to be filled (core/switches.h).
void fill_uninitialized(const Tensor& t);
// dst[...] = src[...], same shape or broadcastable; any dtypes and layouts.
void copy(const Tensor& dst, const Tensor& src);

}  // namespace tocha::cpu
