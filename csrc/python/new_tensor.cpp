#include "python/new_tensor.h"

#include <limits>

#include "core/dtype_messages.h"
#include "core/modes.h"
#include "core/sparse.h"
#include "dispatch/backend.h"
#include "dispatch/promotion.h"
#include "ops/tracing.h"
#include "python/exchange.h"
#include "python/parser.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

constexpr int64_t kMaxNesting = 64;

bool is_text(PyObject* o) { return PyUnicode_Check(o) || PyBytes_Check(o); }
bool is_nested(PyObject* o) { return PySequence_Check(o) && !is_tensor(o); }
// Python's own numbers: reading them runs nobody's code.
bool is_plain_number(PyObject* o) {
  return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o);
}

// NumPy's arrays and what describes itself as they do; NumPy's scalars are numbers.
bool is_array(PyObject* o) {
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o) || is_plain_number(o) || is_tensor(o)) return false;
  return is_numpy_array(o) || (has_array_interface(o) && !is_number(o));
}

}  // namespace

Tensor shared_array(PyObject* data) {
  if (!is_array(data)) return Tensor();
  return is_numpy_array(data) ? from_numpy(data) : from_array_interface(data);
}

namespace {

// ---- The shape

// The sizes of nested sequences, taken from the first element of each level. Tensors in them are numbers.
Ints infer_sizes(PyObject* data) {
  Ints sizes;
  Ref level = Ref::borrow(data);
  while (is_nested(level.get())) {
    Py_ssize_t n = PySequence_Size(level.get());
    if (n < 0) throw PythonError();
    sizes.push_back(n);
    TOCHA_CHECK(sizes.size() <= kMaxNesting, Value, "too many dimensions '", Py_TYPE(level.get())->tp_name, "'");
    if (n == 0) break;
    Ref first(PySequence_GetItem(level.get(), 0));
    if (!first) PyErr_Clear();
    TOCHA_CHECK(first, Value, "could not determine the shape of object type '", Py_TYPE(level.get())->tp_name, "'");
    level = first;
  }
  return sizes;
}

// ---- The dtype

DType dtype_of_number(PyObject* o) {
  if (PyBool_Check(o)) return DType::Bool;
  if (PyLong_Check(o)) return DType::Int64;
  if (PyFloat_Check(o)) return default_dtype();
  return complex_dtype(default_dtype());
}

DType infer_dtype(PyObject* data, int64_t depth);

DType infer_dtype_of_items(PyObject* data, int64_t depth) {
  TOCHA_CHECK(depth < 2 * kMaxNesting, Value, "too many dimensions '", Py_TYPE(data)->tp_name, "'");
  Py_ssize_t n = PySequence_Size(data);
  if (n < 0) throw PythonError();
  if (n == 0) return default_dtype();
  DType found = DType::Undefined;
  for (Py_ssize_t i = 0; i < n && found != DType::Complex128; ++i) {
    Ref item = own(PySequence_GetItem(data, i));
    TOCHA_CHECK(item.get() != data, Type, "new(): self-referential lists are incompatible");
    DType d = infer_dtype(item.get(), depth + 1);
    found = found == DType::Undefined ? d : promote_types(found, d);
  }
  return found;
}

DType infer_dtype(PyObject* data, int64_t depth) {
  if (is_plain_number(data)) return dtype_of_number(data);
  if (is_tensor(data)) return Tensor::borrow(data).dtype();
  TOCHA_CHECK(!is_text(data), Type, "new(): invalid data type '", Py_TYPE(data)->tp_name, "'");
  if (is_array(data)) return array_dtype(data);
  if (is_nested(data)) return infer_dtype_of_items(data, depth);
  TOCHA_CHECK(is_number(data), Runtime, "Could not infer dtype of ", Py_TYPE(data)->tp_name);
  // NumPy's scalars bring their dtype along; float64, which is a float, too.
  return has_array_interface(data) ? array_dtype(data) : dtype_of_number(data);
}

// ---- The elements

template <class T>
[[noreturn]] void refuse_overflow() {
  fail(ErrorKind::Runtime, "value cannot be converted to type ", python_name(DTypeOf<T>::value), " without overflow");
}

template <class T>
T integer_of_double(double v) {
  Scalar number(v);
  if (!number.fits(DTypeOf<T>::value)) refuse_overflow<T>();
  return number.to<T>();
}

double as_real(PyObject* o) {
  double v = PyFloat_AsDouble(o);
  if (v == -1.0 && PyErr_Occurred()) throw PythonError();
  return v;
}

// An element of dtype T: an integer wants __index__, a float __float__ and a complex number __complex__, as Python's
// own constructors do; floats are cut off for integers.
template <class T>
void put(PyObject* o, char* out) {
  T v;
  if constexpr (std::is_same_v<T, bool>) {
    if (PyBool_Check(o) || PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) || is_numpy_bool(o)) {
      v = as_bool(o);
    } else {
      v = as_bool(own(PyNumber_Index(o)).get());
    }
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    TOCHA_CHECK(PyLong_Check(o), Type, "an integer is required");
    v = PyLong_AsUnsignedLongLong(o);
    if (v == std::numeric_limits<uint64_t>::max() && PyErr_Occurred()) throw PythonError();
  } else if constexpr (std::is_integral_v<T>) {
    if (PyFloat_Check(o)) {
      v = integer_of_double<T>(PyFloat_AS_DOUBLE(o));
    } else {
      Ref index = own(PyNumber_Index(o));
      Scalar number(as_int(index.get()));
      if (!number.fits(DTypeOf<T>::value)) refuse_overflow<T>();
      v = number.to<T>();
    }
  } else if constexpr (is_complex_type<T>) {
    Py_complex c = PyComplex_AsCComplex(o);
    if (c.real == -1.0 && PyErr_Occurred()) throw PythonError();
    v = T(Complex<double>(c.real, c.imag));
  } else {
    v = Scalar(PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : as_real(o)).to<T>();
  }
  std::memcpy(out, &v, sizeof(T));
}

