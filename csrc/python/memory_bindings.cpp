#include "python/memory_bindings.h"

#include <cstring>
#include <string>

#include "core/memory_history.h"
#include "core/profile.h"
#include "python/bindings.h"
#include "python/dispatch_calls.h"

namespace tocha::python {
namespace {

constexpr size_t kDeepest = 64;   // lines of a stack that are kept
PyObject* module_call = nullptr;  // the code of nn.Module.__call__
bool lines_wanted = false;

// "Linear 281473": the class and the identity of the module whose forward a frame calls.
void add_module(memory_history::Holder& holder, PyFrameObject* frame) {
  Ref names = own(PyFrame_GetLocals(frame));
  PyObject* self = PyMapping_GetItemString(names.get(), "self");
  if (!self) {
    PyErr_Clear();
    return;
  }
  const std::string text =
      std::string(Py_TYPE(self)->tp_name) + " " + std::to_string(reinterpret_cast<uintptr_t>(self));
  holder.modules.push_back(profile::keep_name(text));
  Py_DECREF(self);
}

void describe(memory_history::Holder& holder) {
  if (!PyGILState_Check()) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);  // memory may be asked for while something is raised
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && holder.lines.size() < kDeepest) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (reinterpret_cast<PyObject*>(code) == module_call) add_module(holder, frame);
    if (lines_wanted || holder.lines.empty()) {
      const std::string line = text_of(code->co_filename) + "(" + std::to_string(PyFrame_GetLineNumber(frame)) +
                               "): " + text_of(code->co_qualname);
      holder.lines.push_back(profile::keep_name(line));
    }
    Py_DECREF(code);
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  PyErr_Restore(type, value, trace);
}

// _memory_history_start(most, lines, code of Module.__call__)
PyObject* start(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    Py_ssize_t most;
    int lines;
    PyObject* code;
    if (!PyArg_ParseTuple(args, "npO!", &most, &lines, &PyCode_Type, &code)) throw PythonError();
    TOCHA_CHECK(most > 0, Value, "[memory] a history of at least one entry is kept: got max_entries=", most);
    Py_XSETREF(module_call, Py_NewRef(code));
    lines_wanted = lines != 0;
    memory_history::describe_program = describe;
    memory_history::start(static_cast<size_t>(most));
    force_operators();
    return Py_NewRef(Py_None);
  });
}

PyObject* stop(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    memory_history::stop();
    force_operators();
    return Py_NewRef(Py_None);
  });
}

PyObject* clear(PyObject*, PyObject*) {
  memory_history::clear();
  return Py_NewRef(Py_None);
}

PyObject* is_kept(PyObject*, PyObject*) { return PyBool_FromLong(memory_history::is_kept()); }

Ref list_of(const std::vector<const char*>& texts) {
  Ref made = own(PyList_New(static_cast<Py_ssize_t>(texts.size())));
  for (size_t i = 0; i < texts.size(); ++i)
    PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i),
                    own(PyUnicode_DecodeUTF8(texts[i], static_cast<Py_ssize_t>(strlen(texts[i])), "replace")).give());
  return made;
}

// (place, bytes, in use, nanoseconds, lines, ranges, modules) for each.
PyObject* as_rows(const std::vector<memory_history::Change>& changes) {
  static const memory_history::Holder nobody;
  Ref rows = own(PyList_New(static_cast<Py_ssize_t>(changes.size())));
  for (size_t i = 0; i < changes.size(); ++i) {
    const memory_history::Change& c = changes[i];
    const memory_history::Holder& holder = c.holder ? *c.holder : nobody;
    Ref lines = list_of(holder.lines), ranges = list_of(holder.ranges), modules = list_of(holder.modules);
    Ref row = own(Py_BuildValue("(KLLLOOO)", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(c.place)),
                                static_cast<long long>(c.bytes), static_cast<long long>(c.in_use),
                                static_cast<long long>(c.time), lines.get(), ranges.get(), modules.get()));
    PyList_SET_ITEM(rows.get(), static_cast<Py_ssize_t>(i), row.give());
  }
  return rows.give();
}

PyObject* changes(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* { return as_rows(memory_history::changes()); });
}

PyObject* blocks(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* { return as_rows(memory_history::blocks()); });
}

}  // namespace

void add_memory_functions(std::vector<PyMethodDef>& functions) {
  functions.push_back({"_memory_history_start", start, METH_VARARGS, nullptr});
  functions.push_back({"_memory_history_stop", stop, METH_NOARGS, nullptr});
  functions.push_back({"_memory_history_clear", clear, METH_NOARGS, nullptr});
  functions.push_back({"_memory_history_is_kept", is_kept, METH_NOARGS, nullptr});
  functions.push_back({"_memory_history_changes", changes, METH_NOARGS, nullptr});
  functions.push_back({"_memory_history_blocks", blocks, METH_NOARGS, nullptr});
}

}  // namespace tocha::python
