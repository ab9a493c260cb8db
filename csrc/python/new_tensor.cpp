#include "python/new_tensor.h"

#include "core/sparse.h"
#include "dispatch/backend.h"
#include "dispatch/promotion.h"
#include "python/exchange.h"
#include "python/parser.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

bool is_text(PyObject* o) { return PyUnicode_Check(o) || PyBytes_Check(o); }
bool is_nested(PyObject* o) { return PySequence_Check(o) && !is_text(o) && !is_tensor(o); }

// The sizes of nested sequences, taken from the first element of each level.
Ints infer_sizes(PyObject* data) {
  Ints sizes;
  Ref level = Ref::borrow(data);
  while (is_nested(level.get())) {
    Py_ssize_t n = PySequence_Size(level.get());
    if (n < 0) throw PythonError();
    sizes.push_back(n);
    TOCHA_CHECK(sizes.size() <= 64, Value, "too many dimensions '", Py_TYPE(level.get())->tp_name, "'");
    if (n == 0) break;
    Ref first = own(PySequence_GetItem(level.get(), 0));
    TOCHA_CHECK(first.get() != level.get(), Type, "new(): self-referential lists are incompatible");
    level = first;
  }
  if (level && is_tensor(level.get()))
    for (int64_t s : Tensor::borrow(level.get()).sizes()) sizes.push_back(s);
  return sizes;
}

DType dtype_of_number(PyObject* o) {
  Scalar s = as_scalar(o);
  switch (s.kind()) {
    case Kind::boolean:
      return DType::Bool;
    case Kind::integer:
      return DType::Int64;
    case Kind::floating:
      return default_dtype();
    default:
      return complex_dtype(default_dtype());
  }
}

// Python's own numbers, which need no search for an array interface (NumPy's float64 is a float, and has one).
bool is_plain_number(PyObject* o) {
  return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o);
}

DType infer_dtype(PyObject* data) {
  if (is_plain_number(data)) return dtype_of_number(data);
  if (is_tensor(data)) return Tensor::borrow(data).dtype();
  if (is_nested(data)) {
    if (has_array_interface(data)) return from_array_interface(data).dtype();
    DType d = DType::Undefined;
    Ref items = own(PySequence_Fast(data, "not a sequence"));
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
    if (n == 0) return default_dtype();
    for (Py_ssize_t i = 0; i < n; ++i) {
      DType e = infer_dtype(PySequence_Fast_GET_ITEM(items.get(), i));
      d = d == DType::Undefined ? e : promote_types(d, e);
      if (d == DType::Complex128) break;
    }
    return d;
  }
  TOCHA_CHECK(!is_text(data), Type, "new(): invalid data type '", Py_TYPE(data)->tp_name, "'");
  if (has_array_interface(data)) return from_array_interface(data).dtype();
  TOCHA_CHECK(is_number(data), Runtime, "Could not infer dtype of ", Py_TYPE(data)->tp_name);
  return dtype_of_number(data);
}

