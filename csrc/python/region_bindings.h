// What torchvision's operators under the alias (tocha/_alias/torchvision_ops.py) ask of the core besides operators.
#pragma once

#include <vector>

#include "python/parser.h"

namespace tocha::python {

void add_region_functions(std::vector<PyMethodDef>& table);

}  // namespace tocha::python
