#include "dispatch/rules.h"

#include <cstring>
#include <unordered_set>

#include "core/dtype_messages.h"
#include "core/modes.h"
#include "core/switches.h"
#include "dispatch/backend.h"
#include "dispatch/level_hooks.h"
#include "dispatch/native.h"
#include "ops/copies.h"
#include "ops/resizing.h"

namespace tocha {

Device default_device_for(std::optional<Device> given) { return given ? *given : default_device(); }

namespace {

// The element of a 0-d tensor on the CPU.
Scalar element_of(const Tensor& t) {
  Tensor plain = t.is_conj() || t.is_neg() ? clone_dense(t) : t;
  return Scalar::load(t.dtype(), plain.bytes());
}

}  // namespace

Tensor rewrapped(const Tensor& t) { return wrapped_number(element_of(t)); }

Tensor fill_value(const Tensor& value, DType dtype) {
  if (value.get()->dispatches) return ops::to_dtype(value, dtype, false, false, std::nullopt);
  alignas(16) char stored[16];
  if (value.is_cpu()) element_of(value).store(dtype, stored);
  if (!value.is_wrapped_number()) return ops::to_dtype(value, dtype, false, false, std::nullopt);
  Tensor out = empty({}, dtype, Device{});
  std::memcpy(out.bytes(), stored, static_cast<size_t>(itemsize(dtype)));
  return out;
}

Tensor make_out(const OutSpec& spec, Device device) {
  if (spec.device) device = *spec.device;
  if (spec.strides) return empty_strided(spec.sizes, *spec.strides, spec.dtype, device);
  return empty(spec.sizes, spec.dtype, device);
}

Tensor make_view(const Tensor& self, const ViewSpec& spec) {
  if (!spec.dtype) return view_of(self, spec.sizes, spec.strides, spec.offset);
  Tensor v = view_of(self, spec.sizes, spec.strides, spec.offset, *spec.dtype);
  forget_base(v.get());  // the same bytes as other numbers: gradients do not pass
  v.get()->inference = modes().inference;
  return v;
}

Tensors make_views(const Tensor& self, const std::vector<ViewSpec>& specs) {
  Tensors views;
  views.reserve(specs.size());
  for (const ViewSpec& s : specs) {
    views.push_back(make_view(self, s));
    TensorObject* v = views.back().get();
    if (v->base && modes().grad && v->origin != ViewOrigin::inference) v->origin = ViewOrigin::one_of_many;
  }
  return views;
}

void change_geometry(const Tensor& self, const ViewSpec& spec) {
  check_not_inference(self);
  set_sizes_and_strides(self, spec.sizes, spec.strides, spec.offset);
  self.get()->step = ViewStep::geometry;
  self.bump_version();
}

Ints ints_of(const Tensor& t) {
  TOCHA_CHECK(t.is_cpu() && t.dtype() == DType::Int64 && t.dim() == 1, Runtime,
              "expected a 1-d tensor of int64 on the CPU, but got ", t);
  Ints out(t.numel());
  for (int64_t i = 0; i < t.numel(); ++i) out[i] = t.data<int64_t>()[i * t.stride(0)];
  return out;
}

Ints cat_strides(IntsView sizes, const Tensors& tensors) {
  std::optional<MemoryFormat> common;
  for (const Tensor& t : tensors) {
    MemoryFormat f = suggested_format(t);
    if (f == MemoryFormat::Contiguous || (common && *common != f)) return contiguous_strides(sizes);
    common = f;
  }
  return format_strides(sizes, common.value_or(MemoryFormat::Contiguous));
}

void check_storage_bounds(const Tensor& self, IntsView sizes, IntsView strides, int64_t offset) {
  size_t needed = bytes_needed(sizes, strides, offset, self.itemsize());
  TOCHA_CHECK(needed <= self.storage().nbytes, Runtime, "setStorage: sizes ", sizes, ", strides ", strides,
              ", storage offset ", offset, ", and itemsize ", self.itemsize(), " requiring a storage size of ", needed,
              " are out of bounds for storage of size ", self.storage().nbytes);
}

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
}

void warn_once(const std::string& text) {
  static auto& seen = *new std::unordered_set<std::string>();
  if (seen.insert(text).second || switches.warn_always) warn(text);
}

void alert_not_deterministic(const std::string& name) {
  if (name.empty()) return;
  std::string text = str(name,
                         " does not have a deterministic implementation, but you set "
                         "'tocha.use_deterministic_algorithms(True",
                         switches.deterministic_warns ? ", warn_only=True" : "", ")'.");
  TOCHA_CHECK(switches.deterministic_warns, Runtime, text,
              " You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if "
              "that's acceptable for your application.");
  warn(text);
}

void prepare_out(const Tensor& out, const OutSpec& spec, const char* op) {
  TOCHA_CHECK(out.dtype() == spec.dtype, Runtime, "[", op, "] Expected out tensor to have dtype ", c_name(spec.dtype),
              ", but got ", c_name(out.dtype()), " instead");
  resize_output(out, spec.sizes, op);
  check_no_internal_overlap(out, op);
}

void resize_for_factory(const Tensor& out, IntsView sizes) {
  if (out.sizes() != sizes) resize_(out, sizes, contiguous_strides(sizes));
}

void warn_of_length(const Tensor& out, IntsView sizes) {
  if (out.numel() == 0 || out.numel() == product(sizes)) return;
  warn(str(
      "The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
      " which does not match the computed number of elements ", product(sizes),
      ". Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of shape ",
      sizes, "."));
}

static bool is_watched(const Tensor& t) {
  return (modes().dispatch_modes || t.get()->dispatches) && !modes().dispatch_off;
}

void copy_to_out(const Tensor& out, const Tensor& result, const char* op) {
  TOCHA_CHECK(can_cast(result.dtype(), out.dtype()), Runtime, "[", op, "] result type ", result.dtype(),
              " can't be cast to the desired output type ", out.dtype());
  if (out.device() != result.device()) refuse_out_device(op, result.device(), out.device());
  if (is_watched(out)) {  // whoever saw how the result is made sees where it goes
    if (out.sizes() != result.sizes()) ops::resize_(out, result.sizes(), std::nullopt);
    ops::copy_(out, result, false);
    return;
  }
  resize_output(out, result.sizes(), op);
  check_no_internal_overlap(out, op);
  if (computes(out)) copy_across(out, result);
  out.bump_version();
}

void check_inplace(const Tensor& self, const char* op) { check_no_internal_overlap(self, op); }

}  // namespace tocha