using Put = void (*)(PyObject*, char*);

Put put_for(DType dtype) {
  switch (dtype) {
#define _(e, t, n, c) \
  case DType::e:      \
    return put<t>;
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      fail(ErrorKind::Runtime, "undefined dtype");
  }
}

// What is written where: `out` moves on with every element.
struct Elements {
  IntsView sizes;
  DType dtype;
  Put put;
  char* out;

  void store(PyObject* o) {
    put(o, out);
    out += itemsize(dtype);
  }
};

// A tensor or array that has the shape of all that is left from dim d on, and whose elements need no checks one by one.
bool store_block(Elements& e, int64_t d, PyObject* data) {
  Tensor t = is_tensor(data) ? Tensor::borrow(data) : is_numpy_array(data) ? readable_array(data) : Tensor();
  if (!t) return false;
  check_strided(t, "tensor of a list");
  IntsView rest(e.sizes.begin() + d, e.sizes.size() - d);
  bool widens = (is_complex(e.dtype) || is_floating(e.dtype)) && (!t.is_complex() || is_complex(e.dtype));
  if (!t.is_cpu() || t.sizes() != rest || !(widens || t.dtype() == e.dtype)) return false;
  Tensor flat = empty(rest, e.dtype, Device{});
  backend(DeviceType::cpu).copy(flat, t);
  size_t bytes = static_cast<size_t>(flat.numel() * itemsize(e.dtype));
  if (bytes) std::memcpy(e.out, flat.bytes(), bytes);
  e.out += bytes;
  return true;
}

// The items as they are now: reading one may run code that changes the sequence.
Ref snapshot(PyObject* data) {
  if (PyTuple_CheckExact(data)) return Ref::borrow(data);
  if (PyList_Check(data)) return own(PyList_AsTuple(data));
  return own(PySequence_Fast(data, "not a sequence"));
}

