// What a tensor that takes part in differentiation carries besides its descriptor.
#pragma once

#include "core/tensor.h"

namespace tocha {

struct AutogradMeta {
  Tensor grad;
};

inline AutogradMeta& autograd_meta(TensorObject* t) {
  if (!t->autograd) t->autograd = new AutogradMeta();
  return *t->autograd;
}

}  // namespace tocha
