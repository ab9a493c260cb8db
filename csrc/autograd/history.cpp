#include "autograd/history.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "autograd/copy_slices.h"
#include "autograd/forward.h"
#include "autograd/leaf.h"
#include "autograd/view_relation.h"
#include "core/fake.h"
#include "core/sparse.h"
#include "dispatch/native.h"
#include "ops/complex.h"
#include "ops/copies.h"
#include "ops/reductions.h"
#include "ops/views.h"

namespace tocha {

AutogradMeta::~AutogradMeta() {
  if (stands_in && --accumulator->refs == 0) autograd::release(accumulator);
  Py_XDECREF(hooks);
  Py_XDECREF(post_accumulate);
}

namespace autograd {
namespace {

bool differentiable(DType d) { return is_floating(d) || is_complex(d); }

void set_fn(const Tensor& t, const NodeRef& node, uint32_t output) {
  AutogradMeta& m = autograd_meta(t.get());
  m.grad_fn = node;
  m.output = output;
  t.get()->history_at = static_cast<uint32_t>(t.version());
  t.get()->requires_grad = true;
}

// "Split", of SplitBackward0.
std::string operation_of(const Node& node) {
  const std::string_view name = node.title();
  return std::string(name.substr(0, name.rfind("Backward")));
}

// "Output 0 of Split is a view", or where that cannot be said, how the view came about.
std::string introduce(const TensorObject* o, const char* what_happened) {
  const bool inference = o->origin == ViewOrigin::inference;
  const bool unrecorded = inference || o->origin == ViewOrigin::no_grad;
  const std::string mode = inference ? "inference mode" : "no_grad mode";
  const Node* fn = o->autograd ? o->autograd->grad_fn.get() : nullptr;
  std::string text;
  if (fn) {
    text = "Output " + std::to_string(o->autograd->output) + " of " + operation_of(*fn) + " is a view";
    if (unrecorded) text += " of a view which was created in " + mode;
  } else {
    text = "A view was created in " + mode;
  }
  text += std::string(" and ") + what_happened + " modified inplace";
  if (inference) return text + " in normal mode.";
  return fn && !unrecorded ? text + "." : text + " with grad mode enabled.";
}

std::string explain(ViewOrigin origin) {
  switch (origin) {
    case ViewOrigin::one_of_many:
      return " This view is the output of a function that returns multiple views. Such functions do not allow the "
             "output views to be modified inplace. You should replace the inplace operation by an out-of-place one.";
    case ViewOrigin::custom_function:
      return " This view was created inside a custom Function (or because an input was returned as-is) and the "
             "autograd logic to handle view+inplace would override the custom backward associated with the custom "
             "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the "
             "output of the custom Function.";
    default: {
      const std::string block = origin == ViewOrigin::inference ? "inference_mode" : "no_grad";
      return " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
             "moving both the view and the inplace either both inside the " +
             block +
             " block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be "
             "tracked).";
    }
  }
}

// Operators that only make history: nobody takes them over.
struct Unseen {
  Unseen() { ++modes().dispatch_off; }
  ~Unseen() { --modes().dispatch_off; }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

// The history of a view after a write to its memory: that of its base, seen through the view.
void renew_history(const Tensor& t) {
  TensorObject* o = t.get();
  if (o->origin != ViewOrigin::plain)
    fail(ErrorKind::Runtime, introduce(o, "its base or another view of its base has been"), explain(o->origin));
  Unrecorded off;  // no tangents
  GradMode on(true);
  Unseen unseen;
  const Tensor base = Tensor::borrow(o->base);
  if (has_symbols(t) || has_symbols(base)) return fake_renew_history(t);
  Tensor again = ViewRelation(t).of(base);
  set_fn(t, autograd_meta(again.get()).grad_fn, 0);
}

}  // namespace

NodeRef grad_fn(const Tensor& t) {
  const TensorObject* o = t.get();
  if (o->base && o->base->requires_grad && o->history_at != static_cast<uint32_t>(t.version())) renew_history(t);
  return o->autograd ? o->autograd->grad_fn : NodeRef();
}

Edge gradient_edge(const Tensor& t) {
  if (!t || !requires_grad(t)) return {};
  if (NodeRef fn = grad_fn(t)) return {fn, t.get()->autograd->output};
  // A view that was made without recording says that it requires grad, but is no leaf of its own.
  return t.get()->requires_grad ? Edge{accumulator_of(t), 0} : Edge();
}

void collect(Node& node, const Tensor& t) {
  const bool wants = grad_enabled() && requires_grad(t);
  node.recorded = node.recorded || wants;
  node.add_edge(wants ? gradient_edge(t) : Edge());
}
void collect(Node& node, const Tensors& ts) {
  for (const Tensor& t : ts) collect(node, t);
}

void skip_output(const Tensor& out, Node& node) {
  if (out)
    node.inputs.push_back({Ints(out.sizes()), out.dtype(), out.device()});
  else
    node.inputs.push_back({Ints(), DType::Undefined, Device()});
}

void set_history(const Tensor& out, const NodeRef& node) {
  auto index = static_cast<uint32_t>(node->inputs.size());
  skip_output(out, *node);
  if (out && differentiable(out.dtype()) && node->recorded) set_fn(out, node, index);
}

void set_history(const Tensors& outs, const NodeRef& node) {
  for (const Tensor& t : outs) set_history(t, node);
}

void set_view_history(const Tensor& view, const Tensor& self, const NodeRef& node, bool one_of_many) {
  TensorObject* o = view.get();
  const ViewOrigin before = self.get()->origin;
  if (o->base && grad_enabled() && !modes().inference)
    o->origin = one_of_many && before != ViewOrigin::inference ? ViewOrigin::one_of_many : before;
  set_history(view, node);
}

void check_writable(const Tensor& self, const char* op) {
  if (!grad_enabled()) return;
  const TensorObject* o = self.get();
  if (o->base) {
    if (o->origin != ViewOrigin::plain)
      fail(ErrorKind::Runtime, "[", op, "] ", introduce(o, "is being"), explain(o->origin));
    TOCHA_CHECK(!requires_grad(o) || !is_leaf(Tensor::borrow(o->base)), Runtime, "[", op,
                "] a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  TOCHA_CHECK(!(requires_grad(o) && is_leaf(self)), Runtime, "[", op,
              "] a leaf Variable that requires grad is being used in an in-place operation.");
}

void replace_history(const Tensor& self, const NodeRef& node) {
  auto index = static_cast<uint32_t>(node->inputs.size());
  skip_output(self, *node);
  if (!node->recorded || !differentiable(self.dtype())) return;
  TensorObject* o = self.get();
  AutogradMeta& m = autograd_meta(o);
  if (m.retained) forget_retained(o);
  Py_CLEAR(m.hooks);
  set_fn(self, node, index);
  if (m.retained) node->extra().retained.push_back({index, o});
}

void rebase_history(const Tensor& self, const NodeRef& node) {
  TensorObject* o = self.get();
  if (!o->base || !node->recorded || !differentiable(self.dtype())) {
    replace_history(self, node);
    return;
  }
  if (node->inputs.empty()) skip_output(self, *node);
  Tensor base = Tensor::borrow(o->base);
  replace_history(base, make_node<CopySlices>(base, self, node));
  renew_history(self);
}

Edge history_of_result(Node& node, uint32_t index, const Tensor& like) {
  CopySlices* written = node.extras ? node.extras->base : nullptr;
  if (!written) return {NodeRef(&node), index};
  Unrecorded off;  // no tangents
  GradMode on(true);
  Unseen unseen;
  Tensor base = written->relation().room_for_base(like);
  AutogradMeta& m = autograd_meta(base.get());
  m.grad_fn = NodeRef(written);
  m.output = 0;
  base.get()->requires_grad = true;
  return {autograd_meta(written->relation().of(base).get()).grad_fn, 0};
}

void refuse_constant(const char* op, const char* input) {
  fail(ErrorKind::Runtime, "[", op, "] The function '", op, "' is not differentiable with respect to argument '", input,
       "'. This input cannot have requires_grad True.");
}

void refuse_out(const char* op, const Tensor& out) {
  fail(
      ErrorKind::Runtime, "[", op, "] ", op,
      "(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires "
      "grad: out is ",
      out);
}

bool recorded_since(const Tensor& t, uint64_t first) {
  if (!t || !t.get()->autograd) return false;
  const Node* node = t.get()->autograd->grad_fn.get();
  return node && node->sequence >= first;
}

void label(const Tensor& t, const char* name, uint64_t first) {
  if (recorded_since(t, first)) t.get()->autograd->grad_fn->label = name;
}

bool is_leaf(const Tensor& t) { return !requires_grad(t) || !grad_fn(t); }

void set_requires_grad(const Tensor& t, bool on) {
  TOCHA_CHECK(on || is_leaf(t), Runtime,
              "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
              "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  TOCHA_CHECK(!on || differentiable(t.dtype()), Runtime,
              "only Tensors of floating point and complex dtype can require gradients");
  TOCHA_CHECK(!on || !t.get()->inference || modes().inference, Runtime,
              "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  t.get()->requires_grad = on;
}

void detach_(const Tensor& t) {
  if (modes().inference) return;  // histories are left alone
  TensorObject* o = t.get();
  TOCHA_CHECK(!o->base, Runtime,
              "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
              "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
              "detach_() cannot be called on these gradients.");
  if (o->autograd) {
    if (o->autograd->retained) forget_retained(o);
    o->autograd->retained = false;
    o->autograd->grad_fn = NodeRef();
    o->autograd->output = 0;
  }
  o->requires_grad = false;
  if (o->has_tangent) set_tangent(t, Tensor());
}

void forget_retained(TensorObject* t) {
  Node* node = t->autograd->grad_fn.get();
  if (!node || !node->extras) return;
  std::erase_if(node->extras->retained, [&](const Extras::Retained& r) { return r.tensor == t; });
}

void retain_grad(const Tensor& t) {
  TOCHA_CHECK(requires_grad(t), Runtime, "can't retain_grad on Tensor that has requires_grad=False");
  if (is_leaf(t)) return;
  AutogradMeta& m = autograd_meta(t.get());
  if (m.retained) return;
  NodeRef fn = grad_fn(t);
  m.retained = true;
  fn->extra().retained.push_back({m.output, t.get()});
}

namespace {

// Symbols read as negative sizes.
bool has_symbols(const Shape& shape) {
  return std::any_of(shape.sizes.begin(), shape.sizes.end(), [](int64_t n) { return n < 0; });
}

}  // namespace

Tensor fit(Tensor g, const Shape& shape, const Node& from, size_t index) {
  if (!g || shape.dtype == DType::Undefined) return g;
  if (has_symbols(g) || has_symbols(shape)) return g;  // whoever made it saw to that
  bool converts = g.dtype() != shape.dtype && !shape.any_dtype;
  if (is_sparse(g) && (!(g.sizes() == IntsView(shape.sizes)) || converts)) g = sparse_to_dense(g);
  if (!(g.sizes() == IntsView(shape.sizes))) {
    int64_t lead = g.dim() - shape.sizes.size();
    bool fits = lead >= 0;
    Ints dims;
    for (int64_t i = 0; fits && i < g.dim(); ++i) {
      int64_t have = g.size(i), want = i < lead ? 1 : shape.sizes[i - lead];
      if (i < lead || (want == 1 && have != 1))
        dims.push_back(i);
      else
        fits = have == want;
    }
    TOCHA_CHECK(fits, Runtime, "Function ", from.title(), " returned an invalid gradient at index ", index, " - got ",
                g.sizes(), " but expected shape compatible with ", IntsView(shape.sizes));
    if (!dims.empty()) g = ops::sum(g, dims, true, std::nullopt);
    if (lead > 0) g = ops::view(g, shape.sizes);
  }
  if (converts) {
    if (is_complex(g.dtype()) && !is_complex(shape.dtype)) g = ops::real(g);
    if (g.dtype() != shape.dtype) g = ops::to_dtype(g, shape.dtype, false, false, std::nullopt);
  }
  TOCHA_CHECK(is_fake(g) || g.device() == shape.device, Runtime, "Function ", from.title(),
              " returned an invalid gradient at index ", index, " - expected device ", shape.device, " but got ",
              g.device());
  return g;
}

}  // namespace autograd
}  // namespace tocha
