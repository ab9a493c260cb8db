// What tocha.optim asks of the core besides operators: a step's tensors, collected without a line of Python for each.
#pragma once

#include <vector>

#include "python/parser.h"

namespace tocha::python {

void add_optimizer_functions(std::vector<PyMethodDef>& table);

}  // namespace tocha::python
