// Walks the graph backwards: a node runs when all gradients that will reach it have, later operations first.
#pragma once

#include "autograd/history.h"

namespace tocha::autograd {

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
  bool accumulate = true;  // into leaves' grad; otherwise results are captured for `inputs`
  bool allow_unreachable = true;
};

// From roots with their gradients. With inputs, only what leads to them runs; what arrives there is returned (null
// where nothing does) unless accumulate, when it is added to their grad.
Grads backward(const std::vector<Edge>& roots, Grads grads, const std::vector<Edge>& inputs, BackwardOptions options);

// Takes walks over in this thread, where it is set (compiled autograd); false: it leaves this one to the engine.
using OtherWalk = bool (*)(const std::vector<Edge>& roots, const Grads& grads, const std::vector<Edge>& inputs,
                           const BackwardOptions& options, Grads& found);
extern thread_local OtherWalk other_walk;

// The node that is running in this thread, for anomaly reports and nested graphs; null outside.
Node* current_node();
int backward_depth();
// A number for the walk that runs in this thread; -1 outside.
int64_t current_walk();
// Whether that walk will run (or already has run) this node.
bool will_run(const Node* node);
// Whether a gradient that arrives at this node is wanted: by that walk, or by who runs nodes without one.
bool is_asked_for(const Node* node);
// Whether that walk leaves nodes what they saved; outside, too.
bool keeps_graph();
// Run after the outermost backward of this thread ends.
void queue_callback(PyObject* callback);

}  // namespace tocha::autograd
