#include "python/fakes.h"

#include "autograd/history.h"
#include "core/modes.h"
#include "python/parser.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

PyObject* make_form = nullptr;  // (record, names of the parameters) -> what is called with the slots
PyObject* methods = nullptr;    // by name; each may answer NotImplemented
PyObject* functions = nullptr;

Ref answered(PyObject* table, const char* name, PyObject* args, PyObject* kwargs) {
  PyObject* found = table ? PyDict_GetItemString(table, name) : nullptr;
  if (!found) return Ref();
  Ref result = own(PyObject_Call(found, args, kwargs));
  return result.get() == Py_NotImplemented ? Ref() : std::move(result);
}

// A size, stride or offset of the native part; a symbol's is set apart afterwards.
int64_t native_extent(PyObject* o) { return is_symbolic(o) ? 0 : as_int(o); }

struct Geometry {
  Ints sizes, strides;
  int64_t offset;
  bool known = true;  // no symbols

  Geometry(PyObject* size, PyObject* stride, PyObject* at) : offset(native_extent(at)) {
    TOCHA_CHECK(PyTuple_Check(size) && PyTuple_Check(stride) && PyTuple_GET_SIZE(size) == PyTuple_GET_SIZE(stride),
                Type, "[fake] sizes and strides are tuples of one length");
    known = !is_symbolic(at);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size); ++i) {
      known = known && !is_symbolic(PyTuple_GET_ITEM(size, i)) && !is_symbolic(PyTuple_GET_ITEM(stride, i));
      sizes.push_back(native_extent(PyTuple_GET_ITEM(size, i)));
      strides.push_back(native_extent(PyTuple_GET_ITEM(stride, i)));
    }
  }
};

// Nobody is to take symbols for numbers: extents are -1. Native code that gets past the bindings finds elements without
// memory, and refuses (Tensor::bytes).
void mark_unknown(TensorObject* o) {
  for (int i = 0; i < 2 * o->ndim; ++i) o->dims[i] = -1;
  o->offset = 0;
  o->numel = -1;
  o->contiguous = false;
}

// Under which mode of autograd a view is made: what a write to it asks.
void set_origin(TensorObject* v, const TensorObject* of) {
  v->origin = of->origin;
  if (modes().inference)
    v->origin = ViewOrigin::inference;
  else if (!modes().grad && of->origin != ViewOrigin::inference)
    v->origin = ViewOrigin::no_grad;
}

void become_view(TensorObject* v, TensorObject* of) {
  v->version = version_counter(of);
  ++v->version->refs;
  v->inference = of->inference;
  if (of->inference) return;
  v->base = of->base ? of->base : of;
  v->history_at = static_cast<uint32_t>(v->version->version);
  set_origin(v, of);
  Py_INCREF(reinterpret_cast<PyObject*>(v->base));
  ++v->base->held;
}

// _new_fake(cls, sizes, strides, offset, dtype, device, storage, view_of, conj, neg, shares_version)
PyObject* new_fake(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *cls, *sizes, *strides, *offset, *dtype, *device, *storage, *view_of;
    int conj, neg, shares;
    if (!PyArg_ParseTuple(args, "OOOOOOOOppp", &cls, &sizes, &strides, &offset, &dtype, &device, &storage, &view_of,
                          &conj, &neg, &shares))
      throw PythonError();
    TOCHA_CHECK(PyType_Check(cls), Type, "cls must be a type (got ", Py_TYPE(cls)->tp_name, ")");
    TOCHA_CHECK(view_of == Py_None || is_tensor(view_of), Type, "[fake] a view is one of a tensor");
    Geometry g(sizes, strides, offset);
    Tensor t = new_subclass_object(reinterpret_cast<PyTypeObject*>(cls));
    TensorObject* o = t.get();
    o->dtype = as_dtype(dtype);
    o->device = as_device(device);
    o->storage = as_storage(storage).give();
    o->offset = g.offset;
    o->conj = conj;
    o->neg = neg;
    o->inference = modes().inference;
    init_descriptor(o, g.sizes, g.strides);
    if (!g.known) mark_unknown(o);
    auto* seen = reinterpret_cast<TensorObject*>(view_of);
    if (view_of != Py_None && !shares) become_view(o, seen);
    if (view_of != Py_None && shares) {
      o->version = version_counter(seen);
      ++o->version->refs;
    }
    return t.give();
  });
}

// _set_fake_geometry(t, sizes, strides, offset, storage): the tensor itself takes another shape, perhaps other memory.
PyObject* set_fake_geometry(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *t, *sizes, *strides, *offset, *storage;
    if (!PyArg_ParseTuple(args, "OOOOO", &t, &sizes, &strides, &offset, &storage)) throw PythonError();
    TOCHA_CHECK(is_fake(t), Type, "_set_fake_geometry() takes a fake tensor");
    Geometry g(sizes, strides, offset);
    StorageRef fresh = as_storage(storage);
    StorageRef old(std::exchange(reinterpret_cast<TensorObject*>(t)->storage, fresh.give()));
    set_sizes_and_strides(Tensor::borrow(t), g.sizes, g.strides, g.offset);
    if (!g.known) mark_unknown(reinterpret_cast<TensorObject*>(t));
    return Py_NewRef(Py_None);
  });
}

