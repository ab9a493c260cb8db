// Attention in bfloat16 on a matrix unit (see units/matrix_unit.h).
#pragma once

#include "cpu/attention/parts.h"

namespace tocha::native::attention {

bool unit_serves(const Task& t);
void forward_unit(const Task& t, const Tensor& out, const Tensor& lse);
void backward_unit(const Task& t, const Tensor& grad, const Tensor& out, const Tensor& lse, const Gradients& to);

}  // namespace tocha::native::attention
