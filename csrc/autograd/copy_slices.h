// In-place writes to a view, seen from its base: the gradient of the written part goes through the operation that wrote
// it, the rest passes.
#pragma once

#include "autograd/history.h"
#include "autograd/view_relation.h"

namespace tocha::autograd {

class CopySlices : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, NodeRef fn);
  ~CopySlices() override { fn_->extra().base = nullptr; }
  const char* name() const override { return "CopySlices"; }
  void apply(Grads& grads, Grads& out) override;
  void release_saved() override;
  Node* writer() const { return fn_.get(); }  // of the operation that wrote to the view
  const ViewRelation& relation() const { return relation_; }

 private:
  NodeRef fn_;
  ViewRelation relation_;
};

}  // namespace tocha::autograd
