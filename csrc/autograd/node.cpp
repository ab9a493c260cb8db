#include "autograd/node.h"

#include "autograd/meta.h"

namespace tocha::autograd {
namespace {

uint64_t next_sequence = 0;
// Nodes that nobody holds any more, while one of them is being destroyed.
std::vector<Node*>* doomed = nullptr;

}  // namespace

Node::Node() : sequence(next_sequence++) {}
Node::~Node() = default;

void Node::add_edge(Edge e) {
  if (e.node && e.node->depth >= depth) depth = e.node->depth + 1;
  next.push_back(std::move(e));
}

void release(Node* node) {
  if (doomed) {
    doomed->push_back(node);
    return;
  }
  std::vector<Node*> waiting{node};
  doomed = &waiting;
  while (!waiting.empty()) {
    Node* n = waiting.back();
    waiting.pop_back();
    delete n;
  }
  doomed = nullptr;
}

Extras::~Extras() {
  for (auto& h : tensor_hooks) Py_XDECREF(h.hooks);
  for (auto& r : retained)
    if (r.tensor->autograd) r.tensor->autograd->retained = false;
  Py_XDECREF(metadata);
  Py_XDECREF(pre_hooks);
  Py_XDECREF(post_hooks);
  Py_XDECREF(traceback);
}

void NotImplementedNode::apply(Grads&, Grads&) {
  fail(ErrorKind::Runtime, "[", op_, "] derivative for ", op_, " is not implemented");
}

}  // namespace tocha::autograd
