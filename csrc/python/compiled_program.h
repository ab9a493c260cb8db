// Compiled graphs: a shared library with one entry, called with tensors.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

void add_compiled_program_type(PyObject* module);
void add_compiled_program_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
