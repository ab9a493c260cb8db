// Numbers that gradients compute of an operator's numbers, beside what they compute of its tensors.
#pragma once

#include "dispatch/rules.h"

namespace tocha {

// f() as a number. It concerns no tensor: nobody takes the operators in it over.
template <class F>
Tensor computed_number(F f) {
  struct Unseen {
    Unseen() { ++modes().dispatch_off; }
    ~Unseen() { --modes().dispatch_off; }
  } unseen;
  return rewrapped(f());
}

}  // namespace tocha
