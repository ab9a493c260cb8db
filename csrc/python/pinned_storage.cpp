#include "python/pinned_storage.h"

#include <unordered_map>

namespace tocha::python {
namespace {

struct Pins {
  int64_t count = 0;
  bool was_resizable = false;
};

// Guarded by the GIL, as storages are. Never destroyed: arrays may outlive static destructors.
std::unordered_map<Storage*, Pins>& all_pins() {
  static auto& pins = *new std::unordered_map<Storage*, Pins>();
  return pins;
}

}  // namespace

PinnedStorage::PinnedStorage(StorageRef s) : storage_(std::move(s)) {
  Pins& pins = all_pins()[storage_.get()];
  if (pins.count++ == 0) pins.was_resizable = std::exchange(storage_->resizable, false);
}

PinnedStorage::~PinnedStorage() {
  if (!storage_) return;
  auto found = all_pins().find(storage_.get());
  if (--found->second.count > 0) return;
  // Shared memory has a fixed size, whatever the storage was before it moved there.
  storage_->resizable = found->second.was_resizable && !storage_->from_shared_memory;
  all_pins().erase(found);
}

}  // namespace tocha::python
