// The switches of mixed precision that tocha/amp/autocast_mode.py works.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

void add_autocast_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
