// Copies, fills and conversions: the kernels of tocha/operators/copies.py and views.py.
#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/mode.h"
#include "core/dtype_messages.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "core/switches.h"
#include "cpu/elementwise.h"
#include "dispatch/native.h"
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
  parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
    if (zero)
      std::memset(out + b * size, 0, static_cast<size_t>((e - b) * size));
    else
      repeat(out + b * size, size, value, 0, e - b);
  });
}

double largest(DType d) {
  switch (d) {
    case DType::Float16:
      return 65504;
    case DType::BFloat16:
      return 3.3895313892515355e38;
    case DType::Float8_e4m3fn:
      return 448;
    case DType::Float8_e5m2:
      return 57344;
    case DType::Float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

// Numbers that become something else in dst are refused: what a fill writes is what the caller said.
void check_fits(const Scalar& value, DType d) {
  if (d == DType::Bool || value.is_boolean() || value.is_integral()) return;  // Scalar::store checks integers
  Complex<double> v = value.to_complex();
  bool fits = true;
  if (is_integral(d)) {
    double bits = static_cast<double>(8 * itemsize(d) - info(d).is_signed);
    fits = v.im == 0 && v.re >= (info(d).is_signed ? -std::ldexp(1.0, static_cast<int>(bits)) : 0) &&
           v.re < std::ldexp(1.0, static_cast<int>(bits));
  } else {
    double limit = largest(real_dtype(d));
    auto within = [&](double x) { return !std::isfinite(x) || std::abs(x) <= limit; };
    fits = within(v.re) && (is_complex(d) ? within(v.im) : v.im == 0);
  }
  TOCHA_CHECK(fits, Runtime, "[fill] value cannot be converted to type ", overflow_name(d), " without overflow: got ",
              value);
}

}  // namespace

void fill(const Tensor& dst, const Scalar& value) {
  check_fits(value, dst.dtype());
  if (dst.is_conj() || dst.is_neg() || !dst.is_non_overlapping_and_dense()) {
    copy(dst, scalar_tensor(value, dst.dtype()));
    return;
  }
  alignas(16) char stored[16];
  value.store(dst.dtype(), stored);
  if (dst.numel() == 0) return;
  ReleaseGil unlocked(dst.numel());
  fill_dense(dst.bytes(), dst.numel(), dst.dtype(), stored);
}

void fill_uninitialized(const Tensor& t) {
  if (!switches.fill_uninitialized) [[likely]]
    return;
  fill(t, unlikely_value(t.dtype()));
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
  Tensor out = empty_strided(src.sizes(), like_strides(src, format), dtype, device);
  if (!computes(out)) return out;
  TOCHA_CHECK(!src.is_meta(), NotImplemented, "[to] Cannot copy out of meta tensor; no data!");
  backend(device.type).copy(out, src);
  return out;
}

}  // namespace

void copy_(const Tensor& self, const Tensor& src, bool) {
  if (self.is(src)) return;
  Ints shape = broadcast_sizes(self.sizes(), src.sizes(), "copy_");
  TOCHA_CHECK(shape == self.sizes(), Runtime, "[copy_] output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", shape);
  warn_discarded_imaginary(src, self.dtype());
  if (!computes(self)) return;
  TOCHA_CHECK(!src.is_meta(), NotImplemented, "[copy_] Cannot copy out of meta tensor; no data!");
  copy_across(self, src);
}

void fill_(const Tensor& self, const Tensor& value) {
  TOCHA_CHECK(value.dim() == 0, Runtime, "[fill_] fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
  if (!computes(self)) return;
  if (value.is_wrapped_number()) {
    backend(self.device().type).fill(self, Scalar::load(value.dtype(), value.bytes()));
    return;
  }
  TOCHA_CHECK(!value.is_meta(), NotImplemented, "[fill_] Cannot copy out of meta tensor; no data!");
  backend(self.device().type).copy(self, value);
}

void zero_(const Tensor& self) {
  if (computes(self)) backend(self.device().type).fill(self, Scalar(int64_t{0}));
}

void clone(const Tensor& out, const Tensor& self, std::optional<MemoryFormat>) {
  backend(self.device().type).copy(out, self);
}
void _dense_copy(const Tensor& out, const Tensor& self) { backend(self.device().type).copy(out, self); }

bool _is_laid_out(const Tensor& self, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Contiguous);
  TOCHA_CHECK(f != MemoryFormat::Preserve, Runtime, "preserve memory format is unsupported by the contiguous operator");
  return self.is_contiguous(f);
}

Tensor to_dtype(const Tensor& self, DType dtype, bool, bool copy, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  if (self.dtype() == dtype && !copy && (f == MemoryFormat::Preserve || self.is_contiguous(f))) return self;
  return converted(self, self.device(), dtype, f);
}

Tensor to_device(const Tensor& self, std::optional<Device> device, std::optional<DType> dtype, bool, bool copy,
                 std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  Device d = device.value_or(self.device());
  DType t = dtype.value_or(self.dtype());
  bool same = self.device() == d && self.dtype() == t && (f == MemoryFormat::Preserve || self.is_contiguous(f));
  return same && !copy ? self : converted(self, d, t, f);
}

Tensor _to_cpu(const Tensor& self, std::optional<MemoryFormat> format) {
  return to_device(self, Device{}, std::nullopt, false, false, format);
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
  StorageRef memory = new_storage(self.storage().nbytes, self.device());
  if (computes(self) && memory->nbytes) std::memcpy(memory->data, self.storage().data, memory->nbytes);
  Tensor copy = make_tensor(std::move(memory), self.dtype(), self.sizes(), self.strides(), self.offset());
  copy.get()->conj = self.is_conj();
  copy.get()->neg = self.is_neg();
  return copy;
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
  if (self.sizes() == size && !format) return;
  int64_t before = static_cast<int64_t>(self.storage().nbytes);
  tocha::resize_(self, size, format_strides(size, f));
  if (switches.fill_uninitialized && computes(self)) fill_added(self, before);
}

}  // namespace tocha::native
