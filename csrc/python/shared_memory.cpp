#include "python/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "core/error.h"

namespace tocha::python {
namespace {

struct SharedBlock {
  int fd;
  size_t mapped;
  void* data;
  // The block that the bytes were in before, when something else may still point into it.
  Storage before;
};

[[noreturn]] void fail_with_errno(const char* what) {
  fail(ErrorKind::Runtime, "[shared memory] ", what, ": ", std::strerror(errno));
}

// A nameless file in memory: nothing stays behind when the last process is gone.
int new_memory_file() {
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

std::unique_ptr<SharedBlock> map_block(int fd, size_t nbytes) {
  size_t mapped = std::max<size_t>(nbytes, 1);
  void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    close(fd);
    fail_with_errno("cannot map the block");
  }
  return std::unique_ptr<SharedBlock>(new SharedBlock{fd, mapped, data, Storage{}});
}

std::unique_ptr<SharedBlock> new_block(size_t nbytes) {
  int fd = new_memory_file();
  if (fd < 0) fail_with_errno("cannot make a block");
  if (ftruncate(fd, static_cast<off_t>(std::max<size_t>(nbytes, 1))) != 0) {
    close(fd);
    fail_with_errno("cannot size the block");
  }
  return map_block(fd, nbytes);
}

void release_shared(Storage& s) {
  auto* block = static_cast<SharedBlock*>(s.context);
  if (block->before.release) block->before.release(block->before);
  munmap(block->data, block->mapped);
  close(block->fd);
  delete block;
}

StorageRef storage_on(std::unique_ptr<SharedBlock> block, size_t nbytes) {
  StorageRef s = borrow_storage(block->data, nbytes, Device{}, release_shared, block.get());
  s->from_shared_memory = true;
  block.release();
  return s;
}

}  // namespace

StorageRef new_shared_storage(size_t nbytes) { return storage_on(new_block(nbytes), nbytes); }

StorageRef open_shared_storage(int fd, size_t nbytes) {
  int ours = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (ours < 0) fail_with_errno("cannot use the descriptor");
  return storage_on(map_block(ours, nbytes), nbytes);
}

void move_to_shared_memory(Storage& s) {
  if (s.from_shared_memory) return;
  std::unique_ptr<SharedBlock> block = new_block(s.nbytes);
  if (s.nbytes) std::memcpy(block->data, s.data, s.nbytes);
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

int shared_memory_fd(const Storage& s) { return static_cast<const SharedBlock*>(s.context)->fd; }

}  // namespace tocha::python
