// The graph of differentiable operations: a node per recorded operation, edges to the nodes of its inputs. Nodes are
// counted by hand; the GIL guards them. Generated operators make them, the engine (engine.h) walks them.
#pragma once

#include <memory>
#include <vector>

#include "autograd/fields.h"
#include "core/tensor.h"

namespace tocha::autograd {

class Node;

class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(Node* borrowed);
  NodeRef(const NodeRef& o) : NodeRef(o.p_) {}
  NodeRef(NodeRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  NodeRef& operator=(NodeRef o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~NodeRef();
  Node* get() const { return p_; }
  Node* operator->() const { return p_; }
  Node& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  Node* p_ = nullptr;
};

// Where a gradient goes: an input of a node (an output of the operation that the node stands for).
struct Edge {
  NodeRef node;
  uint32_t input = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

// What the gradient of one result of an operation must look like.
struct Shape {
  Ints sizes;
  DType dtype;
  Device device;
  bool any_dtype = false;  // a leaf's whose grad_dtype is None
};

using Grads = std::vector<Tensor>;  // null where there is none

class CopySlices;

// What few nodes have: hooks, a face in Python, where the forward call was.
struct Extras {
  struct Retained {
    uint32_t input;
    TensorObject* tensor;  // takes itself out when it dies
  };
  struct TensorHooks {
    uint32_t input;
    PyObject* hooks;  // a dict of callables, owned
  };
  ~Extras();
  PyObject* wrapper = nullptr;  // borrowed: it holds the node
  PyObject* metadata = nullptr;
  PyObject* pre_hooks = nullptr;  // dicts of callables
  PyObject* post_hooks = nullptr;
  PyObject* traceback = nullptr;  // anomaly mode: where the operation was called
  NodeRef parent;                 // anomaly mode: the node whose backward made this one
  CopySlices* base = nullptr;     // an operation that wrote to a view: the node of the base, which holds this one
  std::vector<TensorHooks> tensor_hooks;
  std::vector<Retained> retained;
};

class Node {
 public:
  Node();
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual const char* name() const = 0;
  // What Python sees: the operator that was called, where that is made of others.
  const char* title() const { return label ? label : name(); }
  // From the gradients of the operation's results to those of its inputs, one per edge; null where none flows.
  virtual void apply(Grads& grads, Grads& out) = 0;
  // Drops what was saved: a second backward then says so.
  // Whether apply knows sparse gradients; the others get them dense.
  virtual bool takes_sparse() const { return false; }
  virtual void release_saved() {}
  // Shows what it keeps.
  virtual void fields(Fields&) {}

  void add_edge(Edge e);
  bool wants(size_t i) const { return i < next.size() && next[i]; }
  Extras& extra() {
    if (!extras) extras = std::make_unique<Extras>();
    return *extras;
  }

  int64_t refs = 0;
  uint64_t sequence;   // later nodes run first
  uint32_t depth = 0;  // more than any node it leads to
  bool released = false;
  bool recorded = false;  // an input required grad: so do the results, even where no gradient can get to it
  const char* label = nullptr;
  std::vector<Edge> next;
  std::vector<Shape> inputs;  // one per result of the operation
  std::unique_ptr<Extras> extras;
};

uint64_t next_sequence_number();
// The same text, alive for ever.
const char* interned(const std::string& text);
void release(Node* node);  // without recursion, however long the chain behind it

inline NodeRef::NodeRef(Node* borrowed) : p_(borrowed) {
  if (p_) ++p_->refs;
}
inline NodeRef::~NodeRef() {
  if (p_ && --p_->refs == 0) release(p_);
}

template <class N, class... Args>
NodeRef make_node(Args&&... args) {
  return NodeRef(new N(std::forward<Args>(args)...));
}

// What an operator says whose derivative is not known.
struct Unknown {
  ErrorKind kind;        // of what backward says; forward mode's is NotImplemented
  const char* backward;  // where backward gets to it
  const char* forward;   // where a tangent does
};

// A node whose backward is not known: says so when it is reached.
class NotImplementedNode : public Node {
 public:
  explicit NotImplementedNode(const Unknown& words, const char* name) : words_(words), name_(name) {}
  const char* name() const override { return name_; }
  void apply(Grads& grads, Grads& out) override;

 private:
  const Unknown& words_;
  const char* name_;
};

}  // namespace tocha::autograd
