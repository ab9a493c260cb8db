#include "python/level_calls.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/engine.h"
#include "autograd/forward.h"
#include "autograd/levels.h"
#include "autograd/view_relation.h"
#include "dispatch/level_hooks.h"
#include "ops/copies.h"
#include "ops/factories.h"
#include "ops/views.h"
#include "python/bindings.h"
#include "python/dispatch_calls.h"
#include "python/operator_handles.h"
#include "python/tensor_methods.h"

namespace tocha::python {

using dispatch::Batching;
using dispatch::Call;
using dispatch::Value;
using levels::Held;
using levels::Kind;
using levels::Level;

namespace {

const char* const kForms[] = {"functional", "functional", "inplace", "out"};

// Where the form is looked up: "sum.dim", "add_", "random_.from".
std::string form_name(const Call& call) {
  std::string name = call.record;
  size_t dot = std::min(name.find('.'), name.size());
  if (call.form == Call::inplace && name[dot - 1] != '_') name.insert(dot, "_");
  return name;
}

// The form as Python calls it.
const RecordCall& record_call(const Call& call) {
  static auto& all = *new std::unordered_map<const Call*, const RecordCall*>();
  const RecordCall*& found = all[&call];
  if (!found) found = find_record(form_name(call));
  if (!found && call.form == Call::inplace) found = find_record(call.record);
  TOCHA_CHECK(found, Runtime, "[", call.record, "] has no native form");
  return *found;
}

Batching prepare(const Call& call) {
  record_call(call);  // there is one, or this says so
  PyObject* make = cached_attribute("tocha._functorch.batching", "prepare");
  Ref answer = own(PyObject_CallFunction(make, "ss", call.record, kForms[call.form]));
  int kind, draws;
  PyObject* rule;
  if (!PyArg_ParseTuple(answer.get(), "ipO", &kind, &draws, &rule)) throw PythonError();
  return {static_cast<Batching::Kind>(kind), draws != 0, Py_NewRef(rule)};
}

const Batching& batching(const Call& call) {
  static auto& all = *new std::unordered_map<const Call*, Batching>();
  auto at = all.find(&call);
  if (at == all.end()) at = all.emplace(&call, prepare(call)).first;
  return at->second;
}

template <class F>
void each_tensor(const Call& call, const Value* given, F f) {
  for (int i = 0; i < call.count; ++i) {
    if (given[i].kind == Value::tensor && given[i].as<Tensor>()) f(given[i].as<Tensor>());
    if (given[i].kind == Value::tensors)
      for (const Tensor& t : given[i].as<Tensors>())
        if (t) f(t);
  }
}

int64_t innermost(const Call& call, const Value* given) {
  int64_t found = 0, order = 0;
  each_tensor(call, given, [&](const Tensor& t) {
    const int64_t id = levels::level_of(t);
    if (!id || levels::order_of(id) <= order) return;
    found = id;
    order = levels::order_of(id);
  });
  return found;
}

// A real 0-d tensor that only an operator's own body holds, and the operator that it calls: a number that it computed.
bool is_own_number(const Tensor& t, int refs) {
  return Py_REFCNT(t.object()) <= refs && Py_TYPE(t.object()) == tensor_type && !t.get()->dispatches && t.dim() == 0 &&
         t.is_cpu() && !t.get()->requires_grad;
}

PyObject* element_object(const Tensor& t) { return scalar_object(Scalar::load(t.dtype(), t.bytes())); }

// Whether an argument is a fake, or a list with one.
bool holds_fake(PyObject* o) {
  if (!o) return false;
  if (!PyList_Check(o) && !PyTuple_Check(o)) return is_fake(o);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    if (is_fake(PySequence_Fast_GET_ITEM(o, i))) return true;
  return false;
}

// A call's arguments as the native form takes them.
class Slots {
 public:
  Slots(const Call& call, const Value* given) : record_(record_call(call)) {
    TOCHA_CHECK(record_.count <= kMaxArguments, Runtime, "[", record_.name, "] has too many arguments");
    const int outs = call.outs;
    if (outs) results_ = own(PyTuple_New(outs));
    for (int i = 0; i < call.count; ++i) {
      if (i >= outs && i - outs < kMaxArguments) values_[i - outs] = &given[i];
    }
    for (int i = 0; i < outs; ++i) outs_[i] = &given[i];
  }
  // f: what stands for a tensor.
  template <class F>
  void fill(F f) {
    for (int i = 0; i < kMaxArguments; ++i)
      if (values_[i]) put(i, object(*values_[i], f));
    if (!results_) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results_.get()); ++i)
      PyTuple_SET_ITEM(results_.get(), i, object(*outs_[i], f).give());
    slots_[record_.count - 1] =
        PyTuple_GET_SIZE(results_.get()) == 1 ? PyTuple_GET_ITEM(results_.get(), 0) : results_.get();
  }
  PyObject* call() {
    bool fake = fake_mode_active();
    for (PyObject* o : slots_) fake = fake || holds_fake(o);
    if (fake && !meets_level(slots_, kMaxArguments)) [[unlikely]] {
      for (int i = 0; i < kMaxArguments; ++i)
        if (slots_[i] && is_tensor(slots_[i]) && is_own_number(Tensor::borrow(slots_[i]), 4))
          put(i, own(element_object(Tensor::borrow(slots_[i]))));
      return own(fake_call(record_.fake, record_.name, record_.params, record_.count, slots_)).give();
    }
    return own(record_.call(slots_)).give();
  }
  // The kernel, whoever would take the call over.
  PyObject* compute() { return own(record_.call(slots_)).give(); }
  PyObject* first() const { return slots_[0]; }

