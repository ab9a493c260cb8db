#include "capture/hook.h"

#include <list>

#include "capture/frame.h"
#include "capture/guards.h"
#include "core/error.h"
#include "core/modes.h"

namespace tocha::capture {

thread_local PyObject* current_callback = nullptr;

namespace {

// One way in which a code object was captured.
struct Entry {
  PyObject* owner;     // the callback that captured it: other ones do not use it
  PyObject* guards;    // or null: always holds
  PyObject* code;      // what runs instead, with all arguments by position; or null: the frame runs as it is
  PyObject* globals;   // those of the frame it was captured from
  PyObject* function;  // code as a function, where no closure is needed

  ~Entry() {
    Py_XDECREF(owner);
    Py_XDECREF(guards);
    Py_XDECREF(code);
    Py_XDECREF(globals);
    Py_XDECREF(function);
  }
};

// What is known of a code object; lives in its extra slot and dies with it.
struct CodeState {
  bool skip = false;
  std::list<Entry> entries;  // the last used one first
};

Py_ssize_t extra_index = -1;
PyCodeObject* return_none = nullptr;
int installed = 0;
_PyFrameEvalFunction next_hook = nullptr;

void free_state(void* state) { delete static_cast<CodeState*>(state); }

CodeState* state_of(PyCodeObject* code) {
  void* state = nullptr;
  _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), extra_index, &state);
  return static_cast<CodeState*>(state);
}

CodeState* make_state(PyCodeObject* code) {
  CodeState* state = state_of(code);
  if (!state) {
    state = new CodeState;
    if (_PyCode_SetExtra(reinterpret_cast<PyObject*>(code), extra_index, state) < 0) throw PythonError();
  }
  return state;
}

// Functions: class and module bodies have locals of another kind, generators start and stop.
bool capturable(const PyCodeObject* code) {
  constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
  return (code->co_flags & kFunction) == kFunction &&
         !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR));
}

Py_ssize_t argument_count(const PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
         !!(code->co_flags & CO_VARKEYWORDS);
}

PyObject* closure_of(PyObject* function) {
  return function && PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : nullptr;
}

PyObject* make_function(PyObject* code, PyObject* globals, PyObject* closure) {
  PyObject* function = PyFunction_New(code, globals);
  if (function && closure && PyFunction_SetClosure(function, closure) < 0) Py_CLEAR(function);
  return function;
}

// Runs what a frame was captured as, on the frame's arguments.
PyObject* run_entry(const Entry& entry, const Surroundings& at) {
  PyObject* function = entry.function ? Py_NewRef(entry.function) : make_function(entry.code, at.globals, at.closure);
  if (!function) return nullptr;
  PyObject* result = PyObject_Vectorcall(function, at.locals, at.count, nullptr);
  Py_DECREF(function);
  return result;
}

Entry* find_entry(CodeState* state, PyObject* owner, const Surroundings& at) {
  for (auto e = state->entries.begin(); e != state->entries.end(); ++e) {
    if (e->owner != owner || e->globals != at.globals) continue;
    if (e->guards && !guards_hold(e->guards, at)) continue;
    if (e != state->entries.begin()) state->entries.splice(state->entries.begin(), state->entries, e);
    return &state->entries.front();
  }
  return nullptr;
}

PyObject* arguments_tuple(const Surroundings& at) {
  PyObject* out = PyTuple_New(at.count);
  if (!out) return nullptr;
  for (Py_ssize_t i = 0; i < at.count; ++i) {
    PyObject* v = at.locals[i];
    PyTuple_SET_ITEM(out, i, Py_NewRef(v ? v : Py_None));
  }
  return out;
}

// Asks the thread's callback what is to become of a frame: None (run it this time), False (always run it), True
// (another thread has captured it meanwhile: look again), (guards, code), or (guards, None): run it wherever these
// guards hold. Null with an error set: capturing raised.
PyObject* ask(PyCodeObject* code, PyObject* function, const Surroundings& at) {
  PyObject* callback = Py_NewRef(current_callback);
  Paused paused;
  PyObject* arguments = arguments_tuple(at);
  PyObject* answer = nullptr;
  if (arguments)
    answer = PyObject_CallFunctionObjArgs(callback, reinterpret_cast<PyObject*>(code), function ? function : Py_None,
                                          at.globals, arguments, at.closure ? at.closure : Py_None, nullptr);
  Py_XDECREF(arguments);
  Py_DECREF(callback);
  if (!answer && PyErr_ExceptionMatches(PyExc_RecursionError)) {  // so deep in the program there is no room for capture
    PyErr_Clear();
    return Py_NewRef(Py_None);
  }
  return answer;
}

