#include "core/fake.h"

#include "core/error.h"

namespace tocha {

PyTypeObject* fake_type = nullptr;

namespace {

Tensor owned(PyObject* result) {
  if (!result) throw PythonError();
  if (!PyObject_TypeCheck(result, tensor_type)) {
    Py_DECREF(result);
    fail(ErrorKind::Type, "[fake] expected a tensor");
  }
  return Tensor::steal(reinterpret_cast<TensorObject*>(result));
}

void call(const Tensor& t, const char* method) {
  PyObject* done = PyObject_CallMethod(t.object(), method, nullptr);
  if (!done) throw PythonError();
  Py_DECREF(done);
}

}  // namespace

Tensor fake_sum(const Tensor& a, const Tensor& b) { return owned(PyNumber_Add(a.object(), b.object())); }

void fake_add_(Tensor& a, const Tensor& b) { a = owned(PyNumber_InPlaceAdd(a.object(), b.object())); }

void fake_settle(const Tensor& t) { call(t, "_settle"); }

void fake_renew_history(const Tensor& view) { call(view, "_renew_history"); }

Tensor fake_kept_gradient(const Tensor& grad, const Tensor& variable) {
  PyObject* type = reinterpret_cast<PyObject*>(fake_type);
  return owned(PyObject_CallMethod(type, "_kept_gradient", "OO", grad.object(), variable.object()));
}

}  // namespace tocha
