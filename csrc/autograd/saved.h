// Tensors that a node keeps for its backward.
#pragma once

#include "autograd/history.h"

namespace tocha::autograd {

class Saved {
 public:
  Saved() = default;
  Saved(Saved&&) = delete;
  ~Saved() { reset(); }
  // An input of the operation: kept as it is.
  void input(const Tensor& t);
  // A result: kept without its history, which would keep the node alive for ever; given back with it.
  void output(const Tensor& t, uint32_t index);
  // Only shape, dtype and device will be asked.
  void shape_of(const Tensor& t);
  // Checks that nothing was written to it since. Null if nothing was saved.
  Tensor get(const Node& owner) const;
  void reset();
  bool has() const { return kind_ != Kind::none; }

 private:
  enum class Kind : uint8_t { none, input, output, shape, packed };
  void keep(const Tensor& t);
  Tensor tensor_;
  PyObject* packed_ = nullptr;
  PyObject* unpack_ = nullptr;
  int64_t version_ = 0;
  uint32_t index_ = 0;
  Kind kind_ = Kind::none;
  bool is_output_ = false;
};

class SavedList {
 public:
  void inputs(const Tensors& ts);
  void shapes_of(const Tensors& ts);
  Tensors get(const Node& owner) const;
  void reset() {
    items_.reset();
    n_ = 0;
  }

 private:
  std::unique_ptr<Saved[]> items_;
  size_t n_ = 0;
  bool shapes_ = false;
};

}  // namespace tocha::autograd
