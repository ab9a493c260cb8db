// What Python's own functions and operators ask of a tensor: len, bool, int, float, complex, `in`, ~, iteration.
#include "autograd/levels.h"
#include "autograd/mode.h"
#include "dispatch/rules.h"
#include "ops/comparison.h"
#include "ops/logic.h"
#include "ops/reductions.h"
#include "python/parser.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

Tensor self_of(PyObject* o) { return Tensor::borrow(o); }

Scalar only_element(const Tensor& t) {
  TOCHA_CHECK(t.numel() == 1, Value, "only one element tensors can be converted to Python scalars");
  return item(t);
}

// For slots that answer with a C integer: what an override returned, or f's answer.
template <class Integer, class F>
Integer overridable_fact(PyObject* self, const char* name, const FastArguments& arguments, Integer (*read)(PyObject*),
                         F f) {
  try {
    if (!nobody_asks(self)) [[unlikely]] {
      if (Ref result = taken_over(self, name, arguments)) return read(result.get());
    }
    return f();
  } catch (...) {
    set_python_error();
    return -1;
  }
}

// A number has no history: whoever asks a tensor with one for its value may not know that.
void warn_of_history(const Tensor& t) {
  if (autograd::grad_enabled() && autograd::requires_grad(t)) {
    warn_once(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
        "Consider using tensor.detach() first.");
  }
}

}  // namespace

int tensor_bool(PyObject* self) {
  return overridable_fact(self, "__bool__", {}, PyObject_IsTrue, [&]() -> int {
    auto t = self_of(self);
    TOCHA_CHECK(t.numel() != 0, Runtime, "Boolean value of Tensor with no values is ambiguous");
    TOCHA_CHECK(t.numel() == 1, Runtime, "Boolean value of Tensor with more than one value is ambiguous");
    levels::check_no_branch(t);
    return item(t).to_bool();
  });
}

PyObject* tensor_int(PyObject* self) {
  return overridable(self, "__int__", [&]() -> PyObject* {
    Scalar s = only_element(self_of(self));
    TOCHA_CHECK(!s.is_complex() || s.to_complex().im == 0, Runtime,
                "value cannot be converted to type int64_t without overflow");
    Ref v = own(scalar_object(s.is_complex() ? Scalar(s.to_complex().re) : s));
    return PyNumber_Long(v.get());
  });
}

PyObject* tensor_float(PyObject* self) {
  return overridable(self, "__float__", [&]() -> PyObject* {
    warn_of_history(self_of(self));
    Scalar s = only_element(self_of(self));
    TOCHA_CHECK(!s.is_complex() || s.to_complex().im == 0, Runtime,
                "value cannot be converted to type double without overflow");
    return PyFloat_FromDouble(s.to_double());
  });
}

PyObject* tensor_complex(PyObject* self, PyObject*) {
  return overridable(self, "__complex__", [&]() -> PyObject* {
    warn_of_history(self_of(self));
    auto c = only_element(self_of(self)).to_complex();
    return PyComplex_FromDoubles(c.re, c.im);
  });
}

PyObject* tensor_index(PyObject* self) {
  return overridable(self, "__index__", [&]() -> PyObject* {
    auto t = self_of(self);
    TOCHA_CHECK(t.numel() == 1 && (is_integral(t.dtype()) || t.dtype() == DType::Bool), Type,
                "only integer tensors of a single element can be converted to an index");
    Ref v = own(scalar_object(item(t)));
    return PyNumber_Long(v.get());
  });
}

PyObject* tensor_invert(PyObject* self) {
  return overridable(self, "__invert__", [&]() -> PyObject* {
    auto t = self_of(self);
    TOCHA_CHECK(is_integral(t.dtype()) || t.dtype() == DType::Bool, Type,
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return wrap(ops::bitwise_not(t));
  });
}

Py_ssize_t tensor_length(PyObject* self) {
  auto read = [](PyObject* length) {
    Py_ssize_t n = PyNumber_AsSsize_t(length, PyExc_OverflowError);
    if (n == -1 && PyErr_Occurred()) throw PythonError();
    TOCHA_CHECK(n >= 0, Value, "__len__() should return >= 0");
    return n;
  };
  return overridable_fact<Py_ssize_t>(self, "__len__", {}, read, [&]() -> Py_ssize_t {
    auto t = self_of(self);
    TOCHA_CHECK(t.dim() > 0, Type, "len() of a 0-d tensor");
    return t.size(0);
  });
}

int tensor_contains(PyObject* self, PyObject* element) {
  return overridable_fact(self, "__contains__", FastArguments{&element, 1}, PyObject_IsTrue, [&]() -> int {
    TOCHA_CHECK(is_tensor(element) || is_number(element), Runtime,
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a <class '",
                Py_TYPE(element)->tp_name, "'>.");
    return item(ops::any(ops::eq(self_of(self), as_operand(element)), std::nullopt, false)).to_bool();
  });
}

PyObject* tensor_iter(PyObject* self) {
  return guarded([&]() -> PyObject* {
    auto t = self_of(self);
    TOCHA_CHECK(t.dim() > 0, Type, "iteration over a 0-d tensor");
    Ref method = own(PyObject_GetAttrString(self, "unbind"));
    Ref parts = own(PyObject_CallFunction(method.get(), "i", 0));
    return PyObject_GetIter(parts.get());
  });
}

}  // namespace tocha::python
