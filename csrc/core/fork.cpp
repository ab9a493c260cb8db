#include "core/fork.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <iterator>

namespace tocha {
namespace {

constexpr int kOrders = static_cast<int>(ForkOrder::History) + 1;

std::atomic<uint64_t> forks{0};
std::atomic<uint64_t> depth{0};
std::mutex* held[kOrders] = {};

void before_fork() {
  for (std::mutex* m : held) {
    if (m) m->lock();
  }
}

void after_fork() {
  std::for_each(std::rbegin(held), std::rend(held), [](std::mutex* m) {
    if (m) m->unlock();
  });
  forks.fetch_add(1, std::memory_order_relaxed);
}

void after_fork_in_child() {
  after_fork();
  depth.fetch_add(1, std::memory_order_relaxed);
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(before_fork, after_fork, after_fork_in_child); });
}

}  // namespace

void hold_across_fork(std::mutex& mutex, ForkOrder order) {
  held[static_cast<int>(order)] = &mutex;
  watch_forks();
}

uint64_t fork_count() {
  watch_forks();
  return forks.load(std::memory_order_relaxed);
}

uint64_t fork_depth() {
  watch_forks();
  return depth.load(std::memory_order_relaxed);
}

}  // namespace tocha
