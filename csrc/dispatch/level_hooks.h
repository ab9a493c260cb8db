// What the door below autograd asks about levels of transforms (autograd/levels.h, python/level_calls.cpp).
#pragma once

#include "dispatch/taken_over.h"

namespace tocha::dispatch {

// How a level treats a call; found at the first call on a tensor of a level.
struct Batching {
  // An operator with a rule of its own, a formula, a view, one that is made of others, or such a one with a gradient of
  // its own, which levels of differentiation see whole.
  enum Kind : uint8_t { rule = 1, elementwise, geometry, body, body_with_gradient } kind;
  bool draws;        // random numbers: a vmap has a say although no operand is of a level
  PyObject* python;  // what Python makes of a batch
};
extern const Batching& (*batching_of)(const Call& call);

// Whether the innermost level of a call's tensors is a vmap.
extern bool (*innermost_maps)(const Call& call, const Value* given);
// The memory behind a tensor of levels: all samples together. Others are themselves.
extern Tensor (*value_behind)(const Tensor& t);

// Inside of a level: a call whose only tensors are numbers, which modes and fakes have no part in.
bool only_numbers(const Call& call, const Value* given);

// Levels that are open in this thread, and how many of them are vmaps.
extern thread_local int open_levels, vmaps;

}  // namespace tocha::dispatch
