#include "python/dispatch_calls.h"

#include "core/fake.h"
#include "core/profile.h"
#include "dispatch/taken_over.h"
#include "python/level_calls.h"
#include "python/parser.h"

namespace tocha::python {

using dispatch::Call;
using dispatch::Value;

namespace {

PyObject* none() { return Py_NewRef(Py_None); }

template <class T, class F>
PyObject* unless_empty(const Value& v, F convert) {
  const auto& given = v.as<std::optional<T>>();
  return given ? convert(*given) : none();
}

template <class List, class F>
PyObject* list_of(const List& items, F convert) {
  Ref list = own(PyList_New(static_cast<Py_ssize_t>(items.size())));
  Py_ssize_t i = 0;
  for (const auto& item : items) PyList_SET_ITEM(list.get(), i++, own(convert(item)).give());
  return list.give();
}

PyObject* from_int(int64_t v) { return PyLong_FromLongLong(v); }
PyObject* from_ints(IntsView v) { return list_of(v, from_int); }
PyObject* from_format(MemoryFormat f) { return Py_NewRef(memory_format_object(f)); }

PyObject* from_tensor(const Tensor& t) {
  if (!t) return none();
  if (t.is_wrapped_number()) return scalar_object(Scalar::load(t.dtype(), t.bytes()));
  return Py_NewRef(t.object());
}

}  // namespace

PyObject* as_object(const Value& v) {
  switch (v.kind) {
    case Value::tensor:
      return from_tensor(v.as<Tensor>());
    case Value::tensors:
      return list_of(v.as<Tensors>(), from_tensor);
    case Value::scalar:
      return scalar_object(v.as<Scalar>());
    case Value::opt_scalar:
      return unless_empty<Scalar>(v, scalar_object);
    case Value::scalars:
      return list_of(v.as<std::vector<Scalar>>(), scalar_object);
    case Value::integer:
      return from_int(v.as<int64_t>());
    case Value::opt_integer:
      return unless_empty<int64_t>(v, from_int);
    case Value::ints:
      return from_ints(v.as<IntsView>());
    case Value::own_ints:
      return from_ints(v.as<Ints>());
    case Value::opt_ints:
      return unless_empty<Ints>(v, [](const Ints& i) { return from_ints(i); });
    case Value::real:
      return PyFloat_FromDouble(v.as<double>());
    case Value::opt_real:
      return unless_empty<double>(v, PyFloat_FromDouble);
    case Value::opt_reals:
      return unless_empty<std::vector<double>>(v, [](const auto& list) { return list_of(list, PyFloat_FromDouble); });
    case Value::boolean:
      return PyBool_FromLong(v.as<bool>());
    case Value::opt_boolean:
      return unless_empty<bool>(v, [](bool b) { return PyBool_FromLong(b); });
    case Value::booleans:
      return list_of(v.as<std::vector<bool>>(), [](bool b) { return PyBool_FromLong(b); });
    case Value::text:
      return wrap(v.as<std::string>());
    case Value::opt_text:
      return unless_empty<std::string>(v, [](const std::string& s) { return wrap(s); });
    case Value::dtype:
      return wrap(v.as<DType>());
    case Value::opt_dtype:
      return unless_empty<DType>(v, [](DType d) { return wrap(d); });
    case Value::device:
      return device_object(v.as<Device>());
    case Value::opt_device:
      return unless_empty<Device>(v, device_object);
    case Value::opt_format:
      return unless_empty<MemoryFormat>(v, from_format);
    case Value::generator:
      return v.as<GeneratorRef>() ? Py_NewRef(v.as<GeneratorRef>().owner()) : none();
    case Value::storage:
      return storage_object(v.as<GivenStorage>().memory);
  }
  return none();
}

namespace {

bool from_body(const Value& v) {
  return v.kind == Value::tensor && v.as<Tensor>() && v.as<Tensor>().get()->number == NumberFrom::body;
}

// Of a call's tensors, those that take it over, in order.
void list_takers(const Value& v, PyObject* list) {
  auto look = [&](const Tensor& t) {
    if (t && t.get()->dispatches) check(PyList_Append(list, t.object()));
  };
  if (v.kind == Value::tensor) look(v.as<Tensor>());
  if (v.kind == Value::tensors)
    for (const Tensor& t : v.as<Tensors>()) look(t);
}

// A handle of several results is called with tuples; numbers that bodies made are told apart by a bit each.
PyObject* hand_over(Call& call, const Value* given) {
  static const char* const forms[] = {"functional", "functional", "inplace", "out"};
  if (PyObject* result = call_levels(call, given)) return result;
  if (!call.plan) {
    PyObject* make = cached_attribute("tocha._library.plans", "plan");
    call.plan = own(PyObject_CallFunction(make, "ss", call.record, forms[call.form])).give();
  }
  Ref values = own(PyTuple_New(call.count));
  Ref takers = own(PyList_New(0));
  unsigned long long numbers = 0;
  for (int i = 0; i < call.count; ++i) {
    PyTuple_SET_ITEM(values.get(), i, own(as_object(given[i])).give());
    list_takers(given[i], takers.get());
    if (from_body(given[i])) numbers |= 1ull << i;
  }
  static PyObject* run = cached_attribute("tocha._library.plans", "run");
  Ref bits = own(PyLong_FromUnsignedLongLong(numbers));
  return own(PyObject_CallFunctionObjArgs(run, call.plan, values.get(), takers.get(), bits.get(), nullptr)).give();
}

int active_everywhere = 0;  // modes, on all threads
int levels_everywhere = 0;
bool devices_in_python = false;

void force() {
  const bool history = profile::watching && !profile::recording;
  const uint32_t profiled = history || (profile::recording && profile::options.ops) ? kProfiles : 0;
  dispatch_forced = (active_everywhere || levels_everywhere ? kDispatches : 0) | profiled;
  factories_forced = (active_everywhere || levels_everywhere || devices_in_python ? kDispatches : 0) | profiled;
}

// _set_dispatch_modes(n): how many are active on this thread; returns how many were.
PyObject* set_dispatch_modes(PyObject*, PyObject* n) {
  return guarded([&]() -> PyObject* {
    int now = static_cast<int>(as_int(n)), before = std::exchange(modes().dispatch_modes, now);
    active_everywhere += now - before;
    force();
    return PyLong_FromLong(before);
  });
}

// _disable_dispatch(by): nobody takes operators over until it is taken back with -by.
PyObject* disable_dispatch(PyObject*, PyObject* by) {
  return guarded([&]() -> PyObject* {
    modes().dispatch_off += static_cast<int>(as_int(by));
    return none();
  });
}

PyObject* dispatch_disabled(PyObject*, PyObject*) { return PyBool_FromLong(modes().dispatch_off != 0); }

PyObject* has_torch_dispatch(PyObject*, PyObject* t) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(is_tensor(t) && Tensor::borrow(t).get()->dispatches); });
}

