// Masks and nonzero: the kernels of tocha/operators/masks.py.
#include <cstring>

#include "core/dtype_messages.h"
#include "cpu/engine/iterate.h"
#include "cpu/indexing/kernels.h"
#include "cpu/indexing/offset_slices.h"
#include "cpu/search/search.h"
#include "dispatch/native.h"
#include "ops/copies.h"

namespace tocha::native {
namespace {

void check_mask(const Tensor& mask, const char* op) {
  TOCHA_CHECK(mask.dtype() == DType::Bool, Runtime, "[", op, "] ", op,
              "_ only supports boolean masks, but got mask with dtype ", mask.dtype());
}

// t expanded to `sizes` and contiguous.
Tensor spread(const Tensor& t, IntsView sizes) {
  if (t.sizes() == sizes) return cpu::dense(t);
  Tensor out = empty(sizes, t.dtype(), t.device());
  backend(t.device().type).copy(out, t);
  return out;
}

void check_fits(const Tensor& self, const Tensor& mask, const char* op) {
  Ints shape = broadcast_sizes(self.sizes(), mask.sizes(), op);
  TOCHA_CHECK(shape == self.sizes(), Runtime, "[", op, "] output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", shape);
}

// to = from where the flags are set. The other elements are not touched: they may be the same memory, in windows that
// overlap.
void write_where(const Tensor& to, const Tensor& from, const Tensor& flags) {
  const auto size = static_cast<size_t>(to.itemsize());
  const Ints operands[3] = {cpu::byte_strides(to), cpu::byte_strides(from), cpu::byte_strides(flags)};
  cpu::Walk<3>(to.sizes(), operands).run([&](const int64_t* at, const int64_t* by, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (flags.bytes()[at[2] + i * by[2]])
        std::memcpy(to.bytes() + at[0] + i * by[0], from.bytes() + at[1] + i * by[1], size);
  });
}

void scatter_masked(const Tensor& to, const Tensor& mask, const Tensor& source) {
  Tensor flags = spread(mask, to.sizes()), from = cpu::dense(cpu::apart_from(source, to)), work = cpu::dense(to);
  int64_t n = to.numel();
  cpu::Selection selection = cpu::select_nonzero(DType::Bool, flags.bytes(), n);
  TOCHA_CHECK(selection.count() <= from.numel(), Runtime,
              "[masked_scatter] Number of elements of source < number of ones in mask: ", from.numel(), " < ",
              selection.count());
  cpu::masked_scatter(to.itemsize(), work.bytes(), flags.data<bool>(), n, selection, from.bytes());
  if (work.is(to)) return;
  if (to.is_conj() || to.is_neg() || to.is_non_overlapping_and_dense())
    backend(to.device().type).copy(to, work);
  else
    write_where(to, work, flags);
}

void check_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_mask(mask, "masked_scatter");
  TOCHA_CHECK(self.dtype() == source.dtype(), Runtime,
              "[masked_scatter] masked_scatter: expected self and source to have same dtypes but got", self.dtype(),
              " and ", source.dtype());
  cpu::check_together("masked_scatter", {self, mask, source});
}

}  // namespace

void masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value) {
  TOCHA_CHECK(mask.dtype() == DType::Bool, Runtime,
              "[masked_fill_] masked_fill_ only supports boolean masks, but got mask with dtype ",
              c_name(mask.dtype()));
  TOCHA_CHECK(value.dim() == 0, Runtime,
              "[masked_fill_] masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  check_fits(self, mask, "masked_fill_");
  check_no_overlap(self, mask, "masked_fill_", true);
  cpu::warn_expanded(self, "masked_fill_", " This also applies to advanced indexing e.g. tensor[mask] = scalar");
  cpu::check_together("masked_fill_", {self, mask, value.is_wrapped_number() ? Tensor() : value});
  if (!computes(self) || self.numel() == 0) return;
  Tensor v = cpu::apart_from(cpu::plain(fill_value(value, self.dtype())), self);
  Tensor flags = cpu::apart_from(mask, self);
  cpu::Target target(self);
  const Ints operands[2] = {cpu::byte_strides(target.tensor()), cpu::byte_strides(flags, self.sizes())};
  cpu::Walk<2>(self.sizes(), operands).run([&](const int64_t* at, const int64_t* by, int64_t n) {
    cpu::pick_loops().fill_where(self.itemsize(), target.bytes() + at[0], by[0], flags.bytes() + at[1], by[1],
                                 v.bytes(), n);
  });
  target.finish();
}

Tensor masked_select(const Tensor& self, const Tensor& mask) {
  TOCHA_CHECK(mask.dtype() == DType::Bool, Runtime,
              "[masked_select] masked_select: expected BoolTensor for mask, but got mask with dtype ", mask.dtype());
  TOCHA_CHECK(computes(self), NotImplemented,
              "[masked_select] the size of the result depends on values, which meta tensors do not have");
  cpu::check_together("masked_select", {self, mask});
  Ints sizes = broadcast_sizes(self.sizes(), mask.sizes(), "masked_select");
  Tensor from = spread(self, sizes), flags = spread(mask, sizes);
  int64_t n = from.numel();
  cpu::Selection selection = cpu::select_nonzero(DType::Bool, flags.bytes(), n);
  Tensor out = empty(Ints{selection.count()}, self.dtype(), self.device());
  ReleaseGil unlocked(n);
  cpu::masked_select(self.itemsize(), from.bytes(), flags.data<bool>(), n, selection, out.bytes());
  return out;
}

Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_scatter(self, mask, source);
  Tensor out = empty(broadcast_sizes(self.sizes(), mask.sizes(), "masked_scatter"), self.dtype(), self.device());
  if (!computes(self)) return out;
  backend(self.device().type).copy(out, self);
  scatter_masked(out, mask, source);
  return out;
}

void masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_scatter(self, mask, source);
  check_fits(self, mask, "masked_scatter_");
  if (computes(self)) scatter_masked(self, mask, source);
}

void masked_scatter_backward(const Tensor& out, const Tensor& grad_output, const Tensor& mask, IntsView) {
  const Tensor used = masked_select(grad_output, mask);
  const int64_t n = std::min(used.numel(), out.numel()) * out.itemsize();
  std::memcpy(out.bytes(), used.bytes(), n);
  std::memset(out.bytes() + n, 0, out.numel() * out.itemsize() - n);
}

namespace {

// Columns of coordinates, one after the other in memory.
Tensor coordinates(const Tensor& self) {
  TOCHA_CHECK(computes(self), NotImplemented,
              "[nonzero] the size of the result depends on values, which meta tensors do not have");
  Tensor from = cpu::dense(self);
  cpu::Selection selection = cpu::select_nonzero(self.dtype(), from.bytes(), from.numel());
  int64_t n = selection.count();
  Tensor out = empty_strided(Ints{n, self.dim()}, Ints{1, n}, DType::Int64, self.device());
  if (n == 0) return out;
  ReleaseGil unlocked(from.numel());
  cpu::nonzero(self.dtype(), from.bytes(), from.sizes().data(), static_cast<int>(self.dim()), selection,
               out.data<int64_t>(), 1, n);
  return out;
}

}  // namespace

Tensor nonzero(const Tensor& self) { return coordinates(self); }

Tensors _nonzero_tuple(const Tensor& self) {
  Tensor t = self.dim() ? self : view_of(self, Ints{1}, Ints{1}, self.offset());
  Tensor rows = coordinates(t);
  Tensors out;
  for (int64_t d = 0; d < t.dim(); ++d)
    out.push_back(view_of(rows, Ints{rows.size(0)}, Ints{1}, rows.offset() + d * rows.stride(1)));
  return out;
}

void nonzero_static(const Tensor& out, const Tensor& self, int64_t size, int64_t fill_value) {
  Tensor rows = coordinates(self);
  int64_t n = std::min(size, rows.size(0)), ndim = self.dim();
  int64_t* to = out.data<int64_t>();
  const int64_t* from = rows.data<int64_t>();
  for (int64_t i = 0; i < size; ++i)
    for (int64_t d = 0; d < ndim; ++d)
      to[i * out.stride(0) + d * out.stride(1)] = i < n ? from[i + d * rows.stride(1)] : fill_value;
}

}  // namespace tocha::native
