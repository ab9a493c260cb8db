// Autograd as Python sees it: nodes, modes, backward, and the class behind autograd.Function.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "python/object.h"

namespace tocha::python {

// The Python face of a node (one per node while somebody holds it); None for no node.
PyObject* node_object(const autograd::NodeRef& node);
void add_autograd_functions(std::vector<PyMethodDef>& functions);
void add_autograd_types(PyObject* module);
void add_autograd_methods(std::vector<PyMethodDef>& methods);

}  // namespace tocha::python
