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
  // A result: kept without its history, which would keep the node alive for ever; given back with it. One that has no
  // gradient is kept like an input.
  void output(const Tensor& t, uint32_t index);
  // Only shape, dtype and device will be asked.
  void shape_of(const Tensor& t);
  // Checks that nothing was written to it since. Null if nothing was saved. A result's history is added where
  // somebody will look at it.
  Tensor get(const Node& owner) const { return get(owner, grad_enabled()); }
  Tensor get(const Node& owner, bool with_history) const;
  void reset();
  bool has() const { return kind_ != Kind::none; }
  bool shape_only() const { return kind_ == Kind::shape; }
  // Packs what is kept, which nobody has packed yet.
  void register_hooks(const Node& owner, PyObject* pack, PyObject* unpack);
  // The tangent that the result it was kept as has got since.
  void take_tangent(const Tensors& results);
  template <class F>
  void each_object(F f) const {
    f(tensor_.object());
    if (!packed_) return;
    f(packed_->value);
    f(packed_->unpack);
  }

 private:
  enum class Kind : uint8_t { none, input, output, shape, packed };
  struct Packed {
    ~Packed() {
      Py_XDECREF(value);
      Py_XDECREF(unpack);
    }
    PyObject* value = nullptr;
    PyObject* unpack = nullptr;
  };
  void keep(const Tensor& t);
  void pack(const Tensor& shown, const Tensor& t, PyObject* pack, PyObject* unpack);
  Tensor unpacked(const Node& owner) const;
  void forget_tensor();
  void add_history(const Tensor& result, const Node& owner) const;
  Tensor tensor_;  // packed: an empty one that stands in for it, if it has a history or a tangent
  std::unique_ptr<Packed> packed_;
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
  size_t size() const { return n_; }
  Saved& operator[](size_t i) { return items_[i]; }
  bool shapes_only() const { return shapes_; }
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
