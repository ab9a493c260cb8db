#include "python/compiled_function.h"

#include <structmember.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "autograd/anomaly.h"
#include "autograd/engine.h"
#include "autograd/saved.h"
#include "core/sparse.h"
#include "core/tensor.h"
#include "ops/copies.h"
#include "ops/factories.h"
#include "ops/views.h"
#include "python/compiled_program.h"
#include "python/parser.h"
#include "python/types.h"

namespace tocha::python {
namespace {

using autograd::Grads;
using autograd::NodeRef;

enum OutputKind { kRaw = 0, kInput = 1, kConstant = 2, kView = 3 };

struct Output {
  int kind;
  size_t index;
  Ref value;
};
struct View {  // made when the graph has run, of a result, an argument or an earlier view
  int kind;
  size_t index;
  bool recorded;  // whether autograd sees it
  Ref made;       // the operator; none: one of the many that the other is
  Ref arguments, names;
};
struct Write {  // a result of the graph becomes the new value of an input
  size_t input, raw;
  bool recorded;
  int64_t count;  // by how much the input's version goes up
};
struct Refusal {  // a result whose gradient cannot be taken on to some arguments
  size_t raw;
  std::vector<size_t> arguments;
  ErrorKind kind;
  std::string reason;
};
struct Layout {  // where sizes change from call to call: their order from the innermost on, and no strides
  Ints sizes, strides;
};

std::atomic<int64_t> plans{0};

// What is done around the graph, settled when it is compiled. Nodes hold it while they live.
struct Plan {
  Ref forward, backward, make_backward, refuse_twice, otherwise, backward_otherwise;
  int64_t number = ++plans;  // tells graphs apart for whoever looks at their nodes
  bool boxed = false, whole = false;
  size_t raws = 0;
  std::vector<size_t> differentiable, copied;
  std::vector<Layout> tangents;
  std::vector<Output> outputs;
  std::vector<Write> writes;
  std::vector<View> views;
  std::vector<std::vector<size_t>> sources;  // per argument: the gradients of results that reach it
  std::vector<Refusal> refusals;

  bool records() const { return !differentiable.empty() || !refusals.empty(); }
};
using PlanRef = std::shared_ptr<Plan>;

Ref as_tuple(Ref found) {
  if (PyTuple_Check(found.get())) return found;
  if (PyList_Check(found.get())) return own(PyList_AsTuple(found.get()));
  return own(PyTuple_Pack(1, found.get()));
}
PyObject* item(const Ref& tuple, size_t i) { return PyTuple_GET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i)); }

Ints strides_in_order(IntsView sizes, const Ints& order) {
  Ints strides(sizes.size());
  int64_t step = 1;
  for (int64_t d : order) {
    strides[static_cast<size_t>(d)] = step;
    step *= std::max<int64_t>(sizes[static_cast<size_t>(d)], 1);
  }
  return strides;
}

Tensor laid_out(Tensor grad, const Layout& like) {
  if (is_sparse(grad)) return grad;
  bool changes = like.strides.size() < static_cast<size_t>(grad.dim());
  Ints strides = changes ? strides_in_order(grad.sizes(), like.sizes) : like.strides;
  if (grad.strides() == IntsView(strides)) return grad;
  Tensor made = tocha::empty_strided(grad.sizes(), strides, grad.dtype(), grad.device());
  ops::copy_(made, grad, false);
  return made;
}

// One element for each of those that expand made of it, of `like`.
Tensor without_repeats(Tensor t, const Tensor& like) {
  if (!like.numel()) return t;
  for (int64_t d = 0; d < like.dim(); ++d)
    if (like.size(d) > 1 && like.stride(d) == 0) t = ops::narrow(t, d, 0, 1);
  return t;
}

// A copy with the gaps and repetitions that a tensor has.
Tensor with_strides(const Tensor& t) {
  Tensor made = empty_strided(t.sizes(), t.strides(), t.dtype(), t.device());
  ops::copy_(without_repeats(made, t), without_repeats(t, t), false);
  return made;
}

// Whether somebody takes these over, or carries tangents along: what a function of Python does is done then.
bool is_special(PyObject* const* args, size_t n) {
  uint32_t found = dispatch_forced;
  for (size_t i = 0; i < n; ++i)
    if (is_tensor(args[i])) found |= marks_of(reinterpret_cast<TensorObject*>(args[i]));
  return (found & (kDispatches | kHasTangent)) != 0;
}

class CompiledNode final : public autograd::Node {
 public:
  explicit CompiledNode(PlanRef plan) : plan_(std::move(plan)) {}
  const char* name() const override { return "CompiledFunctionBackward"; }

