// What a tensor that takes part in differentiation carries besides its descriptor.
#pragma once

#include "autograd/node.h"

namespace tocha {

struct AutogradMeta {
  ~AutogradMeta();
  Tensor grad;
  autograd::NodeRef grad_fn;              // null for leaves
  autograd::Node* accumulator = nullptr;  // a leaf's; borrowed, it takes itself out when it dies
  PyObject* hooks = nullptr;              // register_hook: a dict of callables
  PyObject* post_accumulate = nullptr;    // register_post_accumulate_grad_hook: likewise
  Tensor tangent;                         // forward mode
  int64_t tangent_level = 0;              // the level it belongs to
  uint32_t tangent_at = 0;                // of a view: the version of its memory that its tangent is of
  uint32_t output = 0;                    // which result of grad_fn
  bool retained = false;                  // retain_grad was asked for
  bool stands_in = false;                 // for a leaf, whose accumulator this is: counted here
  bool has_grad_dtype = false;            // grad_dtype was set: grad need not have the tensor's own dtype
  DType grad_dtype = DType::Undefined;    // then the one that grad has; Undefined if any will do
};

inline AutogradMeta& autograd_meta(TensorObject* t) {
  if (!t->autograd) t->autograd = new AutogradMeta();
  return *t->autograd;
}

}  // namespace tocha
