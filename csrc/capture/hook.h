// The frame-evaluation hook (PEP 523): while a compiled callable is on some thread's stack, every Python frame that
// starts passes through here. A frame whose code was captured runs what it was captured as, if its guards hold; one
// that was not is offered to the thread's callback.
#pragma once

#include <Python.h>

namespace tocha::capture {

// The callback of this thread, or null: frames run as they are.
extern thread_local PyObject* current_callback;

// Nothing is captured on this thread within it.
class Paused {
 public:
  Paused() : before_(current_callback) { current_callback = nullptr; }
  ~Paused() { current_callback = before_; }
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;

 private:
  PyObject* before_;
};

// The hook is in place as long as one of these lives, on any thread.
class Installed {
 public:
  Installed();
  ~Installed();
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;
};

void add_hook_functions(PyObject* module);
void add_wrapper_type(PyObject* module);  // csrc/capture/wrapper.cpp
void add_capture_module(PyObject* module);

}  // namespace tocha::capture
