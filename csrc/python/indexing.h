// x[...] and x[...] = v.
#pragma once

#include <Python.h>

namespace tocha::python {

PyObject* tensor_getitem(PyObject* self, PyObject* index);
int tensor_setitem(PyObject* self, PyObject* index, PyObject* value);
// x.real = v: writes into the view that the property is; `name` is its name.
int assign_property(PyObject* self, PyObject* value, void* name);

}  // namespace tocha::python
