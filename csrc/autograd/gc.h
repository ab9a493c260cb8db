// Python's cycle collector seen from the graph: cycles through hooks, contexts, notes and kept tensors are found.
#pragma once

#include "autograd/node.h"

namespace tocha::autograd {

// Visits the Python objects of a node and of those behind it, as far as whoever asks is their only holder: what others
// hold too is not garbage for this holder to report. `root` is null or counted once by the caller.
int traverse(Node* root, visitproc visit, void* arg);
int traverse_extras(const Extras& extras, visitproc visit, void* arg);

}  // namespace tocha::autograd
