#include "python/optimizer_bindings.h"

#include "autograd/meta.h"
#include "core/fake.h"
#include "python/types.h"

namespace tocha::python {
namespace {

// A parameter's gradient, or null.
PyObject* grad_of(PyObject* parameter) {
  const AutogradMeta* meta = reinterpret_cast<TensorObject*>(parameter)->autograd;
  return meta && meta->grad ? meta->grad.object() : nullptr;
}

void append(const Ref& list, PyObject* item) { check(PyList_Append(list.get(), item)); }

// _gather_state(params, state, names) -> (has_complex, has_sparse, params, grads, state of each name ...) of those
// parameters that have a gradient; None when one of them has no such state yet.
PyObject* gather_state(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *params, *state, *names;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &params, &PyDict_Type, &state, &PyTuple_Type, &names))
      throw PythonError();
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    std::vector<Ref> lists;
    for (Py_ssize_t k = 0; k < count + 2; ++k) lists.push_back(own(PyList_New(0)));
    bool has_complex = false, has_sparse = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params); ++i) {
      PyObject* p = PyList_GET_ITEM(params, i);
      TOCHA_CHECK(is_tensor(p), Type, "[optimizer] a parameter is no tensor but ", Py_TYPE(p)->tp_name);
      PyObject* grad = grad_of(p);
      if (!grad) continue;
      has_complex = has_complex || is_complex(reinterpret_cast<TensorObject*>(p)->dtype);
      has_sparse = has_sparse || reinterpret_cast<TensorObject*>(grad)->sparse;
      append(lists[0], p);
      append(lists[1], grad);
      PyObject* own_state = count ? PyDict_GetItemWithError(state, p) : nullptr;
      if (count && (!own_state || !PyDict_Check(own_state))) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
      for (Py_ssize_t k = 0; k < count; ++k) {
        PyObject* value = PyDict_GetItemWithError(own_state, PyTuple_GET_ITEM(names, k));
        if (!value) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
        append(lists[static_cast<size_t>(k) + 2], value);
      }
    }
    Ref out = own(PyTuple_New(count + 4));
    PyTuple_SET_ITEM(out.get(), 0, PyBool_FromLong(has_complex));
    PyTuple_SET_ITEM(out.get(), 1, PyBool_FromLong(has_sparse));
    for (Py_ssize_t k = 0; k < count + 2; ++k) PyTuple_SET_ITEM(out.get(), k + 2, lists[static_cast<size_t>(k)].give());
    return out.give();
  });
}

double value_of(PyObject* o) {
  TOCHA_CHECK(is_tensor(o), Type, "[optimizer] state_steps must be tensors, one is ", Py_TYPE(o)->tp_name);
  Tensor t = Tensor::borrow(o);
  if (t.is_cpu() && t.numel() == 1 && !is_fake(t)) return Scalar::load(t.dtype(), t.bytes()).to_double();
  Ref item = own(PyObject_CallMethod(o, "item", nullptr));
  double value = PyFloat_AsDouble(item.get());
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

void add_one(PyObject* o) {
  TOCHA_CHECK(is_tensor(o), Type, "[optimizer] state_steps must be tensors, one is ", Py_TYPE(o)->tp_name);
  Tensor t = Tensor::borrow(o);
  if (t.is_cpu() && t.dtype() == DType::Float32 && t.numel() == 1 && !is_fake(t)) {
    *t.data<float>() += 1;
    t.bump_version();
  } else {
    own(PyObject_CallMethod(o, "add_", "i", 1));
  }
}

// One number when all tensors hold it, else a list of their numbers.
PyObject* common_value(PyObject* list) {
  Py_ssize_t n = PyList_GET_SIZE(list);
  if (n == 0) return PyList_New(0);
  double first = value_of(PyList_GET_ITEM(list, 0));
  bool same = true;
  for (Py_ssize_t i = 1; i < n && same; ++i) same = value_of(PyList_GET_ITEM(list, i)) == first;
  if (same) return PyFloat_FromDouble(first);
  Ref out = own(PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyList_SET_ITEM(out.get(), i, own(PyFloat_FromDouble(value_of(PyList_GET_ITEM(list, i)))).give());
  return out.give();
}

void check_list(PyObject* list) {
  TOCHA_CHECK(PyList_Check(list), Type, "[optimizer] expected a list of tensors, got ", Py_TYPE(list)->tp_name);
}

PyObject* values(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    check_list(list);
    return common_value(list);
  });
}

PyObject* advance(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    check_list(list);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) add_one(PyList_GET_ITEM(list, i));
    return common_value(list);
  });
}

PyMethodDef functions[] = {
    {"_gather_state", gather_state, METH_VARARGS, nullptr},
    {"_values", values, METH_O, nullptr},
    {"_advance", advance, METH_O, nullptr},
};

}  // namespace

void add_optimizer_functions(std::vector<PyMethodDef>& table) {
  table.insert(table.end(), std::begin(functions), std::end(functions));
}

}  // namespace tocha::python
