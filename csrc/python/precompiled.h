// What most files of the module read, compiled once for all of them where there is no compiler cache (CMakeLists.txt).
// Nothing includes it: each file names what it uses.
#pragma once

#include <Python.h>

#include "autograd/record.h"
#include "dispatch/native.h"
