// What stands in for the extensions of torchvision and torchaudio under the alias (tocha/_alias) asks of the core
// besides operators.
#pragma once

#include <vector>

#include "python/parser.h"

namespace tocha::python {

void add_stand_in_functions(std::vector<PyMethodDef>& table);

}  // namespace tocha::python
