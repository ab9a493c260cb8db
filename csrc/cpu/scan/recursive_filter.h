// Filters whose output feeds back, as torchaudio's operators have them.
#pragma once

#include "core/tensor.h"

namespace tocha::cpu {

// out[b, c, t + order - 1] = input[b, c, t] - sum over k of out[b, c, t + k] * coefficients[c, k], one t after the
// other. All are contiguous, of float32 or float64: [batch, channels, n], [channels, order] and [batch, channels, n +
// order - 1].
void recursive_filter(const Tensor& input, const Tensor& coefficients, const Tensor& out);

}  // namespace tocha::cpu