  void apply(Grads& grads, Grads& out) override {
    for (const Refusal& r : plan_->refusals)
      if (grads[r.raw] && is_any_asked_for(r.arguments)) fail(r.kind, r.reason);
    std::vector<bool> given;
    for (size_t i : plan_->differentiable) given.push_back(bool(grads[i]));
    if (std::find(given.begin(), given.end(), true) == given.end()) return;
    Ref found = as_tuple(run(arguments(grads)));
    auto n = static_cast<size_t>(PyTuple_GET_SIZE(found.get()));
    TOCHA_CHECK(n >= is_tensor_.size(), Runtime, "[compiled graph] backward returned ", n, " gradients for ",
                is_tensor_.size(), " inputs");
    size_t at = 0;
    for (size_t i = 0; i < is_tensor_.size(); ++i) {
      if (!is_tensor_[i]) continue;
      PyObject* g = item(found, i);
      if (next[at] && is_tensor(g) && is_reached(i, given)) out[at] = Tensor::borrow(g);
      ++at;
    }
  }

  void release_saved() override {
    for (size_t i = 0; i < count_; ++i) saved_[i].reset();
    released = true;
  }
  void fields(autograd::Fields& f) override {
    f.number("graph", Scalar(plan_->number));
    for (const Ref& n : numbers_) f.number("number", as_scalar(n.get()));
    for (size_t i = 0; i < count_; ++i) f.tensor("saved", saved_[i]);
  }

  void keep(const Ref& found, const std::vector<Tensor>& results) {
    auto n = static_cast<size_t>(PyTuple_GET_SIZE(found.get()));
    saved_ = std::make_unique<autograd::Saved[]>(n - plan_->raws);
    for (size_t i = plan_->raws; i < n; ++i) {
      PyObject* o = item(found, i);
      if (!is_tensor(o)) {
        numbers_.push_back(Ref::borrow(o));
        continue;
      }
      Tensor t = Tensor::borrow(o);
      for (size_t c : plan_->copied)
        if (c == i - plan_->raws)  // with its gaps, if it has some: backward was compiled for its strides
          t = with_strides(t);
      size_t k = 0;
      while (k < plan_->raws && !(results[k] && item(found, k) == t.object())) ++k;
      if (k < plan_->raws)
        saved_[count_].output(results[k], static_cast<uint32_t>(k));
      else
        saved_[count_].input(t);
      ++count_;
    }
  }
  std::vector<bool> is_tensor_;  // per argument of the function

 private:
  // Whether a gradient that was given has a way to an argument: others have none for it, not even zeros.
  bool is_reached(size_t argument, const std::vector<bool>& given) const {
    const auto& sources = plan_->sources[argument];
    return std::any_of(sources.begin(), sources.end(), [&](size_t k) { return given[k]; });
  }

  bool is_any_asked_for(const std::vector<size_t>& arguments) const {
    return std::any_of(arguments.begin(), arguments.end(), [&](size_t i) {
      auto first = is_tensor_.begin();
      auto at = static_cast<size_t>(std::count(first, first + static_cast<ptrdiff_t>(i), true));  // among tensors
      return wants(at) && autograd::is_asked_for(next[at].node.get());
    });
  }

  // Numbers, saved values and gradients.
  std::vector<Ref> arguments(Grads& grads) {
    std::vector<Ref> all;
    for (const Ref& n : numbers_) all.push_back(n);
    for (size_t i = 0; i < count_; ++i) all.push_back(Ref(saved_[i].get(*this).give()));
    for (size_t k = 0; k < plan_->differentiable.size(); ++k) {
      Tensor& g = grads[plan_->differentiable[k]];
      const autograd::Shape& shape = inputs[plan_->differentiable[k]];
      if (!g) g = ops::zeros(shape.sizes, shape.dtype, shape.device);
      PyObject* given = g.object();
      bool special = is_special(&given, 1);  // whoever takes it over sees to its layout
      all.push_back(Ref((special ? std::move(g) : laid_out(std::move(g), plan_->tangents[k])).give()));
    }
    grads.clear();
    return all;
  }

