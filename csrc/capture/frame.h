/* What capture needs of an interpreter frame. Frames are CPython's own and differ by version: one C file for each. */
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _PyInterpreterFrame;

PyCodeObject* capture_frame_code(struct _PyInterpreterFrame* frame); /* borrowed, as all of these */
PyObject* capture_frame_function(struct _PyInterpreterFrame* frame);
PyObject* capture_frame_globals(struct _PyInterpreterFrame* frame);
PyObject** capture_frame_locals(struct _PyInterpreterFrame* frame);

/* Ends a frame that was never run, as running it would have: from 3.12 on whoever evaluates a frame frees it. `returns`
   is a code object that does nothing but return, with no RESUME to be traced: run in the frame's place it frees the
   frame. */
void capture_frame_end(PyThreadState* thread, struct _PyInterpreterFrame* frame, PyCodeObject* returns);

#if PY_VERSION_HEX >= 0x030D0000
/* The memory of a dict that shares its keys with others, and how many bytes: writes of attributes go past the dict into
   it, and watchers are not told. 0 where the dict keeps its own items. */
size_t capture_inline_values(PyObject* dict, const void** at);
#endif

#ifdef __cplusplus
}
#endif
