// Storages in memory that other processes can open: UntypedStorage.share_memory_ and multiprocessing use it.
//
// A storage owns its block. Where many tensors come again and again (a DataLoader's batches), they are leased
// from blocks that both processes keep mapped: see LeasedBlock.
#pragma once

#include <cstdint>
#include <string>

#include "core/storage.h"

namespace tocha::python {

StorageRef new_shared_storage(size_t nbytes);
// Maps a block that another process shared; the descriptor stays the caller's.
StorageRef open_shared_storage(int fd, size_t nbytes);
// The storage keeps its identity and its bytes; nothing happens when it is shared already.
void move_to_shared_memory(Storage& s);
// The descriptor under which another process can open the storage, which moves to shared memory if need be (a leased
// one too). It stays the storage's.
int shared_memory_fd(Storage& s);

// The file that another process can open the storage by: a new one at `path` when the storage was not shared yet, empty
// when it has descriptors only. The file goes with the storage.
std::string shared_memory_path(Storage& s, const std::string& path);
// Maps a file, which is this storage's from now on.
StorageRef open_shared_file(const std::string& path, size_t nbytes);

// A nameless file in memory, as large as asked for: nothing stays behind when the last process is gone.
int new_memory_file(size_t nbytes);

// Memory that a writer process fills and a reader process makes storages on. The first bytes hold a flag that says
// whose turn it is: the writer claims the block, the reader's last storage on it gives it back. So neither a message
// nor a fresh mapping is needed from one batch to the next.
class LeasedBlock {
 public:
  static constexpr size_t kHeader = 64;

  explicit LeasedBlock(size_t capacity);  // the writer's
  LeasedBlock(int fd, size_t capacity);   // the reader's; the descriptor stays the caller's
  LeasedBlock(const LeasedBlock&) = delete;
  LeasedBlock& operator=(const LeasedBlock&) = delete;

  // The writer's side.
  int fd() const { return fd_; }  // to be handed to the reader; -1 after close_fd
  void close_fd();
  bool is_free() const;
  bool is_lost() const;  // the reader cannot tell when it will be free
  void claim();
  void write(size_t at, const void* bytes, size_t n);

  // The reader's side: a storage on a part of the block.
  StorageRef lease(size_t at, size_t nbytes);

  size_t capacity() const { return capacity_; }
  void drop();  // whoever made the block lets go; the mapping ends with the last storage

 private:
  ~LeasedBlock();
  void check_range(size_t at, size_t n) const;
  void end_lease();
  static void release_lease(Storage& s);

  int fd_;
  size_t capacity_;
  char* data_;
  int64_t refs_ = 1;
  int64_t leases_ = 0;
  uint64_t forks_ = 0;  // when the leases began
  uint64_t depth_;
};

}  // namespace tocha::python
