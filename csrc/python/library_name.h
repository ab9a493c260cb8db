// The name under which the library speaks of itself in reprs and of its native types.
#pragma once

#include <vector>

#include "python/object.h"

namespace tocha::python {

extern const char* library_name;  // "tocha", or "torch" where tocha stands in for it (tocha/as_torch.py)

void add_library_name_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
