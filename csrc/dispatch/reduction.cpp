#include "dispatch/reduction.h"

#include "core/dtype_messages.h"
#include "dispatch/backend.h"
#include "dispatch/native.h"
#include "dispatch/overlap.h"
#include "dispatch/promotion.h"

namespace tocha {
namespace {

void mark_dims(const Tensor& self, IntsView dims, const char* op, bool* reduced) {
  for (int64_t i = 0; i < self.dim(); ++i) reduced[i] = dims.empty();
  for (int64_t d : dims) wrap_dim(d, self.dim(), op);  // a dim that is not there is said first
  if (self.dim() == 0) {                               // whose only dim is a figure of speech
    TOCHA_CHECK(dims.size() <= 1, Runtime, "[", op, "] dim 0 appears multiple times in the list of dims");
    return;
  }
  for (int64_t d : dims) {
    int64_t w = wrap_dim(d, self.dim(), op);
    TOCHA_CHECK(!reduced[w], Runtime, "[", op, "] dim ", w, " appears multiple times in the list of dims");
    reduced[w] = true;
  }
}

DType reduce_compute_dtype(const ReductionOp& op, const Tensor& self, std::optional<DType> dtype) {
  DType d = dtype.value_or(self.dtype());
  bool small = is_integral(d) || is_boolean(d);
  if (op.promote == ReducePromote::to_bool) d = DType::Bool;
  if (!dtype && op.promote == ReducePromote::sum_like && small) d = DType::Int64;
  if (!dtype && op.promote == ReducePromote::int_to_float && small) d = default_dtype();
  return d;
}

// Elements are converted to the dtype that is asked for, also where the loop accumulates in a wider one: what does not
// fit is cut to the narrow one.
Tensor as_asked(const Tensor& self, std::optional<DType> dtype) {
  if (!dtype || !is_integral(*dtype) || itemsize(*dtype) == itemsize(DType::Int64)) return self;
  if (!is_floating(self.dtype()) && !is_complex(self.dtype())) return self;
  Tensor t = empty(self.sizes(), *dtype, self.device());
  if (computes(t)) backend(self.device().type).copy(t, self);
  return t;
}

DType output_dtype(const ReductionOp& op, int i, DType compute, const Tensor& self) {
  DType d = op.types[i].resolve(compute);
  // any and all of uint8 stay uint8.
  return d == DType::Bool && op.promote == ReducePromote::to_bool && self.dtype() == DType::UInt8 ? DType::UInt8 : d;
}

void run(const ReductionOp& op, DType compute, const Tensor* outs, const Tensor& self, const bool* reduced,
         const Scalar* params) {
  if (outs[0].is_meta() || outs[0].numel() == 0) return;
  alignas(16) char stored[kMaxParams * kParamBytes];
  DType math = math_dtype(compute);
  for (int i = 0; i < op.nparams; ++i)
    params[i].store(op.types[op.nout + op.nstates + i].resolve(math), stored + i * kParamBytes);
  ReductionCall call{};
  for (int i = 0; i < op.nout; ++i) call.outs[i] = &outs[i];
  call.in = &self;
  std::copy(reduced, reduced + self.dim(), call.reduced);
  call.params = stored;
  backend(self.device().type, op.name).reduce(op, compute, call);
}

Ints output_sizes(const Tensor& self, const bool* reduced, bool keepdim) {
  Ints sizes;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!reduced[i])
      sizes.push_back(self.size(i));
    else if (keepdim)
      sizes.push_back(1);
  }
  return sizes;
}

[[noreturn]] void refuse_empty(const ReductionOp& op, const Tensor& self) {
  if (op.nout == 2 && !op.ordered) {  // aminmax
    fail(ErrorKind::Runtime, "[", op.name, "] ", op.name, "(): cannot compute ", op.name,
         " over an empty dimension as the operation has no identity. Got shape ", self.sizes());
  }
  fail(op.ordered ? ErrorKind::Index : ErrorKind::Runtime, "[", op.name, "] ", op.name,
       "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
       "argument. Got shape ",
       self.sizes());
}

