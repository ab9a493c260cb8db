// The generator argument of random operators: a counted handle on a Python Generator, or nothing for the default one.
#pragma once

#include <Python.h>

#include <utility>

#include "core/generator.h"

namespace tocha {

class GeneratorRef {
 public:
  GeneratorRef() = default;
  GeneratorRef(PyObject* owner, Generator& generator) : owner_(Py_NewRef(owner)), generator_(&generator) {}
  GeneratorRef(const GeneratorRef& o) : owner_(Py_XNewRef(o.owner_)), generator_(o.generator_) {}
  GeneratorRef& operator=(GeneratorRef o) noexcept {
    std::swap(owner_, o.owner_);
    std::swap(generator_, o.generator_);
    return *this;
  }
  ~GeneratorRef() { Py_XDECREF(owner_); }
  explicit operator bool() const { return generator_ != nullptr; }
  PyObject* owner() const { return owner_; }
  Generator& get() const { return generator_ ? *generator_ : default_generator(); }

 private:
  PyObject* owner_ = nullptr;
  Generator* generator_ = nullptr;
};

}  // namespace tocha