 private:
  void put(int i, Ref o) {
    slots_[i] = o.get();
    kept_[i] = std::move(o);
  }
  template <class F>
  Ref object(const Value& v, F f) {
    if (v.kind == Value::tensor) return tensor_object(v.as<Tensor>(), f);
    if (v.kind != Value::tensors) return own(as_object(v));
    const auto& all = v.as<Tensors>();
    Ref list = own(PyList_New(static_cast<Py_ssize_t>(all.size())));
    for (size_t i = 0; i < all.size(); ++i)
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), tensor_object(all[i], f).give());
    return list;
  }
  template <class F>
  static Ref tensor_object(const Tensor& t, F f) {
    return t ? own(Tensor(f(t)).give()) : Ref::borrow(Py_None);
  }

  const RecordCall& record_;
  const Value* values_[kMaxArguments] = {};
  const Value* outs_[8] = {};
  PyObject* slots_[kMaxArguments] = {};
  Ref kept_[kMaxArguments];
  Ref results_;
};

template <class F>
Ref map_tensors(PyObject* result, F f) {
  if (is_tensor(result)) return f(Tensor::borrow(result));
  const bool list = PyList_Check(result);
  if (!list && !PyTuple_Check(result)) return Ref::borrow(result);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
  Ref all = own(list ? PyList_New(n) : PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* made = map_tensors(PySequence_Fast_GET_ITEM(result, i), f).give();
    if (list)
      PyList_SET_ITEM(all.get(), i, made);
    else
      PyTuple_SET_ITEM(all.get(), i, made);
  }
  return all;
}

// After a write that may have changed the value's geometry.
void take_geometry(const Tensor& t) {
  const Held* h = levels::held(t);
  Tensor v = levels::value_of(*h);
  Ints sizes(v.sizes()), strides(v.strides());
  if (h->dim >= 0) {
    sizes.erase(h->dim);
    strides.erase(h->dim);
  }
  if (t.sizes() == IntsView(sizes) && t.strides() == IntsView(strides) && t.offset() == v.offset()) return;
  set_sizes_and_strides(t, sizes, strides, v.offset());
}

const Held* at(const Tensor& t, int64_t level) {
  const Held* h = levels::held(t);
  return h && h->level == level ? h : nullptr;
}

// A tensor that only operators' own bodies hold, as they write into what they have made: nobody sees it become a batch.
bool unseen(const Tensor& t, int refs) {
  const bool plain = Py_TYPE(t.object()) == tensor_type && !t.get()->dispatches;
  return Py_REFCNT(t.object()) == refs && (plain || (is_fake(t) && !levels::held(t)));
}

