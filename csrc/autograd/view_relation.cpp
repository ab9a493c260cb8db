#include "autograd/view_relation.h"

#include "autograd/mode.h"
#include "ops/complex.h"
#include "ops/copies.h"
#include "ops/factories.h"
#include "ops/views.h"

namespace tocha::autograd {
namespace {

Tensor with_step(ViewStep step, const Tensor& t) {
  switch (step) {
    case ViewStep::conj:
      return ops::conj(t);
    case ViewStep::neg:
      return ops::_neg_view(t);
    case ViewStep::as_real:
      return ops::view_as_real(t);
    case ViewStep::as_complex:
      return ops::view_as_complex(t);
    default:
      return t;
  }
}

// Strides of complex numbers, counted in reals.
Ints in_reals(IntsView strides) {
  Ints out(strides);
  for (int64_t& s : out) s *= 2;
  return out;
}

}  // namespace

ViewRelation::Reading::Reading(const Tensor& t)
    : sizes(t.sizes()),
      strides(t.strides()),
      offset(t.offset()),
      dtype(t.dtype()),
      conj(t.is_conj()),
      neg(t.is_neg()) {}

ViewRelation::ViewRelation(const Tensor& view)
    : base_(Tensor::borrow(view.get()->base)), view_(view), step_(view.get()->step) {}

// What the step was taken from.
ViewRelation::Reading ViewRelation::before(ViewStep step, Reading view) {
  if (step == ViewStep::conj) view.conj = !view.conj;
  if (step == ViewStep::neg) view.neg = !view.neg;
  if (step == ViewStep::as_real) {
    view.sizes.pop_back();
    view.strides.pop_back();
    for (int64_t& s : view.strides) s /= 2;
    view.offset /= 2;
    view.dtype = complex_dtype(view.dtype);
  }
  if (step == ViewStep::as_complex) {
    view.strides = in_reals(view.strides);
    view.sizes.push_back(2);
    view.strides.push_back(1);
    view.offset *= 2;
    view.dtype = real_dtype(view.dtype);
  }
  return view;
}

// The last step is taken as it was, so that the node says so; all before it is a change of what the memory means
// (dtype, conj, neg), where there is one, and a geometry.
Tensor ViewRelation::of(const Tensor& base) const {
  const Reading to = before(step_, view_);
  int64_t shift = base.offset() - base_.offset;
  Tensor t = base;
  if (is_complex(base_.dtype) && !is_complex(to.dtype)) {
    t = ops::view_as_real(t.is_conj() ? ops::conj(t) : t);
    shift *= 2;
  } else if (!is_complex(base_.dtype) && is_complex(to.dtype)) {
    const Reading pairs = before(ViewStep::as_complex, to);
    t = ops::view_as_complex(ops::as_strided(t, pairs.sizes, pairs.strides, pairs.offset + shift));
    shift /= 2;
  }
  if (t.is_conj() != to.conj) t = ops::conj(t);
  if (t.is_neg() != to.neg) t = ops::_neg_view(t);
  const int64_t offset = to.offset + shift;
  const bool there = t.sizes() == IntsView(to.sizes) && t.strides() == IntsView(to.strides) && t.offset() == offset;
  if (step_ == ViewStep::geometry || !there) t = ops::as_strided(t, to.sizes, to.strides, offset);
  return with_step(step_, t);
}

Tensor ViewRelation::in_place_of_base(const Tensor& values) const {
  return ops::copy_(room_for_base(values, values.dtype()), values, false);
}

Tensor ViewRelation::room_for_base(const Tensor& like, DType dtype) const {
  if (asked(like)) return ops::new_empty_strided(like, base_.sizes, base_.strides, dtype, std::nullopt);
  const int64_t offset = base_.offset % 2;  // pairs of reals are complex numbers only from an even place on
  const size_t bytes = bytes_needed(base_.sizes, base_.strides, offset, itemsize(dtype));
  Tensor t = make_tensor(new_storage(bytes, like.device()), dtype, base_.sizes, base_.strides, offset);
  t.get()->conj = base_.conj;
  t.get()->neg = base_.neg;
  return t;
}

}  // namespace tocha::autograd
