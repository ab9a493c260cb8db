// __torch_function__: subclasses, look-alikes and modes take over functions, methods and attributes of Tensor. The
// parser asks for the generated ones; hand-written ones go through the templates here. Plain tensors pay one test.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"
#include "python/object.h"

namespace tocha::python {

enum class Overrides : uint8_t { on, modes_only, off };  // DisableTorchFunctionSubclass, DisableTorchFunction
extern constinit thread_local int function_modes;        // how many modes are active, and kFakeMode
extern constinit thread_local Overrides overrides;

// In function_modes, so that plain calls look only once: a FakeTensorMode is active, which no switch turns off.
constexpr int kFakeMode = 1 << 20;
inline bool modes_ask() { return (function_modes & (kFakeMode - 1)) != 0 && overrides != Overrides::off; }
inline bool fake_mode_active() { return (function_modes & kFakeMode) != 0; }
bool has_override(PyObject* o);
// Where overrides are switched off a sparse tensor has nobody to speak for it.
void check_not_sparse(PyObject* o);
// Calls the override of a function that is not in the tables; args is a tuple.
PyObject* call_override(PyObject* callable, const std::vector<PyObject*>& overridden, PyObject* args, PyObject* kwargs);
// What `tocha.PATH` is: "Tensor.add", "Tensor.grad.__get__", "nn.functional.gelu".
Ref public_object(const std::string& path);

// A call's arguments besides self, as CPython's conventions give them.
struct FastArguments {
  PyObject* const* items = nullptr;
  Py_ssize_t count = 0;
  PyObject* names = nullptr;  // a tuple of the last ones' names, or null
};
struct TupleArguments {
  PyObject* args = nullptr;    // a tuple
  PyObject* kwargs = nullptr;  // a dict, or null
};

// What a subclass or mode makes of Tensor.NAME(self, ...), or nothing where none asks.
Ref taken_over(PyObject* self, const char* name, const FastArguments& a);
Ref taken_over(PyObject* self, const char* name, const TupleArguments& a);
// The same for a function of the module, of which only modes know.
Ref function_taken_over(const char* name, PyObject* args, PyObject* kwargs);

inline bool nobody_asks(PyObject* self) { return Py_TYPE(self) == tensor_type && function_modes == 0; }

// Runs f unless a subclass or mode takes the method over.
template <class Arguments, class F>
PyObject* overridable(PyObject* self, const char* name, const Arguments& arguments, F f) {
  return guarded([&]() -> PyObject* {
    if (!nobody_asks(self)) [[unlikely]] {
      if (Ref result = taken_over(self, name, arguments)) return result.give();
    }
    return f();
  });
}
template <class F>
PyObject* overridable(PyObject* self, const char* name, F f) {
  return overridable(self, name, FastArguments{}, f);
}

// An attribute that is set or, without a value, deleted.
template <class F>
int overridable_set(PyObject* self, const char* name, PyObject* value, F f) {
  return guarded_status([&] {
    if (!nobody_asks(self)) [[unlikely]] {
      FastArguments arguments{&value, value ? 1 : 0, nullptr};
      std::string setter = std::string(name) + (value ? ".__set__" : ".__delete__");
      if (taken_over(self, setter.c_str(), arguments)) return;
    }
    f();
  });
}

template <class F>
PyObject* overridable_function(const char* name, PyObject* args, PyObject* kwargs, F f) {
  return guarded([&]() -> PyObject* {
    if (function_modes) [[unlikely]] {
      if (Ref result = function_taken_over(name, args, kwargs)) return result.give();
    }
    return f();
  });
}

}  // namespace tocha::python
