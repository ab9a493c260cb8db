#include "autograd/node.h"

#include <new>
#include <set>

#include "autograd/meta.h"

namespace tocha::autograd {
namespace {

uint64_t next_sequence = 0;
// Nodes that nobody holds any more, while one of them is being destroyed.
std::vector<Node*>* doomed = nullptr;

}  // namespace

uint64_t next_sequence_number() { return next_sequence; }

const char* interned(const std::string& text) {
  static auto& known = *new std::set<std::string>();
  return known.insert(text).first->c_str();
}

Node::Node() : sequence(next_sequence++) {}
Node::~Node() = default;

void Node::add_edge(Edge e) {
  if (e.node && e.node->depth >= depth) depth = e.node->depth + 1;
  next.push_back(std::move(e));
}

void release(Node* node) {
  if (doomed) {
    try {
      doomed->push_back(node);
    } catch (const std::bad_alloc&) {  // no memory to let it wait
      delete node;
    }
    return;
  }
  std::vector<Node*> waiting;
  doomed = &waiting;
  delete node;
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

void NotImplementedNode::apply(Grads&, Grads&) { fail(words_.kind, words_.backward); }

}  // namespace tocha::autograd
