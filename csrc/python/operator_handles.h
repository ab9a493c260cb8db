// What tocha/_ops.py calls: one form of one record, exactly, without a choice among overloads.
#pragma once

#include <string>
#include <vector>

#include "python/object.h"

namespace tocha::python {

struct RecordCall;
// One form of one record by its name ("sum.dim", "add_"), or null.
const RecordCall* find_record(const std::string& name);
void add_operator_handle_type(PyObject* module);
void add_operator_handle_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
