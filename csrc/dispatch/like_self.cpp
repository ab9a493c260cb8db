#include "dispatch/like_self.h"

namespace tocha {

void lay_out_like(const Tensor& self, uint32_t dtypes, const Tensor* results, int n) {
  if (!(dtypes >> static_cast<int>(self.dtype()) & 1) || !self.is_non_overlapping_and_dense()) return;
  // Elementwise results of a dense tensor lie as it does already: only dims without a step can differ.
  for (int i = 0; i < n; ++i)
    if (results[i].strides() != self.strides()) set_sizes_and_strides(results[i], self.sizes(), self.strides(), 0);
}

}  // namespace tocha
