#include "core/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "core/companions.h"
#include "core/error.h"
#include "core/fork.h"
#include "core/profile.h"

namespace tocha {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLimit = size_t{256} << 20;
#ifdef TOCHA_SANITIZE  // blocks as long as asked for and freed at once: a sanitizer sees what goes beyond them
constexpr size_t kLargestCached = 0;
constexpr size_t kMaxPooled = 0;
#else
constexpr size_t kLargestCached = kCacheLimit / 2;
constexpr size_t kMaxPooled = 1024;
#endif
constexpr int kStepsPerDoubling = 4;
constexpr int kClasses = 40 * kStepsPerDoubling;

// Size classes: multiples of 64 up to 256 bytes, then four steps per doubling (at most 25% slack).
int size_class(size_t nbytes) {
  size_t units = (nbytes + kAlignment - 1) / kAlignment;
  if (units <= 4) return static_cast<int>(units == 0 ? 1 : units);
  int top = std::bit_width(units - 1) - 1;
  size_t step = size_t{1} << (top - 2);
  size_t above = (units - (size_t{1} << top) + step - 1) / step;
  return 4 + (top - 2) * kStepsPerDoubling + static_cast<int>(above);
}

size_t class_bytes(int c) {
  if (c <= 4) return static_cast<size_t>(c) * kAlignment;
  int top = (c - 5) / kStepsPerDoubling + 2;
  size_t above = static_cast<size_t>((c - 5) % kStepsPerDoubling + 1);
  return ((size_t{1} << top) + above * (size_t{1} << (top - 2))) * kAlignment;
}

struct Cache {
  std::mutex mutex;
  std::vector<void*> free[kClasses];
  size_t cached = 0;
  size_t in_use = 0;
  size_t peak = 0;
};

// Never destroyed: tensors may outlive static destructors.
Cache& cache() {
  static Cache& c = [&]() -> Cache& {
    auto* fresh = new Cache();
    hold_across_fork(fresh->mutex, ForkOrder::Allocator);
    return *fresh;
  }();
  return c;
}

void drop_cached(Cache& c) {
  for (int i = 0; i < kClasses; ++i) {
    for (void* p : c.free[i]) std::free(p);
    c.free[i].clear();
  }
  c.cached = 0;
}

void* system_allocate(size_t nbytes) {
  bool huge = nbytes >= 2 * kHugePage;
  size_t alignment = huge ? kHugePage : kAlignment;
  void* p = nullptr;
  if (posix_memalign(&p, alignment, nbytes) != 0) return nullptr;
  if (huge) madvise(p, nbytes, MADV_HUGEPAGE);
  return p;
}

std::vector<Storage*>& storage_pool() {
  static auto& pool = [&]() -> std::vector<Storage*>& {
    auto* fresh = new std::vector<Storage*>();
    fresh->reserve(kMaxPooled);  // putting one back never needs memory
    return *fresh;
  }();
  return pool;
}

Storage* take_storage() {
  auto& pool = storage_pool();
  if (pool.empty()) return new Storage();
  Storage* s = pool.back();
  pool.pop_back();
  return s;
}

std::unordered_map<const Storage*, PyObject*>& companions() {
  static auto& all = *new std::unordered_map<const Storage*, PyObject*>();
  return all;
}

void let_companion_go(const Storage* s) {
  auto found = companions().extract(s);
  if (!found.empty()) Py_DECREF(found.mapped());
}

[[noreturn]] void refuse_device(Device d) {
  TOCHA_CHECK(d.type != DeviceType::cuda, Assertion, "Tocha not compiled with CUDA enabled");
  TOCHA_CHECK(d.type != DeviceType::xpu, Assertion, "Tocha not compiled with XPU enabled");
  fail(ErrorKind::Runtime, "[allocate] Tocha is not linked with support for ", name(d.type), " devices: asked for ", d);
}

void release_cpu(Storage& s) { cpu_free(s.data, s.reach); }

Allocator allocators[kNumDeviceTypes] = {};
const Allocator& allocator_of(Device d) {
  const Allocator& a = allocators[static_cast<int>(d.type)];
  if (!a.allocate) refuse_device(d);
  return a;
}
void release_elsewhere(Storage& s) { allocator_of(s.device).free(s.data, s.reach); }

}  // namespace

const DeviceType* python_device = nullptr;

void register_allocator(DeviceType type, const Allocator& allocator) { allocators[static_cast<int>(type)] = allocator; }

