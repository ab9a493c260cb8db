#include "autograd/pointwise.h"

#include <bit>

#include "autograd/anomaly.h"
#include "autograd/forward.h"
#include "autograd/record.h"
#include "dispatch/native.h"
#include "ops/copies.h"
#include "ops/factories.h"

namespace tocha::autograd {
namespace {

int rank_of(uint16_t mask, int bit) { return std::popcount(static_cast<unsigned>(mask & ((1u << bit) - 1))); }

class PointwiseNode final : public Node {
 public:
  explicit PointwiseNode(const PointwiseGradient& rule, const Scalar* params)
      : rule_(rule), params_(params, params + rule.nparams) {}

  const char* name() const override { return rule_.node; }

  // What the gradients that are wanted read; `replaced` stands in for input 0 where that is about to be overwritten.
  void save_inputs(const Tensor* ins, const Tensor& replaced) {
    for (int i = 0; i < rule_.nin; ++i) {
      if (!tracked(ins[i])) continue;
      inputs_mask_ |= rule_.needs_inputs[i];
      outputs_mask_ |= rule_.needs_outputs[i];
    }
    int n = std::popcount(inputs_mask_) + std::popcount(outputs_mask_);
    if (n) saved_ = std::make_unique<Saved[]>(static_cast<size_t>(n));
    for (int i = 0; i < rule_.nin; ++i)
      if (inputs_mask_ >> i & 1) saved_[rank_of(inputs_mask_, i)].input(i == 0 && replaced ? replaced : ins[i]);
  }
  bool reads_input(int i, const Tensor* ins) const {
    for (int k = 0; k < rule_.nin; ++k)
      if (tracked(ins[k]) && (rule_.needs_inputs[k] >> i & 1)) return true;
    return false;
  }
  void save_outputs(const Tensor* outs) {
    for (int i = 0; i < rule_.nout; ++i)
      if (outputs_mask_ >> i & 1) output_slot(i).output(outs[i], static_cast<uint32_t>(i));
  }

  void apply(Grads& grads, Grads& out) override {
    bool any = false, all = true;
    for (const Tensor& g : grads) {
      any = any || g;
      all = all && g;
    }
    if (!any) return;
    if (!all) {
      for (size_t i = 0; i < grads.size(); ++i) {
        if (grads[i] || !is_differentiable(inputs[i].dtype)) continue;
        grads[i] = ops::zeros(inputs[i].sizes, inputs[i].dtype, inputs[i].device);
      }
    }
    Tensor ins[kMaxOperands], outs[kMaxOperands];
    for (int i = 0; i < rule_.nin; ++i)
      if (inputs_mask_ >> i & 1) ins[i] = saved_[rank_of(inputs_mask_, i)].get(*this);
    for (int i = 0; i < rule_.nout; ++i)
      if (outputs_mask_ >> i & 1) outs[i] = output_slot(i).get(*this);
    bool plain = !grad_enabled() && !(dispatch_forced & kDispatches);
    for (const Tensor& g : grads) plain = plain && is_plain(g);
    for (const Tensor& t : ins) plain = plain && is_plain(t);
    for (const Tensor& t : outs) plain = plain && is_plain(t);
    int wanted_count = 0;
    for (int i = 0; i < rule_.nin; ++i) {
      if (!wants(static_cast<size_t>(i))) continue;
      if (rule_.passes[i]) {
        out[static_cast<size_t>(i)] = grads[0];
        continue;
      }
      ++wanted_count;
    }
    if (!wanted_count) return;
    const FusedGradient& whole = rule_.fused[rule_.nin];
    if (plain && wanted_count > 1 && wanted_count == rule_.nin && whole.op) {
      Tensor results[kMaxOperands];
      run(whole, results, grads, ins, outs);
      for (int i = 0; i < rule_.nin; ++i) out[static_cast<size_t>(i)] = std::move(results[i]);
      return;
    }
    for (int i = rule_.nin - 1; i >= 0; --i) {  // PyTorch's order
      if (!wants(static_cast<size_t>(i)) || rule_.passes[i]) continue;
      if (plain && rule_.fused[i].op) {
        Tensor result[1];
        run(rule_.fused[i], result, grads, ins, outs);
        out[static_cast<size_t>(i)] = std::move(result[0]);
      } else {
        out[static_cast<size_t>(i)] = rule_.composite(i, grads.data(), ins, outs, params_.data());
      }
    }
  }

  void fields(Fields& f) override {
    uint16_t ever_in = 0, ever_out = 0;
    for (int i = 0; i < rule_.nin; ++i) {
      ever_in |= rule_.needs_inputs[i];
      ever_out |= rule_.needs_outputs[i];
    }
    for (int i = 0; i < rule_.nin; ++i) {
      if (inputs_mask_ >> i & 1)
        f.tensor(rule_.names[i], saved_[rank_of(inputs_mask_, i)]);
      else if (ever_in >> i & 1)
        f.none(rule_.names[i]);
    }
    for (int i = 0; i < rule_.nout; ++i) {
      if (outputs_mask_ >> i & 1)
        f.tensor("result", output_slot(i));
      else if (ever_out >> i & 1)
        f.none("result");
    }
    for (int i = 0; i < rule_.nparams; ++i) f.number(rule_.names[rule_.nin + i], params_[static_cast<size_t>(i)]);
  }

