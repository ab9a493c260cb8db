// Runs reductions: which dims, which accumulation dtype, the output's shape; then the backend's folds.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "dispatch/pointwise.h"

namespace tocha {

constexpr int kMaxStates = 4;

enum class ReducePromote : uint8_t {
  same,          // max, amin: the input's dtype
  sum_like,      // integers and bool accumulate as int64
  int_to_float,  // mean-like
  to_bool,       // any, all: elements are read as bool
};

struct ReductionOp {
  const char* name;
  const ReduceLoops* const* cpu_loops;  // per instruction set, then per compute dtype
  uint8_t nout, nstates, nparams;
  ReducePromote promote;
  bool has_identity;  // an empty range has a value
  bool ordered;       // positions count
  uint32_t dtypes;
  const TypeCode* types;  // outputs, states, params
};

struct ReductionCall {
  const Tensor* outs[2];
  const Tensor* in;
  bool reduced[64];  // per dim of in
  const char* params;
};

// An empty dim list means all dims. Outputs are fresh.
void reduction(const ReductionOp& op, Tensor* outs, const Tensor& self, IntsView dims, bool keepdim,
               std::optional<DType> dtype, const Scalar* params);
void reduction_out(const ReductionOp& op, const Tensor* outs, const Tensor& self, IntsView dims, bool keepdim,
                   std::optional<DType> dtype, const Scalar* params);

Ints reduced_sizes(const Tensor& self, IntsView dims, bool keepdim, const char* op);

}  // namespace tocha
