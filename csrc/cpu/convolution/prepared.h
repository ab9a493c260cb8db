// Convolutions whose weights are constants: what is made of the weights alone is made once. For compiled programs.
#pragma once

#include "dispatch/op_types.h"

namespace tocha::native {

// What a convolution of tensors that lie as these do needs of its weights; nothing where it reads them as they are.
Tensor prepare_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, IntsView stride,
                           IntsView padding, IntsView dilation, int64_t groups);
// The same values as convolution(), bit by bit.
void prepared_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          const Tensor& prepared, IntsView stride, IntsView padding, IntsView dilation, int64_t groups);

}  // namespace tocha::native
