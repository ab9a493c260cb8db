// Cumulative operators: the kernels of tocha/operators/scans.py, on top of the raw scans of scan.h.
#include "core/gil.h"
#include "cpu/engine/layout.h"
#include "cpu/scan/scan.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

cpu::ScanShape shape_of(const Tensor& t, int64_t dim) {
  cpu::Split s = cpu::split_at(t.sizes(), wrap_dim(dim, t.dim()));
  return {s.outer, s.n, s.inner};
}

using Accumulate = void (*)(DType, const void*, DType, void*, cpu::ScanShape);

void accumulate(Accumulate scan, const Tensor& out, const Tensor& self, int64_t dim) {
  bool widens = out.dtype() == DType::Int64 && (is_integral(self.dtype()) || is_boolean(self.dtype()));
  Tensor in = cpu::dense(self, widens ? self.dtype() : out.dtype());
  ReleaseGil unlocked(self.numel());
  scan(in.dtype(), in.bytes(), out.dtype(), out.bytes(), shape_of(self, dim));
}

template <class F>
void extrema(F scan, const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim) {
  if (self.dim() == 0) {  // of any dtype
    backend(values.device().type).copy(values, self);
    return backend(indices.device().type).fill(indices, 0);
  }
  Tensor in = cpu::dense(self);
  ReleaseGil unlocked(self.numel());
  scan(in.dtype(), in.bytes(), values.bytes(), indices.data<int64_t>(), shape_of(self, dim));
}

}  // namespace

void cumsum(const Tensor& out, const Tensor& self, int64_t dim, std::optional<DType>) {
  accumulate(cpu::cumsum, out, self, dim);
}
void cumprod(const Tensor& out, const Tensor& self, int64_t dim, std::optional<DType>) {
  accumulate(cpu::cumprod, out, self, dim);
}

void cummax(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim) {
  extrema(cpu::cummax, values, indices, self, dim);
}
void cummin(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim) {
  extrema(cpu::cummin, values, indices, self, dim);
}

void logcumsumexp(const Tensor& out, const Tensor& self, int64_t dim) {
  Tensor in = cpu::dense(self);
  ReleaseGil unlocked(self.numel());
  cpu::logcumsumexp(in.dtype(), in.bytes(), out.bytes(), shape_of(self, dim));
}

}  // namespace tocha::native
