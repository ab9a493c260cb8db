// The last step of a composite operator in place: an elementwise operator that writes straight into self.
#pragma once

#include "dispatch/pointwise.h"

namespace tocha {

// self becomes op(ins); returns self. Without a result in between where dtype, shape and memory allow it.
// `name` is the operator that was called, for refusals.
Tensor pointwise_into(const PointwiseOp& op, const Tensor& self, const Tensor* ins, const Scalar* params,
                      const char* name);

}  // namespace tocha
