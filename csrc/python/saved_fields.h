// What nodes keep, for Python: `fn._saved_self`, `fn._raw_saved_self` and what dir(fn) shows of them.
#pragma once

#include "autograd/node.h"
#include "python/object.h"

namespace tocha::python {

// The attribute `name` if it is one of these; an empty Ref if not.
Ref saved_attribute(autograd::Node& node, const std::string& name);
// Their names, as a list.
Ref saved_names(autograd::Node& node);
// One SavedTensor for each tensor that a node keeps under this name.
Ref raw_saved(autograd::Node& node, const std::string& name);

void add_saved_tensor_type(PyObject* module);

}  // namespace tocha::python
