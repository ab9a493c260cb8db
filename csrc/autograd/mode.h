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

// Does a gradient flow to t? A view says what the tensor that it looks into says.
inline bool requires_grad(const TensorObject* t) { return t->requires_grad || (t->base && t->base->requires_grad); }
inline bool requires_grad(const Tensor& t) { return t && requires_grad(t.get()); }
inline bool requires_grad(const Tensors& ts) {
  for (const Tensor& t : ts)
    if (requires_grad(t)) return true;
  return false;
}

inline bool has_tangent(const TensorObject* t) { return t->has_tangent || (t->base && t->base->has_tangent); }
inline bool has_tangent(const Tensor& t) { return t && has_tangent(t.get()); }
inline bool has_tangent(const Tensors& ts) {
  for (const Tensor& t : ts)
    if (has_tangent(t)) return true;
  return false;
}
// For a derivative of either kind.
template <class T>
inline bool tracked(const T& t) {
  return requires_grad(t) || has_tangent(t);
}
inline bool tracked(const Tensor& t) {
  if (!t) return false;
  const TensorObject *o = t.get(), *base = o->base;
  return o->requires_grad || o->has_tangent || (base && (base->requires_grad || base->has_tangent));
}

// Whether an operation on these must be recorded, or carry tangents along.
template <class... T>
inline bool wanted(const T&... ts) {
  if (!(tracked(ts) || ...)) return false;
  return ((requires_grad(ts) || ...) && modes().grad) || ((has_tangent(ts) || ...) && modes().forward_level);
}
inline bool wanted(const Tensor* ts, int n) {
  for (int i = 0; i < n; ++i)
    if (tracked(ts[i]) && ((requires_grad(ts[i]) && modes().grad) || (has_tangent(ts[i]) && modes().forward_level)))
      return true;
  return false;
}

inline uint32_t marks(const Tensor& t) {
  if (!t) return 0;
  const TensorObject* o = t.get();
  return marks_of(o) | (o->base ? marks_of(o->base) & kDifferentiates : 0);
}
inline uint32_t marks(const Tensors& ts) {
  uint32_t found = 0;
  for (const Tensor& t : ts) found |= marks(t);
  return found;
}
// Whether anybody asks to be told of an operation on tensors with these marks: to record it, or to take it over.
inline bool anybody_asks(uint32_t found) {
  found |= dispatch_forced;
  if (!found) [[likely]]
    return false;
  return (found & kDispatches) || ((found & kRequiresGrad) && modes().grad) ||
         ((found & kHasTangent) && modes().forward_level);
}
template <class... T>
inline bool asked(const T&... ts) {
  return anybody_asks((marks(ts) | ...));
}
// The same, or a profiler records operators: what they do is not another thing for that.
template <class... T>
inline bool noticed(const T&... ts) {
  uint32_t found = (marks(ts) | ...) | dispatch_forced;
  return found && ((found & kProfiles) || anybody_asks(found));
}
inline bool noticed(const Tensor* ts, int n) {
  uint32_t found = dispatch_forced;
  for (int i = 0; i < n; ++i) found |= marks(ts[i]);
  return found && ((found & kProfiles) || anybody_asks(found));
}

// Operators run plain within it: nothing is recorded or carried along.
class Unrecorded {
 public:
  Unrecorded() : grad_(modes().grad), level_(modes().forward_level) {
    modes().grad = false;
    modes().forward_level = 0;
  }
  ~Unrecorded() {
    modes().grad = grad_;
    modes().forward_level = level_;
  }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  bool grad_;
  int64_t level_;
};

}  // namespace tocha::autograd
