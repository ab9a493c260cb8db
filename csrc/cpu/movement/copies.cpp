// Copies, fills and conversions: the kernels of tocha/operators/copies.py and views.py.
#include "ops/copies.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/mode.h"
#include "core/dtype_messages.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "core/switches.h"
#include "core/zero.h"
#include "cpu/engine/elementwise.h"
#include "cpu/engine/grain.h"
#include "dispatch/native.h"
#include "ops/factories.h"
#include "ops/views.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kGrain = 32768;

// What stands out where somebody reads memory that was never written.
Scalar unlikely_value(DType d) {
  if (d == DType::Bool) return Scalar(true);
  if (d == DType::UInt64) return Scalar(std::numeric_limits<uint64_t>::max());
  if (!is_integral(d)) return Scalar(std::numeric_limits<double>::quiet_NaN());
  int bits = static_cast<int>(8 * itemsize(d)) - (info(d).is_signed ? 1 : 0);
  return Scalar(static_cast<int64_t>((uint64_t{1} << bits) - 1));
}

// The elements lie without holes: their order does not matter.
void fill_dense(char* out, int64_t n, DType dtype, const char* value) {
  static constexpr char zeros[16] = {};
  const int64_t size = itemsize(dtype);
  const bool zero = std::memcmp(value, zeros, static_cast<size_t>(size)) == 0;
  const CastLoop repeat = cast_loop(dtype, dtype);
  parallel_for(n, even_grain(n, kGrain), [&](int64_t b, int64_t e) {
    if (zero)
      std::memset(out + b * size, 0, static_cast<size_t>((e - b) * size));
    else
      repeat(out + b * size, size, value, 0, e - b);
  });
}

}  // namespace

void fill(const Tensor& dst, const Scalar& value) {
  alignas(16) char stored[16];
  // As in PyTorch, a single element rounds what is beyond a half type; several refuse it.
  (dst.numel() == 1 ? value.rounded_to(dst.dtype()) : value).store(dst.dtype(), stored);
  if (dst.is_conj() || dst.is_neg() || !dst.is_non_overlapping_and_dense()) {
    Tensor element = empty({}, dst.dtype(), dst.device());
    std::memcpy(element.bytes(), stored, static_cast<size_t>(dst.itemsize()));
    copy(dst, element);
    return;
  }
  if (dst.numel() == 0) return;
  ReleaseGil unlocked(dst.numel());
  fill_dense(dst.bytes(), dst.numel(), dst.dtype(), stored);
}

void fill_uninitialized(const Tensor& t) {
  if (!switches.fill_uninitialized) [[likely]]
    return;
  backend(t.device().type).fill(t, unlikely_value(t.dtype()));
}

}  // namespace tocha::cpu

