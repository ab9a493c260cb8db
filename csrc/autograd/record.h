// What generated operators use to record themselves.
#pragma once

#include <optional>

#include "autograd/anomaly.h"
#include "autograd/forward.h"
#include "autograd/pointwise.h"
#include "autograd/saved.h"

namespace tocha::autograd {

inline bool wants_any(const Node& node, size_t at, size_t n) {
  for (size_t i = at; i < at + n; ++i)
    if (node.wants(i)) return true;
  return false;
}
inline void put_all(Grads& out, size_t at, Tensors found) {
  for (size_t i = 0; i < found.size(); ++i) out[at + i] = std::move(found[i]);
}
// whole, once `part` (a view of it) holds g.
Tensor written(const Tensor& whole, const Tensor& part, const Tensor& g);

// The gradient g of an operation's input that it is piecewise linear in: recorded, it hangs on that input, too.
Tensor hanging(Tensor g, const Node& operation, size_t input);

// What self is before an operator writes over it, with self's history: for the node to keep.
Tensor before_overwriting(const Tensor& self);
// Self, or a copy where it is no view of a matrix with the same last dim: an operator that reads rows keeps those.
Tensor kept_rows(const Tensor& self);
// In place by an operator that is made of others: `result`, recorded from what self was, becomes self.
Tensor overwritten(const Tensor& self, const Tensor& result, const char* op);

// For operators whose node is called differently when dims are given.
template <class T>
bool is_given(const std::optional<T>& dim) {
  return dim.has_value();
}
inline bool is_given(int64_t) { return true; }
inline bool is_given(IntsView) { return true; }

// Operators without a gradient: their results say so when backward arrives.
void record_unknown(const Unknown& words, const char* name, const Tensor* ins, int nin, const Tensors& lists,
                    const Tensors& outs);
// The node of such an operator that is about to write to its first input.
NodeRef unknown_write(const Unknown& words, const char* op, const Tensor* ins, int nin, const Tensors& lists);
// What nobody can carry on must not get lost in silence.
void refuse_tangents(const Unknown& words, const Tensor* ins, int nin, const Tensors& lists);

}  // namespace tocha::autograd
