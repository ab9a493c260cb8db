// Anomaly mode: remembers where operations were called, and says so when their backward fails or makes NaNs.
#pragma once

#include "autograd/node.h"

namespace tocha::autograd {

// Called for every node made while the mode is on.
void remember_call(Node& node);
// apply, with the report on failure.
void apply_watched(Node& node, Grads& grads, Grads& out);

}  // namespace tocha::autograd
