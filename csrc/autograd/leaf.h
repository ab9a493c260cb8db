// The end of the graph: adds what arrives to a leaf's grad.
#pragma once

#include <thread>

#include "autograd/history.h"

namespace tocha::autograd {

class AccumulateGrad : public Node {
 public:
  explicit AccumulateGrad(const Tensor& variable);
  ~AccumulateGrad() override;
  const char* name() const override { return "AccumulateGrad"; }
  void apply(Grads& grads, Grads& out) override;
  bool takes_sparse() const override { return true; }
  const Tensor& variable() const { return variable_; }
  void fields(Fields& f) override { f.object(variable_.object()); }
  // Reads anew what the variable's grad must be.
  void expect_grad_dtype();
  // The variable has become another tensor: there is nothing left to add to.
  void mark_swapped() { swapped_ = true; }

 private:
  class Turn;  // one thread adds at a time: kernels let others in
  Tensor variable_;
  bool busy_ = false;
  bool swapped_ = false;
  std::thread::id adding_;
};

NodeRef accumulator_of(const Tensor& leaf);
// The dtype of a leaf's grad: its own unless another was set, Undefined where any will do.
DType grad_dtype(const Tensor& leaf);
void set_grad_dtype(const Tensor& leaf, DType dtype);
// The leaf is about to become another tensor: whoever still leads to it says so when it is walked.
void disown_accumulator(TensorObject* leaf);
// A new tensor takes the place of t, whose values it has or will get: its gradient goes where t's goes, for a leaf to
// the leaf itself, and its tangent is t's.
void stand_in(const Tensor& copy, const Tensor& t);
// Adds g to t.grad, in place where that is safe, and keeps g itself where nobody else does.
void accumulate_grad(const Tensor& t, Tensor g);

// The sum of two gradients, either of which may be sparse.
Tensor sum_of(const Tensor& a, const Tensor& b);

// Calls hooks (a dict of callables) on g in order; each may replace it.
Tensor run_hooks(PyObject* hooks, Tensor g);

}  // namespace tocha::autograd