  Ref run(std::vector<Ref> args) {
    std::vector<PyObject*> borrowed;
    for (const Ref& a : args) borrowed.push_back(a.get());
    if (is_special(borrowed.data(), borrowed.size())) {
      autograd::GradMode off(false);
      return own(PyObject_Vectorcall(plan_->backward_otherwise.get(), borrowed.data(), borrowed.size(), nullptr));
    }
    if (!plan_->backward) plan_->backward = own(PyObject_CallNoArgs(plan_->make_backward.get()));
    PyObject* f = plan_->backward.get();
    if (autograd::grad_enabled())
      for (const Ref& a : args)
        if (is_tensor(a.get()) && autograd::requires_grad(Tensor::borrow(a.get()))) f = plan_->refuse_twice.get();
    std::optional<autograd::GradMode> off;
    if (f == plan_->backward.get()) off.emplace(false);
    if (is_program(f)) {
      if (!autograd::keeps_graph()) release_saved();  // the program frees each value when it is used up
      return run_program_on(f, std::move(args));
    }
    return own(PyObject_Vectorcall(f, borrowed.data(), borrowed.size(), nullptr));
  }

  PlanRef plan_;
  std::unique_ptr<autograd::Saved[]> saved_;
  size_t count_ = 0;
  std::vector<Ref> numbers_;
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PlanRef* plan;
};
PyTypeObject* function_type = nullptr;
Plan& plan_of(PyObject* self) { return **reinterpret_cast<FunctionObject*>(self)->plan; }

Ref run_forward(const Plan& plan, PyObject* const* args, size_t n) {
  autograd::GradMode off(false);
  if (!plan.boxed) return as_tuple(own(PyObject_Vectorcall(plan.forward.get(), args, n, nullptr)));
  Ref list = own(PyList_New(static_cast<Py_ssize_t>(n)));
  for (size_t i = 0; i < n; ++i) PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  return as_tuple(own(PyObject_CallOneArg(plan.forward.get(), list.get())));
}

bool among(PyObject* const* args, size_t n, PyObject* o) {
  for (size_t i = 0; i < n; ++i)
    if (args[i] == o) return true;
  return false;
}

bool on_an_input(PyObject* const* args, size_t n, const Tensor& t) {
  for (size_t i = 0; i < n; ++i)
    if (is_tensor(args[i]) && &Tensor::borrow(args[i]).storage() == &t.storage()) return true;
  return false;
}

// The results of the graph with their history, as an autograd.Function's get it. A view of a value inside of the graph,
// whose base nobody has, is written to as any other result.
std::vector<Tensor> recorded(const PlanRef& plan, PyObject* const* args, size_t n, const Ref& found) {
  NodeRef ref = autograd::make_node<CompiledNode>(plan);
  auto* node = static_cast<CompiledNode*>(ref.get());
  if (modes().anomaly) autograd::remember_call(*ref);
  for (size_t i = 0; i < n; ++i) {
    node->is_tensor_.push_back(is_tensor(args[i]));
    if (is_tensor(args[i])) autograd::collect(*ref, Tensor::borrow(args[i]));
  }
  std::vector<Tensor> results(plan->raws), kept(plan->raws);
  size_t next = 0;
  for (size_t i = 0; i < plan->raws; ++i) {
    PyObject* o = item(found, i);
    if (!is_tensor(o)) {
      autograd::skip_output(Tensor(), *ref);
      continue;
    }
    Tensor t = Tensor::borrow(o);
    bool is_input = among(args, n, o);
    // Two results with the same elements, each with a history of its own: a value, and what a Function made of it.
    if (std::any_of(&results[0], &results[i], [&](const Tensor& earlier) { return earlier.is(t); }))
      t = alias_of(t, true);
    bool is_next = next < plan->differentiable.size() && plan->differentiable[next] == i;
    next += is_next;
    if (is_next || std::any_of(plan->refusals.begin(), plan->refusals.end(), [&](auto& r) { return r.raw == i; })) {
      if (t.get()->base && !on_an_input(args, n, t)) {
        t = alias_of(t, true);
      } else if (is_input || t.get()->base) {
        t = view_of(t, t.sizes(), t.strides(), t.offset());
        t.get()->origin = ViewOrigin::custom_function;
      }
      autograd::set_history(t, ref);
    } else {
      if (is_input) t = alias_of(t, true);
      autograd::skip_output(t, *ref);
    }
    if (!is_input) kept[i] = t;
    results[i] = std::move(t);
  }
  node->keep(found, kept);
  return results;
}

void write(const Write& w, PyObject* target, PyObject* found, const Tensor& value) {
  Tensor t = Tensor::borrow(target);
  int64_t left = w.count;
  if (found != target) {  // the program has not written to the input itself
    autograd::GradMode mode(w.recorded && autograd::grad_enabled());
    Tensor to = left ? t : alias_of(t, false);
    ops::copy_(without_repeats(to, t), without_repeats(value, t),
               false);  // a write that does not count has a version of its own
    --left;
  }
  for (; left > 0; --left) t.bump_version();
}