// _set_fake_data(t, other): the tensor takes over what the other one is, and keeps its identity and history.
PyObject* set_fake_data(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *t, *other;
    if (!PyArg_ParseTuple(args, "OO", &t, &other)) throw PythonError();
    TOCHA_CHECK(is_tensor(t) && is_tensor(other), Type, "_set_fake_data() takes tensors");
    auto* o = reinterpret_cast<TensorObject*>(t);
    Tensor v = Tensor::borrow(other);
    StorageRef fresh = v.storage_ref();
    StorageRef old(o->storage);
    o->storage = fresh.give();
    o->dtype = v.dtype();
    o->device = v.device();
    o->conj = v.is_conj();
    o->neg = v.is_neg();
    const bool known = v.numel() >= 0;
    const Ints nothing(v.dim(), 0);
    set_sizes_and_strides(Tensor::borrow(t), known ? v.sizes() : IntsView(nothing),
                          known ? v.strides() : IntsView(nothing), v.offset());
    if (!known) mark_unknown(o);
    return Py_NewRef(Py_None);
  });
}

// _set_view_origin(view, of): a view that a dispatch mode made, below autograd, is one of the modes active now.
PyObject* set_view_origin(PyObject*, PyObject* args) {
  PyObject *view, *of;
  if (!PyArg_ParseTuple(args, "O!O!", tensor_type, &view, tensor_type, &of)) return nullptr;
  set_origin(reinterpret_cast<TensorObject*>(view), reinterpret_cast<TensorObject*>(of));
  return Py_NewRef(Py_None);
}

// _is_view_of_function(t): whether its history goes through an autograd.Function that gave a view.
PyObject* is_view_of_function(PyObject*, PyObject* t) {
  auto* o = reinterpret_cast<TensorObject*>(t);
  return PyBool_FromLong(is_tensor(t) && o->base && o->origin == ViewOrigin::custom_function);
}

PyObject* check_writable(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* t;
    const char* name;
    if (!PyArg_ParseTuple(args, "Os", &t, &name)) throw PythonError();
    TOCHA_CHECK(is_tensor(t), Type, "_check_writable() takes a tensor");
    check_not_inference(Tensor::borrow(t));
    autograd::check_writable(Tensor::borrow(t), name);
    return Py_NewRef(Py_None);
  });
}

// _set_fakes(cls, make_form, methods, functions, (SymInt, SymFloat, SymBool))
PyObject* set_fakes(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *cls, *form, *by_name, *by_function;
    if (!PyArg_ParseTuple(args, "OOOO", &cls, &form, &by_name, &by_function)) throw PythonError();
    TOCHA_CHECK(PyType_Check(cls) && PyDict_Check(by_name) && PyDict_Check(by_function), Type, "_set_fakes()");
    make_form = Py_NewRef(form);
    methods = Py_NewRef(by_name);
    functions = Py_NewRef(by_function);
    fake_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(cls));
    return Py_NewRef(Py_None);
  });
}

// _set_fake_mode(on): whether a FakeTensorMode takes every call of this thread; returns what it was.
PyObject* set_fake_mode(PyObject*, PyObject* on) {
  bool before = fake_mode_active();
  function_modes = on == Py_True ? function_modes | kFakeMode : function_modes & ~kFakeMode;
  return PyBool_FromLong(before);
}

PyMethodDef table[] = {
    {"_new_fake", new_fake, METH_VARARGS, nullptr},
    {"_set_fake_geometry", set_fake_geometry, METH_VARARGS, nullptr},
    {"_set_fake_data", set_fake_data, METH_VARARGS, nullptr},
    {"_set_view_origin", set_view_origin, METH_VARARGS, nullptr},
    {"_is_view_of_function", is_view_of_function, METH_O, nullptr},
    {"_check_writable", check_writable, METH_VARARGS, nullptr},
    {"_set_fakes", set_fakes, METH_VARARGS, nullptr},
    {"_set_fake_mode", set_fake_mode, METH_O, nullptr},
};

}  // namespace

PyObject* fake_call(FakeForm& form, const char* record, const Param* params, int count, PyObject* const* slots) {
  if (!form.callable) {
    TOCHA_CHECK(make_form && record, Runtime, "[", record ? record : "?", "] has no form for fake tensors");
    Ref names = own(PyTuple_New(count));
    for (int i = 0; i < count; ++i) PyTuple_SET_ITEM(names.get(), i, own(PyUnicode_FromString(params[i].name)).give());
    form.callable = own(PyObject_CallFunction(make_form, "sO", record, names.get())).give();
  }
  PyObject* given[kMaxArguments];
  Ref numbers[kMaxArguments];  // native code has them as tensors
  for (int i = 0; i < count; ++i) {
    given[i] = slots[i] ? slots[i] : Py_NotImplemented;
    if (!is_tensor(given[i]) || !Tensor::borrow(given[i]).is_wrapped_number()) continue;
    const Tensor t = Tensor::borrow(given[i]);
    numbers[i] = own(scalar_object(Scalar::load(t.dtype(), t.bytes())));
    given[i] = numbers[i].get();
  }
  return own(PyObject_Vectorcall(form.callable, given, static_cast<size_t>(count), nullptr)).give();
}

Ref fake_method(const char* name, PyObject* args, PyObject* kwargs) { return answered(methods, name, args, kwargs); }

Ref fake_function(const char* name, PyObject* args, PyObject* kwargs) {
  return answered(functions, name, args, kwargs);
}

void add_fake_functions(std::vector<PyMethodDef>& all) { all.insert(all.end(), std::begin(table), std::end(table)); }

}  // namespace tocha::python