void lose_memory(const Tensor& t, size_t bytes) {
  StorageRef nothing = borrow_storage(nullptr, bytes, t.device(), nullptr, nullptr);
  StorageRef old(std::exchange(t.get()->storage, nothing.give()));
}

void drop_history(const Tensor& t) {
  if (t.get()->has_tangent) autograd::set_tangent(t, Tensor());
  if (t.get()->autograd) t.get()->autograd->grad_fn = autograd::NodeRef();
  t.get()->requires_grad = false;
}

// What t was, history and all, in a tensor of its own. t keeps its geometry, without memory.
Tensor taken_out_of(const Tensor& t) {
  Tensor value = empty(Ints{0}, t.dtype(), t.device());
  Tensor tangent = autograd::tangent_of(t);
  if (t.get()->has_tangent) autograd::set_tangent(t, Tensor());
  const bool dispatches = t.get()->dispatches;
  exchange_contents(t.get(), value.get());
  std::swap(t.get()->dict, value.get()->dict);
  value.get()->dispatches = dispatches;
  std::swap(t.get()->held, value.get()->held);  // views are of t still
  lose_memory(t, value.storage().nbytes);
  set_sizes_and_strides(t, value.sizes(), value.strides(), value.offset());
  if (tangent) autograd::set_tangent(value, tangent);
  return value;
}

// Makes t one of the level, with what it was as its value.
void become_value(const Tensor& t, const Level& level) { levels::hold(t, taken_out_of(t), level.id, -1); }

// Makes t one of the level, where it is the same for all samples.
void become_batch(const Tensor& t, const Level& level) {
  Ints sizes{level.size};
  for (int64_t n : t.sizes()) sizes.push_back(n);
  const bool watched = is_fake(t) || modes().dispatch_modes;  // whoever knows t by its object sees the batch being made
  Tensor one = watched ? t : taken_out_of(t);
  Tensor value = ops::clone(ops::expand(ops::unsqueeze(one, 0), sizes, false), MemoryFormat::Contiguous);
  if (watched) drop_history(t);
  if (watched && !is_fake(t)) lose_memory(t, t.storage().nbytes);
  levels::hold(t, value, level.id, 0);
  take_geometry(t);
}

// A tensor of an outer level that only an operator's own body holds, which writes something of this level into it.
void join(const Tensor& self, const Level& level) {
  auto ours = [](const Tensor& t, int refs) {
    return Py_REFCNT(t.object()) == refs && Py_TYPE(t.object()) == tensor_type;
  };
  TensorObject* whole = self.get()->base;
  if (!whole) {
    if (ours(self, 1) && !self.get()->held) become_value(self, level);
    return;
  }
  Tensor base = Tensor::borrow(whole);
  if (!ours(self, 1) || !ours(base, 2 + static_cast<int>(whole->held))) return;
  const autograd::ViewRelation relation(self);
  become_value(base, level);
  Tensor part = relation.of(levels::value_of(*levels::held(base)));
  drop_history(self);
  lose_memory(self, self.storage().nbytes);
  levels::hold(self, part, level.id, -1);
}

std::vector<int64_t> levels_behind(const Tensor& t) {
  std::vector<int64_t> found;
  for (const Held* h = levels::held(t); h; h = levels::held(h->value)) found.push_back(h->level);
  return found;
}

// Whether all of some levels are among others, which are more.
bool fewer(const std::vector<int64_t>& some, const std::vector<int64_t>& others) {
  auto among = [&](int64_t id) { return std::find(others.begin(), others.end(), id) != others.end(); };
  return some.size() < others.size() && std::all_of(some.begin(), some.end(), among);
}

// The value of a tensor that only an operator's own body holds, with room for what is of further levels outside.
void widen(const Call& call, const Value* given, const Tensor& self, const Level& level) {
  const bool view = self.get()->base != nullptr;
  Tensor whole = view ? Tensor::borrow(self.get()->base) : Tensor();
  const bool ours =
      Py_REFCNT(self.object()) == 1 &&
      (!view || (Py_REFCNT(whole.object()) == 2 + static_cast<int>(whole.get()->held) && at(whole, level.id)));
  if (!ours) return;
  Tensor value = levels::value_of(*levels::held(view ? whole : self)), model;
  each_tensor(call, given, [&](const Tensor& t) {
    const Held* h = at(t, level.id);
    Tensor other = h ? levels::value_of(*h) : t;
    if (fewer(levels_behind(model ? model : value), levels_behind(other))) model = other;
  });
  if (!model) return;
  levels::Outside outside(level);
  Tensor room;
  {
    autograd::Unrecorded off;
    room = ops::new_zeros(model, value.sizes(), value.dtype(), value.device());
  }
  ops::copy_(room, value, false);
  Tensor part = view ? autograd::ViewRelation(self).of(room) : room;
  if (view) levels::hold(whole, room, level.id, -1);
  levels::hold(self, part, level.id, -1);
}

