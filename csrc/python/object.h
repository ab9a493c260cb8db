// Small helpers around CPython: owned references, and errors across the boundary.
#pragma once

#include <Python.h>

#include <string>
#include <utility>

#include "core/error.h"

namespace tocha::python {

class Ref {  // an owned reference
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : p_(owned) {}
  static Ref borrow(PyObject* p) {
    Py_XINCREF(p);
    return Ref(p);
  }
  Ref(const Ref& o) : p_(o.p_) { Py_XINCREF(p_); }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { Py_XDECREF(p_); }
  PyObject* get() const { return p_; }
  PyObject* give() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// Wraps a new reference from the C API; a null becomes the pending Python error.
inline Ref own(PyObject* p) {
  if (!p) throw PythonError();
  return Ref(p);
}
inline void check(int status) {
  if (status < 0) throw PythonError();
}

// Turns the C++ exception in flight into a Python one.
void set_python_error();
extern PyObject* linalg_error;  // tocha.linalg.LinAlgError
extern PyObject* compiled_index_error;

// Runs f and turns exceptions into Python errors; f returns a new reference.
template <class F>
PyObject* guarded(F&& f) {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}
template <class F>
int guarded_status(F&& f) {
  try {
    f();
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

inline std::string text_of(PyObject* unicode) {
  Py_ssize_t n = 0;
  const char* s = PyUnicode_AsUTF8AndSize(unicode, &n);
  if (!s) throw PythonError();
  return {s, static_cast<size_t>(n)};
}

// Imported once and kept.
PyObject* cached_attribute(const char* module, const char* name);

}  // namespace tocha::python