// _share_storage(to, from): both are on one memory from now on; the sizes stay.
PyObject* share_storage(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *to, *from;
    if (!PyArg_ParseTuple(args, "O!O!", tensor_type, &to, tensor_type, &from)) throw PythonError();
    StorageRef memory = Tensor::borrow(from).storage_ref();
    StorageRef old(std::exchange(reinterpret_cast<TensorObject*>(to)->storage, memory.give()));
    return none();
  });
}

void* allocate_in_memory(size_t nbytes, Device) { return cpu_allocate(nbytes); }

// _rename_privateuse1(name): the device that a program adds, whose operators Python answers for from now on.
PyObject* rename_device(PyObject*, PyObject* text) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(PyUnicode_Check(text), Type, "rename_privateuse1_backend(): the name must be str, not ",
                Py_TYPE(text)->tp_name);
    rename_privateuse1(text_of(text));
    static const DeviceType type = DeviceType::privateuseone;
    python_device = &type;
    register_allocator(type, {allocate_in_memory, cpu_free});
    devices_in_python = true;
    force();
    return none();
  });
}

PyObject* device_name(PyObject*, PyObject*) { return PyUnicode_FromString(name(DeviceType::privateuseone)); }

// _memory_of(t): the memory of a tensor of a device that Python has made, as a tensor of the CPU.
PyObject* memory_of(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(is_tensor(o), Type, "_memory_of(): a Tensor is needed, got ", Py_TYPE(o)->tp_name);
    Tensor t = Tensor::borrow(o);
    TOCHA_CHECK(python_device && *python_device == t.device().type, Runtime, "_memory_of(): got a tensor on ",
                t.device());
    Storage& s = t.storage();
    ++s.refs;
    StorageRef memory = borrow_storage(
        s.data, s.nbytes, Device{}, [](Storage& alias) { StorageRef drop(static_cast<Storage*>(alias.context)); }, &s);
    return make_tensor(std::move(memory), t.dtype(), t.sizes(), t.strides(), t.offset()).give();
  });
}