void make_room(const Call& call, const Value* given, const Level& level) {
  if (call.form != Call::inplace || given[0].kind != Value::tensor) return;
  const Tensor& self = given[0].as<Tensor>();
  if (level.kind != Kind::vmap && levels::level_of(self) == level.id) return widen(call, given, self, level);
  if (levels::level_of(self) == level.id || innermost(call, given) != level.id) return;
  levels::Outside outside(level);
  if (level.kind != Kind::vmap) {
    if (!fake_mode_active() && !modes().dispatch_modes) join(self, level);
    return;
  }
  if (levels::level_of(self)) return;
  TensorObject* whole = self.get()->base;
  if (!whole) {
    if (unseen(self, 1)) become_batch(self, level);
    return;
  }
  Tensor base = Tensor::borrow(whole);
  if (!unseen(self, 1) || !unseen(base, 2 + static_cast<int>(whole->held)) || !base.is_contiguous() ||
      base.offset() != 0 || base.dtype() != self.dtype())
    return;
  become_batch(base, level);
  Tensor value = levels::value_of(*levels::held(base));
  Ints sizes{level.size}, strides{value.stride(0)};
  for (int64_t n : self.sizes()) sizes.push_back(n);
  for (int64_t n : self.strides()) strides.push_back(n);
  drop_history(self);
  if (!is_fake(self)) lose_memory(self, self.storage().nbytes);
  Tensor part = ops::as_strided(value, sizes, strides, self.offset());
  part.get()->origin = value.get()->origin;  // the view is the body's, not one of what is below autograd
  levels::hold(self, part, level.id, 0);
}

std::string spoken(const Call& call) { return "aten::" + form_name(call); }

// What a level of differentiation makes of a call: the same on the values.
PyObject* differentiated(Call& call, const Value* given, const Level& level) {
  const int64_t id = level.id;
  make_room(call, given, level);
  const int written = call.form == Call::inplace ? 1 : call.outs;
  for (int i = 0; i < written; ++i)
    TOCHA_CHECK(given[i].kind != Value::tensor || levels::level_of(given[i].as<Tensor>()) == id, Runtime,
                "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place "
                "operation (",
                spoken(call),
                ") that would mutate a captured Tensor. This is not supported; please rewrite the function being "
                "transformed to explicitly accept the mutated Tensor(s) as inputs.");
  std::vector<std::pair<TensorObject*, TensorObject*>> seen;  // values, and whose they are
  Slots slots(call, given);
  slots.fill([&](const Tensor& t) {
    const Held* h = levels::held(t);
    if (!h || h->level != id) return t;
    seen.emplace_back(h->value, t.get());
    return levels::value_of(*h);
  });
  Ref result;
  {
    levels::Outside outside(level);
    result = Ref(slots.call());
  }
  if (call.form == Call::inplace) {
    take_geometry(given[0].as<Tensor>());
    return Py_NewRef(given[0].as<Tensor>().object());
  }
  for (int i = 0; i < call.outs; ++i) take_geometry(given[i].as<Tensor>());
  return map_tensors(result.get(),
                     [&](const Tensor& r) {
                       for (const auto& [value, whose] : seen)
                         if (value == r.get()) return Ref::borrow(reinterpret_cast<PyObject*>(whose));
                       return own(levels::wrap(r, id, -1).give());
                     })
      .give();
}

Tensor batch_first(const Held& h, int64_t rank) {
  Tensor v = levels::value_of(h);
  if (h.dim > 0) {
    Ints order{h.dim};
    for (int64_t i = 0; i < v.dim(); ++i)
      if (i != h.dim) order.push_back(i);
    v = ops::permute(v, order);
  }
  while (v.dim() <= rank) v = ops::unsqueeze(v, 1);
  return v;
}

