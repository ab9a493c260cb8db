#include "python/overrides.h"

#include <algorithm>

#include "core/sparse.h"
#include "python/fakes.h"

namespace tocha::python {

constinit thread_local int function_modes = 0;
constinit thread_local Overrides overrides = Overrides::on;

namespace {

bool is_plain_python(PyTypeObject* t) {
  return t == &PyLong_Type || t == &PyFloat_Type || t == &PyBool_Type || t == &PyTuple_Type || t == &PyList_Type ||
         t == &PyUnicode_Type || t == &PyDict_Type || t == &PyComplex_Type || t == &PySlice_Type ||
         t == Py_TYPE(Py_None);
}

Ref with_self(PyObject* self, PyObject* const* items, Py_ssize_t n) {
  Ref all = own(PyTuple_New(n + 1));
  PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(items[i]));
  return all;
}

// Who takes a method of self over: nobody (false), or modes and perhaps self.
bool asks(PyObject* self, std::vector<PyObject*>& operands) {
  if (Py_TYPE(self) != tensor_type && has_override(self)) operands.push_back(self);
  return !operands.empty() || modes_ask();
}

}  // namespace

void check_not_sparse(PyObject* o) {
  if (!PyObject_TypeCheck(o, tensor_type)) return;
  check_strided(Tensor::borrow(o), "a native operator, without __torch_function__,");
}

bool has_override(PyObject* o) {
  PyTypeObject* t = Py_TYPE(o);
  if (t == tensor_type || overrides != Overrides::on || is_plain_python(t)) return false;
  static PyObject* name = own(PyUnicode_InternFromString("__torch_function__")).give();
  static PyObject* disabled = cached_attribute("tocha._C", "_disabled_torch_function_impl");
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(t), name);
  if (!found) {
    PyErr_Clear();
    return false;
  }
  return Ref(found).get() != disabled;
}

PyObject* call_override(PyObject* callable, const std::vector<PyObject*>& overridden, PyObject* args,
                        PyObject* kwargs) {
  // Python decides the order: modes first, then the operands' types, subclasses before their bases.
  PyObject* handler = cached_attribute("tocha.overrides", "_call_overrides");
  Ref operands = own(PyTuple_New(static_cast<Py_ssize_t>(overridden.size())));
  for (size_t i = 0; i < overridden.size(); ++i)
    PyTuple_SET_ITEM(operands.get(), static_cast<Py_ssize_t>(i), Py_NewRef(overridden[i]));
  return own(PyObject_CallFunctionObjArgs(handler, callable, operands.get(), args, kwargs ? kwargs : Py_None, nullptr))
      .give();
}

Ref public_object(const std::string& path) {
  Ref o = own(PyImport_ImportModule("tocha"));
  for (size_t at = 0; at <= path.size();) {
    size_t dot = std::min(path.find('.', at), path.size());
    o = own(PyObject_GetAttrString(o.get(), path.substr(at, dot - at).c_str()));
    at = dot + 1;
  }
  return o;
}

Ref taken_over(PyObject* self, const char* name, const FastArguments& a) {
  std::vector<PyObject*> operands;
  bool asked = asks(self, operands);
  if (!asked && !is_fake(self)) return Ref();
  Ref kwargs;
  for (Py_ssize_t i = 0; a.names && i < PyTuple_GET_SIZE(a.names); ++i) {
    if (!kwargs) kwargs = own(PyDict_New());
    check(PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(a.names, i), a.items[a.count + i]));
  }
  if (!asked) return fake_method(name, with_self(self, a.items, a.count).get(), kwargs.get());
  Ref callable = public_object(std::string("Tensor.") + name);
  return Ref(call_override(callable.get(), operands, with_self(self, a.items, a.count).get(), kwargs.get()));
}

Ref taken_over(PyObject* self, const char* name, const TupleArguments& a) {
  std::vector<PyObject*> operands;
  bool asked = asks(self, operands);
  if (!asked && !is_fake(self)) return Ref();
  Ref all = with_self(self, PySequence_Fast_ITEMS(a.args), PyTuple_GET_SIZE(a.args));
  if (!asked) return fake_method(name, all.get(), a.kwargs);
  Ref callable = public_object(std::string("Tensor.") + name);
  return Ref(call_override(callable.get(), operands, all.get(), a.kwargs));
}

Ref function_taken_over(const char* name, PyObject* args, PyObject* kwargs) {
  if (modes_ask()) return Ref(call_override(public_object(name).get(), {}, args, kwargs));
  return fake_mode_active() ? fake_function(name, args, kwargs) : Ref();
}

}  // namespace tocha::python
