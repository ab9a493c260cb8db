// A storage whose bytes something outside points to: a NumPy array, a buffer, a DLPack consumer, a slice.
// As long as one is alive the storage refuses to be resized, so the pointer stays good.
#pragma once

#include "core/storage.h"

namespace tocha::python {

class PinnedStorage {
 public:
  explicit PinnedStorage(StorageRef s);
  PinnedStorage(PinnedStorage&&) noexcept = default;
  PinnedStorage& operator=(PinnedStorage&&) = delete;
  ~PinnedStorage();
  Storage* operator->() const { return storage_.get(); }

 private:
  StorageRef storage_;
};

}  // namespace tocha::python
