// Hand-written parts of the Tensor class: facts about a tensor, conversions to Python, storage, subclasses.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "python/object.h"

namespace tocha::python {

void add_tensor_attributes(std::vector<PyGetSetDef>& getters);

// An empty tensor object of a class derived from Tensor; the caller fills the descriptor.
Tensor new_subclass_object(PyTypeObject* type);
// The same data as another Python object of class `type`.
Tensor alias_as(const Tensor& t, PyTypeObject* type, bool share_version);

int tensor_bool(PyObject* self);
PyObject* tensor_int(PyObject* self);
PyObject* tensor_float(PyObject* self);
PyObject* tensor_complex(PyObject* self, PyObject*);
PyObject* tensor_invert(PyObject* self);
PyObject* tensor_index(PyObject* self);
Py_ssize_t tensor_length(PyObject* self);
int tensor_contains(PyObject* self, PyObject* item);
PyObject* tensor_iter(PyObject* self);

Scalar item(const Tensor& t);  // the one element

// All but what makes an object what it is to Python: its class, its count, its weak references, its attributes.
void exchange_contents(TensorObject* a, TensorObject* b);
PyObject* swap_tensors(PyObject*, PyObject* args);  // the module function _swap_tensors

}  // namespace tocha::python
