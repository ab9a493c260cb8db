// The one thread pool. Every kernel that uses more than one core goes through parallel_for.
//
// Work is cut into chunks; each thread starts with its own share (so that data a thread touched
// last time is still in its cache) and then takes over chunks of threads that are late. Every other
// job runs through its chunks backwards: what an operator wrote last, the next one reads first, before
// it has left the cache. Nested calls run serially. After a fork the child starts with a fresh pool.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tocha {

int num_threads();
void set_num_threads(int n);
bool in_parallel_region();

using RangeFn = void (*)(void* context, int64_t begin, int64_t end);

// Calls fn on disjoint ranges that cover [0, n). Ranges begin at multiples of `grain`, so a range
// is never smaller than that (but for the last). fn must not touch Python. What it throws, memory that is not there
// for one, arrives at the caller once every thread is done.
void parallel_range(int64_t n, int64_t grain, RangeFn fn, void* context);

template <class F>
inline void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  if (n <= grain) {
    f(int64_t{0}, n);
    return;
  }
  using Fn = std::remove_reference_t<F>;
  parallel_range(
      n, grain, [](void* c, int64_t b, int64_t e) { (*static_cast<Fn*>(c))(b, e); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace tocha
