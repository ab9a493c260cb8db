// In-place writes to a view, seen from its base: the gradient of the written part goes through the operation that wrote
// it, the rest passes.
#pragma once

#include "autograd/history.h"

namespace tocha::autograd {

class CopySlices : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, NodeRef fn);
  const char* name() const override { return "CopySlices"; }
  void apply(Grads& grads, Grads& out) override;
  void release_saved() override;
  Node* writer() const { return fn_.get(); }  // of the operation that wrote to the view

 private:
  NodeRef fn_;
  Ints base_sizes_, base_strides_, view_sizes_, view_strides_;
  int64_t base_offset_, view_offset_;
};

}  // namespace tocha::autograd
