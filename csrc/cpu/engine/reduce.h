// The CPU's reduction engine: folds elements of any layout into arrays of states ("lanes").
#pragma once

#include "dispatch/reduction.h"

namespace tocha::cpu {

void reduce(const ReductionOp& op, DType compute, const ReductionCall& call);

}  // namespace tocha::cpu