// Whether aligning dims is all that a formula needs: promotion must not see a batch of 0-d tensors as one of 1-d.
bool aligns(const Call& call, const Value* given, const Level& level, int64_t& rank) {
  if (call.form == Call::out || fake_mode_active()) return false;
  bool zero_dim = false, same = true, fake = false;
  DType dtype = DType::Undefined;
  rank = 0;
  each_tensor(call, given, [&](const Tensor& t) {
    if (t.is_wrapped_number()) return;
    zero_dim = zero_dim || t.dim() == 0;
    same = same && (dtype == DType::Undefined || dtype == t.dtype());
    dtype = t.dtype();
    rank = std::max(rank, t.dim());
    const Held* h = at(t, level.id);
    fake = fake || is_fake(h ? reinterpret_cast<PyObject*>(h->value) : t.object());
  });
  if (fake || (zero_dim && !same)) return false;
  if (call.form != Call::inplace) return true;
  const Tensor& self = given[0].as<Tensor>();
  return at(self, level.id) && self.dim() == rank;
}

PyObject* elementwise(Call& call, const Value* given, const Level& level, int64_t rank) {
  const int64_t id = level.id;
  levels::Outside outside(level);
  Slots slots(call, given);
  slots.fill([&](const Tensor& t) {
    const Held* h = at(t, id);
    return h ? batch_first(*h, rank) : t;
  });
  Ref result(slots.call());
  if (call.form == Call::inplace) return Py_NewRef(given[0].as<Tensor>().object());
  return map_tensors(result.get(), [&](const Tensor& r) { return own(levels::wrap(r, id, 0).give()); }).give();
}

// A view of a batch whose values nobody tracks: the rule runs on the geometry without the batch dim.
PyObject* geometry(Call& call, const Value* given, const Level& level) {
  const Tensor& self = given[0].as<Tensor>();
  const Held* h = at(self, level.id);
  if (call.form == Call::inplace || !h || modes().dispatch_modes) return nullptr;
  Tensor value = levels::value_of(*h);
  if (value.get()->dispatches || autograd::tracked(value) || is_fake(value) || fake_mode_active()) return nullptr;
  const int64_t id = level.id, dim = h->dim;
  Ref result;
  {
    autograd::Unrecorded off;
    struct Unseen {
      Unseen() { ++modes().dispatch_off; }
      ~Unseen() { --modes().dispatch_off; }
    } unseen;
    Slots slots(call, given);
    slots.fill([](const Tensor& t) { return t; });
    result = Ref(slots.call());
  }
  bool plain = true;
  auto check_one = [&](const Tensor& r) {
    plain = plain && r.dtype() == self.dtype() && r.is_conj() == self.is_conj() && r.is_neg() == self.is_neg();
    return Ref::borrow(Py_None);
  };
  map_tensors(result.get(), check_one);
  if (!plain) return nullptr;
  levels::Outside outside(level);
  return map_tensors(result.get(),
                     [&](const Tensor& r) {
                       if (r.is(self)) return Ref::borrow(self.object());
                       Ints sizes{value.size(dim)}, strides{value.stride(dim)};
                       for (int64_t n : r.sizes()) sizes.push_back(n);
                       for (int64_t n : r.strides()) strides.push_back(n);
                       return own(levels::wrap(view_of(value, sizes, strides, r.offset()), id, 0).give());
                     })
      .give();
}

