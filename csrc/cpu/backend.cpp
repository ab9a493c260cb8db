#include "cpu/backend.h"

#include "cpu/elementwise.h"
#include "cpu/reduce.h"
#include "dispatch/backend.h"

namespace tocha::cpu {
namespace {

void run_pointwise(const PointwiseOp& op, DType compute, const Tensor* const* operands, const char* params) {
  const Loop* loops = op.cpu_loops[static_cast<int>(cpu_isa())];
  Loop loop = loops[static_cast<int>(compute)];
  DType math = compute;
  if (!loop && is_reduced_floating(compute)) {
    math = DType::Float32;
    loop = loops[static_cast<int>(math)];
  }
  TOCHA_CHECK(loop, NotImplemented, "[", op.name, "] \"", op.name, "_cpu\" not implemented for '", compute, "'");
  Elementwise call{loop, params, op.nout, op.nin, {}, {}, op.expensive};
  for (int i = 0; i < op.nout + op.nin; ++i) {
    call.operands[i] = operands[i];
    call.dtypes[i] = op.types[i].resolve(math);
  }
  TOCHA_CHECK(run(call) == 0, Runtime, "[", op.name, "] ZeroDivisionError");
}

const Backend the_cpu = {"cpu", run_pointwise, reduce, copy, fill};

}  // namespace

void register_cpu() { register_backend(DeviceType::cpu, the_cpu); }

}  // namespace tocha::cpu
