#include "cpu/engine/backend.h"

#include <cstring>

#include "core/dtype_messages.h"
#include "cpu/engine/elementwise.h"
#include "cpu/engine/reduce.h"
#include "dispatch/backend.h"

namespace tocha::cpu {
namespace {

[[gnu::always_inline]] inline void run_loop(const PointwiseOp& op, DType math, const Tensor* const* operands,
                                            const char* params) {
  Loop loop = op.cpu_loops[static_cast<int>(cpu_isa())][static_cast<int>(math)];
  if (!loop) [[unlikely]]
    refuse_dtype(op.name, math);
  Elementwise call;  // the arrays are filled as far as they are read
  call.loop = loop, call.params = params, call.nout = op.nout, call.nin = op.nin, call.expensive = op.expensive;
  for (int i = 0; i < op.nout + op.nin; ++i) {
    call.operands[i] = operands[i];
    call.dtypes[i] = op.types[i].resolve(math);
  }
  TOCHA_CHECK(run(call) == 0, Runtime, "[", op.name, "] ZeroDivisionError");
}

bool keeps_precision(TypeCode code, const Tensor& t) {
  if (code.code == TypeCode::T_number) return t.is_wrapped_number();
  return code.code == TypeCode::T_scalar && t.dim() == 0;
}

bool is_exact_in(DType dtype, const Tensor& element) {
  alignas(16) char narrow[16], wide[16], back[16];
  cast_loop(element.dtype(), dtype)(narrow, 0, element.bytes(), 0, 1);
  const DType math = math_dtype(dtype);
  cast_loop(element.dtype(), math)(wide, 0, element.bytes(), 0, 1);
  cast_loop(dtype, math)(back, 0, narrow, 0, 1);
  return std::memcmp(wide, back, static_cast<size_t>(itemsize(math))) == 0;
}

// What the loop computes in: the half type where it has a loop and every number is exact in it, else the wider one.
DType loop_dtype(const PointwiseOp& op, DType compute, const Tensor* const* operands) {
  if (!op.cpu_loops[static_cast<int>(cpu_isa())][static_cast<int>(compute)]) return math_dtype(compute);
  for (int i = op.nout; i < op.nout + op.nin; ++i) {
    const Tensor& t = *operands[i];
    if (t.dtype() != compute && keeps_precision(op.types[i], t) && !is_exact_in(compute, t)) return math_dtype(compute);
  }
  return compute;
}

// A half type: operands and results of other dtypes are rounded to it, even though the loop computes in a wider one.
void run_reduced(const PointwiseOp& op, DType compute, const Tensor* const* operands, const char* params) {
  DType math = loop_dtype(op, compute, operands);
  if (math == compute) return run_loop(op, math, operands, params);
  const Tensor* given[kMaxOperands];
  Tensor rounded[kMaxOperands];
  for (int i = 0; i < op.nout + op.nin; ++i) {
    const Tensor& t = *operands[i];
    given[i] = &t;
    if (!op.types[i].is_T() || t.dtype() == compute) continue;
    if (i >= op.nout && keeps_precision(op.types[i], t)) continue;
    rounded[i] = empty(t.sizes(), compute, t.device());
    if (i >= op.nout) copy(rounded[i], t);
    given[i] = &rounded[i];
  }
  run_loop(op, math, given, params);
  for (int i = 0; i < op.nout; ++i)
    if (rounded[i]) copy(*operands[i], rounded[i]);
}

void run_pointwise(const PointwiseOp& op, DType compute, const Tensor* const* operands, const char* params) {
  if (is_reduced(compute)) return run_reduced(op, compute, operands, params);
  run_loop(op, compute, operands, params);
}

const Backend the_cpu = {"cpu", run_pointwise, reduce, copy, fill};

}  // namespace

void register_cpu() { register_backend(DeviceType::cpu, the_cpu); }

}  // namespace tocha::cpu
