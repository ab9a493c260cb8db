#include "autograd/gc.h"

#include <typeinfo>

#include "autograd/copy_slices.h"
#include "autograd/saved.h"

namespace tocha::autograd {
namespace {

// Long graphs are not walked to their end at every collection; what is further away is freed without the collector.
constexpr int kFarthest = 128;

// Nodes that only those already walked hold, directly or through tensors that they keep.
class Walk {
 public:
  explicit Walk(Node* root) { ready_[n_++] = root; }
  Node* next() { return n_ ? ready_[--n_] : nullptr; }
  void reach(Node* node) {
    if (node && n_ < kFarthest && (node->refs == 1 || reached(node) == node->refs)) ready_[n_++] = node;
  }
  // A kept tensor. The node that it alone holds is its own to report; one that others hold too may be found by all.
  void reach(const TensorObject* t) {
    const auto* o = reinterpret_cast<const PyObject*>(t);
    if (Py_REFCNT(o) != 1 && reached(o) != Py_REFCNT(o)) return;
    Node* node = t->autograd ? t->autograd->grad_fn.get() : nullptr;
    if (node && node->refs > 1) reach(node);
    if (t->base) reach(t->base);
  }

 private:
  // How often something that has several holders was met.
  int64_t reached(const void* what) {
    for (int i = 0; i < shared_; ++i)
      if (met_[i] == what) return ++times_[i];
    if (shared_ == kShared) return 0;
    met_[shared_] = what;
    times_[shared_] = 1;
    return times_[shared_++];
  }

  static constexpr int kShared = 32;
  Node* ready_[kFarthest];
  const void* met_[kShared];
  int64_t times_[kShared];
  int n_ = 0, shared_ = 0;
};

class Visitor final : public Fields {
 public:
  Visitor(Walk& walk, visitproc visit, void* arg) : walk_(walk), visit_(visit), arg_(arg) {}
  void tensor(const char*, Saved& kept) override {
    kept.each_object([&](PyObject* o) {
      object(o);
      if (o && PyObject_TypeCheck(o, tensor_type)) walk_.reach(reinterpret_cast<TensorObject*>(o));
    });
  }
  void tensors(const char*, SavedList& kept) override {
    for (size_t i = 0; i < kept.size(); ++i) tensor(nullptr, kept[i]);
  }
  void object(PyObject* o) override {
    if (o && !status) status = visit_(o, arg_);
  }
  int status = 0;

 private:
  Walk& walk_;
  visitproc visit_;
  void* arg_;
};

}  // namespace

int traverse_extras(const Extras& e, visitproc visit, void* arg) {
  Py_VISIT(e.metadata);
  Py_VISIT(e.pre_hooks);
  Py_VISIT(e.post_hooks);
  for (const auto& h : e.tensor_hooks) Py_VISIT(h.hooks);
  return 0;
}

int traverse(Node* root, visitproc visit, void* arg) {
  if (!root || root->refs != 1) return 0;
  Walk walk(root);
  Visitor visitor(walk, visit, arg);
  for (int seen = 0; seen < kFarthest; ++seen) {
    Node* node = walk.next();
    if (!node) break;
    node->fields(visitor);
    if (visitor.status) return visitor.status;
    if (node->extras) {
      if (int status = traverse_extras(*node->extras, visit, arg)) return status;
      walk.reach(node->extras->parent.get());
    }
    for (const Edge& e : node->next) walk.reach(e.node.get());
    if (typeid(*node) == typeid(CopySlices)) walk.reach(static_cast<CopySlices*>(node)->writer());
  }
  return 0;
}

}  // namespace tocha::autograd
