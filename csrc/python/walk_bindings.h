// Nodes of the graph for walks that are written in Python.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

// fn(*grads), of a node: its gradients, as they leave it. Hooks are not called.
PyObject* call_node(PyObject* self, PyObject* args, PyObject* kwargs);
void add_walk_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
