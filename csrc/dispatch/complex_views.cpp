// Views of complex tensors: parts, conjugation, pairs of reals. The kernels of tocha/operators/complex.py; no elements
// are touched, so they serve every device.
#include "dispatch/native.h"

namespace tocha::native {
namespace {

// Sizes and strides of a complex tensor counted in reals.
Ints doubled(IntsView strides) {
  Ints out(strides);
  for (int64_t& s : out) s *= 2;
  return out;
}

Tensor by(ViewStep step, Tensor view) {
  view.get()->step = step;
  return view;
}

// Every second real, beginning with the real (0) or imaginary (1) part.
Tensor part(const Tensor& self, int64_t which) {
  Tensor v = view_of(self, self.sizes(), doubled(self.strides()), 2 * self.offset() + which, real_dtype(self.dtype()));
  v.get()->conj = false;
  return v;
}

}  // namespace

Tensor real(const Tensor& self) { return self.is_complex() ? part(self, 0) : self; }

Tensor imag(const Tensor& self) {
  TOCHA_CHECK(self.is_complex(), Runtime, "[imag] imag is not implemented for tensors with non-complex dtypes, got ",
              self.dtype());
  Tensor v = part(self, 1);
  if (self.is_conj()) v.get()->neg = !v.get()->neg;
  return v;
}

Tensor view_as_real(const Tensor& self) {
  TOCHA_CHECK(self.is_complex(), Runtime, "[view_as_real] view_as_real is only supported for complex tensors, got ",
              self.dtype());
  TOCHA_CHECK(!self.is_conj(), Runtime,
              "[view_as_real] doesn't work on unresolved conjugated tensors: call resolve_conj() first, which copies");
  Ints sizes(self.sizes()), strides = doubled(self.strides());
  sizes.push_back(2);
  strides.push_back(1);
  return by(ViewStep::as_real, view_of(self, sizes, strides, 2 * self.offset(), real_dtype(self.dtype())));
}

Tensor view_as_complex(const Tensor& self) {
  const DType part = self.dtype();
  TOCHA_CHECK(part == DType::Float16 || part == DType::Float32 || part == DType::Float64, Runtime,
              "[view_as_complex] view_as_complex is only supported for half, float and double tensors, but got a "
              "tensor of scalar type: ",
              self.dtype());
  int64_t last = self.dim() - 1;
  TOCHA_CHECK(last >= 0, Runtime, "[view_as_complex] Input tensor must have one or more dimensions");
  TOCHA_CHECK(self.size(last) == 2, Runtime, "[view_as_complex] Tensor must have a last dimension of size 2, got ",
              self.sizes());
  TOCHA_CHECK(self.stride(last) == 1, Runtime,
              "[view_as_complex] Tensor must have a last dimension with stride 1, got ", self.strides());
  TOCHA_CHECK(self.offset() % 2 == 0, Runtime,
              "[view_as_complex] Tensor must have a storage_offset divisible by 2, got ", self.offset());
  Ints sizes(IntsView(self.sizes().begin(), last)), strides(IntsView(self.strides().begin(), last));
  for (int64_t d = 0; d < last; ++d) {
    TOCHA_CHECK(strides[d] % 2 == 0 || sizes[d] == 1, Runtime,
                "[view_as_complex] Tensor must have a stride divisible by 2 for all but last dimension, got ",
                self.strides());
    strides[d] /= 2;
  }
  return by(ViewStep::as_complex, view_of(self, sizes, strides, self.offset() / 2, complex_dtype(self.dtype())));
}

Tensor conj(const Tensor& self) {
  if (!self.is_complex()) return self;
  Tensor v = view_of(self, self.sizes(), self.strides(), self.offset());
  v.get()->conj = !self.is_conj();
  return by(ViewStep::conj, std::move(v));
}

Tensor _neg_view(const Tensor& self) {
  TOCHA_CHECK(self.dtype() != DType::Bool, Runtime, "[_neg_view] a bool tensor cannot be negated");
  Tensor v = view_of(self, self.sizes(), self.strides(), self.offset());
  v.get()->neg = !self.is_neg();
  return by(ViewStep::neg, std::move(v));
}

}  // namespace tocha::native
