// What a device must offer. One entry per device type; operators reach devices only through this.
#pragma once

#include "core/tensor.h"
#include "dispatch/devices.h"
#include "dispatch/pointwise.h"
#include "dispatch/reduction.h"

namespace tocha {

struct Backend {
  const char* name;
  // Runs an elementwise operator whose outputs exist. Types are the loop's, outputs first.
  void (*pointwise)(const PointwiseOp& op, DType compute, const Tensor* const* operands, const char* params);
  void (*reduce)(const ReductionOp& op, DType compute, const ReductionCall& call);
  void (*copy)(const Tensor& dst, const Tensor& src);
  void (*fill)(const Tensor& dst, const Scalar& value);
};

// `op`: who asks, for the refusal.
TOCHA_API const Backend& backend(DeviceType type, const char* op = "copy_");
// `b` is not copied: it lives as long as the process.
TOCHA_API void register_backend(DeviceType type, const Backend& b);

// Between devices the one that is not the CPU copies.
inline void copy_between(const Tensor& to, const Tensor& from) {
  backend((to.is_cpu() ? from : to).device().type).copy(to, from);
}

}  // namespace tocha
