#include "autograd/copy_slices.h"

#include "ops/copies.h"

namespace tocha::autograd {

CopySlices::CopySlices(const Tensor& base, const Tensor& view, NodeRef fn) : fn_(std::move(fn)), relation_(view) {
  recorded = true;
  fn_->extra().base = this;
  add_edge(gradient_edge(base));
  for (size_t i = 1; i < fn_->next.size(); ++i) add_edge(fn_->next[i]);
}

// A view of the gradient is the gradient of the view: what views do (pick, conjugate, negate, split into parts) has
// itself as its adjoint on what it picks.
void CopySlices::apply(Grads& grads, Grads& out) {
  out.resize(next.size());
  if (!grads[0]) return;
  Tensor result = relation_.in_place_of_base(grads[0]);
  Tensor part = relation_.of(result);
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
