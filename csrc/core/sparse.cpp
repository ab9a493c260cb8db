#include "core/sparse.h"

#include "core/error.h"

namespace tocha {

bool sparse_in_use = false;

namespace {

// A function of tocha/sparse/_native.py, which is imported when the first sparse tensor is needed.
PyObject* function_named(const char* name) {
  PyObject* module = PyImport_ImportModule("tocha.sparse._native");
  if (!module) throw PythonError();
  PyObject* function = PyObject_GetAttrString(module, name);
  Py_DECREF(module);
  if (!function) throw PythonError();
  return function;
}

template <class... T>
Tensor call(const char* name, const char* format, T... arguments) {
  PyObject* function = function_named(name);
  PyObject* result = PyObject_CallFunction(function, format, arguments...);
  Py_DECREF(function);
  if (!result) throw PythonError();
  if (!PyObject_TypeCheck(result, tensor_type)) {
    Py_DECREF(result);
    fail(ErrorKind::Type, "[sparse] ", name, " did not return a tensor");
  }
  return Tensor::steal(reinterpret_cast<TensorObject*>(result));
}

}  // namespace

Tensor sparse_sum(const Tensor& a, const Tensor& b) { return call("sum_of", "(OO)", a.object(), b.object()); }
Tensor sparse_accumulate(const Tensor& a, const Tensor& b) {
  return call("accumulate", "(OO)", a.object(), b.object());
}
Tensor sparse_to_dense(const Tensor& t) { return call("dense_of", "(O)", t.object()); }
Tensor sparse_copy(const Tensor& t) { return call("copy_of", "(O)", t.object()); }
Tensor sparse_rows(const Tensor& grads, const Tensor& indices, int64_t rows, int64_t padding_idx) {
  return call("rows_gradient", "(OOLL)", grads.object(), indices.object(), static_cast<long long>(rows),
              static_cast<long long>(padding_idx));
}

void refuse_sparse(const char* what) {
  fail(ErrorKind::NotImplemented, "[", what, "] has no form for sparse tensors; call to_dense() first");
}

}  // namespace tocha
