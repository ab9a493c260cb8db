// What tocha.cpu.memory calls: the history of memory, and who holds it.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

void add_memory_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
