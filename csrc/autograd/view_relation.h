// How a view comes from its base, in values: enough to make the same view of anything with the base's geometry. A
// view's history is redone so after a write to its base, and gradients and tangents of what was written find their
// place so.
#pragma once

#include "core/tensor.h"

namespace tocha::autograd {

class ViewRelation {
 public:
  explicit ViewRelation(const Tensor& view);  // to its base
  // The same view of `base`, which has the base's geometry but for the offset; recorded as the operators that make it.
  Tensor of(const Tensor& base) const;
  // A copy of `values` in the base's geometry, of which a view can be made.
  Tensor in_place_of_base(const Tensor& values) const;
  // Memory in the base's geometry, on the device of `like`; its values are anything.
  Tensor room_for_base(const Tensor& like) const { return room_for_base(like, base_.dtype); }

 private:
  // How a tensor reads its memory.
  struct Reading {
    explicit Reading(const Tensor& t);
    Ints sizes, strides;
    int64_t offset;
    DType dtype;
    bool conj, neg;
  };
  static Reading before(ViewStep step, Reading view);
  Tensor room_for_base(const Tensor& like, DType dtype) const;
  Reading base_, view_;
  ViewStep step_;
};

}  // namespace tocha::autograd
