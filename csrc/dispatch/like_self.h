// For operators whose results are laid out as self is, the strides of dims of size one included (PyTorch makes them by
// empty_like). The generated functions of records with `types={"like_self": dtypes}` call it on fresh results.
#pragma once

#include "core/tensor.h"

namespace tocha {

// dtypes: bit d for those of self for which it holds.
void lay_out_like(const Tensor& self, uint32_t dtypes, const Tensor* results, int n);

}  // namespace tocha
