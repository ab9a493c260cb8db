// The Tensor class: its memory, its slots, its attributes. Operators add their methods from generated tables.
#include <Python.h>
#include <structmember.h>

#include <cstddef>

#include "autograd/forward.h"
#include "autograd/gc.h"
#include "autograd/history.h"
#include "python/bindings.h"
#include "python/dispatch_calls.h"
#include "python/fakes.h"
#include "python/indexing.h"
#include "python/new_tensor.h"
#include "python/tensor_methods.h"

namespace tocha {
namespace {

// Dead tensors of exactly this class wait here to be used again.
#ifdef TOCHA_SANITIZE
constexpr size_t kMaxFree = 0;
#else
constexpr size_t kMaxFree = 512;
#endif
std::vector<TensorObject*>& free_list() {
  static auto& list = [&]() -> std::vector<TensorObject*>& {
    auto* fresh = new std::vector<TensorObject*>();
    fresh->reserve(kMaxFree);  // putting one back never needs memory
    return *fresh;
  }();
  return list;
}

void reset(TensorObject* t) {
  t->dict = nullptr;
  t->weakrefs = nullptr;
  t->storage = nullptr;
  t->base = nullptr;
  t->autograd = nullptr;
  t->version = nullptr;
  t->offset = 0;
  t->numel = 0;
  t->held = 0;
  t->dims = t->inline_dims;
  t->dtype = DType::Float32;
  t->device = Device{};
  t->ndim = 0;
  t->dims_capacity = 5;
  t->contiguous = true;
  t->number = NumberFrom::none;
  t->conj = t->neg = t->requires_grad = t->inference = false;
  t->has_tangent = t->sparse = t->dispatches = false;
  t->origin = ViewOrigin::plain;
  t->step = ViewStep::geometry;
}

void release(TensorObject* t) {
  if (t->storage && --t->storage->refs == 0) StorageRef::destroy(t->storage);
  t->storage = nullptr;
  if (t->version && --t->version->refs == 0) delete t->version;
  t->version = nullptr;
  forget_base(t);
  if (t->autograd && t->autograd->retained) autograd::forget_retained(t);
  if (t->has_tangent) autograd::forget_tangent(t);
  delete std::exchange(t->autograd, nullptr);
  if (t->dims != t->inline_dims) delete[] t->dims;
  t->dims = t->inline_dims;
}

void tensor_dealloc(PyObject* self) {
  auto* t = reinterpret_cast<TensorObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (t->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(t->dict);
  release(t);
  auto& list = free_list();
  if (type == tensor_type && list.size() < kMaxFree) {
    list.push_back(t);
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* t = reinterpret_cast<TensorObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(t->dict);
  Py_VISIT(t->base);
  if (const AutogradMeta* m = t->autograd) {
    Py_VISIT(m->grad.object());
    Py_VISIT(m->tangent.object());
    Py_VISIT(m->hooks);
    Py_VISIT(m->post_accumulate);
    return autograd::traverse(m->grad_fn.get(), visit, arg);
  }
  return 0;
}

int tensor_clear(PyObject* self) {
  auto* t = reinterpret_cast<TensorObject*>(self);
  Py_CLEAR(t->dict);
  if (AutogradMeta* m = t->autograd) {
    if (m->retained) autograd::forget_retained(t);
    m->retained = false;
    m->grad = Tensor();
    m->tangent = Tensor();
    Py_CLEAR(m->hooks);
    Py_CLEAR(m->post_accumulate);
    m->grad_fn = autograd::NodeRef();
  }
  return 0;
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return python::guarded([&]() -> PyObject* {
    if (python::fake_mode_active() && type == tensor_type)
      if (python::Ref made = python::fake_function("Tensor", args, kwargs)) return made.give();
    return python::legacy_tensor(type, args, kwargs);
  });
}

int tensor_init(PyObject*, PyObject*, PyObject*) { return 0; }  // all is done in __new__

PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op) {
  binaryfunc f = python::bindings().compare_[op];
  return f ? f(a, b) : Py_NewRef(Py_NotImplemented);
}

PyObject* tensor_power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) return Py_NewRef(Py_NotImplemented);
  return python::bindings().pow_(a, b);
}
PyObject* tensor_inplace_power(PyObject* a, PyObject* b, PyObject*) { return python::bindings().ipow_(a, b); }

// Its address, which is id(): never -1, which would mean an error.
Py_hash_t tensor_hash(PyObject* self) { return reinterpret_cast<Py_hash_t>(self); }

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

}  // namespace

