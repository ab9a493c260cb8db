// Whether operations are recorded, per thread.
#pragma once

#include "core/modes.h"
#include "core/tensor.h"

namespace tocha::autograd {

inline bool grad_enabled() { return modes().grad; }

class GradMode {  // for a scope
 public:
  explicit GradMode(bool on) : before_(modes().grad) { modes().grad = on; }
  ~GradMode() { modes().grad = before_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

// Does a gradient flow to t? A view follows the tensor it looks into.
inline bool requires_grad(const TensorObject* t) {
  return t->requires_grad || (t->tracks_base && t->base->requires_grad);
}
inline bool requires_grad(const Tensor& t) { return t && requires_grad(t.get()); }
inline bool requires_grad(const Tensors& ts) {
  for (const Tensor& t : ts)
    if (requires_grad(t)) return true;
  return false;
}

// Whether an operation on these must be recorded.
template <class... T>
inline bool wanted(const T&... ts) {
  return (requires_grad(ts) || ...) && grad_enabled();
}
inline bool wanted(const Tensor* ts, int n) {
  for (int i = 0; i < n; ++i)
    if (requires_grad(ts[i])) return grad_enabled();
  return false;
}

}  // namespace tocha::autograd
