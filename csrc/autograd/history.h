// Ties tensors to the graph: edges from inputs, history onto results, and what in-place operations and views need.
#pragma once

#include <tuple>

#include "autograd/meta.h"
#include "autograd/mode.h"

namespace tocha::autograd {

// The node that made t; null for leaves. A view whose base was written to since gets a new one.
NodeRef grad_fn(const Tensor& t);
// Where t's gradient goes: its grad_fn, or for a leaf that wants one its accumulator.
Edge gradient_edge(const Tensor& t);
// An edge per input, in order; none for those that want no gradient.
void collect(Node& node, const Tensor& t);
void collect(Node& node, const Tensors& ts);

// out is result number node.inputs.size() of node.
void set_history(const Tensor& out, const NodeRef& node);
void set_history(const Tensors& outs, const NodeRef& node);
// A result that is no function of the inputs as far as gradients go; keeps the numbering.
void skip_output(const Tensor& out, Node& node);

// In place: refuses leaves and views that must not be written to, before anything changes ...
void check_writable(const Tensor& self, const char* op);
// ... and makes node the history of self afterwards, and of the base where self is a view; node's first edge is self's
// old one.
void rebase_history(const Tensor& self, const NodeRef& node);
// What a result of node has as its history: node, or a view of the base's where node wrote to a view. `like` is on its
// device.
Edge history_of_result(Node& node, uint32_t index, const Tensor& like);
// Likewise where nothing was written, and a base keeps its history.
void replace_history(const Tensor& self, const NodeRef& node);

// An input that has no gradient by definition must not want one.
void refuse_constant(const char* op, const char* input);
inline void check_constant(const Tensor& t, const char* op, const char* input) {
  if (grad_enabled() && requires_grad(t)) refuse_constant(op, input);
}

// out= cannot be recorded.
void refuse_out(const char* op, const Tensor& out);
template <class... T>
void check_out(const char* op, const Tensor& out, const T&... inputs) {
  if (!grad_enabled()) return;
  if ((requires_grad(inputs) || ...) || requires_grad(out)) refuse_out(op, out);
}

// The view of self that a recorded view operator made.
void set_view_history(const Tensor& view, const Tensor& self, const NodeRef& node, bool one_of_many);

// Names the node of a result that was recorded since `first`, for operators that are made of others.
bool recorded_since(const Tensor& t, uint64_t first);
inline bool recorded_since(const Tensors& ts, uint64_t first) { return !ts.empty() && recorded_since(ts[0], first); }
template <class... T>
bool recorded_since(const std::tuple<T...>& ts, uint64_t first) {
  return std::apply([&](const auto&... t) { return (recorded_since(t, first) || ...); }, ts);
}
void label(const Tensor& t, const char* name, uint64_t first);
inline void label(const Tensors& ts, const char* name, uint64_t first) {
  for (const Tensor& t : ts) label(t, name, first);
}
template <class... T>
void label(const std::tuple<T...>& ts, const char* name, uint64_t first) {
  std::apply([&](const auto&... t) { (label(t, name, first), ...); }, ts);
}

bool is_leaf(const Tensor& t);
void set_requires_grad(const Tensor& t, bool on);
// Makes t a leaf (detach_).
void detach_(const Tensor& t);
void retain_grad(const Tensor& t);
void forget_retained(TensorObject* t);

// g as the gradient of something of this shape: summed over what was broadcast, cast, made real.
Tensor fit(Tensor g, const Shape& shape, const Node& from, size_t index);

}  // namespace tocha::autograd
