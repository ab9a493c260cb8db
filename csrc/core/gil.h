// Lets other Python threads run while a long kernel works.
#pragma once

#include <Python.h>

#include <cstdint>

namespace tocha {

// Releases the GIL if the work (in elements, roughly) is worth the hand-over.
class ReleaseGil {
 public:
  explicit ReleaseGil(int64_t work) : state_(work >= kWorthIt && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~ReleaseGil() {
    if (state_) PyEval_RestoreThread(state_);
  }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  static constexpr int64_t kWorthIt = 1 << 16;
  PyThreadState* state_;
};

}  // namespace tocha
