#include "python/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/fork.h"

namespace tocha::python {
namespace {

struct SharedBlock {
  int fd;            // -1 for a named block that nobody asked for a descriptor
  std::string path;  // its name in the file system, where it has one; the process that made the name takes it away
  uint64_t depth;
  size_t mapped;
  void* data;
  // The block that the bytes were in before, when something else may still point into it.
  Storage before;
};

[[noreturn]] void fail_with_errno(const char* what) {
  fail(ErrorKind::Runtime, "[shared memory] ", what, ": ", std::strerror(errno));
}

int nameless_file() {
#ifdef __linux__
  return memfd_create("tocha", MFD_CLOEXEC);
#else
  static int count = 0;
  std::string name = "/tocha_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) shm_unlink(name.c_str());
  return fd;
#endif
}

int open_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail_with_errno("cannot open the file");
  return fd;
}

int duplicate(int fd) {
  int ours = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (ours < 0) fail_with_errno("cannot use the descriptor");
  return ours;
}

// Takes the descriptor over and closes it when the mapping fails.
void* map_file(int fd, size_t nbytes) {
  void* data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    close(fd);
    fail_with_errno("cannot map the block");
  }
  return data;
}

std::unique_ptr<SharedBlock> map_block(int fd, size_t nbytes) {
  size_t mapped = std::max<size_t>(nbytes, 1);
  void* data = map_file(fd, mapped);
  return std::unique_ptr<SharedBlock>(new SharedBlock{fd, {}, fork_depth(), mapped, data, Storage{}});
}

std::unique_ptr<SharedBlock> new_block(size_t nbytes) { return map_block(new_memory_file(nbytes), nbytes); }

// A mapping needs no descriptor, and a named block can be opened again.
std::unique_ptr<SharedBlock> map_named_block(int fd, const std::string& path, size_t nbytes) {
  std::unique_ptr<SharedBlock> block = map_block(fd, nbytes);
  close(std::exchange(block->fd, -1));
  block->path = path;
  return block;
}

std::unique_ptr<SharedBlock> new_named_block(const std::string& path, size_t nbytes) {
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) fail_with_errno("cannot make a file");
  if (ftruncate(fd, static_cast<off_t>(std::max<size_t>(nbytes, 1))) != 0) {
    close(fd);
    unlink(path.c_str());
    fail_with_errno("cannot size the file");
  }
  return map_named_block(fd, path, nbytes);
}

void release_shared(Storage& s) {
  auto* block = static_cast<SharedBlock*>(s.context);
  if (block->before.release) block->before.release(block->before);
  munmap(block->data, block->mapped);
  if (block->fd >= 0) close(block->fd);
  if (!block->path.empty() && block->depth == fork_depth()) unlink(block->path.c_str());
  delete block;
}

StorageRef storage_on(std::unique_ptr<SharedBlock> block, size_t nbytes) {
  StorageRef s = borrow_storage(block->data, nbytes, Device{}, release_shared, block.get());
  s->from_shared_memory = true;
  block.release();
  return s;
}

void move_to_block(Storage& s, std::unique_ptr<SharedBlock> block) {
  if (s.data) std::memcpy(block->data, s.data, s.nbytes);
  if (s.resizable) {
    if (s.release) s.release(s);
  } else {
    block->before = s;  // a NumPy array, a slice or a buffer may point into it
  }
  s.data = block->data;
  s.release = release_shared;
  s.context = block.release();
  s.resizable = false;
  s.from_shared_memory = true;
}

// The flag in a leased block's header.
enum Turn : uint32_t { kFree = 0, kClaimed = 1, kLost = 2 };

std::atomic_ref<uint32_t> turn_of(char* block) { return std::atomic_ref(*reinterpret_cast<uint32_t*>(block)); }

}  // namespace

int new_memory_file(size_t nbytes) {
  int fd = nameless_file();
  if (fd < 0) fail_with_errno("cannot make a block");
  if (ftruncate(fd, static_cast<off_t>(std::max<size_t>(nbytes, 1))) != 0) {
    close(fd);
    fail_with_errno("cannot size the block");
  }
  return fd;
}

StorageRef new_shared_storage(size_t nbytes) { return storage_on(new_block(nbytes), nbytes); }

StorageRef open_shared_storage(int fd, size_t nbytes) { return storage_on(map_block(duplicate(fd), nbytes), nbytes); }

void move_to_shared_memory(Storage& s) {
  if (!s.from_shared_memory) move_to_block(s, new_block(s.reach));
}

int shared_memory_fd(Storage& s) {
  if (s.release != release_shared) move_to_block(s, new_block(s.reach));
  auto& block = *static_cast<SharedBlock*>(s.context);
  if (block.fd < 0) block.fd = open_file(block.path);
  return block.fd;
}

std::string shared_memory_path(Storage& s, const std::string& path) {
  if (s.release != release_shared) move_to_block(s, new_named_block(path, s.reach));
  return static_cast<const SharedBlock*>(s.context)->path;
}

StorageRef open_shared_file(const std::string& path, size_t nbytes) {
  return storage_on(map_named_block(open_file(path), path, nbytes), nbytes);
}

// ---- Leased blocks.

LeasedBlock::LeasedBlock(size_t capacity)
    : fd_(new_memory_file(kHeader + capacity)), capacity_(capacity), depth_(fork_depth()) {
  data_ = static_cast<char*>(map_file(fd_, kHeader + capacity));
}

LeasedBlock::LeasedBlock(int fd, size_t capacity) : fd_(-1), capacity_(capacity), depth_(fork_depth()) {
  int ours = duplicate(fd);
  data_ = static_cast<char*>(map_file(ours, kHeader + capacity));
  close(ours);
}

LeasedBlock::~LeasedBlock() {
  munmap(data_, kHeader + capacity_);
  close_fd();
}

void LeasedBlock::drop() {
  if (--refs_ == 0) delete this;
}

void LeasedBlock::close_fd() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool LeasedBlock::is_free() const { return turn_of(data_).load(std::memory_order_acquire) == kFree; }
bool LeasedBlock::is_lost() const { return turn_of(data_).load(std::memory_order_acquire) == kLost; }
void LeasedBlock::claim() { turn_of(data_).store(kClaimed, std::memory_order_release); }

void LeasedBlock::check_range(size_t at, size_t n) const {
  TOCHA_CHECK(at <= capacity_ && n <= capacity_ - at, Runtime, "[shared memory] bytes ", at, " to ", at + n,
              " are not in a block of ", capacity_);
}

void LeasedBlock::write(size_t at, const void* bytes, size_t n) {
  check_range(at, n);
  if (n) std::memcpy(data_ + kHeader + at, bytes, n);
}

StorageRef LeasedBlock::lease(size_t at, size_t nbytes) {
  check_range(at, nbytes);
  StorageRef s = borrow_storage(data_ + kHeader + at, nbytes, Device{}, release_lease, this);
  s->from_shared_memory = true;
  if (leases_++ == 0) forks_ = fork_count();
  ++refs_;
  return s;
}

// After a fork the child may still have the tensors when the parent's are gone, so nobody can give the block back; a
// child does not touch its parent's flag at all.
void LeasedBlock::end_lease() {
  if (--leases_ > 0 || depth_ != fork_depth()) return;
  turn_of(data_).store(forks_ == fork_count() ? kFree : kLost, std::memory_order_release);
}

void LeasedBlock::release_lease(Storage& s) {
  auto* block = static_cast<LeasedBlock*>(s.context);
  block->end_lease();
  block->drop();
}

}  // namespace tocha::python
