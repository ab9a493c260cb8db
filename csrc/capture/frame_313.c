/* Frames of Python 3.13. */
#include <Python.h>

#if PY_VERSION_HEX >= 0x030D0000
#define Py_BUILD_CORE 1
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>

#include "capture/frame.h"

PyCodeObject* capture_frame_code(_PyInterpreterFrame* frame) { return _PyFrame_GetCode(frame); }
PyObject* capture_frame_function(_PyInterpreterFrame* frame) { return frame->f_funcobj; }
PyObject* capture_frame_globals(_PyInterpreterFrame* frame) { return frame->f_globals; }
PyObject** capture_frame_locals(_PyInterpreterFrame* frame) { return frame->localsplus; }

void capture_frame_end(PyThreadState* thread, _PyInterpreterFrame* frame, PyCodeObject* returns) {
  Py_SETREF(frame->f_executable, Py_NewRef((PyObject*)returns));
  frame->instr_ptr = _PyCode_CODE(returns);
  PyObject* error = PyErr_GetRaisedException();
  Py_XDECREF(_PyEval_EvalFrameDefault(thread, frame, 0));
  PyErr_SetRaisedException(error);
}

size_t capture_inline_values(PyObject* dict, const void** at) {
  PyDictValues* values = ((PyDictObject*)dict)->ma_values;
  *at = values;
  return values ? (values->capacity + 1) * sizeof(PyObject*) + _Py_SIZE_ROUND_UP(values->capacity, sizeof(PyObject*)) : 0;
}
#endif
