// __torch_dispatch__: calls that operators hand to Python, and the switches around them (tocha/_library/plans.py).
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

// Whether instances of a class take operators over.
bool takes_operators_over(PyTypeObject* type);
void add_dispatch_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
