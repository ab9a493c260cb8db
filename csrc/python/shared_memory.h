// Storages in memory that other processes can open: UntypedStorage.share_memory_ and multiprocessing use it.
#pragma once

#include "core/storage.h"

namespace tocha::python {

StorageRef new_shared_storage(size_t nbytes);
// Maps a block that another process shared; the descriptor stays the caller's.
StorageRef open_shared_storage(int fd, size_t nbytes);
// The storage keeps its identity and its bytes; nothing happens when it is shared already.
void move_to_shared_memory(Storage& s);
// The descriptor of a shared storage; it stays the storage's.
int shared_memory_fd(const Storage& s);

}  // namespace tocha::python
