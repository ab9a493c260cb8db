#include "autograd/gc.h"

#include <typeinfo>

#include "autograd/copy_slices.h"
#include "autograd/saved.h"

namespace tocha::autograd {
namespace {

// Long graphs are not walked to their end at every collection; what is further away is freed without the collector.
constexpr int kFarthest = 128;

class Visitor final : public Fields {
 public:
  Visitor(visitproc visit, void* arg) : visit_(visit), arg_(arg) {}
  void tensor(const char*, Saved& kept) override {
    kept.each_object([&](PyObject* o) { object(o); });
  }
  void tensors(const char*, SavedList& kept) override {
    for (size_t i = 0; i < kept.size(); ++i) tensor(nullptr, kept[i]);
  }
  void object(PyObject* o) override {
    if (o && !status) status = visit_(o, arg_);
  }
  int status = 0;

 private:
  visitproc visit_;
  void* arg_;
};

// Nodes that only those already walked hold.
class Walk {
 public:
  explicit Walk(Node* root) { ready_[n_++] = root; }
  Node* next() { return n_ ? ready_[--n_] : nullptr; }
  void reach(Node* node) {
    if (!node) return;
    if (node->refs == 1 || reached(node) == node->refs)
      if (n_ < kFarthest) ready_[n_++] = node;
  }

 private:
  // How many walked nodes lead to one that has several holders.
  int64_t reached(Node* node) {
    for (int i = 0; i < shared_; ++i)
      if (nodes_[i] == node) return ++times_[i];
    if (shared_ == kShared) return 0;
    nodes_[shared_] = node;
    times_[shared_] = 1;
    return times_[shared_++];
  }

  static constexpr int kShared = 32;
  Node* ready_[kFarthest];
  Node* nodes_[kShared];
  int64_t times_[kShared];
  int n_ = 0, shared_ = 0;
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
  Visitor visitor(visit, arg);
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
