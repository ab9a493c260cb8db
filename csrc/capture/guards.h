// Guards: what a captured program assumed of its surroundings, as a tree. A node fetches a value from its parent's (an
// argument, an attribute, an item), checks it, and hands it to its children; the first failure ends the walk.
#pragma once

#include <Python.h>

namespace tocha::capture {

// Where a frame's values are found.
struct Surroundings {
  PyObject* const* locals;  // the arguments
  Py_ssize_t count;
  PyObject* globals;
  PyObject* closure;  // a tuple of cells, or null
};

extern PyTypeObject* guards_type;
// Whether a TorchFunctionMode is active: the bindings, who ask them, say so.
extern thread_local bool function_modes_active;
extern thread_local uint8_t overrides_off;  // 1: of operands' classes, 2: of modes too
void add_guards_type(PyObject* module);

// Do they hold? With `failed`, the text of the first that does not is left there (borrowed). Never raises.
bool guards_hold(PyObject* guards, const Surroundings& at, PyObject** failed = nullptr);

}  // namespace tocha::capture
