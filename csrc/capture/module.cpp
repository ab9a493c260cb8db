// tocha._C._capture: what tocha._dynamo uses of this room.
#include "capture/guards.h"
#include "capture/hook.h"
#include "core/error.h"

namespace tocha::capture {

void add_capture_module(PyObject* module) {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "tocha._C._capture", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  PyObject* capture = PyModule_Create(&definition);
  if (!capture) throw PythonError();
  add_hook_functions(capture);
  add_wrapper_type(capture);
  add_guards_type(capture);
  if (PyModule_AddObject(module, "_capture", capture) < 0) throw PythonError();
}

}  // namespace tocha::capture
