#include "autograd/copy_slices.h"

#include "ops/copies.h"
#include "ops/factories.h"
#include "ops/views.h"

namespace tocha::autograd {

CopySlices::CopySlices(const Tensor& base, const Tensor& view, NodeRef fn)
    : fn_(std::move(fn)),
      base_sizes_(base.sizes()),
      base_strides_(base.strides()),
      view_sizes_(view.sizes()),
      view_strides_(view.strides()),
      base_offset_(base.offset()),
      view_offset_(view.offset()) {
  TOCHA_CHECK(base.dtype() == view.dtype(), NotImplemented,
              "[copy_slices] in-place writes to a view in another dtype cannot be differentiated: ", view, " of ",
              base);
  add_edge(gradient_edge(base));
  for (size_t i = 1; i < fn_->next.size(); ++i) add_edge(fn_->next[i]);
}

void CopySlices::apply(Grads& grads, Grads& out) {
  out.resize(next.size());
  if (!grads[0]) return;
  const Tensor& grad = grads[0];
  // The base's own layout, so that the view's geometry holds in it.
  Tensor result = ops::empty_strided(base_sizes_, base_strides_, grad.dtype(), grad.device());
  result = ops::copy_(result, grad, false);
  Tensor part = ops::as_strided(result, view_sizes_, view_strides_, view_offset_ - base_offset_);
  Grads inner{ops::clone(part, MemoryFormat::Contiguous)}, back(fn_->next.size());
  fn_->apply(inner, back);
  for (size_t i = 1; i < out.size(); ++i) out[i] = back[i];
  if (!next[0]) return;
  if (back[0])
    ops::copy_(part, back[0], false);
  else
    ops::zero_(part);
  out[0] = result;
}

void CopySlices::release_saved() { fn_->release_saved(); }

}  // namespace tocha::autograd