  void release_saved() override {
    if (!saved_) return;
    saved_.reset();
    int n = std::popcount(inputs_mask_) + std::popcount(outputs_mask_);
    saved_ = std::make_unique<Saved[]>(static_cast<size_t>(n));
    released = true;
  }

 private:
  // A kernel can read it: real numbers, no tangent to carry along, nobody who takes operators over.
  static bool is_plain(const Tensor& t) {
    return !t || !(t.is_complex() || t.get()->dispatches || (modes().forward_level && t.get()->has_tangent));
  }
  static bool is_differentiable(DType d) { return is_floating(d) || is_complex(d); }
  Saved& output_slot(int i) { return saved_[std::popcount(inputs_mask_) + rank_of(outputs_mask_, i)]; }

  void run(const FusedGradient& f, Tensor* results, const Grads& grads, const Tensor* ins, const Tensor* outs) {
    Tensor leaves[kMaxOperands];
    for (int k = 0; k < f.op->nin; ++k) {
      const GradientLeaf& leaf = f.leaves[k];
      leaves[k] = leaf.kind == GradientLeaf::grad    ? grads[leaf.index]
                  : leaf.kind == GradientLeaf::input ? ins[leaf.index]
                                                     : outs[leaf.index];
    }
    tocha::pointwise(*f.op, results, leaves, params_.data());
  }

  const PointwiseGradient& rule_;
  std::unique_ptr<Saved[]> saved_;
  std::vector<Scalar> params_;
  uint16_t inputs_mask_ = 0, outputs_mask_ = 0;
};

NodeRef node_for(const PointwiseGradient& rule, const Tensor* ins, const Scalar* params, const char* label) {
  NodeRef node = make_node<PointwiseNode>(rule, params);
  node->label = label;
  if (modes().anomaly) remember_call(*node);
  node->next.reserve(rule.nin);
  for (int i = 0; i < rule.nin; ++i) collect(*node, ins[i]);
  return node;
}

// Whether somebody takes the call over, who is asked only where a mark says so.
bool taken(const dispatch::Given& given, const Tensor* ins, int n) {
  uint32_t found = dispatch_forced;
  for (int i = 0; i < n; ++i) found |= ins[i] ? marks_of(ins[i].get()) : 0;
  return (found & kDispatches) && dispatch::taken(*given.call, given.values);
}

}  // namespace

Tensor zero_gradient(int, const Tensor* grads, const Tensor*, const Tensor*, const Scalar*) {
  return ops::zeros_like(grads[0], std::nullopt, std::nullopt, std::nullopt);
}

Tensor as_complex(const Tensor& t) {
  if (t.is_complex()) return t;
  if (t.is_wrapped_number()) return wrapped_number(Scalar(Scalar::load(t.dtype(), t.bytes()).to_complex()));
  return ops::to_dtype(t, complex_dtype(t.dtype()), false, false, std::nullopt);
}

void pointwise(const PointwiseGradient& rule, const PointwiseOp& op, Tensor* outs, const Tensor* ins,
               const Scalar* params, dispatch::Given given, const char* label) {
  {
    Unrecorded off;
    if (taken(given, ins, rule.nin)) [[unlikely]]
      dispatch::run(*given.call, given.values).fill(outs, rule.nout);
    else
      tocha::pointwise(op, outs, ins, params);
  }
  NodeRef ref = node_for(rule, ins, params, label);
  auto* node = static_cast<PointwiseNode*>(ref.get());
  node->save_inputs(ins, Tensor());
  for (int i = 0; i < rule.nout; ++i) set_history(outs[i], ref);
  node->save_outputs(outs);
  if (modes().forward_level) carry(*ref, Tensors(ins, ins + rule.nin), Tensors(outs, outs + rule.nout));
}

void pointwise_inplace(const PointwiseGradient& rule, const PointwiseOp& op, const Tensor* ins, const Scalar* params,
                       dispatch::Given given, const char* label) {
  const Tensor& self = ins[0];
  check_writable(self, op.name);
  NodeRef ref = node_for(rule, ins, params, label);
  auto* node = static_cast<PointwiseNode*>(ref.get());
  // Kept at the versions before the write: other operands may be self too.
  node->save_inputs(ins, node->reads_input(0, ins) ? before_overwriting(self) : Tensor());
  {
    Unrecorded off;
    if (taken(given, ins, rule.nin)) [[unlikely]]
      dispatch::run(*given.call, given.values);
    else
      pointwise_out(op, &self, ins, params, true);
  }
  rebase_history(self, ref);
  node->save_outputs(&self);
  if (modes().forward_level) carry(*ref, Tensors(ins, ins + rule.nin), {self});
}

}  // namespace tocha::autograd