TensorObject* allocate_tensor_object() {
  auto& list = free_list();
  TensorObject* t;
  if (!list.empty()) {
    t = list.back();
    list.pop_back();
    PyObject_Init(reinterpret_cast<PyObject*>(t), tensor_type);
  } else {
    t = PyObject_GC_New(TensorObject, tensor_type);
    if (!t) throw PythonError();
  }
  reset(t);
  PyObject_GC_Track(reinterpret_cast<PyObject*>(t));
  return t;
}

namespace python {

Tensor new_subclass_object(PyTypeObject* type) {
  if (type == tensor_type) return Tensor::steal(allocate_tensor_object());
  TOCHA_CHECK(PyType_IsSubtype(type, tensor_type), Type,
              "Creating a Tensor subclass from a class that does not inherit "
              "from Tensor is not possible. Make sure your class inherits from Tensor: got ",
              type->tp_name);
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) throw PythonError();
  auto* t = reinterpret_cast<TensorObject*>(o);
  // tp_alloc zeroed the object; the dict, if any, is made on demand.
  reset(t);
  t->dispatches = takes_operators_over(type);
  return Tensor::steal(t);
}

Bindings& bindings() {
  static auto& b = *new Bindings();
  return b;
}

void add_tensor_type(PyObject* module) {
  Bindings& b = bindings();
  static auto& methods = *new std::vector<PyMethodDef>(b.methods_);
  static auto& getters = *new std::vector<PyGetSetDef>(b.getters_);
  add_tensor_methods(methods);
  add_tensor_attributes(getters);
  methods.push_back({nullptr, nullptr, 0, nullptr});
  getters.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  std::vector<PyType_Slot> slots(b.slots_);
  auto slot = [&](int id, auto function) { slots.push_back({id, reinterpret_cast<void*>(function)}); };
  slot(Py_tp_dealloc, tensor_dealloc);
  slot(Py_tp_traverse, tensor_traverse);
  slot(Py_tp_clear, tensor_clear);
  slot(Py_tp_new, tensor_new);
  slot(Py_tp_init, tensor_init);
  slot(Py_tp_richcompare, tensor_richcompare);
  slot(Py_tp_hash, tensor_hash);
  slot(Py_tp_methods, methods.data());
  slot(Py_tp_getset, getters.data());
  slot(Py_tp_members, members);
  slot(Py_nb_power, tensor_power);
  if (b.ipow_) slot(Py_nb_inplace_power, tensor_inplace_power);
  slot(Py_nb_bool, tensor_bool);
  slot(Py_nb_int, tensor_int);
  slot(Py_nb_float, tensor_float);
  slot(Py_nb_index, tensor_index);
  slot(Py_nb_invert, tensor_invert);
  slot(Py_mp_length, tensor_length);
  slot(Py_sq_length, tensor_length);
  slot(Py_sq_contains, tensor_contains);
  slot(Py_mp_subscript, tensor_getitem);
  slot(Py_mp_ass_subscript, tensor_setitem);
  slot(Py_tp_iter, tensor_iter);
  slots.push_back({0, nullptr});
  PyType_Spec spec{"tocha.Tensor", sizeof(TensorObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  PyObject* type = own(PyType_FromSpec(&spec)).give();
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  check(PyModule_AddObjectRef(module, "Tensor", type));
}

}  // namespace python
}  // namespace tocha