PyObject* by_rule(Call& call, const Value* given, const Level& level) {
  const bool formula = batching(call).kind == Batching::elementwise;  // numbers stay numbers in it
  Ref values = own(PyTuple_New(call.count));
  for (int i = 0; i < call.count; ++i) {
    const Value& v = given[i];
    PyObject* o;
    if (formula && fake_mode_active() && v.kind == Value::tensor && v.as<Tensor>() &&
        is_own_number(v.as<Tensor>(), 2)) {
      o = own(element_object(v.as<Tensor>())).give();
    } else if (v.kind == Value::tensor && !(formula && v.as<Tensor>() && v.as<Tensor>().is_wrapped_number())) {
      o = v.as<Tensor>() ? Py_NewRef(v.as<Tensor>().object()) : Py_NewRef(Py_None);
    } else {
      o = own(as_object(v)).give();
    }
    PyTuple_SET_ITEM(values.get(), i, o);
  }
  Ref id = own(PyLong_FromLongLong(level.id));
  Ref size = own(PyLong_FromLongLong(level.size));
  Ref randomness = own(PyLong_FromLong(static_cast<long>(level.randomness)));
  PyObject* rule = batching(call).python;
  levels::Outside outside(level);
  return own(PyObject_CallFunctionObjArgs(rule, id.get(), size.get(), randomness.get(), values.get(), nullptr)).give();
}

// What is made inside a vmap from no tensors is the same for all samples.
PyObject* shared_by_all(Call& call, const Value* given, const Level& level) {
  levels::Outside outside(level);
  Slots slots(call, given);
  slots.fill([](const Tensor& t) { return t; });
  return slots.call();
}

PyObject* batched(Call& call, const Value* given, const Level& level) {
  int64_t rank;
  make_room(call, given, level);
  if (batching(call).kind == Batching::elementwise && aligns(call, given, level, rank))
    return elementwise(call, given, level, rank);
  if (batching(call).kind == Batching::geometry)
    if (PyObject* result = geometry(call, given, level)) return result;
  return by_rule(call, given, level);
}

// Tensors of levels that have ended: differentiated values are what they were of; a batch is not a value by itself.
PyObject* after_the_end(Call& call, const Value* given, int64_t id) {
  Slots slots(call, given);
  slots.fill([&](const Tensor& t) {
    const Held* h = at(t, id);
    TOCHA_CHECK(!h || h->dim < 0, Runtime, "[", call.record,
                "] a Tensor of a vmap that has ended is used outside of it: the batch dimension it was mapped over is "
                "not known here");
    return h ? levels::value_of(*h) : t;
  });
  modes().grad = levels::asked_to_record;
  return slots.call();
}

// What operators' own bodies compute of numbers alone is a number: it has elements although tensors have none.
PyObject* of_numbers(Call& call, const Value* given) {
  struct Unseen {
    Unseen() : before(function_modes) {
      ++modes().dispatch_off;
      function_modes &= ~kFakeMode;
    }
    ~Unseen() {
      --modes().dispatch_off;
      function_modes = before;
    }
    decltype(function_modes) before;
  };
  const bool fake = fake_mode_active();
  Unseen unseen;
  Slots slots(call, given);
  slots.fill([](const Tensor& t) { return t; });
  Ref result(slots.compute());
  if (fake)
    map_tensors(result.get(), [](const Tensor& r) {
      if (r.dim() == 0) r.get()->number = NumberFrom::body;
      return Ref::borrow(Py_None);
    });
  return result.give();
}

}  // namespace

PyObject* call_levels(Call& call, const Value* given) {
  if (dispatch::only_numbers(call, given)) return of_numbers(call, given);
  int64_t id = innermost(call, given);
  if (!id && !dispatch::open_levels) return nullptr;
  const Level* level = nullptr;
  if (id) {
    level = levels::find(id);
    if (!level) return after_the_end(call, given, id);
  } else {
    bool operands = false;
    each_tensor(call, given, [&](const Tensor&) { operands = true; });
    if (operands && !(dispatch::vmaps && batching(call).draws)) return nullptr;
    level = &levels::stack().back();
  }
  // What is drawn inside an inner vmap is another number for each of its samples, whoever the operands belong to.
  if (id && batching(call).draws && dispatch::vmaps) {
    for (const Level& l : levels::stack())
      if (l.order > level->order && l.kind == Kind::vmap) level = &l;
  }
  const Level here = *level;  // while operators run outside of it, the stack has no such level
  if (here.kind != Kind::vmap) return differentiated(call, given, here);
  return id || batching(call).draws ? batched(call, given, here) : shared_by_all(call, given, here);
}

