// Numbers between Python and C++: int, float, complex, bool, NumPy's scalars and 0-d tensors. The parser calls this.
#include "core/fake.h"
#include "python/types.h"

namespace tocha::python {

SymbolicTypes symbolic_types{};

namespace {

enum class NumpyKind { none, boolean, integer, floating, complex };

NumpyKind numpy_kind(PyObject* o) {
  const NumpyTypes* np = loaded_numpy();
  if (!np) return NumpyKind::none;
  PyTypeObject* type = Py_TYPE(o);
  if (type == np->boolean) return NumpyKind::boolean;
  if (PyType_IsSubtype(type, np->integer)) return NumpyKind::integer;
  if (PyType_IsSubtype(type, np->floating)) return NumpyKind::floating;
  if (PyType_IsSubtype(type, np->complex)) return NumpyKind::complex;
  return NumpyKind::none;
}

bool is_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type || PyObject_TypeCheck(o, tensor_type); }

// An array of one integer has __index__ too, and so has every other array; only trying tells them apart.
bool array_is_index(PyObject* o) {
  Ref index(PyNumber_Index(o));
  if (!index) PyErr_Clear();
  return static_cast<bool>(index);
}

Scalar negated_or_conjugated(const Scalar& s, const Tensor& t) {
  if (t.is_conj()) {
    Complex<double> c = s.to_complex();
    return Scalar(Complex<double>(c.re, -c.im));
  }
  return t.is_neg() ? -s : s;
}

Scalar scalar_of_tensor(PyObject* o) {
  Tensor t = Tensor::borrow(o);
  if (is_fake(t)) {
    Ref number = own(PyObject_CallMethod(o, "item", nullptr));
    return as_scalar(number.get());
  }
  TOCHA_CHECK(t.numel() == 1, Runtime, "a Tensor with ", t.numel(), " elements cannot be converted to Scalar");
  TOCHA_CHECK(!t.is_meta(), Runtime, "Tensor.item() cannot be called on meta tensors");
  if (t.is_cpu() && !t.get()->dispatches) return negated_or_conjugated(Scalar::load(t.dtype(), t.bytes()), t);
  Ref number = own(PyObject_CallMethod(o, "item", nullptr));
  return as_scalar(number.get());
}

Scalar scalar_of_long(PyObject* o) {
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return Scalar(static_cast<int64_t>(v));
  unsigned long long u = PyLong_AsUnsignedLongLong(o);
  if (PyErr_Occurred()) throw PythonError();
  return Scalar(static_cast<uint64_t>(u));
}

Scalar scalar_of_complex(PyObject* o) {
  Py_complex c = PyComplex_AsCComplex(o);
  if (c.real == -1.0 && PyErr_Occurred()) throw PythonError();
  return Scalar(Complex<double>(c.real, c.imag));
}

double double_of(PyObject* o) {
  double v = PyFloat_AsDouble(o);
  if (v == -1.0 && PyErr_Occurred()) throw PythonError();
  return v;
}

int64_t int_of_long(PyObject* o) {
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  TOCHA_CHECK(!overflow, Value, "Overflow when unpacking long long");
  return v;
}

PyTypeObject* class_of(PyObject* numpy, const char* name) {
  PyObject* found = PyObject_GetAttrString(numpy, name);
  if (!found) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(found);
}

}  // namespace

const NumpyTypes* loaded_numpy() {
  static NumpyTypes types{};
  if (types.complex) return &types;
  static PyObject* name = PyUnicode_InternFromString("numpy");
  PyObject* numpy = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  if (!numpy) return nullptr;
  NumpyTypes found{class_of(numpy, "ndarray"), class_of(numpy, "bool_"), class_of(numpy, "integer"),
                   class_of(numpy, "floating"), class_of(numpy, "complexfloating")};
  // A NumPy that is still being imported may lack some of them: there are no scalars of it yet.
  if (!found.ndarray || !found.boolean || !found.integer || !found.floating || !found.complex) return nullptr;
  types = found;
  return &types;
}

