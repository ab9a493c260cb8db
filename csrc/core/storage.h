// Memory that tensors share: a counted block on some device, and the allocators it comes from.
// Counts change only while the GIL is held (a tensor is a Python object), so they are plain integers.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/device.h"

namespace tocha {

struct Storage {
  int64_t refs;
  void* data;
  size_t nbytes;
  size_t reach;  // the most bytes it ever had: tensors made then still look that far
  Device device;
  bool resizable;
  bool from_shared_memory;
  void (*release)(Storage&);  // frees data; null when there is nothing to free
  void* context;              // what release needs: a Python object that owns the memory, ...
  PyObject* wrapper;          // the UntypedStorage object while one is alive (not counted)
};

class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(Storage* owned) : p_(owned) {}
  StorageRef(const StorageRef& o) : p_(o.p_) {
    if (p_) ++p_->refs;
  }
  StorageRef(StorageRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  StorageRef& operator=(StorageRef o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~StorageRef() {
    if (p_ && --p_->refs == 0) destroy(p_);
  }
  Storage* operator->() const { return p_; }
  Storage* get() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }
  Storage* give() { return std::exchange(p_, nullptr); }
  static void destroy(Storage* s);

 private:
  Storage* p_ = nullptr;
};

// Where the memory of other devices comes from; a device without one is refused.
struct Allocator {
  void* (*allocate)(size_t nbytes, Device device);
  void (*free)(void* data, size_t nbytes);
};
TOCHA_API void register_allocator(DeviceType type, const Allocator& allocator);
// The device whose operators Python takes over, if there is one: its tensors are marked so (kDispatches).
extern const DeviceType* python_device;

// A fresh block; contents undefined. Throws MemoryError-kind errors.
StorageRef new_storage(size_t nbytes, Device device);
// Wraps foreign memory; `release` runs when the last tensor lets go.
StorageRef borrow_storage(void* data, size_t nbytes, Device device, void (*release)(Storage&), void* context);
// Grows or shrinks in place (the data pointer may change); keeps the common prefix. Memory never ends before where
// some tensor looks: it is let go whole, at size 0, or not at all.
void resize_storage(Storage& s, size_t nbytes);

// The caching CPU allocator: 64-byte aligned blocks in size classes, kept for reuse up to a limit.
void* cpu_allocate(size_t nbytes);
void cpu_free(void* p, size_t nbytes);
void cpu_empty_cache();
struct CpuMemory {
  size_t in_use, cached, peak;
};
CpuMemory cpu_memory();

}  // namespace tocha
