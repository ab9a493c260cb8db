#include "autograd/anomaly.h"

#include "autograd/engine.h"
#include "core/sparse.h"
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

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) PyErr_Clear();
}

// Of the node, then of those whose backward it came from.
void warn_where(const Node& node) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const Extras* e = node.extras.get();
  if (e && e->traceback) {
    warn(str("Error detected in ", node.title(), ". Traceback of forward call that caused the error:\n",
             joined(e->traceback)));
  } else {
    warn(str("Error detected in ", node.title(),
             ". No forward pass information available. Enable detect anomaly during forward pass for more "
             "information."));
  }
  for (const Node* by = e ? e->parent.get() : nullptr; by; by = by->extras ? by->extras->parent.get() : nullptr) {
    if (by->extras && by->extras->traceback) {
      warn(str("\n\nPrevious calculation was induced by ", by->title(),
               ". Traceback of forward call that induced the previous calculation:\n", joined(by->extras->traceback)));
    } else {
      warn(str("\n\nPrevious calculation was induced by ", by->title(),
               ". No forward pass information available. Enable detect anomaly during forward pass for more "
               "information."));
    }
  }
  PyErr_Restore(type, value, trace);
}

bool has_nan(const Tensor& t) {
  if (!t || !(t.is_floating() || t.is_complex()) || t.is_meta()) return false;
  GradMode off(false);
  Tensor found = ops::any(ops::isnan(is_sparse(t) ? sparse_to_dense(t) : t), std::nullopt, false);
  return *found.data<bool>();
}

}  // namespace

void remember_call(Node& node) {
  Extras& e = node.extra();
  Py_XSETREF(e.traceback, python_stack());
  e.parent = NodeRef(current_node());
}

void apply_watched(Node& node, Grads& grads, Grads& out) {
  try {
    node.apply(grads, out);
    if (modes().anomaly_checks_nan) {
      for (size_t i = 0; i < out.size(); ++i)
        TOCHA_CHECK(!has_nan(out[i]), Runtime, "Function '", node.title(), "' returned nan values in its ", i,
                    "th output.");
    }
  } catch (...) {
    warn_where(node);
    throw;
  }
}

}  // namespace tocha::autograd
