#include "autograd/saved.h"

#include "autograd/forward.h"
#include "autograd/leaf.h"
#include "autograd/levels.h"
#include "core/sparse.h"
#include "ops/views.h"

namespace tocha::autograd {
namespace {

PyObject* call(PyObject* f, PyObject* argument) {
  PyObject* r = PyObject_CallOneArg(f, argument);
  if (!r) throw PythonError();
  return r;
}

void check_not_released(const Node& owner) {
  TOCHA_CHECK(
      !owner.released, Runtime,
      "[backward] Trying to backward through the graph a second time (or directly access saved tensors after they "
      "have already been freed): ",
      owner.title(),
      " has let go of what it saved. Specify retain_graph=True if you need to backward through the graph a second "
      "time or if you need to access saved tensors after calling backward.");
}

// Another tensor on the same memory, without history; of a class that takes operators over, what that makes of it.
Tensor without_history(const Tensor& t) {
  if (!((marks_of(t.get()) | dispatch_forced) & kDispatches)) [[likely]]
    return alias_of(t, true);
  if (levels::held(t)) return levels::alias(t);
  Unrecorded off;
  return ops::detach(t);
}

// Whether it was computed, by what it knows of itself. An input keeps the answer where a result keeps its index.
bool has_history(const Tensor& t) { return t.get()->autograd && t.get()->autograd->grad_fn; }

// Takes the place of a tensor whose memory is elsewhere.
Tensor shell_of(const Tensor& t) { return empty(Ints{0}, t.dtype(), Device{DeviceType::meta}); }

}  // namespace

void Saved::pack(const Tensor& shown, const Tensor& t, PyObject* pack, PyObject* unpack) {
  int64_t before = t.version();
  auto packed = std::make_unique<Packed>();
  Modes& m = modes();
  {
    GradMode off(false);
    PyObject* kept_pack = std::exchange(m.pack, nullptr);  // what a hook saves is its own affair
    Py_INCREF(pack);
    packed->value = PyObject_CallOneArg(pack, shown.object());
    Py_DECREF(pack);
    m.pack = kept_pack;
    if (!packed->value) throw PythonError();
  }
  packed->unpack = Py_NewRef(unpack);
  TOCHA_CHECK(t.version() == before, Runtime,
              "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
              "not be modified by in-place operations");
  Tensor shell;
  if (!is_output_ && tracked(t)) {
    shell = shell_of(t);
    stand_in(shell, t);
  }
  forget_tensor();
  tensor_ = std::move(shell);
  packed_ = std::move(packed);
  kind_ = Kind::packed;
}

void Saved::forget_tensor() {
  if (kind_ == Kind::input && tensor_) --tensor_.get()->held;
  tensor_ = Tensor();
}

void Saved::keep(const Tensor& t) {
  TOCHA_CHECK(!t.get()->inference, Runtime,
              "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
              "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
              "use it in autograd, or use `tocha.no_grad()` instead of `tocha.inference_mode()`.");
  version_ = t.version();
  if (modes().pack && !t.is_wrapped_number()) {
    pack(t, t, modes().pack, modes().unpack);
  } else if (is_output_) {
    tensor_ = without_history(t);
  } else {
    tensor_ = t;
    index_ = has_history(t);
    ++t.get()->held;
  }
}

void Saved::register_hooks(const Node& owner, PyObject* pack_hook, PyObject* unpack_hook) {
  check_not_released(owner);
  TOCHA_CHECK(kind_ != Kind::none && kind_ != Kind::shape, Runtime,
              "Calling register_hooks on a saved tensor with value None is forbidden");
  TOCHA_CHECK(
      kind_ != Kind::packed, Runtime,
      "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
      "is allowed at a time.");
  pack(without_history(tensor_), Tensor(tensor_), pack_hook, unpack_hook);
}

void Saved::input(const Tensor& t) {
  if (!t) return;
  kind_ = Kind::input;
  keep(t);
}

void Saved::output(const Tensor& t, uint32_t index) {
  if (!t) return;
  is_output_ = t.get()->requires_grad;
  kind_ = is_output_ ? Kind::output : Kind::input;
  index_ = index;
  keep(t);
}

void Saved::shape_of(const Tensor& t) {
  if (!t) return;
  static const auto& nothing = *new StorageRef(new_storage(0, Device{DeviceType::meta}));
  kind_ = Kind::shape;
  tensor_ = make_tensor(nothing, t.dtype(), t.sizes(), t.strides(), t.offset());
  tensor_.get()->device = t.device();
  tensor_.get()->conj = t.is_conj();
  tensor_.get()->neg = t.is_neg();
}

Tensor Saved::get(const Node& owner, bool with_history) const {
  if (kind_ == Kind::shape) return tensor_;
  check_not_released(owner);
  if (kind_ == Kind::none) return {};
  if (kind_ == Kind::packed) return unpacked(owner);
  TOCHA_CHECK(
      tensor_.version() == version_, Runtime, "[", owner.title(),
      "] one of the variables needed for gradient computation has been modified by an inplace operation: [torch.",
      tensor_.dtype(), "Tensor ", tensor_.sizes(), "]",
      is_output_ ? str(", which is output ", index_, " of ", owner.title()) : std::string(), ", is at version ",
      tensor_.version(), "; expected version ", version_,
      " instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
      "tocha.autograd.set_detect_anomaly(True).");
  TOCHA_CHECK(is_output_ || !index_ || has_history(tensor_), Runtime, "[", owner.title(),
              "] Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
              "supported, please use out-of-place `.detach()` instead");
  const bool taken = (marks_of(tensor_.get()) | dispatch_forced) & kDispatches;
  if (!is_output_ || !(with_history || taken)) return levels::seen_in_walk(tensor_);
  Tensor result = without_history(tensor_);
  if (with_history) add_history(result, owner);
  return result;
}

Tensor Saved::unpacked(const Node& owner) const {
  PyObject* r = call(packed_->unpack, packed_->value);
  if (!PyObject_TypeCheck(r, tensor_type)) {
    std::string type = Py_TYPE(r)->tp_name;
    Py_DECREF(r);
    fail(ErrorKind::Type, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type ", type);
  }
  Tensor result = Tensor::steal(reinterpret_cast<TensorObject*>(r));
  if (is_sparse(result)) return result;
  result = without_history(result);  // whatever its history is, here it has that of the tensor that was packed
  if (is_output_)
    add_history(result, owner);
  else if (tensor_)
    stand_in(result, tensor_);
  return result;
}

void Saved::add_history(const Tensor& result, const Node& owner) const {
  AutogradMeta& m = autograd_meta(result.get());
  Edge history = history_of_result(const_cast<Node&>(owner), index_, result);
  m.grad_fn = std::move(history.node);
  m.output = history.input;
  result.get()->requires_grad = true;
  if (Tensor tangent = tangent_of(tensor_)) set_tangent(result, tangent);
}

void Saved::take_tangent(const Tensors& results) {
  if (!is_output_ || kind_ == Kind::none || index_ >= results.size() || !results[index_]) return;
  Tensor tangent = tangent_of(results[index_]);
  if (!tangent) return;
  if (!tensor_) tensor_ = shell_of(tangent);
  set_tangent(tensor_, tangent);
}

void Saved::reset() {
  forget_tensor();
  packed_.reset();
  kind_ = Kind::none;
}

void SavedList::inputs(const Tensors& ts) {
  n_ = ts.size();
  items_ = std::make_unique<Saved[]>(n_);
  for (size_t i = 0; i < n_; ++i) items_[i].input(ts[i]);
}

void SavedList::shapes_of(const Tensors& ts) {
  shapes_ = true;
  n_ = ts.size();
  items_ = std::make_unique<Saved[]>(n_);
  for (size_t i = 0; i < n_; ++i) items_[i].shape_of(ts[i]);
}

Tensors SavedList::get(const Node& owner) const {
  if (!shapes_) check_not_released(owner);
  Tensors out;
  out.reserve(n_);
  for (size_t i = 0; i < n_; ++i) out.push_back(items_[i].get(owner));
  return out;
}

}  // namespace tocha::autograd
