#include "dispatch/pointwise.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/dtype_messages.h"
#include "core/memory_order.h"
#include "dispatch/backend.h"
#include "dispatch/native.h"
#include "dispatch/overlap.h"
#include "dispatch/promotion.h"

namespace tocha {

void TypeCode::store(const Scalar& value, DType t, void* out) const {
  if (is_reduced(t) && code == T_rounded) {
    alignas(16) char rounded[kParamBytes];
    value.store(t, rounded);
    Scalar::load(t, rounded).store(math_dtype(t), out);
  } else {
    value.store(resolve(math_dtype(t)), out);
  }
}

DType compute_dtype(const PointwiseOp& op, const Tensor* ins) {
  const TypeCode* in_types = op.types + op.nout;
  // The usual call: all operands of one dtype.
  DType common = DType::Undefined;
  bool same = true;
  for (int i = 0; i < op.nin; ++i) {
    if (in_types[i].code == TypeCode::fixed) continue;
    DType d = ins[i].dtype();
    if (common == DType::Undefined) common = d;
    same = same && d == common && !ins[i].is_wrapped_number();
  }
  if (!same) {
    ResultType r;
    for (int i = 0; i < op.nin; ++i)
      if (in_types[i].code != TypeCode::fixed) r.add(ins[i]);
    common = r.get();
  }
  if (op.promote == Promote::int_to_float && (is_integral(common) || is_boolean(common))) common = default_dtype();
  if (!(op.dtypes >> static_cast<int>(common) & 1)) [[unlikely]] {
    refuse_dtype(op.name, common);
  }
  return common;
}

DType result_dtype(const PointwiseOp& op, const Tensor* ins, int i) {
  return op.types[i].resolve(compute_dtype(op, ins));
}

void check_out_dtype(const PointwiseOp& op, const Tensor& out, const Tensor* ins) {
  DType result = result_dtype(op, ins, 0);
  TOCHA_CHECK(out.dtype() == result, Runtime, "[", op.name, "] Expected object of scalar type ", result,
              " but got scalar type ", out.dtype(), " for argument 'out'");
}

Ints broadcast_sizes(IntsView a, IntsView b, const char* op) {
  const bool swapped = a.size() < b.size();
  if (swapped) std::swap(a, b);
  Ints out(a);
  int64_t lead = a.size() - b.size();
  for (int64_t i = 0; i < b.size(); ++i) {
    int64_t x = a[lead + i], y = b[i];
    if (x == y || y == 1) continue;
    TOCHA_CHECK(x == 1, Runtime, "[", op, "] The size of tensor a (", swapped ? y : x,
                ") must match the size of tensor b (", swapped ? x : y, ") at non-singleton dimension ", lead + i, ": ",
                swapped ? b : a, " and ", swapped ? a : b);
    out[lead + i] = y;
  }
  return out;
}

void check_same_device(const char* op, const Tensor* tensors, int n) {
  const Tensor* first = nullptr;
  for (int i = 0; i < n; ++i) {
    if (!tensors[i] || (tensors[i].dim() == 0 && tensors[i].is_cpu())) continue;  // 0-d CPU tensors go anywhere
    if (!first) first = &tensors[i];
    if (tensors[i].device() != first->device()) refuse_devices(op, first->device(), tensors[i].device());
  }
}

namespace {

Device device_among(const Tensor* ins, int n) {
  for (int i = 0; i < n; ++i)
    if (!(ins[i].dim() == 0 && ins[i].is_cpu())) return ins[i].device();
  return ins[0].device();
}

Ints common_sizes(const PointwiseOp& op, const Tensor* ins) {
  Ints sizes(ins[0].sizes());
  for (int i = 1; i < op.nin; ++i)
    if (!(IntsView(sizes) == ins[i].sizes())) sizes = broadcast_sizes(sizes, ins[i].sizes(), op.name);
  return sizes;
}

// How an operand lies once it is what the loop reads: what is converted, conjugated or negated becomes dense.
Ints strides_as(DType dtype, const Tensor& t) {
  const bool as_is = t.dtype() == dtype && !t.is_conj() && !t.is_neg();
  return as_is ? Ints(t.strides()) : like_strides(t, MemoryFormat::Preserve);
}

// The usual operands: contiguous ones of the full shape, and numbers. Beside a number the strides of dims of size one
// count, as they do where operands differ in shape.
bool plain(IntsView sizes, IntsView contiguous, const Tensor* const* ins, int n) {
  bool numbers = false;
  for (int i = 0; i < n; ++i) {
    if (ins[i]->dim() == 0)
      numbers = true;
    else if (!ins[i]->is_contiguous() || ins[i]->sizes() != sizes)
      return false;
  }
  if (!numbers) return true;
  for (int i = 0; i < n; ++i)
    if (ins[i]->dim() != 0 && ins[i]->strides() != contiguous) return false;
  return true;
}

// Whether an operand is no more than a parameter: a number where PyTorch has an operator of its own for numbers.
bool is_parameter(const PointwiseOp& op, int i, const Tensor& t) {
  const TypeCode::Code code = op.types[op.nout + i].code;
  return (code == TypeCode::T_checked || code == TypeCode::T_number) && t.is_wrapped_number();
}

// The layout that operands of one shape agree on, if they do.
std::optional<Ints> common_strides(IntsView sizes, const Ints* strides, int n) {
  const int64_t dims = sizes.size();
  auto follow = [&](const Ints& expected) {
    for (int i = 0; i < n; ++i)
      for (int64_t d = 0; d < dims; ++d)
        if (sizes[d] != 1 && strides[i][d] != expected[d]) return false;
    return true;
  };
  if (Ints expected = contiguous_strides(sizes); follow(expected)) return expected;
  if (dims == 4)
    if (Ints expected = format_strides(sizes, MemoryFormat::ChannelsLast); follow(expected)) return expected;
  for (int i = 1; i < n; ++i)
    if (IntsView(strides[i]) != IntsView(strides[0])) return std::nullopt;
  if (!is_non_overlapping_and_dense(sizes, strides[0])) return std::nullopt;
  return strides[0];
}

// The result keeps the layout its inputs agree on.
Ints result_strides(const PointwiseOp& op, IntsView sizes, const Tensor* ins, DType compute) {
  const int64_t n = sizes.size();
  const Tensor* operands[kMaxOperands];
  int places[kMaxOperands], count = 0;
  for (int i = 0; i < op.nin; ++i) {
    if (op.checks_numbers && is_parameter(op, i, ins[i])) continue;
    operands[count] = &ins[i];
    places[count++] = i;
  }
  Ints contiguous = contiguous_strides(sizes);
  if (n == 0 || plain(sizes, contiguous, operands, count)) return contiguous;
  Ints strides[kMaxOperands];
  bool same_shape = true;
  for (int i = 0; i < count; ++i) {
    strides[i] = strides_as(op.types[op.nout + places[i]].resolve(compute), *operands[i]);
    same_shape = same_shape && operands[i]->sizes() == sizes;
  }
  if (same_shape)
    if (std::optional<Ints> common = common_strides(sizes, strides, count)) return *common;
  return strides_by_operands(sizes, count, [&](int i, int64_t d) -> int64_t {
    const int64_t own = d - (n - operands[i]->dim());
    return own < 0 || (operands[i]->size(own) == 1 && sizes[d] != 1) ? 0 : strides[i][own];
  });
}

void store_params(const PointwiseOp& op, DType compute, const Scalar* params, char* out) {
  const TypeCode* types = op.types + op.nout + op.nin;
  for (int i = 0; i < op.nparams; ++i) types[i].store(params[i], compute, out + i * kParamBytes);
}

// Refuses numbers that the compute dtype cannot hold, for operands that say so.
void check_numbers(const PointwiseOp& op, DType compute, const Tensor* ins) {
  alignas(16) char stored[kParamBytes];
  for (int i = 0; i < op.nin; ++i) {
    TypeCode::Code code = op.types[op.nout + i].code;
    if (!ins[i].is_wrapped_number() || code < TypeCode::T_checked || code > TypeCode::T_number) continue;
    Scalar number = Scalar::load(ins[i].dtype(), ins[i].bytes());
    if (code == TypeCode::T_filled) number = number.rounded_to(compute);
    number.store(code == TypeCode::T_number ? math_dtype(compute) : compute, stored);
  }
}

void run(const PointwiseOp& op, DType compute, const Tensor* outs, const Tensor* ins, const Scalar* params) {
  if (outs[0].is_meta()) return;
  if (op.checks_numbers) check_numbers(op, compute, ins);
  const Tensor* operands[kMaxOperands];
  for (int i = 0; i < op.nout; ++i) operands[i] = &outs[i];
  for (int i = 0; i < op.nin; ++i) operands[op.nout + i] = &ins[i];
  alignas(16) char stored[kMaxParams * kParamBytes];
  store_params(op, compute, params, stored);
  backend(outs[0].device().type, op.name).pointwise(op, compute, operands, stored);
}

// Whether all are contiguous, of one shape and on one device: the usual call.
bool alike(const Tensor* ins, int n) {
  const TensorObject* first = ins[0].get();
  if (!first->contiguous) return false;
  for (int i = 1; i < n; ++i) {
    const TensorObject* t = ins[i].get();
    if (!t->contiguous || t->ndim != first->ndim || t->device != first->device) return false;
    for (int d = 0; d < first->ndim; ++d)  // few: a call of memcmp takes longer
      if (t->dims[d] != first->dims[d]) return false;
  }
  return true;
}

// Results of the common shape, in the layout that the operands agree on. Apart, so that the usual call has a small
// frame.
[[gnu::noinline]] void make_results(const PointwiseOp& op, DType compute, Tensor* outs, const Tensor* ins) {
  check_same_device(op.name, ins, op.nin);
  Ints sizes = common_sizes(op, ins);
  Ints strides = result_strides(op, sizes, ins, compute);
  Device device = device_among(ins, op.nin);
  for (int i = 0; i < op.nout; ++i) outs[i] = empty_strided(sizes, strides, op.types[i].resolve(compute), device);
}

}  // namespace

void pointwise(const PointwiseOp& op, Tensor* outs, const Tensor* ins, const Scalar* params) {
  const DType compute = compute_dtype(op, ins);
  if (!alike(ins, op.nin)) [[unlikely]] {
    make_results(op, compute, outs, ins);
  } else {
    const TensorObject* t = ins[0].get();
    for (int i = 0; i < op.nout; ++i) {
      DType d = op.types[i].resolve(compute);
      outs[i] = make_tensor(new_storage(static_cast<size_t>(t->numel * itemsize(d)), t->device), d, ins[0].sizes(),
                            contiguous_strides(ins[0].sizes()), 0);
    }
  }
  run(op, compute, outs, ins, params);
}

void resize_(const Tensor& t, IntsView sizes, IntsView strides) {
  size_t needed = bytes_needed(sizes, strides, t.offset(), t.itemsize());
  if (needed > t.storage().nbytes) resize_storage(t.storage(), needed);
  set_sizes_and_strides(t, sizes, strides, t.offset());
}

void resize_output(const Tensor& out, IntsView sizes, IntsView strides, const char* op) {
  if (out.sizes() == sizes) return;
  if (out.numel() != 0) {
    std::string text = str("[", op, "] An output with one or more elements was resized since it had shape ",
                           out.sizes(), ", which does not match the required output shape ", sizes,
                           ". This behavior is deprecated, and in a future release outputs will not be resized unless "
                           "they have zero elements.");
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
  }
  resize_(out, sizes, strides);
}

void resize_output(const Tensor& out, IntsView sizes, const char* op) {
  resize_output(out, sizes, contiguous_strides(sizes), op);
}

void check_no_internal_overlap(const Tensor& out, const char* op) {
  check_not_inference(out);
  TOCHA_CHECK(
      !has_internal_overlap(out), Runtime, "[", op,
      "] unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
      "Please clone() the tensor before performing the operation.");
}

void check_no_overlap(const Tensor& out, const Tensor& in, const char* op, bool full_is_fine) {
  Overlap o = memory_overlap(out, in);
  TOCHA_CHECK(
      o == Overlap::none || (o == Overlap::full && full_is_fine), Runtime, "[", op,
      "] unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
      "location. Please clone() the tensor before performing the operation.");
}

namespace {

// Results that are given lie where the operands lie. In place on a meta tensor nothing is read.
void check_devices(const PointwiseOp& op, const Tensor* outs, const Tensor* ins, bool in_place) {
  bool same = true;
  for (int i = 0; i < op.nin; ++i) same = same && ins[i].device() == outs[0].device();
  for (int i = 1; i < op.nout; ++i) same = same && outs[i].device() == outs[0].device();
  if (same || (in_place && outs[0].is_meta())) return;
  check_same_device(op.name, ins, op.nin);
  Device device = device_among(ins, op.nin);
  for (int i = 0; i < op.nout; ++i)
    if (outs[i].device() != device) refuse_out_device(op.name, device, outs[i].device());
}

// An operand in memory that is about to be resized is copied: results will lie there otherwise than it does.
Tensor kept_apart(const PointwiseOp& op, const Tensor* outs, const Tensor& in, IntsView sizes) {
  for (int i = 0; i < op.nout; ++i)
    if (outs[i].sizes() != sizes && &outs[i].storage() == &in.storage()) return clone_dense(in);
  return in;
}

}  // namespace

void pointwise_out(const PointwiseOp& op, const Tensor* outs, const Tensor* ins, const Scalar* params, bool in_place) {
  DType compute = compute_dtype(op, ins);
  Ints sizes = common_sizes(op, ins);
  check_devices(op, outs, ins, in_place);
  for (int i = 0; i < op.nout; ++i) {
    DType result = op.types[i].resolve(compute);
    TOCHA_CHECK(can_cast(result, outs[i].dtype()), Runtime, "[", op.name, "] result type ", result,
                " can't be cast to the desired output type ", outs[i].dtype());
    const bool is_operand =
        in_place || std::any_of(ins, ins + op.nin, [&](const Tensor& in) { return in.is(outs[i]); });
    TOCHA_CHECK(!is_operand || outs[i].sizes() == sizes, Runtime, "[", op.name, in_place ? "_" : "",
                "] output with shape ", outs[i].sizes(), " doesn't match the broadcast shape ", sizes);
  }
  for (int i = 0; i < op.nout; ++i) {
    check_no_internal_overlap(outs[i], op.name);
    for (int k = 0; k < op.nin; ++k) check_no_overlap(outs[i], ins[k], op.name, true);
  }
  Tensor kept[kMaxOperands];
  if (!in_place) {
    const Ints strides = result_strides(op, sizes, ins, compute);
    for (int k = 0; k < op.nin; ++k) kept[k] = kept_apart(op, outs, ins[k], sizes);
    ins = kept;
    for (int i = 0; i < op.nout; ++i) resize_output(outs[i], sizes, strides, op.name);
  }
  run(op, compute, outs, ins, params);
  for (int i = 0; i < op.nout; ++i) outs[i].bump_version();
}

}  // namespace tocha
