// What tocha.profiler calls: starting and stopping the recording of operators, and ranges that programs mark.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

void add_profiler_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