Ref view(const View& v, PyObject* of) {
  if (v.made.get() == Py_None) return own(PySequence_GetItem(of, PyLong_AsSsize_t(item(v.arguments, 0))));
  std::vector<PyObject*> stack{of};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(v.arguments.get()); ++i)
    stack.push_back(PyTuple_GET_ITEM(v.arguments.get(), i));
  auto named = static_cast<size_t>(PyTuple_GET_SIZE(v.names.get()));
  autograd::GradMode mode(v.recorded && autograd::grad_enabled());
  return own(PyObject_Vectorcall(v.made.get(), stack.data(), stack.size() - named, named ? v.names.get() : nullptr));
}

PyObject* call_function(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    PlanRef plan = *reinterpret_cast<FunctionObject*>(self)->plan;
    auto n = static_cast<size_t>(PyVectorcall_NARGS(flags));
    TOCHA_CHECK(!names, Type, "[compiled graph] takes no keywords");
    if (is_special(args, n)) return own(PyObject_Vectorcall(plan->otherwise.get(), args, n, nullptr)).give();
    bool records = false;
    if (plan->records() && autograd::grad_enabled())
      for (size_t i = 0; i < n && !records; ++i)
        records = is_tensor(args[i]) && autograd::requires_grad(Tensor::borrow(args[i]));
    Ref found = run_forward(*plan, args, n);
    TOCHA_CHECK(static_cast<size_t>(PyTuple_GET_SIZE(found.get())) >= plan->raws, Runtime, "[compiled graph] returned ",
                PyTuple_GET_SIZE(found.get()), " results, ", plan->raws, " were expected");
    std::vector<Tensor> results;
    if (records) results = recorded(plan, args, n, found);
    auto raw = [&](size_t i) { return records && results[i] ? results[i].object() : item(found, i); };
    for (const Write& w : plan->writes) write(w, args[w.input], item(found, w.raw), Tensor::borrow(raw(w.raw)));
    std::vector<Ref> views;
    auto there = [&](int kind, size_t i) { return kind == kRaw ? raw(i) : kind == kInput ? args[i] : views[i].get(); };
    for (const View& v : plan->views) views.push_back(view(v, there(v.kind, v.index)));
    size_t count = plan->whole ? plan->outputs.size() : plan->raws;
    Ref out = own(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (size_t i = 0; i < count; ++i) {
      PyObject* o = nullptr;
      if (!plan->whole)
        o = raw(i);
      else if (const Output& from = plan->outputs[i]; from.kind == kConstant)
        o = from.value.get();
      else
        o = there(from.kind, from.index);
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Py_NewRef(o));
    }
    return out.give();
  });
}

size_t index_of(PyObject* o) {
  Py_ssize_t i = PyLong_AsSsize_t(o);
  if (i < 0 && PyErr_Occurred()) throw PythonError();
  TOCHA_CHECK(i >= 0, Value, "[compiled graph] an index is not negative, got ", i);
  return static_cast<size_t>(i);
}
std::vector<size_t> indices_of(PyObject* tuple) {
  std::vector<size_t> out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) out.push_back(index_of(PyTuple_GET_ITEM(tuple, i)));
  return out;
}
Ints ints_of(PyObject* tuple) {
  Ints out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    out.push_back(static_cast<int64_t>(index_of(PyTuple_GET_ITEM(tuple, i))));
  return out;
}

void read_layouts(Plan& plan, PyObject* tangents) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tangents); ++i) {
    PyObject* t = PyTuple_GET_ITEM(tangents, i);
    plan.tangents.push_back(Layout{ints_of(PyTuple_GET_ITEM(t, 0)), ints_of(PyTuple_GET_ITEM(t, 1))});
  }
}

void read_views(Plan& plan, PyObject* views) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(views); ++i) {
    PyObject *kind, *index, *made, *arguments, *names;
    int recorded;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(views, i), "OOpOO!O!", &kind, &index, &recorded, &made, &PyTuple_Type,
                          &arguments, &PyTuple_Type, &names))
      throw PythonError();
    View v{static_cast<int>(index_of(kind)), index_of(index),   recorded != 0, Ref::borrow(made),
           Ref::borrow(arguments),           Ref::borrow(names)};
    TOCHA_CHECK(v.kind != kView || v.index < plan.views.size(), Value,
                "[compiled graph] a view is made of earlier ones");
    plan.views.push_back(std::move(v));
  }
}

