#include "autograd/anomaly.h"

#include "autograd/engine.h"
#include "ops/comparison.h"
#include "ops/reductions.h"

namespace tocha::autograd {
namespace {

// The Python stack as traceback.format_stack() gives it: a list of strings.
PyObject* python_stack() {
  PyObject* module = PyImport_ImportModule("traceback");
  if (!module) throw PythonError();
  PyObject* stack = PyObject_CallMethod(module, "format_stack", nullptr);
  Py_DECREF(module);
  if (!stack) throw PythonError();
  return stack;
}

std::string joined(PyObject* lines) {
  std::string text;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(lines); ++i) {
    const char* s = PyUnicode_AsUTF8(PyList_GET_ITEM(lines, i));
    if (s) text += s;
  }
  return text;
}

void warn_where(const Node& node) {
  std::string text;
  if (node.extras && node.extras->traceback) {
    text = str("Error detected in ", node.name(), ". Traceback of forward call that caused the error:\n",
               joined(node.extras->traceback));
  } else {
    text = str("Error detected in ", node.name(),
               ". No forward pass information available. Enable detect anomaly during forward pass for more "
               "information.");
  }
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

bool has_nan(const Tensor& t) {
  if (!t || !(t.is_floating() || t.is_complex()) || t.is_meta()) return false;
  GradMode off(false);
  Tensor found = ops::any(ops::isnan(t), std::nullopt, false);
  return *found.data<bool>();
}

}  // namespace

void remember_call(Node& node) {
  Extras& e = node.extra();
  Py_XSETREF(e.traceback, python_stack());
}

void apply_watched(Node& node, Grads& grads, Grads& out) {
  try {
    node.apply(grads, out);
    if (modes().anomaly_checks_nan) {
      for (size_t i = 0; i < out.size(); ++i)
        TOCHA_CHECK(!has_nan(out[i]), Runtime, "Function '", node.name(), "' returned nan values in its ", i,
                    "th output.");
    }
  } catch (...) {
    warn_where(node);
    throw;
  }
}

}  // namespace tocha::autograd
