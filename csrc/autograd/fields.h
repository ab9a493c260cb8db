// What a node keeps, shown to whoever asks: the garbage collector, and Python (`y.grad_fn._saved_self`).
#pragma once

#include <optional>
#include <string>

#include "core/tensor.h"

namespace tocha::autograd {

class Saved;
class SavedList;

// A node calls these once for each thing it keeps; whoever asks overrides those it wants to see.
class Fields {
 public:
  virtual ~Fields() = default;
  virtual void tensor(const char* /*name*/, Saved& /*kept*/) {}
  virtual void tensors(const char* /*name*/, SavedList& /*kept*/) {}
  virtual void sizes(const char* /*name*/, Saved& /*kept*/) {}  // of a tensor that is kept as a shape only
  virtual void number(const char* /*name*/, const Scalar& /*value*/) {}
  virtual void ints(const char* /*name*/, IntsView /*value*/) {}
  virtual void text(const char* /*name*/, const std::string& /*value*/) {}
  virtual void none(const char* /*name*/) {}
  virtual void object(PyObject* /*o*/) {}  // something of Python's, without a name

  template <class T>
  void number(const char* name, const std::optional<T>& value) {
    value ? number(name, Scalar(*value)) : none(name);
  }
  template <class T>
  void ints(const char* name, const std::optional<T>& value) {
    value ? ints(name, IntsView(*value)) : none(name);
  }
  void text(const char* name, const std::optional<std::string>& value) { value ? text(name, *value) : none(name); }
};

}  // namespace tocha::autograd