namespace tocha::native {
namespace {

void warn_discarded_imaginary(const Tensor& src, DType to) {
  if (src.is_complex() && !is_complex(to) && to != DType::Bool)
    warn_once("Casting complex values to real discards the imaginary part");
}

// src on another device, in another dtype or layout.
Tensor converted(const Tensor& src, Device device, DType dtype, MemoryFormat format) {
  warn_discarded_imaginary(src, dtype);
  if (python_device && *python_device == device.type) [[unlikely]]
    return ops::copy_(ops::empty_strided(src.sizes(), like_strides(src, format), dtype, device), src, false);
  Tensor out = empty_strided(src.sizes(), like_strides(src, format), dtype, device);
  if (!computes(out)) return out;
  TOCHA_CHECK(!src.is_meta(), NotImplemented, "[to] Cannot copy out of meta tensor; no data!");
  copy_between(out, src);
  return out;
}

bool is_same_memory(const Tensor& a, const Tensor& b) {
  return &a.storage() == &b.storage() && a.offset() == b.offset() && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

}  // namespace

void copy_(const Tensor& self, const Tensor& src, bool) {
  if (self.is(src) || is_same_memory(self, src)) return;
  check_no_internal_overlap(self, "copy_");
  Ints shape = broadcast_sizes(self.sizes(), src.sizes(), "copy_");
  TOCHA_CHECK(shape == self.sizes(), Runtime, "[copy_] output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", shape);
  warn_discarded_imaginary(src, self.dtype());
  check_no_overlap(self, src, "copy_", true);
  if (!computes(self)) return;
  TOCHA_CHECK(!src.is_meta(), NotImplemented, "[copy_] Cannot copy out of meta tensor; no data!");
  copy_across(self, src);
}

void fill_(const Tensor& self, const Tensor& value) {
  TOCHA_CHECK(value.dim() == 0, Runtime, "[fill_] fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
  if (!value.is_wrapped_number()) check_no_internal_overlap(self, "fill_");
  if (!computes(self)) return;
  if (value.is_wrapped_number()) {
    backend(self.device().type).fill(self, Scalar::load(value.dtype(), value.bytes()));
    return;
  }
  TOCHA_CHECK(!value.is_meta(), NotImplemented, "[fill_] Cannot copy out of meta tensor; no data!");
  copy_between(self, value);
}

void zero_(const Tensor& self) {
  if (computes(self)) backend(self.device().type).fill(self, zero_of(self.dtype()));
}

void clone(const Tensor& out, const Tensor& self, std::optional<MemoryFormat>) {
  backend(self.device().type).copy(out, self);
}
void _dense_copy(const Tensor& out, const Tensor& self) { backend(self.device().type).copy(out, self); }

bool _is_laid_out(const Tensor& self, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Contiguous);
  TOCHA_CHECK(f != MemoryFormat::Preserve || self.is_contiguous(), Runtime,
              "[contiguous] preserve memory format is unsupported by the contiguous operator: got strides ",
              self.strides(), " for sizes ", self.sizes());
  return self.is_contiguous(f);
}

namespace {
// `to` goes by the order of the strides: a single channel may count as channels_last or not, a transposed matrix is in
// the contiguous format.
bool in_format(const Tensor& t, MemoryFormat f) { return f == MemoryFormat::Preserve || suggested_format(t) == f; }
}  // namespace

Tensor to_dtype(const Tensor& self, DType dtype, bool, bool copy, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  if (self.dtype() == dtype && !copy && in_format(self, f)) return self;
  return converted(self, self.device(), dtype, f);
}

Tensor to_device(const Tensor& self, std::optional<Device> device, std::optional<DType> dtype, bool, bool copy,
                 std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  Device d = device.value_or(self.device());
  DType t = dtype.value_or(self.dtype());
  bool same = self.device() == d && self.dtype() == t && in_format(self, f);
  return same && !copy ? self : converted(self, d, t, f);
}

Tensor _to_cpu(const Tensor& self, std::optional<MemoryFormat> format) {
  return to_device(self, Device{}, std::nullopt, false, false, format);
}

Scalar _local_scalar_dense(const Tensor& self) {
  TOCHA_CHECK(self.numel() == 1, Runtime, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  Scalar s = Scalar::load(self.dtype(), self.bytes());
  if (self.is_conj()) s = Scalar(Complex<double>(s.to_complex().re, -s.to_complex().im));
  return self.is_neg() ? -s : s;
}

Tensor detach(const Tensor& self) { return alias_of(self, true); }

Tensor _unsafe_view(const Tensor& self, IntsView size) {
  Tensor shaped = ops::view(self, size);
  Tensor out = make_tensor(self.storage_ref(), self.dtype(), shaped.sizes(), shaped.strides(), shaped.offset());
  out.get()->conj = self.is_conj();
  out.get()->neg = self.is_neg();
  return out;
}

Tensor _clone_storage(const Tensor& self) {
  // A part of the copy must be no more than that part, and is written as it is.
  if (has_internal_overlap(self) || self.is_conj() || self.is_neg()) return clone_dense(self);
  const Storage& all = self.storage();
  StorageRef memory = new_storage(all.reach, self.device());
  if (computes(self) && all.nbytes) std::memcpy(memory->data, all.data, all.nbytes);
  return make_tensor(std::move(memory), self.dtype(), self.sizes(), self.strides(), self.offset());
}

namespace {
// What a storage got beyond the bytes it had.
void fill_added(const Tensor& t, int64_t bytes_before) {
  int64_t first = (bytes_before + t.itemsize() - 1) / t.itemsize();
  int64_t end = static_cast<int64_t>(t.storage().nbytes) / t.itemsize();
  if (end > first) cpu::fill_uninitialized(make_tensor(t.storage_ref(), t.dtype(), Ints{end - first}, Ints{1}, first));
}
}  // namespace

void resize_(const Tensor& self, IntsView size, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Contiguous);
  TOCHA_CHECK(f != MemoryFormat::Preserve, Runtime, "[resize_] unsupported memory format preserve_format");
  for (int64_t s : size) TOCHA_CHECK(s >= 0, Runtime, "[resize_] negative size in ", size);
  TOCHA_CHECK(!autograd::requires_grad(self), Runtime, "[resize_] cannot resize variables that require grad");
  TOCHA_CHECK(!autograd::has_tangent(self), Runtime, "[resize_] cannot resize variables that has a forward grad");
  if (self.sizes() == size && !format) return;
  int64_t before = static_cast<int64_t>(self.storage().nbytes);
  tocha::resize_(self, size, format_strides(size, f));
  self.bump_version();
  if (switches.fill_uninitialized && computes(self)) fill_added(self, before);
}

}  // namespace tocha::native
