// tocha.device, and the device that factories use when none is given. The parser and the factories call this.
#include <array>
#include <vector>

#include "python/types.h"

namespace tocha::python {

PyTypeObject* device_type = nullptr;
std::optional<DeviceType> accelerator;

namespace {

constexpr int64_t kMaxIndex = 126;

Device device_of(PyObject* self) { return reinterpret_cast<DeviceObject*>(self)->value; }

int8_t checked_index(int64_t index) {
  TOCHA_CHECK(index >= 0, Runtime, "Device index must not be negative, got ", index);
  TOCHA_CHECK(index <= kMaxIndex, Runtime, "Device index must be at most ", kMaxIndex, ", got ", index);
  return static_cast<int8_t>(index);
}

Device from_index(int64_t index) {
  int8_t i = checked_index(index);
  TOCHA_CHECK(accelerator, Runtime, "Cannot access accelerator device when none is available.");
  return {*accelerator, i};
}

Device from_text(PyObject* text) {
  std::string s = text_of(text);
  TOCHA_CHECK(!s.empty(), Runtime, "Device string must not be empty");
  return parse_device(s);
}

Device from_type_and_index(PyObject* type, PyObject* index) {
  TOCHA_CHECK(PyUnicode_Check(type), Type, "device(): argument 'type' must be str, not ", Py_TYPE(type)->tp_name);
  Device d = from_text(type);
  if (index == Py_None) return d;
  TOCHA_CHECK(is_int(index), Type, "device(): argument 'index' must be int, not ", Py_TYPE(index)->tp_name);
  TOCHA_CHECK(d.index < 0, Runtime,
              "type (string) must not include an index because index was passed explicitly: ", text_of(type));
  d.index = checked_index(as_int(index));
  return d;
}

struct DeviceArguments {
  PyObject* device = nullptr;  // device, str or int
  PyObject* type = nullptr;
  PyObject* index = nullptr;
};

void take(PyObject*& slot, PyObject* value, const char* name) {
  TOCHA_CHECK(!slot, Type, "device() got multiple values for argument '", name, "'");
  slot = value;
}

DeviceArguments device_arguments(PyObject* args, PyObject* kwargs) {
  DeviceArguments a;
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  TOCHA_CHECK(n <= 2, Type, "device() takes at most 2 arguments (", n, " given)");
  if (n > 0) a.device = PyTuple_GET_ITEM(args, 0);
  if (n > 1) a.index = PyTuple_GET_ITEM(args, 1);
  PyObject *key, *value;
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &value);) {
    std::string name = text_of(key);
    if (name == "device") {
      take(a.device, value, "device");
    } else if (name == "type") {
      take(a.type, value, "type");
    } else if (name == "index") {
      take(a.index, value, "index");
    } else {
      fail(ErrorKind::Type, "device() got an unexpected keyword argument '", name, "'");
    }
  }
  TOCHA_CHECK(!a.device || !a.type, Type, "device() takes a device or a type, not both");
  return a;
}

PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    DeviceArguments a = device_arguments(args, kwargs);
    PyObject* first = a.device ? a.device : a.type;
    TOCHA_CHECK(first, Type, "device() needs a device, a type such as 'cuda', or an index");
    if (a.index || a.type) return device_object(from_type_and_index(first, a.index ? a.index : Py_None));
    return device_object(as_device(first));
  });
}

PyObject* device_repr(PyObject* self) {
  Device d = device_of(self);
  if (d.index < 0) return PyUnicode_FromFormat("device(type='%s')", name(d.type));
  return PyUnicode_FromFormat("device(type='%s', index=%d)", name(d.type), d.index);
}

PyObject* device_str(PyObject* self) { return PyUnicode_FromString(to_string(device_of(self)).c_str()); }

Py_hash_t device_hash(PyObject* self) {
  Device d = device_of(self);
  return static_cast<Py_hash_t>(d.type) * 1009 + d.index + 2;
}

PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(a) != device_type || Py_TYPE(b) != device_type)
    return Py_NewRef(Py_NotImplemented);
  return PyBool_FromLong((device_of(a) == device_of(b)) == (op == Py_EQ));
}

PyObject* device_reduce(PyObject* self, PyObject*) {
  Device d = device_of(self);
  if (d.index < 0) return Py_BuildValue("O(s)", Py_TYPE(self), name(d.type));
  return Py_BuildValue("O(si)", Py_TYPE(self), name(d.type), d.index);
}

PyObject* device_type_name(PyObject* self, void*) { return PyUnicode_FromString(name(device_of(self).type)); }
PyObject* device_index(PyObject* self, void*) {
  Device d = device_of(self);
  return d.index < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(d.index);
}

PyObject* device_enter(PyObject* self, PyObject*) {
  enter_device(device_of(self));
  return Py_NewRef(self);
}
PyObject* device_exit(PyObject*, PyObject*) {
  return guarded([&] {
    TOCHA_CHECK(leave_device(), Runtime, "this device's context was not entered in this thread");
    return Py_NewRef(Py_None);
  });
}

PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, nullptr},
    {"__enter__", device_enter, METH_NOARGS, nullptr},
    {"__exit__", device_exit, METH_VARARGS, nullptr},
    {},
};
PyGetSetDef device_getters[] = {
    {"type", device_type_name, nullptr, nullptr, nullptr},
    {"index", device_index, nullptr, "The index, or None for the current device of that type.", nullptr},
    {},
};
PyType_Slot device_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(device_new)},
    {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
    {Py_tp_str, reinterpret_cast<void*>(device_str)},
    {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getters},
    {0, nullptr},
};
PyType_Spec device_spec = {"tocha.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           device_slots};

PyObject* get_default_device(PyObject*, PyObject*) {
  return guarded([] { return device_object(default_device()); });
}
PyObject* set_default_device_from(PyObject*, PyObject* device) {
  return guarded([&] {
    set_default_device(device == Py_None ? Device{} : as_device(device));
    return Py_NewRef(Py_None);
  });
}
PyMethodDef functions[] = {
    {"get_default_device", get_default_device, METH_NOARGS, "The device on which factories make tensors."},
    {"set_default_device", set_default_device_from, METH_O,
     "Sets the device on which this thread's factories make tensors; None means the CPU."},
    {},
};

}  // namespace

PyObject* device_object(Device d) {
  // x.device is asked for often, and there are few devices: one object for each, kept.
  static std::array<PyObject*, kNumDeviceTypes*(kMaxIndex + 2)> objects{};
  PyObject*& kept = objects[static_cast<size_t>(d.type) * (kMaxIndex + 2) + static_cast<size_t>(d.index + 1)];
  if (!kept) {
    kept = own(device_type->tp_alloc(device_type, 0)).give();
    reinterpret_cast<DeviceObject*>(kept)->value = d;
  }
  return Py_NewRef(kept);
}

bool is_device_like(PyObject* o) {
  return Py_TYPE(o) == device_type || PyUnicode_Check(o) || (PyLong_Check(o) && !PyBool_Check(o));
}

Device as_device(PyObject* o) {
  if (Py_TYPE(o) == device_type) return device_of(o);
  if (PyUnicode_Check(o)) return from_text(o);
  TOCHA_CHECK(is_int(o), Type, "a device must be tocha.device, str or int, not ", Py_TYPE(o)->tp_name);
  return from_index(as_int(o));
}

void add_device_type(PyObject* module) {
  device_type = add_type(module, device_spec);
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace tocha::python
