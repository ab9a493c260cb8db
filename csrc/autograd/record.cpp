#include "autograd/record.h"

#include <algorithm>

#include "autograd/forward.h"
#include "autograd/leaf.h"
#include "autograd/levels.h"
#include "autograd/view_relation.h"
#include "dispatch/native.h"
#include "ops/copies.h"
#include "ops/factories.h"

namespace tocha::autograd {

Tensor written(const Tensor& whole, const Tensor& part, const Tensor& g) {
  if (levels::held(g)) {  // room that is of all the levels that g is of
    Tensor room = ops::new_zeros(g, whole.sizes(), whole.dtype(), whole.device());
    ops::copy_(ViewRelation(part).of(room), g, false);
    return room;
  }
  ops::copy_(part, g, false);
  return whole;
}

namespace {

// The history of a gradient that does not change with an input of its operation, but is a function of it.
class Hanging final : public Node {
 public:
  Hanging(const Tensor& g, const Node& operation, size_t input) {
    const std::string name = operation.title();
    label = interned(name.substr(0, name.rfind("Backward")) + "BackwardBackward0");
    recorded = true;
    add_edge(gradient_edge(g));
    add_edge(operation.next[input]);
  }
  const char* name() const override { return "Hanging"; }
  void apply(Grads& grads, Grads& out) override {
    if (!grads[0]) return;
    if (wants(1)) out[1] = ops::zeros_like(grads[0], std::nullopt, std::nullopt, std::nullopt);
    if (wants(0)) out[0] = std::move(grads[0]);
  }
};

bool is_only_ours(const Tensor& g) { return Py_REFCNT(g.object()) == 1 && !g.get()->base; }

}  // namespace

Tensor hanging(Tensor g, const Node& operation, size_t input) {
  // Transforms take what hangs on nothing for zeros.
  if (!g || !grad_enabled() || levels::held(g)) return g;
  if (!is_only_ours(g)) g = ops::clone(g, std::nullopt);
  replace_history(g, make_node<Hanging>(g, operation, input));
  return g;
}

namespace {

Tensor copied(const Tensor& self, std::optional<MemoryFormat> format) {
  Tensor copy;
  {
    Unrecorded off;
    copy = ops::clone(self, format);
  }
  stand_in(copy, self);
  return copy;
}

// Whether all dims but the last step through memory as one.
bool is_rows(const Tensor& self) {
  IntsView sizes = self.sizes(), strides = self.strides();
  int64_t expected = 0;
  bool first = true;
  for (int64_t d = self.dim() - 2; d >= 0; --d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] == 1) continue;
    if (!first && strides[d] != expected) return false;
    expected = strides[d] * sizes[d];
    first = false;
  }
  return true;
}

}  // namespace

Tensor before_overwriting(const Tensor& self) { return copied(self, std::nullopt); }

Tensor kept_rows(const Tensor& self) {
  return self.dim() < 3 || is_rows(self) ? self : copied(self, MemoryFormat::Contiguous);
}

Tensor overwritten(const Tensor& self, const Tensor& result, const char* op) {
  check_inplace_result(self, result, op);
  return ops::copy_(self, result, false);
}

namespace {

NodeRef unknown_node(const Unknown& words, const char* name, const Tensor* ins, int nin, const Tensors& lists) {
  NodeRef node = make_node<NotImplementedNode>(words, name);
  if (modes().anomaly) remember_call(*node);
  for (int i = 0; i < nin; ++i) collect(*node, ins[i]);
  collect(*node, lists);
  return node;
}

bool is_differentiable(const Tensor& t) { return is_floating(t.dtype()) || is_complex(t.dtype()); }

}  // namespace

void refuse_tangents(const Unknown& words, const Tensor* ins, int nin, const Tensors& lists) {
  if (!modes().forward_level) return;
  Tensors all(ins, ins + nin);
  flatten(all, lists);
  for (const Tensor& t : all) TOCHA_CHECK(!t || !tangent_of(t), NotImplemented, words.forward);
}

NodeRef unknown_write(const Unknown& words, const char* op, const Tensor* ins, int nin, const Tensors& lists) {
  check_writable(ins[0], op);
  refuse_tangents(words, ins, nin, lists);
  return unknown_node(words, "NotImplemented", ins, nin, lists);
}

void record_unknown(const Unknown& words, const char* name, const Tensor* ins, int nin, const Tensors& lists,
                    const Tensors& outs) {
  if (std::any_of(outs.begin(), outs.end(), is_differentiable)) refuse_tangents(words, ins, nin, lists);
  NodeRef node = unknown_node(words, name, ins, nin, lists);
  for (const Tensor& out : outs) {
    auto given = [&](const Tensor& t) { return out.is(t); };
    if (std::any_of(ins, ins + nin, given) || std::any_of(lists.begin(), lists.end(), given))
      skip_output(out, *node);
    else
      set_history(out, node);
  }
}

}  // namespace tocha::autograd