// _CompiledFunction(forward, boxed, raws, differentiable, tangents, copied, make_backward, refuse_twice, otherwise,
//                   backward_otherwise, outputs or None, writes, sources, refusals, views)
PyObject* new_function(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject *forward, *raws, *differentiable, *tangents, *copied, *make_backward, *refuse_twice, *otherwise,
        *backward_otherwise, *outputs, *writes, *sources, *refusals, *views;
    int boxed;
    if (!PyArg_ParseTuple(args, "OpOO!O!O!OOOOOO!O!O!O!", &forward, &boxed, &raws, &PyTuple_Type, &differentiable,
                          &PyTuple_Type, &tangents, &PyTuple_Type, &copied, &make_backward, &refuse_twice, &otherwise,
                          &backward_otherwise, &outputs, &PyTuple_Type, &writes, &PyTuple_Type, &sources, &PyTuple_Type,
                          &refusals, &PyTuple_Type, &views))
      throw PythonError();
    auto plan = std::make_shared<Plan>();
    plan->forward = Ref::borrow(forward);
    plan->make_backward = Ref::borrow(make_backward);
    plan->refuse_twice = Ref::borrow(refuse_twice);
    plan->otherwise = Ref::borrow(otherwise);
    plan->backward_otherwise = Ref::borrow(backward_otherwise);
    plan->boxed = boxed != 0;
    plan->raws = index_of(raws);
    plan->differentiable = indices_of(differentiable);
    plan->copied = indices_of(copied);
    read_layouts(*plan, tangents);
    TOCHA_CHECK(plan->tangents.size() == plan->differentiable.size(), Value, "[compiled graph] a layout per gradient");
    plan->whole = outputs != Py_None;
    for (Py_ssize_t i = 0; plan->whole && i < PyTuple_GET_SIZE(outputs); ++i) {
      PyObject *kind, *index, *value;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(outputs, i), "OOO", &kind, &index, &value)) throw PythonError();
      plan->outputs.push_back({static_cast<int>(index_of(kind)), index_of(index), Ref::borrow(value)});
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(writes); ++i) {
      PyObject *input, *raw;
      int recorded;
      long long count;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(writes, i), "OOpL", &input, &raw, &recorded, &count)) throw PythonError();
      plan->writes.push_back({index_of(input), index_of(raw), recorded != 0, count});
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sources); ++i)
      plan->sources.push_back(indices_of(PyTuple_GET_ITEM(sources, i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(refusals); ++i) {
      PyObject *raw, *arguments;
      int not_implemented;
      const char* reason;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(refusals, i), "OO!ps", &raw, &PyTuple_Type, &arguments, &not_implemented,
                            &reason))
        throw PythonError();
      ErrorKind kind = not_implemented ? ErrorKind::NotImplemented : ErrorKind::Runtime;
      plan->refusals.push_back({index_of(raw), indices_of(arguments), kind, reason});
    }
    read_views(*plan, views);
    auto* made = reinterpret_cast<FunctionObject*>(own(type->tp_alloc(type, 0)).give());
    made->vectorcall = call_function;
    made->plan = new PlanRef(std::move(plan));
    return reinterpret_cast<PyObject*>(made);
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  FunctionObject* f = reinterpret_cast<FunctionObject*>(self);
  if (!f->plan || f->plan->use_count() != 1) return 0;  // nodes hold it too
  const Plan& plan = **f->plan;
  for (const Ref* r : {&plan.forward, &plan.backward, &plan.make_backward, &plan.refuse_twice, &plan.otherwise,
                       &plan.backward_otherwise})
    Py_VISIT(r->get());
  return 0;
}
int clear(PyObject* self) {
  FunctionObject* f = reinterpret_cast<FunctionObject*>(self);
  delete std::exchange(f->plan, nullptr);
  return 0;
}
void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyObject* get_forward(PyObject* self, void*) { return Py_NewRef(plan_of(self).forward.get()); }
PyObject* get_backward(PyObject* self, void*) {
  PyObject* b = plan_of(self).backward.get();
  return Py_NewRef(b ? b : Py_None);
}
PyGetSetDef getters[] = {
    {"forward", get_forward, nullptr, "The compiled forward graph.", nullptr},
    {"backward", get_backward, nullptr, "The compiled backward graph, once there is one.", nullptr},
    {},
};
PyType_Slot type_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_function)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {0, nullptr},
};
PyType_Spec type_spec = {"tocha._C._CompiledFunction", sizeof(FunctionObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, type_slots};

}  // namespace

void add_compiled_function_type(PyObject* module) {
  Ref type = own(PyType_FromSpec(&type_spec));
  function_type = reinterpret_cast<PyTypeObject*>(type.get());
  check(PyModule_AddObjectRef(module, "_CompiledFunction", type.get()));
  type.give();
}

}  // namespace tocha::python