namespace {

int64_t last_level = 0;

// _push_level(kind, size, randomness): a level of this thread begins; its id.
PyObject* push_level(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int kind, randomness;
    long long size;
    if (!PyArg_ParseTuple(args, "iLi", &kind, &size, &randomness)) throw PythonError();
    ++last_level;
    Level level{last_level,
                last_level,
                static_cast<Kind>(kind),
                static_cast<levels::Randomness>(randomness),
                size,
                modes().grad,
                modes().forward_level,
                0,
                autograd::backward_depth()};
    if (level.kind == Kind::jvp) modes().forward_level = level.forward = levels::new_forward_level();
    levels::stack().push_back(level);
    levels::count_open();
    count_levels(1);
    return PyLong_FromLongLong(level.id);
  });
}

// _reopen_level(id): a level of gradients that has ended is the innermost one once more, for a backward through it.
PyObject* reopen_level(PyObject*, PyObject* id) {
  return guarded([&]() -> PyObject* {
    const int64_t name = as_int(id);
    TOCHA_CHECK(!levels::find(name), Runtime, "the transform has not ended");
    ++last_level;
    levels::set_order(name, last_level);
    levels::stack().push_back({name, last_level, Kind::grad, levels::Randomness::error, 0, modes().grad,
                               modes().forward_level, 0, autograd::backward_depth()});
    levels::count_open();
    count_levels(1);
    return Py_NewRef(Py_None);
  });
}

// _pop_level(): the innermost one ends.
PyObject* pop_level(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(!levels::stack().empty(), Runtime, "there is no transform to end");
    Level level = levels::stack().back();
    if (level.kind == Kind::jvp) {
      modes().forward_level = level.forward;
      autograd::drop_tangents();
    }
    modes().forward_level = level.forward_before;
    levels::set_order(level.id, level.id);
    levels::stack().pop_back();
    levels::count_open();
    count_levels(-1);
    return Py_NewRef(Py_None);
  });
}

PyObject* wrap_level(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* value;
    long long id, dim;
    if (!PyArg_ParseTuple(args, "O!LL", tensor_type, &value, &id, &dim)) throw PythonError();
    return levels::wrap(Tensor::borrow(value), id, dim).give();
  });
}

// _unwrap_level(t, id): (value, dim) of a tensor of that level, else None.
PyObject* unwrap_level(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* o;
    long long id;
    if (!PyArg_ParseTuple(args, "OL", &o, &id)) throw PythonError();
    const Held* h = is_tensor(o) ? at(Tensor::borrow(o), id) : nullptr;
    if (!h) return Py_NewRef(Py_None);
    return Py_BuildValue("(OL)", reinterpret_cast<PyObject*>(h->value), static_cast<long long>(h->dim));
  });
}

// _level_of(t): (id, value, dim), or None.
PyObject* level_of(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const Held* h = is_tensor(o) ? levels::held(Tensor::borrow(o)) : nullptr;
    if (!h) return Py_NewRef(Py_None);
    return Py_BuildValue("(LOL)", static_cast<long long>(h->level), reinterpret_cast<PyObject*>(h->value),
                         static_cast<long long>(h->dim));
  });
}

// _hold(t, value, id, dim): t is of a level from now on, with this value.
PyObject* hold(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *o, *value;
    long long id, dim;
    if (!PyArg_ParseTuple(args, "O!O!LL", tensor_type, &o, tensor_type, &value, &id, &dim)) throw PythonError();
    Tensor t = Tensor::borrow(o);
    levels::hold(t, Tensor::borrow(value), id, dim);
    take_geometry(t);
    return Py_NewRef(o);
  });
}

// _levels(): (id, kind, size, randomness, grad mode before) of those that are open.
PyObject* open_levels(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Ref all = own(PyList_New(0));
    for (const Level& l : levels::stack()) {
      Ref row = own(Py_BuildValue("(LiLiO)", static_cast<long long>(l.id), static_cast<int>(l.kind),
                                  static_cast<long long>(l.size), static_cast<int>(l.randomness),
                                  l.grad_before ? Py_True : Py_False));
      check(PyList_Append(all.get(), row.get()));
    }
    return all.give();
  });
}

// _walk_at(id): the walk of the engine that begins next goes through that level's graph.
PyObject* walk_at(PyObject*, PyObject* id) {
  return guarded([&]() -> PyObject* {
    levels::next_walk_level = as_int(id);
    return Py_NewRef(Py_None);
  });
}