void check_identity(const ReductionOp& op, const Tensor& self, IntsView dims) {
  if (op.has_identity || self.numel() != 0) return;
  if (dims.empty()) refuse_empty(op, self);
  for (int64_t d : dims) {
    TOCHA_CHECK(self.size(wrap_dim(d, self.dim(), op.name)) != 0, Index, "[", op.name, "] ", op.name,
                "(): Expected reduction dim ", d, " to have non-zero size. Got shape ", self.sizes());
  }
}

// Which of the dims are reduced. A wrong dtype is said before a wrong dim only by operators that have it so.
void check(const ReductionOp& op, const Tensor& self, IntsView dims, std::optional<DType> dtype, bool taken,
           bool* reduced) {
  const DType given = dtype.value_or(self.dtype());
  if (!taken && refuses_first(op.name, given)) [[unlikely]]
    refuse_dtype(op.name, given, dtype.has_value());
  check_identity(op, self, dims);
  mark_dims(self, dims, op.name, reduced);
  if (!taken) [[unlikely]]
    refuse_dtype(op.name, given, dtype.has_value());
}

bool takes(const ReductionOp& op, DType compute) { return op.dtypes >> static_cast<int>(compute) & 1; }

}  // namespace

Ints reduced_sizes(const Tensor& self, IntsView dims, bool keepdim, const char* op) {
  bool reduced[64];
  mark_dims(self, dims, op, reduced);
  return output_sizes(self, reduced, keepdim);
}

DType result_dtype(const ReductionOp& op, const Tensor& self, std::optional<DType> dtype, int i) {
  return output_dtype(op, i, reduce_compute_dtype(op, self, dtype), self);
}

void reduction(const ReductionOp& op, Tensor* outs, const Tensor& self, IntsView dims, bool keepdim,
               std::optional<DType> dtype, const Scalar* params) {
  bool reduced[64];
  DType compute = reduce_compute_dtype(op, self, dtype);
  check(op, self, dims, dtype, takes(op, compute), reduced);
  Ints sizes = output_sizes(self, reduced, keepdim);
  for (int i = 0; i < op.nout; ++i) outs[i] = empty(sizes, output_dtype(op, i, compute, self), self.device());
  run(op, compute, outs, as_asked(self, dtype), reduced, params);
}

void reduction_out(const ReductionOp& op, const Tensor* outs, const Tensor& self, IntsView dims, bool keepdim,
                   std::optional<DType> dtype, const Scalar* params) {
  bool reduced[64];
  // A sum into a given tensor accumulates in that tensor's dtype.
  if (!dtype && op.promote == ReducePromote::sum_like) dtype = outs[0].dtype();
  DType compute = reduce_compute_dtype(op, self, dtype);
  check(op, self, dims, dtype, takes(op, compute), reduced);
  Ints sizes = output_sizes(self, reduced, keepdim);
  for (int i = 0; i < op.nout; ++i) {
    check_out_device(op.name, outs[i], self);
    DType result = output_dtype(op, i, compute, self);
    bool exact = op.promote == ReducePromote::same || op.promote == ReducePromote::sum_like;
    bool fits = exact ? result == outs[i].dtype() : can_cast(result, outs[i].dtype());
    TOCHA_CHECK(fits, Runtime, "[", op.name, "] Expected out tensor to have dtype ", c_name(result), ", but got ",
                c_name(outs[i].dtype()), " instead");
  }
  Tensor source = as_asked(self, dtype);
  for (int i = 0; i < op.nout; ++i) {  // what is read is not what is being written
    if (&outs[i].storage() == &source.storage()) source = clone_dense(source);
    resize_output(outs[i], sizes, op.name);
    check_no_internal_overlap(outs[i], op.name);
  }
  run(op, compute, outs, source, reduced, params);
  for (int i = 0; i < op.nout; ++i) outs[i].bump_version();
}

}  // namespace tocha
