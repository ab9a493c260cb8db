// set_: a tensor on other memory. The kernels of tocha/operators/resizing.py; no elements are touched, so they serve
// every device.
#include "core/sparse.h"
#include "dispatch/native.h"
#include "kernels/resizing.h"

namespace tocha::native {
namespace {

void check_storage(const Tensor& self, const Storage& s) {
  TOCHA_CHECK(s.device == self.device(), Runtime, "[set_] Attempted to set the storage of a tensor on device \"",
              self.device(), "\" to a storage on different device \"", s.device,
              "\".  This is no longer allowed; the devices must match.");
}

void put(const Tensor& self, StorageRef memory, IntsView sizes, IntsView strides, int64_t offset) {
  check_strided(self, "set_");
  check_storage(self, *memory.get());
  size_t needed = bytes_needed(sizes, strides, offset, self.itemsize());
  if (needed > memory->nbytes) resize_storage(*memory.get(), needed);
  set_sizes_and_strides(self, sizes, strides, offset);  // refuses too many elements, and then nothing has changed
  StorageRef before(self.get()->storage);
  self.get()->storage = memory.give();
}

void put_part(const Tensor& self, StorageRef memory, int64_t offset, IntsView size, IntsView stride) {
  TOCHA_CHECK(offset >= 0, Runtime, "[set_] Tensor: invalid storage offset ", offset);
  TOCHA_CHECK(stride.empty() || stride.size() == size.size(), Runtime, "[set_] unequal size length (", size.size(),
              ") and stride length (", stride.size(), ")");
  for (int64_t s : stride)
    TOCHA_CHECK(s >= 0, Runtime, "[set_] Storage size calculation overflowed with sizes=", size,
                " and strides=", stride);
  for (int64_t s : size) TOCHA_CHECK(s >= 0, Runtime, "[set_] negative sizes: ", size);
  put(self, std::move(memory), size, stride.empty() ? contiguous_strides(size) : Ints(stride), offset);
}

StorageRef memory_of(const Tensor& self, const GivenStorage& source) {
  TOCHA_CHECK(source.dtype == DType::Undefined || source.dtype == self.dtype(), Runtime,
              "[set_] Expected a Storage of type ", self.dtype(), " or an UntypedStorage, but got type ", source.dtype,
              " for argument 1 'storage'");
  return source.memory;
}

StorageRef memory_of(const Tensor& self, const Tensor& source) {
  check_strided(source, "set_");
  TOCHA_CHECK(source.dtype() == self.dtype(), Runtime, "[set_] Could not set tensor of type ", source.dtype(),
              " to a tensor of type ", self.dtype());
  return source.storage_ref();
}

}  // namespace

void set_(const Tensor& self) { put(self, new_storage(0, self.device()), Ints{0}, Ints{1}, 0); }

void set_(const Tensor& self, const GivenStorage& source) {
  StorageRef memory = memory_of(self, source);
  int64_t n = static_cast<int64_t>(memory->nbytes) / self.itemsize();
  put(self, std::move(memory), Ints{n}, Ints{1}, 0);
}

void set_(const Tensor& self, const GivenStorage& source, int64_t offset, IntsView size, IntsView stride) {
  put_part(self, memory_of(self, source), offset, size, stride);
}

void set_(const Tensor& self, const Tensor& source) {
  put(self, memory_of(self, source), source.sizes(), source.strides(), source.offset());
}

void set_(const Tensor& self, const Tensor& source, int64_t offset, IntsView size, IntsView stride) {
  put_part(self, memory_of(self, source), offset, size, stride);
}

}  // namespace tocha::native
