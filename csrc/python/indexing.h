// x[...] and x[...] = v.
#pragma once

#include <Python.h>

namespace tocha::python {

PyObject* tensor_getitem(PyObject* self, PyObject* index);
int tensor_setitem(PyObject* self, PyObject* index, PyObject* value);

}  // namespace tocha::python
