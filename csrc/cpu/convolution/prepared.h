// Convolutions in compiled programs: what is made of constant weights alone is made once, and what follows is told of
// planes as they are finished.
#pragma once

#include "cpu/gemm/gemm.h"
#include "dispatch/op_types.h"

namespace tocha::native {

// What a convolution of tensors that lie as these do needs of its weights; nothing where it reads them as they are.
Tensor prepare_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, IntsView stride,
                           IntsView padding, IntsView dilation, int64_t groups);
// The same values as convolution(), bit by bit. `prepared` may be nothing; `done` is told of planes of out, channels of
// images numbered through.
void followed_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          const Tensor& prepared, IntsView stride, IntsView padding, IntsView dilation, int64_t groups,
                          cpu::RowsDone done);

}  // namespace tocha::native
