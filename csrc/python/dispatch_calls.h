// __torch_dispatch__: calls that operators hand to Python, and the switches around them (tocha/_library/plans.py).
#pragma once

#include <vector>

#include "core/tensor.h"
#include "dispatch/taken_over.h"
#include "python/object.h"

namespace tocha::python {

// An argument of an operator as Python sees it.
PyObject* as_object(const dispatch::Value& v);
// Whether instances of a class take operators over.
bool takes_operators_over(PyTypeObject* type);
// Marks a tensor whose contents, device or class have changed, as one of this class.
void mark_dispatch(TensorObject* t, PyTypeObject* type);
// Whether a wrapper, which knows operators itself, is among the objects of a call: its class is asked, on fakes too.
bool meets_wrapper(PyObject* const* slots, int count);
// Levels of transforms begin or end, in some thread.
void count_levels(int by);
// A profiler starts or stops: operators ask from now on, or no longer.
void force_operators();
void add_dispatch_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
