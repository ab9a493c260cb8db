// The door at the bindings, above autograd: calls in which a fake tensor takes part, and all calls while a
// FakeTensorMode is active, go to tocha/_subclasses as they are, before anything is converted. Plain calls never look.
#pragma once

#include <vector>

#include "core/fake.h"
#include "python/overrides.h"

namespace tocha::python {

struct Param;

// What Python made of one form of a record; looked up when a fake first takes that form.
struct FakeForm {
  PyObject* callable = nullptr;
};

// Calls the form `record` ("sum.dim", "add_") with the objects of its parameters; null slots are parameters not given.
PyObject* fake_call(FakeForm& form, const char* record, const Param* params, int count, PyObject* const* slots);
// What Python makes of Tensor.NAME(...) for fakes, or nothing where the native part knows it.
Ref fake_method(const char* name, PyObject* args, PyObject* kwargs);
// The same for a function of the module that is not in the tables, while a mode is active.
Ref fake_function(const char* name, PyObject* args, PyObject* kwargs);

void add_fake_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
