// A compiled graph as a function: its program, one node for backward, writes to inputs.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

void add_compiled_function_type(PyObject* module);

}  // namespace tocha::python