// _on_device(t, device): the memory of a CPU tensor as a tensor of a device that Python has made.
PyObject* on_device(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *o, *where;
    if (!PyArg_ParseTuple(args, "O!O", tensor_type, &o, &where)) throw PythonError();
    Tensor t = Tensor::borrow(o);
    Device d = as_device(where);
    TOCHA_CHECK(t.is_cpu() && python_device && *python_device == d.type, Runtime,
                "_on_device(): cannot see a tensor on ", t.device(), " as one on ", d);
    Storage& s = t.storage();
    ++s.refs;
    StorageRef memory = borrow_storage(
        s.data, s.nbytes, d, [](Storage& alias) { StorageRef drop(static_cast<Storage*>(alias.context)); }, &s);
    return make_tensor(std::move(memory), t.dtype(), t.sizes(), t.strides(), t.offset()).give();
  });
}

PyObject* disabled_torch_dispatch(PyObject*, PyObject*) { return Py_NewRef(Py_NotImplemented); }

PyMethodDef table[] = {
    {"_set_dispatch_modes", set_dispatch_modes, METH_O, nullptr},
    {"_disable_dispatch", disable_dispatch, METH_O, nullptr},
    {"_dispatch_disabled", dispatch_disabled, METH_NOARGS, nullptr},
    {"_has_torch_dispatch", has_torch_dispatch, METH_O, "Whether a tensor's class or device takes operators over."},
    {"_rename_privateuse1", rename_device, METH_O, nullptr},
    {"_get_privateuse1_backend_name", device_name, METH_NOARGS, nullptr},
    {"_memory_of", memory_of, METH_O, nullptr},
    {"_on_device", on_device, METH_VARARGS, nullptr},
    {"_share_storage", share_storage, METH_VARARGS, nullptr},
    {"_disabled_torch_dispatch_impl", disabled_torch_dispatch, METH_VARARGS,
     "As a class's __torch_dispatch__: it takes no operators over."},
};

}  // namespace

void force_operators() { force(); }

bool takes_operators_over(PyTypeObject* type) {
  static PyObject* name = own(PyUnicode_InternFromString("__torch_dispatch__")).give();
  static PyObject* disabled = cached_attribute("tocha._C", "_disabled_torch_dispatch_impl");
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name);
  if (!found) {
    PyErr_Clear();
    return false;
  }
  Py_DECREF(found);
  return found != disabled;
}

void mark_dispatch(TensorObject* t, PyTypeObject* type) {
  t->dispatches =
      (type != tensor_type && takes_operators_over(type)) || (python_device && *python_device == t->device.type);
}

bool meets_wrapper(PyObject* const* slots, int count) {
  auto is_wrapper = [](PyObject* o) {
    return is_tensor(o) && Py_TYPE(o) != tensor_type && reinterpret_cast<TensorObject*>(o)->dispatches && !is_fake(o);
  };
  for (int i = 0; i < count; ++i) {
    PyObject* o = slots[i];
    if (!o) continue;
    if (is_wrapper(o)) return true;
    if (PyTuple_Check(o) || PyList_Check(o))
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
        if (is_wrapper(PySequence_Fast_ITEMS(o)[k])) return true;
  }
  return false;
}

void count_levels(int by) {
  levels_everywhere += by;
  force();
}

void add_dispatch_functions(std::vector<PyMethodDef>& functions) {
  functions.insert(functions.end(), std::begin(table), std::end(table));
  dispatch::call_python = hand_over;
}

}  // namespace tocha::python
