// Resampling of pictures of bytes, in whole numbers.
#pragma once

#include "core/tensor.h"
#include "cpu/resampling/kernels.h"

namespace tocha::cpu {

void resample_bytes(const Tensor& out, const Tensor& self, const Resample<double>& r);

}  // namespace tocha::cpu