// _outside(id, f): f() with that level and those inside it out of the way.
PyObject* outside(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    long long id;
    PyObject* f;
    if (!PyArg_ParseTuple(args, "LO", &id, &f)) throw PythonError();
    const Level* level = levels::find(id);
    TOCHA_CHECK(level, Runtime, "the transform has ended");
    const Level here = *level;
    levels::Outside scope(here);
    return own(PyObject_CallNoArgs(f)).give();
  });
}

}  // namespace

bool meets_level(PyObject* const* slots, int count) {
  if (!dispatch::open_levels) return false;
  std::vector<Tensor> found;
  for (int i = 0; i < count; ++i) {
    PyObject* o = slots[i];
    if (!o) continue;
    if (is_tensor(o)) found.push_back(Tensor::borrow(o));
    if (PyTuple_Check(o) || PyList_Check(o))
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
        if (is_tensor(PySequence_Fast_ITEMS(o)[k])) found.push_back(Tensor::borrow(PySequence_Fast_ITEMS(o)[k]));
  }
  const bool meets = std::any_of(found.begin(), found.end(), [](const Tensor& t) { return levels::held(t); });
  if (meets)
    for (const Tensor& t : found)
      if (has_symbols(t)) fake_settle(t);
  return meets || found.empty();
}

namespace {

// _call_record(name, values): one form of a record ("sum.dim", "add_") with all its arguments in order; of out= a tuple
// of results comes last.
PyObject* call_record(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *name, *values;
    if (!PyArg_ParseTuple(args, "UO!", &name, &PyTuple_Type, &values)) throw PythonError();
    const RecordCall* record = find_record(text_of(name));
    const Py_ssize_t n = PyTuple_GET_SIZE(values);
    TOCHA_CHECK(record && n <= record->count && n <= kMaxArguments, Runtime, "[", text_of(name),
                "] has no native form with ", n, " arguments");
    PyObject* slots[kMaxArguments] = {};
    std::vector<Ref> numbers;
    bool fake = fake_mode_active();
    for (Py_ssize_t i = 0; i < n; ++i) {
      slots[i] = PyTuple_GET_ITEM(values, i);
      fake = fake || holds_fake(slots[i]);
    }
    if (fake && !meets_level(slots, static_cast<int>(n)))
      return own(fake_call(record->fake, record->name, record->params, record->count, slots)).give();
    for (Py_ssize_t i = 0; i < n; ++i) {
      const ArgType type = record->params[i].type;
      if ((type != ArgType::Tensor && type != ArgType::OptTensor) || !is_number(slots[i])) continue;
      numbers.emplace_back(as_operand(slots[i]).give());
      slots[i] = numbers.back().get();
    }
    return own(record->call(slots)).give();
  });
}

PyMethodDef table[] = {
    {"_call_record", call_record, METH_VARARGS, nullptr},
    {"_reopen_level", reopen_level, METH_O, nullptr},
    {"_walk_at", walk_at, METH_O, nullptr},
    {"_push_level", push_level, METH_VARARGS, nullptr},
    {"_pop_level", pop_level, METH_NOARGS, nullptr},
    {"_wrap_level", wrap_level, METH_VARARGS, nullptr},
    {"_unwrap_level", unwrap_level, METH_VARARGS, nullptr},
    {"_level_of", level_of, METH_O, nullptr},
    {"_hold", hold, METH_VARARGS, nullptr},
    {"_levels", open_levels, METH_NOARGS, nullptr},
    {"_outside", outside, METH_VARARGS, nullptr},
};

}  // namespace

void add_level_functions(std::vector<PyMethodDef>& functions) {
  functions.insert(functions.end(), std::begin(table), std::end(table));
  levels::make_held_type();
  dispatch::batching_of = batching;
  dispatch::innermost_maps = [](const Call& call, const Value* given) {
    const Level* level = levels::find(innermost(call, given));
    return level && level->kind == Kind::vmap;
  };
  dispatch::value_behind = [](const Tensor& t) {
    Tensor found = t;
    while (const Held* h = levels::held(found)) found = levels::value_of(*h);
    return found;
  };
}

}  // namespace tocha::python
