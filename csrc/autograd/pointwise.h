// Recording and differentiating elementwise operators: from tables that the build derives from their formulas.
#pragma once

#include "autograd/saved.h"
#include "dispatch/pointwise.h"
#include "dispatch/taken_over.h"

namespace tocha::autograd {

// A real tensor as complex numbers, for formulas that are about those.
Tensor as_complex(const Tensor& t);

struct GradientLeaf {
  enum Kind : uint8_t { grad, input, output } kind;
  uint8_t index;
};

// The gradients of one or all inputs as one elementwise operator on leaves.
struct FusedGradient {
  const PointwiseOp* op;  // null: there is no kernel
  const GradientLeaf* leaves;
};

struct PointwiseGradient {
  const char* node;          // its name in Python
  const char* const* names;  // of the inputs, then of the params
  uint8_t nin, nout, nparams;
  const uint8_t* passes;         // per input: 1 where the gradient passes through as it is
  const FusedGradient* fused;    // per input, then for all of them
  const uint16_t* needs_inputs;  // per input: which inputs its gradient reads, as bits
  const uint16_t* needs_outputs;
  // The gradient of input `which` from other operators, which record themselves: for gradients of gradients, and for
  // complex numbers.
  Tensor (*composite)(int which, const Tensor* grads, const Tensor* ins, const Tensor* outs, const Scalar* params);
};

// A composite for gradients that are 0.
Tensor zero_gradient(int which, const Tensor* grads, const Tensor* ins, const Tensor* outs, const Scalar* params);

// `given`: the call, for whoever takes it over below. `label`: what the node is called instead, this time.
void pointwise(const PointwiseGradient& rule, const PointwiseOp& op, Tensor* outs, const Tensor* ins,
               const Scalar* params, dispatch::Given given, const char* label = nullptr);
void pointwise_inplace(const PointwiseGradient& rule, const PointwiseOp& op, const Tensor* ins, const Scalar* params,
                       dispatch::Given given, const char* label = nullptr);

}  // namespace tocha::autograd
