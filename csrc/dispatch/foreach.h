// Operators on lists of tensors: what generated _foreach_ functions call.
#pragma once

#include "dispatch/pointwise.h"

namespace tocha::foreach {

void check_filled(const char* op, const Tensors& list);
void check_length(const char* op, const Tensors& list, const Tensors& other);
void check_length(const char* op, const Tensors& list, const std::vector<Scalar>& other);
// A tensor that stands for one number.
void check_scalar_tensor(const char* op, const Tensor& t);
// The numbers of a 1-d tensor, one for each of n tensors.
std::vector<Scalar> scalars_of(const char* op, const Tensor& t, size_t n);

// t[...] = value, if its dtype and shape allow; recorded where a gradient is wanted.
void assign(const Tensor& t, const Tensor& value, const char* op);

// Runs op on the i-th tensors of op.nin lists, for all i; the results replace the first op.nout operands. Where tensors
// are flat, all their elements are one job for the threads.
void pointwise_(const PointwiseOp& op, const Tensors* const* lists, const Scalar* params);

}  // namespace tocha::foreach
