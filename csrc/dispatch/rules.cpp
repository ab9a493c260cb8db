#include "dispatch/rules.h"

#include "dispatch/backend.h"

namespace tocha {

Device default_device_for(std::optional<Device> given) { return given ? *given : default_device(); }

Tensor make_out(const OutSpec& spec, const Tensor& like) {
  Device device = spec.device ? *spec.device : like ? like.device() : Device{};
  if (spec.strides) return empty_strided(spec.sizes, *spec.strides, spec.dtype, device);
  return empty(spec.sizes, spec.dtype, device);
}

Tensor make_view(const Tensor& self, const ViewSpec& spec) { return view_of(self, spec.sizes, spec.strides, spec.offset); }

void prepare_out(const Tensor& out, const OutSpec& spec, const char* op) {
  TOCHA_CHECK(out.dtype() == spec.dtype, Runtime, "[", op, "] Expected out tensor to have dtype ", spec.dtype, ", but got ",
              out.dtype(), " instead");
  resize_output(out, spec.sizes, op);
  check_no_internal_overlap(out, op);
}

void copy_to_out(const Tensor& out, const Tensor& result, const char* op) {
  TOCHA_CHECK(can_cast(result.dtype(), out.dtype()), Runtime, "[", op, "] result type ", result.dtype(),
              " can't be cast to the desired output type ", out.dtype());
  TOCHA_CHECK(out.device() == result.device(), Runtime, "[", op, "] Expected all tensors to be on the same device, but out is on ",
              out.device(), " and the result on ", result.device());
  resize_output(out, result.sizes(), op);
  check_no_internal_overlap(out, op);
  if (computes(out)) backend(out.device().type).copy(out, result);
  out.bump_version();
}

void check_inplace(const Tensor& self, const char* op) { check_no_internal_overlap(self, op); }

}  // namespace tocha
