#include "python/profiler_bindings.h"

#include <memory>
#include <string>

#include "autograd/node.h"
#include "core/profile.h"
#include "python/bindings.h"
#include "python/dispatch_calls.h"

namespace tocha::python {
namespace {

constexpr int kDeepest = 64;  // lines of a stack that are kept

std::vector<std::string> python_stack() {
  std::vector<std::string> lines;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && lines.size() < kDeepest) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    lines.push_back(text_of(code->co_filename) + "(" + std::to_string(PyFrame_GetLineNumber(frame)) +
                    "): " + text_of(code->co_qualname));
    Py_DECREF(code);
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  return lines;
}

thread_local std::vector<std::unique_ptr<profile::Range>> marks;
thread_local std::vector<std::unique_ptr<profile::Range>> calls;  // of Python functions

PyObject* module_call = nullptr;  // the code of nn.Module.__call__, while functions are traced

// "file(line): function", or "nn.Module: Linear 281473" (class and identity) for the call of a module.
std::string name_of_call(PyFrameObject* frame) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  std::string name =
      text_of(code->co_filename) + "(" + std::to_string(code->co_firstlineno) + "): " + text_of(code->co_name);
  const bool of_module = reinterpret_cast<PyObject*>(code) == module_call;
  Py_DECREF(code);
  if (!of_module) return name;
  Ref names = own(PyFrame_GetLocals(frame));
  Ref self = own(PyMapping_GetItemString(names.get(), "self"));
  return std::string("nn.Module: ") + Py_TYPE(self.get())->tp_name + " " +
         std::to_string(reinterpret_cast<uintptr_t>(self.get()));
}

// CPython's own hook of profilers: functions as ranges.
int trace_calls(PyObject*, PyFrameObject* frame, int what, PyObject*) {
  try {
    if (what == PyTrace_CALL) {
      auto range = std::make_unique<profile::Range>(profile::Kind::python, profile::keep_name(name_of_call(frame)));
      calls.push_back(std::move(range));
    } else if (what == PyTrace_RETURN && !calls.empty()) {
      calls.pop_back();
    }
  } catch (const PythonError&) {
    return -1;
  }
  return 0;
}

// _profiler_trace_calls(code of Module.__call__, or None: no longer): functions of this thread.
PyObject* set_tracing(PyObject*, PyObject* code) {
  return guarded([&]() -> PyObject* {
    PyEval_SetProfile(code != Py_None ? trace_calls : nullptr, nullptr);
    Py_XSETREF(module_call, Py_NewRef(code));
    calls.clear();
    return Py_NewRef(Py_None);
  });
}

// _profiler_start(operators, memory, sizes, stacks)
PyObject* start(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int ops, memory, sizes, stacks;
    if (!PyArg_ParseTuple(args, "pppp", &ops, &memory, &sizes, &stacks)) throw PythonError();
    profile::list_stack = python_stack;
    profile::next_sequence = autograd::next_sequence_number;
    profile::start({ops != 0, memory != 0, sizes != 0, stacks != 0});
    force_operators();
    return Py_NewRef(Py_None);
  });
}

Ref list_of(const std::vector<std::string>& texts) {
  Ref made = own(PyList_New(static_cast<Py_ssize_t>(texts.size())));
  for (size_t i = 0; i < texts.size(); ++i)
    PyList_SET_ITEM(
        made.get(), static_cast<Py_ssize_t>(i),
        own(PyUnicode_DecodeUTF8(texts[i].data(), static_cast<Py_ssize_t>(texts[i].size()), "replace")).give());
  return made;
}

Ref sizes_of(const std::vector<std::vector<int64_t>>& all) {
  Ref made = own(PyList_New(static_cast<Py_ssize_t>(all.size())));
  for (size_t i = 0; i < all.size(); ++i) {
    Ref one = own(PyList_New(static_cast<Py_ssize_t>(all[i].size())));
    for (size_t d = 0; d < all[i].size(); ++d)
      PyList_SET_ITEM(one.get(), static_cast<Py_ssize_t>(d), own(PyLong_FromLongLong(all[i][d])).give());
    PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), one.give());
  }
  return made;
}

// (type, whether it is a list, sizes, strides, text) for each.
Ref inputs_of(const std::vector<profile::Input>& inputs) {
  Ref made = own(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const profile::Input& in = inputs[i];
    Ref sizes = sizes_of(in.sizes), strides = sizes_of(in.strides);
    Ref row = own(Py_BuildValue("(sOOOs)", in.type.c_str(), in.list ? Py_True : Py_False, sizes.get(), strides.get(),
                                in.text.c_str()));
    PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), row.give());
  }
  return made;
}

// (name, kind, begin, end, thread, parent, sequence, bytes, in use, place, inputs, stack) for each event.
PyObject* as_rows(const std::vector<profile::Event>& events) {
  static const char* const kinds[] = {"op", "node", "kernel", "mark", "memory", "python"};
  Ref rows = own(PyList_New(static_cast<Py_ssize_t>(events.size())));
  for (size_t i = 0; i < events.size(); ++i) {
    const profile::Event& e = events[i];
    Ref inputs = inputs_of(e.inputs), stack = list_of(e.stack);
    Ref row = own(Py_BuildValue(
        "(ssLLKLLLLKOO)", e.name, kinds[static_cast<int>(e.kind)], static_cast<long long>(e.begin),
        static_cast<long long>(e.end), static_cast<unsigned long long>(e.thread), static_cast<long long>(e.parent),
        static_cast<long long>(e.sequence), static_cast<long long>(e.bytes), static_cast<long long>(e.in_use),
        static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(e.place)), inputs.get(), stack.get()));
    PyList_SET_ITEM(rows.get(), static_cast<Py_ssize_t>(i), row.give());
  }
  return rows.give();
}

PyObject* stop(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    std::vector<profile::Event> events = profile::stop();
    force_operators();
    return as_rows(events);
  });
}

PyObject* so_far(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* { return as_rows(profile::taken_so_far()); });
}

PyObject* is_recording(PyObject*, PyObject*) { return PyBool_FromLong(profile::recording); }
PyObject* is_watching(PyObject*, PyObject*) { return PyBool_FromLong(profile::watching); }

// _profiler_push(name), _profiler_pop(): a range that a program marks.
PyObject* push(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(PyUnicode_Check(name), Type, "[record_function] a name must be str, not ", Py_TYPE(name)->tp_name);
    auto range = std::make_unique<profile::Range>(profile::Kind::mark, profile::keep_name(text_of(name)));
    marks.push_back(std::move(range));  // made first: what a thread keeps of open ranges must outlive them
    return Py_NewRef(Py_None);
  });
}

PyObject* pop(PyObject*, PyObject*) {
  if (!marks.empty()) marks.pop_back();
  return Py_NewRef(Py_None);
}

}  // namespace

void add_profiler_functions(std::vector<PyMethodDef>& functions) {
  functions.push_back({"_profiler_start", start, METH_VARARGS, nullptr});
  functions.push_back({"_profiler_stop", stop, METH_NOARGS, nullptr});
  functions.push_back({"_profiler_so_far", so_far, METH_NOARGS, nullptr});
  functions.push_back({"_profiler_is_recording", is_recording, METH_NOARGS, nullptr});
  functions.push_back({"_profiler_is_watching", is_watching, METH_NOARGS, nullptr});
  functions.push_back({"_profiler_trace_calls", set_tracing, METH_O, nullptr});
  functions.push_back({"_profiler_push", push, METH_O, nullptr});
  functions.push_back({"_profiler_pop", pop, METH_NOARGS, nullptr});
}

}  // namespace tocha::python
