// Matrix products and convolutions as compiled programs run them: what the compiler measures, and prepares once.
#pragma once

#include <Python.h>

#include <vector>

#include "cpu/engine/program_api.h"

namespace tocha::python {

void run_product(const tocha_product& p);
void run_convolution(const tocha_convolution& c);
void add_product_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