static void* take(Cache& all, size_t nbytes) {
  int c = size_class(nbytes);
  size_t rounded = nbytes > kLargestCached ? nbytes : class_bytes(c);
  {
    std::lock_guard lock(all.mutex);
    all.in_use += rounded;
    all.peak = std::max(all.peak, all.in_use);
    if (nbytes <= kLargestCached && !all.free[c].empty()) {
      void* p = all.free[c].back();
      all.free[c].pop_back();
      all.cached -= rounded;
      return p;
    }
  }
  void* p = system_allocate(rounded);
  if (!p) {
    std::lock_guard lock(all.mutex);
    drop_cached(all);
    p = system_allocate(rounded);
    if (!p) all.in_use -= rounded;
  }
  TOCHA_CHECK(p, Runtime, "[allocate] not enough memory: you tried to allocate ", nbytes, " bytes.");
  return p;
}

void* cpu_allocate(size_t nbytes) {
  Cache& all = cache();
  void* p = take(all, nbytes);
  if (profile::watching_memory) [[unlikely]]
    profile::remember_memory(p, static_cast<int64_t>(nbytes), static_cast<int64_t>(all.in_use));
  return p;
}

void cpu_free(void* p, size_t nbytes) {
  if (!p) return;
  int c = size_class(nbytes);
  Cache& all = cache();
  if (profile::watching_memory) [[unlikely]] {
    const auto freed = static_cast<int64_t>(nbytes > kLargestCached ? nbytes : class_bytes(c));
    profile::remember_memory(p, -static_cast<int64_t>(nbytes), static_cast<int64_t>(all.in_use) - freed);
  }
  std::unique_lock lock(all.mutex);
  if (nbytes > kLargestCached) {
    all.in_use -= nbytes;
    lock.unlock();
    std::free(p);
    return;
  }
  size_t rounded = class_bytes(c);
  all.in_use -= rounded;
  if (all.cached + rounded > kCacheLimit) drop_cached(all);
  try {
    all.free[c].push_back(p);
    all.cached += rounded;
  } catch (const std::bad_alloc&) {  // no memory for the list: then the block is worth more outside it
    std::free(p);
  }
}

void cpu_empty_cache() {
  std::lock_guard lock(cache().mutex);
  drop_cached(cache());
}

CpuMemory cpu_memory() {
  std::lock_guard lock(cache().mutex);
  return {cache().in_use, cache().cached, cache().peak};
}

PyObject* companion_of(const Storage& s, PyObject* fresh) {
  auto [place, added] = companions().try_emplace(&s, fresh);
  if (added) Py_INCREF(fresh);
  return place->second;
}

void StorageRef::destroy(Storage* s) {
  if (!companions().empty()) [[unlikely]]
    let_companion_go(s);
  if (s->release) s->release(*s);
  auto& pool = storage_pool();
  if (pool.size() < kMaxPooled) {
    pool.push_back(s);
  } else {
    delete s;
  }
}

StorageRef new_storage(size_t nbytes, Device device) {
  void* data = nullptr;
  if (device.is_cpu()) {
    if (nbytes) data = cpu_allocate(nbytes);
  } else if (!device.is_meta()) {
    const Allocator& other = allocator_of(device);
    if (nbytes) data = other.allocate(nbytes, device);
  }
  void (*release)(Storage&) = !data ? nullptr : device.is_cpu() ? release_cpu : release_elsewhere;
  Storage* s = take_storage();
  *s = Storage{1, data, nbytes, nbytes, device, true, false, release, nullptr, nullptr};
  return StorageRef(s);
}

StorageRef borrow_storage(void* data, size_t nbytes, Device device, void (*release)(Storage&), void* context) {
  Storage* s = take_storage();
  *s = Storage{1, data, nbytes, nbytes, device, false, false, release, context, nullptr};
  return StorageRef(s);
}

void resize_storage(Storage& s, size_t nbytes) {
  TOCHA_CHECK(s.resizable, Runtime, "Trying to resize storage that is not resizable");
  if (s.device.is_meta()) {
    s.nbytes = nbytes;
    return;
  }
  TOCHA_CHECK(s.device.is_cpu(), NotImplemented, "[resize_storage] storages on ", s.device, " cannot be resized");
  if (nbytes && s.data && nbytes <= s.reach) {
    s.nbytes = nbytes;
    return;
  }
  size_t reach = std::max(nbytes, s.reach);
  void* fresh = nbytes ? cpu_allocate(reach) : nullptr;
  if (fresh && s.data) std::memcpy(fresh, s.data, std::min(nbytes, s.nbytes));
  if (s.release) s.release(s);
  s.data = fresh;
  s.nbytes = nbytes;
  s.reach = reach;
  s.release = fresh ? release_cpu : nullptr;
}

}  // namespace tocha