bool add_entry(CodeState* state, PyObject* answer, const Surroundings& at) {
  PyObject *guards, *code;
  if (!PyArg_ParseTuple(answer, "OO", &guards, &code)) return false;
  bool replaced = PyCode_Check(code);
  if (replaced) make_state(reinterpret_cast<PyCodeObject*>(code))->skip = true;
  Entry& e = state->entries.emplace_front();
  e.owner = Py_NewRef(current_callback);
  e.guards = guards == Py_None ? nullptr : Py_NewRef(guards);
  e.code = replaced ? Py_NewRef(code) : nullptr;
  e.globals = Py_NewRef(at.globals);
  if (replaced && reinterpret_cast<PyCodeObject*>(code)->co_nfreevars == 0)
    e.function = make_function(code, at.globals, nullptr);
  return e.function || !PyErr_Occurred();
}

PyObject* evaluate(PyThreadState* thread, struct _PyInterpreterFrame* frame, int throwing) {
  auto plainly = [&] { return _PyEval_EvalFrameDefault(thread, frame, throwing); };
  // What saved-tensor hooks see of a function must not depend on whether it was captured.
  if (!current_callback || throwing || modes().pack) return plainly();
  PyCodeObject* code = capture_frame_code(frame);
  CodeState* state = state_of(code);
  if (state && state->skip) return plainly();
  if (!capturable(code)) return plainly();
  if (!state) state = make_state(code);
  PyObject* function = capture_frame_function(frame);
  Surroundings at{capture_frame_locals(frame), argument_count(code), capture_frame_globals(frame),
                  closure_of(function)};
  PyObject* result = nullptr;
  Entry* entry = find_entry(state, current_callback, at);
  if (!entry) {
    PyObject* answer = ask(code, function, at);
    if (answer == Py_None || answer == Py_False) {
      if (answer == Py_False) state->skip = true;
      Py_DECREF(answer);
      return plainly();
    }
    bool again = answer == Py_True;
    bool added = answer && !again && add_entry(state, answer, at);
    Py_XDECREF(answer);
    if (added) entry = &state->entries.front();
    if (again && !(entry = find_entry(state, current_callback, at))) return plainly();
  }
  if (entry && !entry->code) return plainly();
  if (entry) result = run_entry(*entry, at);
  capture_frame_end(thread, frame, return_none);
  return result;
}

// ---- from Python

PyObject* code_argument(PyObject* code) {
  if (!PyCode_Check(code)) {
    PyErr_SetString(PyExc_TypeError, "expected a code object");
    return nullptr;
  }
  return code;
}

PyObject* skip_code(PyObject*, PyObject* code) {
  if (!code_argument(code)) return nullptr;
  make_state(reinterpret_cast<PyCodeObject*>(code))->skip = true;
  Py_RETURN_NONE;
}

PyObject* forget_code(PyObject*, PyObject* code) {
  if (!code_argument(code)) return nullptr;
  if (CodeState* state = state_of(reinterpret_cast<PyCodeObject*>(code))) {
    state->skip = false;
    std::list<Entry> dropped;
    dropped.swap(state->entries);
  }
  Py_RETURN_NONE;
}

PyObject* code_entries(PyObject*, PyObject* code) {
  if (!code_argument(code)) return nullptr;
  PyObject* out = PyList_New(0);
  CodeState* state = state_of(reinterpret_cast<PyCodeObject*>(code));
  if (!out || !state) return out;
  for (const Entry& e : state->entries) {
    PyObject* pair = PyTuple_Pack(4, e.owner, e.guards ? e.guards : Py_None, e.code ? e.code : Py_None, e.globals);
    if (!pair || PyList_Append(out, pair) < 0) Py_CLEAR(out);
    Py_XDECREF(pair);
    if (!out) break;
  }
  return out;
}

PyObject* get_callback(PyObject*, PyObject*) { return Py_NewRef(current_callback ? current_callback : Py_None); }

PyMethodDef functions[] = {
    {"skip_code", skip_code, METH_O, "Frames of this code are never captured."},
    {"forget_code", forget_code, METH_O, "Drops what is known of a code object."},
    {"code_entries", code_entries, METH_O,
     "[(callback, guards, code, globals)] of a code object, the last used one first."},
    {"get_callback", get_callback, METH_NOARGS, "The callback of this thread, or None."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

Installed::Installed() {
  if (installed++) return;
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  next_hook = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

Installed::~Installed() {
  if (--installed) return;
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), next_hook);
}

void add_hook_functions(PyObject* module) {
  extra_index = _PyEval_RequestCodeExtraIndex(free_state);
  if (extra_index < 0 || PyModule_AddFunctions(module, functions) < 0) throw PythonError();
  // A body without RESUME, which the tracing of 3.12 hangs on: cut off the front of an empty function's code.
  PyObject* scope = PyDict_New();
  PyObject* made = PyRun_String(
      "import dis\n"
      "def f(): pass\n"
      "b = f.__code__.co_code\n"
      "code = f.__code__.replace(co_code=b[2:] if b[0] == dis.opmap['RESUME'] else b, co_linetable=b'')\n",
      Py_file_input, scope, scope);
  if (!made) throw PythonError();
  Py_DECREF(made);
  return_none = reinterpret_cast<PyCodeObject*>(Py_NewRef(PyDict_GetItemString(scope, "code")));
  Py_DECREF(scope);
}

}  // namespace tocha::capture
