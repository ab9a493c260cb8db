#include "dispatch/rules.h"

#include <unordered_set>

#include "core/dtype_messages.h"
#include "core/switches.h"
#include "dispatch/backend.h"
#include "dispatch/native.h"

namespace tocha {

Device default_device_for(std::optional<Device> given) { return given ? *given : default_device(); }

Tensor make_out(const OutSpec& spec, const Tensor& like) {
  Device device = spec.device ? *spec.device : like ? like.device() : Device{};
  if (spec.strides) return empty_strided(spec.sizes, *spec.strides, spec.dtype, device);
  return empty(spec.sizes, spec.dtype, device);
}

Tensor make_view(const Tensor& self, const ViewSpec& spec) {
  if (!spec.dtype) return view_of(self, spec.sizes, spec.strides, spec.offset);
  Tensor v = view_of(self, spec.sizes, spec.strides, spec.offset, *spec.dtype);
  v.get()->tracks_base = false;
  forget_base(v.get());  // the same bytes as other numbers: gradients do not pass
  return v;
}

Tensors make_views(const Tensor& self, const std::vector<ViewSpec>& specs) {
  Tensors views;
  views.reserve(specs.size());
  for (const ViewSpec& s : specs) views.push_back(make_view(self, s));
  return views;
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

void warn_once(const std::string& text) {
  static auto& seen = *new std::unordered_set<std::string>();
  if (!seen.insert(text).second && !switches.warn_always) return;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
}

void check_info(const std::string& op, const Tensor& info, const std::string& reason) {
  if (!computes(info)) return;
  for (int64_t i = 0; i < info.numel(); ++i) {
    const int32_t code = info.data<int32_t>()[i];
    if (code == 0) continue;
    const std::string where = info.dim() ? str("(Batch element ", i, "): ") : "";
    if (code < 0)
      fail(ErrorKind::LinAlg, "[", op, "] ", op, ": ", where,
           "The algorithm failed to converge because the input matrix contained non-finite values.");
    fail(ErrorKind::LinAlg, "[", op, "] ", op, ": ", where, str_replace(reason, "{}", std::to_string(code)));
  }
}

void prepare_out(const Tensor& out, const OutSpec& spec, const char* op) {
  TOCHA_CHECK(out.dtype() == spec.dtype, Runtime, "[", op, "] Expected out tensor to have dtype ", c_name(spec.dtype),
              ", but got ", c_name(out.dtype()), " instead");
  resize_output(out, spec.sizes, op);
  check_no_internal_overlap(out, op);
}

void copy_to_out(const Tensor& out, const Tensor& result, const char* op) {
  TOCHA_CHECK(can_cast(result.dtype(), out.dtype()), Runtime, "[", op, "] result type ", result.dtype(),
              " can't be cast to the desired output type ", out.dtype());
  TOCHA_CHECK(out.device() == result.device(), Runtime, "[", op, "] Attempting to copy from device ", result.device(),
              " to device ", out.device(), ", but cross-device copies are not allowed!");
  resize_output(out, result.sizes(), op);
  check_no_internal_overlap(out, op);
  if (computes(out)) copy_across(out, result);
  out.bump_version();
}

void check_inplace(const Tensor& self, const char* op) { check_no_internal_overlap(self, op); }

}  // namespace tocha
