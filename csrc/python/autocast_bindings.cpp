#include "python/autocast_bindings.h"

#include "dispatch/autocast.h"
#include "python/parser.h"
#include "python/types.h"

namespace tocha::python {
namespace {

using autocast::region;

DeviceType device_type_of(PyObject* name) {
  TOCHA_CHECK(PyUnicode_Check(name), Type, "device_type must be str, not ", Py_TYPE(name)->tp_name);
  return parse_device(text_of(name)).type;
}

PyObject* is_enabled(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* device = nullptr;
    if (!PyArg_ParseTuple(args, "|O:is_autocast_enabled", &device)) throw PythonError();
    return PyBool_FromLong(region.enabled[static_cast<int>(device ? device_type_of(device) : DeviceType::cuda)]);
  });
}
PyObject* set_enabled(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* device;
    int on;
    if (!PyArg_ParseTuple(args, "Op:set_autocast_enabled", &device, &on)) throw PythonError();
    autocast::enable(device_type_of(device), on);
    return Py_NewRef(Py_None);
  });
}
PyObject* get_dtype(PyObject*, PyObject* device) {
  return guarded([&] { return Py_NewRef(dtype_object(region.dtype[static_cast<int>(device_type_of(device))])); });
}
PyObject* set_dtype(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *device, *dtype;
    if (!PyArg_ParseTuple(args, "OO!:set_autocast_dtype", &device, dtype_type, &dtype)) throw PythonError();
    region.dtype[static_cast<int>(device_type_of(device))] = as_dtype(dtype);
    return Py_NewRef(Py_None);
  });
}
PyObject* is_cache_enabled(PyObject*, PyObject*) { return PyBool_FromLong(region.cache); }
PyObject* set_cache_enabled(PyObject*, PyObject* on) {
  region.cache = on == Py_True;
  return Py_NewRef(Py_None);
}
PyObject* clear_cache(PyObject*, PyObject*) {
  autocast::clear_cache();
  return Py_NewRef(Py_None);
}
PyObject* enter(PyObject*, PyObject*) { return PyLong_FromLong(++region.nesting); }
PyObject* leave(PyObject*, PyObject*) { return PyLong_FromLong(--region.nesting); }

PyMethodDef function_table[] = {
    {"is_autocast_enabled", is_enabled, METH_VARARGS,
     "is_autocast_enabled(device_type): whether operators on it compute in mixed precision."},
    {"set_autocast_enabled", set_enabled, METH_VARARGS, "set_autocast_enabled(device_type, enabled)"},
    {"get_autocast_dtype", get_dtype, METH_O, "get_autocast_dtype(device_type): the lower precision used there."},
    {"set_autocast_dtype", set_dtype, METH_VARARGS, "set_autocast_dtype(device_type, dtype)"},
    {"is_autocast_cache_enabled", is_cache_enabled, METH_NOARGS, "Whether weights are cast once a region."},
    {"set_autocast_cache_enabled", set_cache_enabled, METH_O, "set_autocast_cache_enabled(enabled)"},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, "Forgets the weights' casts."},
    {"autocast_increment_nesting", enter, METH_NOARGS, "A region begins; returns how many are open."},
    {"autocast_decrement_nesting", leave, METH_NOARGS, "A region ends; returns how many are open."},
};

}  // namespace

void add_autocast_functions(std::vector<PyMethodDef>& functions) {
  functions.insert(functions.end(), std::begin(function_table), std::end(function_table));
}

}  // namespace tocha::python