bool is_numpy_bool(PyObject* o) { return numpy_kind(o) == NumpyKind::boolean; }

bool is_int(PyObject* o) {
  if (PyLong_Check(o)) return !PyBool_Check(o);
  if (!PyIndex_Check(o) || is_tensor(o)) return false;
  const NumpyTypes* np = loaded_numpy();
  if (np && PyType_IsSubtype(Py_TYPE(o), np->ndarray)) return array_is_index(o);
  return !np || Py_TYPE(o) != np->boolean;
}

bool is_number(PyObject* o) {
  if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) return true;
  return is_symbolic(o) || numpy_kind(o) != NumpyKind::none;
}

int64_t as_int(PyObject* o) {
  if (PyLong_Check(o)) return int_of_long(o);
  if (is_tensor(o)) {
    Scalar s = scalar_of_tensor(o);
    TOCHA_CHECK(s.kind() <= Kind::integer, Type, "an integer is required, got a tensor of ", Tensor::borrow(o).dtype());
    return s.to_int();
  }
  TOCHA_CHECK(PyIndex_Check(o), Type, "an integer is required, not ", Py_TYPE(o)->tp_name);
  Ref index = own(PyNumber_Index(o));
  return int_of_long(index.get());
}

double as_double(PyObject* o) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyLong_Check(o)) return double_of(o);
  if (is_tensor(o)) {
    Scalar s = scalar_of_tensor(o);
    TOCHA_CHECK(!s.is_complex(), Type, "a float is required, got a tensor of ", Tensor::borrow(o).dtype());
    return s.to_double();
  }
  if (is_symbolic(o)) return double_of(o);
  NumpyKind kind = numpy_kind(o);
  TOCHA_CHECK(kind != NumpyKind::none && kind != NumpyKind::complex, Type, "a float is required, not ",
              Py_TYPE(o)->tp_name);
  return double_of(o);
}

Scalar as_scalar(PyObject* o) {
  if (PyFloat_Check(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyLong_Check(o)) return scalar_of_long(o);
  if (PyComplex_Check(o)) return scalar_of_complex(o);
  if (is_tensor(o)) return scalar_of_tensor(o);
  if (is_symbolic(o)) {
    if (Py_TYPE(o) == symbolic_types.floating) return Scalar(double_of(o));
    if (Py_TYPE(o) == symbolic_types.integer) return scalar_of_long(own(PyNumber_Index(o)).get());
    int truth = PyObject_IsTrue(o);
    if (truth < 0) throw PythonError();
    return Scalar(truth == 1);
  }
  switch (numpy_kind(o)) {
    case NumpyKind::boolean:
      return Scalar(PyObject_IsTrue(o) == 1);
    case NumpyKind::integer:
      return scalar_of_long(own(PyNumber_Index(o)).get());
    case NumpyKind::floating:
      return Scalar(double_of(o));
    case NumpyKind::complex:
      return scalar_of_complex(o);
    case NumpyKind::none:
      break;
  }
  fail(ErrorKind::Type, "a number is required, not ", Py_TYPE(o)->tp_name);
}

PyObject* scalar_object(const Scalar& s) {
  switch (s.kind()) {
    case Kind::boolean:
      return PyBool_FromLong(s.to_bool());
    case Kind::floating:
      return PyFloat_FromDouble(s.to_double());
    case Kind::complex:
      return PyComplex_FromDoubles(s.to_complex().re, s.to_complex().im);
    case Kind::integer:
      break;
  }
  bool beyond_int64 = s.to_int() < 0 && s.to_double() > 0;
  return beyond_int64 ? PyLong_FromUnsignedLongLong(static_cast<uint64_t>(s.to_int()))
                      : PyLong_FromLongLong(s.to_int());
}

}  // namespace tocha::python
