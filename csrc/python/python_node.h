// autograd.Function: a node whose backward is written in Python. The context object is the node's Python face.
#pragma once

#include "autograd/node.h"
#include "python/object.h"

namespace tocha::python {

void add_function_type(PyObject* module);
// _record_function(ctx, inputs, outputs): ties the outputs of a Function's forward to its inputs.
PyObject* record_function(PyObject*, PyObject* args);
// _record_node(ctx, inputs, outputs, one_of_many): the outputs' history is a node whose apply(*grads) is the context's.
// None among the outputs is a result without a gradient.
PyObject* record_node(PyObject*, PyObject* args);
// _record_write(ctx, inputs, target): the same for a tensor that was written to, views of a base apart.
PyObject* record_write(PyObject*, PyObject* args);
// The context of a node that is written in Python; null for others.
PyObject* python_face(autograd::Node* node);
// The node that a context belongs to; null if it is no context, or its graph is gone.
autograd::Node* function_node(PyObject* o);

// Shared with csrc/python/autograd_bindings.cpp.
autograd::Node* node_behind(PyObject* o);
PyObject* next_functions(autograd::Node& node);
PyObject* input_metadata(const autograd::Node& node);
PyObject* node_hooks(PyObject* self, PyObject* kind);

}  // namespace tocha::python