void check_length(const Elements& e, int64_t d, Py_ssize_t n) {
  TOCHA_CHECK(n == e.sizes[d], Value, "expected sequence of length ", e.sizes[d], " at dim ", d, " (got ", n, ")");
}

// The numbers at the front of a list of them; returns how many there were.
Py_ssize_t store_plain_numbers(Elements& e, PyObject* list) {
  Py_ssize_t n = PyList_GET_SIZE(list), i = 0;
  for (; i < n && is_plain_number(PyList_GET_ITEM(list, i)); ++i) e.store(PyList_GET_ITEM(list, i));
  return i;
}

void store_nested(Elements& e, int64_t d, PyObject* data) {
  if (d == e.sizes.size()) return e.store(data);
  if (store_block(e, d, data)) return;
  bool innermost = d + 1 == e.sizes.size();
  Py_ssize_t done = 0;
  if (innermost && PyList_CheckExact(data)) {
    check_length(e, d, PyList_GET_SIZE(data));
    done = store_plain_numbers(e, data);
    if (done == PyList_GET_SIZE(data)) return;
  }
  bool has_items = is_tensor(data) ? Tensor::borrow(data).dim() > 0 : PySequence_Check(data) == 1;
  TOCHA_CHECK(has_items, Type, "not a sequence");
  Ref items = snapshot(data);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
  check_length(e, d, n);
  for (Py_ssize_t i = done; i < n; ++i) store_nested(e, d + 1, PySequence_Fast_GET_ITEM(items.get(), i));
}

Tensor from_numbers(PyObject* data, std::optional<DType> dtype) {
  TOCHA_CHECK(!is_text(data), Type, "new(): invalid data type '", Py_TYPE(data)->tp_name, "'");
  Ints sizes = infer_sizes(data);
  DType d = dtype ? *dtype : infer_dtype(data, 0);
  Tensor t = empty(sizes, d, Device{});
  if (t.numel() == 0) return t;
  Elements e{sizes, d, put_for(d), t.bytes()};
  store_nested(e, 0, data);
  return t;
}

Tensor from_array(PyObject* data, std::optional<DType> dtype) {
  Tensor shared = shared_array(data);
  Tensor t = empty_strided(shared.sizes(), like_strides(shared, MemoryFormat::Preserve), dtype.value_or(shared.dtype()),
                           Device{});
  backend(DeviceType::cpu).copy(t, shared);
  return t;
}

}  // namespace

Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device) {
  if (is_tensor(data)) {
    Tensor t = Tensor::borrow(data);
    if (is_sparse(t)) {
      TOCHA_CHECK(!dtype || *dtype == t.dtype(), NotImplemented, "[tensor] a sparse tensor keeps its dtype, ",
                  t.dtype());
      return sparse_copy(t);
    }
    Tensor copy = empty_strided(t.sizes(), like_strides(t, MemoryFormat::Preserve), dtype.value_or(t.dtype()),
                                device.value_or(t.device()));
    if (computes(copy)) {
      TOCHA_CHECK(!t.is_meta(), NotImplemented, "[tensor] Cannot copy out of meta tensor; no data!");
      copy_between(copy, t);
    }
    return copy;
  }
  Tensor t = is_array(data) ? from_array(data, dtype) : from_numbers(data, dtype);
  if (device && !device->is_cpu()) {
    Tensor moved = empty(t.sizes(), t.dtype(), *device);
    if (computes(moved)) copy_between(moved, t);
    t = moved;
  }
  return modes().dispatch_modes ? ops::lift_fresh(t) : t;
}

PyObject* legacy_tensor(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* construct = cached_attribute("tocha._tensor.types", "construct_default");
  Ref options = kwargs ? Ref::borrow(kwargs) : own(PyDict_New());
  Ref made = own(PyObject_CallFunctionObjArgs(construct, args, options.get(), nullptr));
  if (type == tensor_type) return made.give();
  return own(PyObject_CallMethod(made.get(), "as_subclass", "O", type)).give();
}

}  // namespace tocha::python
