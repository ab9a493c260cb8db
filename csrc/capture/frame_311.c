/* Frames of Python 3.11. */
#include <Python.h>

#if PY_VERSION_HEX < 0x030C0000
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>

#include "capture/frame.h"

PyCodeObject* capture_frame_code(_PyInterpreterFrame* frame) { return frame->f_code; }
PyObject* capture_frame_function(_PyInterpreterFrame* frame) { return (PyObject*)frame->f_func; }
PyObject* capture_frame_globals(_PyInterpreterFrame* frame) { return frame->f_globals; }
PyObject** capture_frame_locals(_PyInterpreterFrame* frame) { return frame->localsplus; }

/* The caller that pushed the frame frees it. */
void capture_frame_end(PyThreadState* thread, _PyInterpreterFrame* frame, PyCodeObject* returns) {
  (void)thread;
  (void)frame;
  (void)returns;
}
#endif
