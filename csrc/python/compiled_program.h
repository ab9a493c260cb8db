// Compiled graphs: a shared library with one entry, called with tensors.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

bool is_program(PyObject* o);
// Runs a program on references that are given away: each is dropped when the program has used it up.
Ref run_program_on(PyObject* program, std::vector<Ref>&& inputs);

void add_compiled_program_type(PyObject* module);
void add_compiled_program_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
