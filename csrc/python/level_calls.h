// Operators on tensors of levels (tocha.func): handed on to their values, below autograd.
#pragma once

#include <vector>

#include "dispatch/taken_over.h"
#include "python/object.h"

namespace tocha::python {

// The result of a call in which a level of transforms has a say; null where none has.
PyObject* call_levels(dispatch::Call& call, const dispatch::Value* given);
// Whether levels are asked before fakes, which their tensors may hold: a tensor of a level is among the arguments, or
// no tensor at all, and what is made belongs to the level.
bool meets_level(PyObject* const* slots, int count);
void add_level_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
