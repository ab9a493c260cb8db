// What tocha/_ops.py calls: one form of one record, exactly, without a choice among overloads.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

void add_operator_handle_type(PyObject* module);
void add_operator_handle_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
