// Argument parsing from tables: the generated bindings describe each overload's parameters and give a
// function that unpacks matched arguments and calls the operator.
#pragma once

#include <optional>
#include <vector>

#include "core/tensor.h"
#include "python/fakes.h"
#include "python/object.h"
#include "python/overrides.h"
#include "python/types.h"

namespace tocha::python {

enum class ArgType : uint8_t {
  Tensor,
  Operand,
  OptTensor,
  Tensors,
  OptTensors,
  Scalar,
  OptScalar,
  Scalars,
  Int,
  OptInt,
  Ints,
  OptInts,
  Float,
  OptFloat,
  OptFloats,
  Bool,
  OptBool,
  Bools,
  Str,
  OptStr,
  DType,
  OptDType,
  Device,
  OptDevice,
  OptLayout,
  OptMemoryFormat,
  OptGenerator,
  Storage,
  Outs,
};

struct Param {
  const char* name;
  ArgType type;
  int16_t size;   // int[2]: one int stands for two
  bool optional;  // has a default
  bool keyword_only;
  PyObject* key = nullptr;  // the interned name
};

struct Signature {
  Param* params;
  int count;
  bool varargs;  // x.view(2, 3): loose ints make the first int list
  PyObject* (*call)(PyObject* const* slots);
  const char* text;    // shown in errors; null for a deprecated form, which comes after all others
  const char* record;  // the form of the record that this is: "sum.dim", "add_"
  FakeForm fake{};
};

constexpr int kMaxArguments = 24;

struct Function {
  const char* name;
  const char* qualified;  // "Tensor.add" or "add", where overrides find the public callable
  bool method;
  Signature* signatures;
  int count;
  const char* reflected = nullptr;  // of an operator: what overrides get when the first operand is no tensor
  PyObject* callable = nullptr;     // looked up when an override first asks
  PyObject* reflected_callable = nullptr;
};

// Whether a value can be passed for a parameter; operands that take the call over, fakes too, are noted.
bool accepts(const Param& p, PyObject* o, std::vector<PyObject*>& overridden);
PyObject* invoke(Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
// Of the operands that were noted, those that have a __torch_function__.
std::vector<PyObject*> overriders(const std::vector<PyObject*>& noted);
// For number slots: returns NotImplemented when the operands do not fit.
PyObject* invoke_binary(Function& f, PyObject* a, PyObject* b);

template <Function& F>
PyObject* function_entry(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return invoke(F, nullptr, args, nargs, kwnames);
}
template <Function& F>
PyObject* method_entry(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return invoke(F, self, args, nargs, kwnames);
}
template <Function& F>
PyObject* property_entry(PyObject* self, void*) {
  return invoke(F, self, nullptr, 0, nullptr);
}
template <Function& F>
PyObject* unary_entry(PyObject* self) {
  return invoke(F, self, nullptr, 0, nullptr);
}
template <Function& F>
PyObject* binary_entry(PyObject* a, PyObject* b) {
  return invoke_binary(F, a, b);
}
template <Function& F>
PyObject* binary_swapped_entry(PyObject* a, PyObject* b) {
  return invoke_binary(F, b, a);
}

inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type || PyObject_TypeCheck(o, tensor_type); }

// Unpackers; a null slot never reaches these.
inline Tensor as_tensor(PyObject* o) { return Tensor::borrow(o); }
Tensor as_operand(PyObject* o);
inline Tensor as_opt_tensor(PyObject* o) { return o == Py_None ? Tensor() : Tensor::borrow(o); }
Tensors as_tensors(PyObject* o);  // None inside becomes a null tensor
Ints as_ints(PyObject* o, int size);
std::vector<Scalar> as_scalars(PyObject* o);
std::vector<bool> as_bools(PyObject* o);
std::vector<double> as_doubles(PyObject* o);
bool as_bool(PyObject* o);
inline std::string as_str(PyObject* o) { return text_of(o); }
GeneratorRef as_generator(PyObject* o);

template <class F>
auto optional(PyObject* o, F convert) -> std::optional<decltype(convert(o))> {
  if (o == Py_None) return std::nullopt;
  return convert(o);
}

// Factories: layout, pin_memory and requires_grad (null where not given), applied to the result.
Tensor finish_factory(Tensor t, PyObject* const* extra);
// Whether they name another layout than strided: then tocha.sparse makes the tensor, from the arguments by name.
bool wants_other_layout(PyObject* const* extra);
PyObject* make_in_layout(const char* factory, std::initializer_list<const char*> names, PyObject* const* slots);
// With out=, dtype and device default to out's, and must agree with it.
std::optional<DType> factory_dtype(const Tensor& out, std::optional<DType> given);
std::optional<Device> factory_device(const Tensor& out, std::optional<Device> given);

// Results.
inline PyObject* wrap(Tensor t) { return t ? t.give() : Py_NewRef(Py_None); }
PyObject* wrap(Tensors ts);
inline PyObject* wrap(bool v) { return PyBool_FromLong(v); }
inline PyObject* wrap(int64_t v) { return PyLong_FromLongLong(v); }
inline PyObject* wrap(double v) { return PyFloat_FromDouble(v); }
inline PyObject* wrap(const Scalar& s) { return scalar_object(s); }
inline PyObject* wrap(DType d) { return Py_NewRef(dtype_object(d)); }
inline PyObject* wrap(const std::string& s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}
// A named tuple of results; type may be null for a plain tuple.
PyObject* wrap_fields(PyTypeObject* type, std::vector<PyObject*> items);

}  // namespace tocha::python
