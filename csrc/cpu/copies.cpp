// Copies, fills and conversions: the kernels of tocha/operators/copies.py.
#include "cpu/elementwise.h"
#include "dispatch/native.h"
#include "ops.h"

namespace tocha::native {

void copy_(const Tensor& self, const Tensor& src, bool) {
  if (self.is(src)) return;
  Ints shape = broadcast_sizes(self.sizes(), src.sizes(), "copy_");
  TOCHA_CHECK(shape == self.sizes(), Runtime, "[copy_] output with shape ", self.sizes(), " doesn't match the broadcast shape ", shape);
  if (!computes(self)) return;
  TOCHA_CHECK(!src.is_meta(), NotImplemented, "[copy_] Cannot copy out of meta tensor; no data!");
  if (memory_overlap(self, src) == Overlap::partial) {
    backend(self.device().type).copy(self, clone_dense(src));
    return;
  }
  backend(self.device().type).copy(self, src);
}

void fill_(const Tensor& self, const Tensor& value) {
  TOCHA_CHECK(value.dim() == 0, Runtime, "[fill_] fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions.");
  if (!computes(self)) return;
  if (value.is_wrapped_number()) {
    Scalar s = Scalar::load(value.dtype(), value.bytes());
    TOCHA_CHECK(!s.is_complex() || is_complex(self.dtype()) || s.to_complex().im == 0, Runtime,
                "[fill_] value cannot be converted to type ", self.dtype(), " without overflow");
    backend(self.device().type).fill(self, s);
    return;
  }
  backend(self.device().type).copy(self, value);
}

void clone(const Tensor& out, const Tensor& self, std::optional<MemoryFormat>) { backend(self.device().type).copy(out, self); }

bool _is_laid_out(const Tensor& self, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Contiguous);
  TOCHA_CHECK(f != MemoryFormat::Preserve, Runtime, "preserve memory format is unsupported by the contiguous operator");
  return self.is_contiguous(f);
}

Tensor to_dtype(const Tensor& self, DType dtype, bool, bool copy, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  if (self.dtype() == dtype && !copy && (f == MemoryFormat::Preserve || self.is_contiguous(f))) return self;
  Tensor out = empty_strided(self.sizes(), like_strides(self, f), dtype, self.device());
  if (computes(out)) backend(self.device().type).copy(out, self);
  return out;
}

}  // namespace tocha::native
