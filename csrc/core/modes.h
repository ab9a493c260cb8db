// What is switched on or off per thread: recording for gradients, inference, anomaly reports, saved-tensor hooks.
#pragma once

#include <Python.h>

#include <cstdint>

namespace tocha {

struct Modes {
  bool grad = true;
  bool inference = false;
  bool grad_layout = true;  // a gradient is laid out as its variable
  bool anomaly = false;
  bool anomaly_checks_nan = true;
  int64_t forward_level = 0;  // forward mode: the level that is open, or 0
  PyObject* pack = nullptr;   // the innermost pair of saved-tensor hooks; Python's stack holds them
  PyObject* unpack = nullptr;
  int dispatch_modes = 0;  // how many dispatch modes are active
  int dispatch_off = 0;    // above 0: nobody takes operators over
};

extern thread_local Modes current_modes __attribute__((tls_model("initial-exec")));
inline Modes& modes() { return current_modes; }

constexpr uint32_t kProfiles = 1u << 24;  // beside the marks of tensors: a profiler records operators

// kDispatches while a dispatch mode is active on some thread: then operators ask, plain tensors or not. kProfiles while
// a profiler records them.
[[gnu::visibility("hidden")]] inline uint32_t dispatch_forced = 0;
// The same for factories, which may be asked for tensors of a device that Python has made.
[[gnu::visibility("hidden")]] inline uint32_t factories_forced = 0;

}  // namespace tocha