void store_nested(char*& out, IntsView sizes, int64_t d, DType dtype, PyObject* data) {
  if (d == sizes.size()) {
    TOCHA_CHECK(!is_nested(data) || has_array_interface(data), Value, "expected a number at the innermost level, got ",
                Py_TYPE(data)->tp_name);
    Scalar s = as_scalar(data);
    TOCHA_CHECK(!s.is_complex() || is_complex(dtype), Type, "can't convert complex to ", dtype);
    s.store(dtype, out);
    out += itemsize(dtype);
    return;
  }
  if (is_tensor(data)) {
    Tensor t = Tensor::borrow(data);
    check_strided(t, "tensor of a list");
    IntsView rest(sizes.begin() + d, sizes.size() - d);
    TOCHA_CHECK(t.sizes() == rest, Value, "expected sequence of length ", sizes[d], " at dim ", d, " (got a tensor of ",
                t.sizes(), ")");
    Tensor flat = empty(rest, dtype, Device{});
    backend(DeviceType::cpu).copy(flat, t);
    std::memcpy(out, flat.bytes(), static_cast<size_t>(flat.numel() * itemsize(dtype)));
    out += flat.numel() * itemsize(dtype);
    return;
  }
  TOCHA_CHECK(is_nested(data), Type, "not a sequence");
  Ref items = own(PySequence_Fast(data, "not a sequence"));
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
  TOCHA_CHECK(n == sizes[d], Value, "expected sequence of length ", sizes[d], " at dim ", d, " (got ", n, ")");
  for (Py_ssize_t i = 0; i < n; ++i) store_nested(out, sizes, d + 1, dtype, PySequence_Fast_GET_ITEM(items.get(), i));
}

}  // namespace

Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device) {
  Tensor t;
  if (is_tensor(data)) {
    t = Tensor::borrow(data);
    if (is_sparse(t)) {
      TOCHA_CHECK(!dtype || *dtype == t.dtype(), NotImplemented, "[tensor] a sparse tensor keeps its dtype, ",
                  t.dtype());
      return sparse_copy(t);
    }
    Tensor copy = empty_strided(t.sizes(), like_strides(t, MemoryFormat::Preserve), dtype.value_or(t.dtype()),
                                device.value_or(t.device()));
    if (computes(copy)) backend(copy.device().type).copy(copy, t);
    return copy;
  }
  if (has_array_interface(data)) {
    Tensor shared = from_array_interface(data);
    t = empty(shared.sizes(), dtype.value_or(shared.dtype()), Device{});
    backend(DeviceType::cpu).copy(t, shared);
  } else {
    TOCHA_CHECK(!is_text(data), Type, "new(): invalid data type '", Py_TYPE(data)->tp_name, "'");
    Ints sizes = infer_sizes(data);
    DType d = dtype ? *dtype : infer_dtype(data);
    t = empty(sizes, d, Device{});
    if (t.numel() > 0 || sizes.empty()) {
      char* out = t.bytes();
      store_nested(out, sizes, 0, d, data);
    }
  }
  if (device && !device->is_cpu()) {
    Tensor moved = empty(t.sizes(), t.dtype(), *device);
    if (computes(moved)) backend(device->type).copy(moved, t);
    return moved;
  }
  return t;
}

PyObject* legacy_tensor(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  DType d = default_dtype();
  std::optional<Device> device;
  if (kwargs) {
    PyObject* given = PyDict_GetItemString(kwargs, "device");
    if (given && given != Py_None) device = as_device(given);
    TOCHA_CHECK(!given || PyDict_Size(kwargs) == 1 || type != tensor_type, Type,
                "Tensor() got an unexpected keyword argument");
  }
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  Tensor made;
  if (n == 0) {
    made = empty(Ints{0}, d, device.value_or(Device{}));
  } else {
    PyObject* first = PyTuple_GET_ITEM(args, 0);
    bool sizes_given = true;
    for (Py_ssize_t i = 0; i < n; ++i) sizes_given = sizes_given && is_int(PyTuple_GET_ITEM(args, i));
    bool is_size = n == 1 && Py_TYPE(first) == reinterpret_cast<PyTypeObject*>(cached_attribute("tocha", "Size"));
    if (sizes_given || is_size) {
      Ref sizes = Ref::borrow(is_size ? first : args);
      made = empty(as_ints(sizes.get(), 0), d, device.value_or(Device{}));
    } else {
      TOCHA_CHECK(n == 1, Type, "new() received an invalid combination of arguments");
      if (is_tensor(first)) {
        Tensor given = Tensor::borrow(first);
        TOCHA_CHECK(given.dtype() == d || type != tensor_type, Type, "expected ", d, " (got ", given.dtype(), ")");
        made = alias_of(given, true);
      } else {
        made = tensor_from_data(first, d, device);
      }
    }
  }
  if (type == tensor_type) return made.give();
  return alias_as(made, type, false).give();
}

}  // namespace tocha::python
