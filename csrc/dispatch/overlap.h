// What generated operators refuse before they write to out=: memory that inputs share, other sizes, other dtypes.
#pragma once

#include "dispatch/pointwise.h"
#include "dispatch/reduction.h"

namespace tocha {

enum class Sharing { none, whole };  // no memory at all, or all of it in the same order

inline void check_sharing(const char* op, Sharing allowed, const Tensor& out, const Tensor& in) {
  if (in) check_no_overlap(out, in, op, allowed == Sharing::whole);
}
inline void check_sharing(const char* op, Sharing allowed, const Tensor& out, const Tensors& ins) {
  for (const Tensor& in : ins) check_sharing(op, allowed, out, in);
}

// Of result i.
DType result_dtype(const PointwiseOp& op, const Tensor* ins, int i);
DType result_dtype(const ReductionOp& op, const Tensor& self, std::optional<DType> dtype, int i);

// An elementwise result does not resize an operand that it is put into.
inline void check_operand_shape(const char* op, const Tensor& out, const Tensor& operand, const Tensor& result) {
  TOCHA_CHECK(!operand.is(out) || out.sizes() == result.sizes(), Runtime, "[", op, "] output with shape ", out.sizes(),
              " doesn't match the broadcast shape ", result.sizes());
}

}  // namespace tocha
