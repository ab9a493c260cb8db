#include "dispatch/inplace.h"

#include "dispatch/native.h"

namespace tocha {
namespace {

bool broadcasts_to(const Tensor& in, const Tensor& self) {
  if (in.dim() > self.dim()) return false;
  int64_t lead = self.dim() - in.dim();
  for (int64_t d = 0; d < in.dim(); ++d)
    if (in.size(d) != 1 && in.size(d) != self.size(lead + d)) return false;
  return true;
}

bool is_readable_meanwhile(const Tensor& in, const Tensor& self) {
  return in.is(self) || !address_ranges_meet(self, in) || memory_overlap(self, in) == Overlap::full;
}

bool writes_straight(const PointwiseOp& op, const Tensor& self, const Tensor* ins) {
  if (op.types[0].resolve(compute_dtype(op, ins)) != self.dtype()) return false;
  if (!computes(self) || self.is_conj() || self.is_neg() || has_internal_overlap(self)) return false;
  bool whole = false;  // somebody has self's shape: the result then has, too
  for (int i = 0; i < op.nin; ++i) {
    if (ins[i].device() != self.device() || !broadcasts_to(ins[i], self) || !is_readable_meanwhile(ins[i], self))
      return false;
    whole = whole || ins[i].sizes() == self.sizes();
  }
  return whole;
}

}  // namespace

Tensor pointwise_into(const PointwiseOp& op, const Tensor& self, const Tensor* ins, const Scalar* params,
                      const char* name) {
  if (writes_straight(op, self, ins)) {
    pointwise_out(op, &self, ins, params, true);
  } else {
    Tensor result;
    pointwise(op, &result, ins, params);
    write_inplace(self, result, name);
  }
  return self;
}

}  // namespace tocha
