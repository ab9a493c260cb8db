#include "autograd/levels.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/engine.h"
#include "core/error.h"
#include "core/fake.h"
#include "dispatch/level_hooks.h"

namespace tocha::levels {

PyTypeObject* held_type = nullptr;

namespace {

PyObject* key() {
  static PyObject* name = PyUnicode_InternFromString("_level");
  return name;
}

void free_held(PyObject* self) {
  Py_XDECREF(reinterpret_cast<PyObject*>(reinterpret_cast<Held*>(self)->value));
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_held)}, {0, nullptr}};
PyType_Spec spec = {"tocha._C._Level", sizeof(Held), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

Ints without(IntsView all, int64_t dim) {
  Ints out(all);
  if (dim >= 0) out.erase(dim);
  return out;
}

}  // namespace

void make_held_type() {
  held_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!held_type) throw PythonError();
}

std::vector<Level>& stack() {
  static thread_local std::vector<Level> levels;
  return levels;
}

void count_open() {
  dispatch::open_levels = static_cast<int>(stack().size());
  dispatch::vmaps = 0;
  for (const Level& l : stack()) dispatch::vmaps += l.kind == Kind::vmap;
}

const Level* find(int64_t id) {
  for (const Level& l : stack())
    if (l.id == id) return &l;
  return nullptr;
}

namespace {

std::unordered_map<int64_t, int64_t>& reordered() {
  static thread_local std::unordered_map<int64_t, int64_t> all;
  return all;
}

}  // namespace

int64_t order_of(int64_t id) {
  const auto& all = reordered();
  if (all.empty()) return id;
  auto found = all.find(id);
  return found == all.end() ? id : found->second;
}

void set_order(int64_t id, int64_t order) {
  if (id == order)
    reordered().erase(id);
  else
    reordered()[id] = order;
}

const Held* look_up(const TensorObject* t) {
  PyObject* found = PyDict_GetItem(t->dict, key());
  return found && Py_TYPE(found) == held_type ? reinterpret_cast<const Held*>(found) : nullptr;
}

void hold(const Tensor& t, const Tensor& value, int64_t level, int64_t dim) {
  auto* h = PyObject_New(Held, held_type);
  if (!h) throw PythonError();
  h->value = Tensor(value).get();
  Py_INCREF(value.object());
  h->level = level;
  h->dim = dim;
  TensorObject* o = t.get();
  if (!o->dict) o->dict = PyDict_New();
  const int status = o->dict ? PyDict_SetItem(o->dict, key(), reinterpret_cast<PyObject*>(h)) : -1;
  Py_DECREF(h);
  if (status < 0) throw PythonError();
  o->dispatches = true;
  o->conj = value.is_conj();
  o->neg = value.is_neg();
}

Tensor wrap(const Tensor& value, int64_t level, int64_t dim) {
  if (has_symbols(value)) fake_settle(value);
  const Ints sizes = without(value.sizes(), dim), strides = without(value.strides(), dim);
  const size_t bytes = bytes_needed(sizes, strides, value.offset(), value.itemsize());
  StorageRef nothing = borrow_storage(nullptr, bytes, value.device(), nullptr, nullptr);
  Tensor t = make_tensor(std::move(nothing), value.dtype(), sizes, strides, value.offset());
  t.get()->inference = value.get()->inference;
  hold(t, value, level, dim);
  return t;
}

Tensor alias(const Tensor& t) {
  const Held* h = held(t);
  Tensor same = alias_of(t, true);
  hold(same, value_of(*h), h->level, h->dim);
  return same;
}

void check_no_branch(const Tensor& t) {
  for (const Held* h = held(t); h; h = held(h->value))
    TOCHA_CHECK(h->dim < 0, Runtime,
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
                "support that yet, please file an issue at https://github.com/pytorch/pytorch/issues .");
}

void check_none_open(const char* what, const char* call) {
  TOCHA_CHECK(
      stack().empty(), Runtime, "You are attempting to call ", what,
      " inside of a function being transformed by a functorch transform. This is unsupported, please attempt to use "
      "the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call ",
      call, " outside of a function being transformed instead.");
}

void check_backward_outside() {
  TOCHA_CHECK(stack().empty(), Runtime,
              "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
              "functorch.vjp instead or call backward() outside of functorch transforms.");
}

int64_t forward_level_of(const TensorObject* t) {
  const std::vector<Level>& all = stack();
  if (all.empty()) return modes().forward_level;
  const Held* h = held(t);
  if (!h) return all.front().forward_before;
  const Level* own = find(h->level);
  if (!own) return 0;
  return own->kind == Kind::jvp ? own->forward : modes().forward_level;
}

int64_t new_forward_level() {
  static int64_t last = 0;
  return ++last;
}

thread_local bool asked_to_record = true;
thread_local int64_t walk_level = 0, next_walk_level = 0;

Outside::Outside(const Level& level) : grad_(modes().grad), asked_(asked_to_record), forward_(modes().forward_level) {
  const auto at = std::find_if(stack().begin(), stack().end(), [&](const Level& l) { return l.id == level.id; });
  // A walk of the engine inside the level need not record there; what is outside is recorded all the same.
  const bool inside = asked_ || (level.kind != Kind::vmap && autograd::backward_depth() > level.walks_before);
  modes().grad = asked_to_record = inside && (level.kind == Kind::vmap || level.grad_before);
  modes().forward_level = level.forward_before;
  hidden_.assign(at, stack().end());
  stack().erase(at, stack().end());
  count_open();
}

Outside::~Outside() {
  modes().grad = grad_;
  asked_to_record = asked_;
  modes().forward_level = forward_;
  stack().insert(stack().end(), hidden_.begin(), hidden_.end());
  count_open();
}

}  // namespace tocha::levels
