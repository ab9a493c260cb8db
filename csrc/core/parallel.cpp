#include "core/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/denormals.h"
#include "core/fork.h"

namespace tocha {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kChunksPerThread = 16;
constexpr int kSpins = 4000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` is no pause on most processors: workers would sleep before the next operator comes
#endif
}

struct Job {
  RangeFn fn;
  void* context;
  int64_t n;
  int64_t chunk_size;
  int chunks;
  int threads;
  bool backwards;
  bool flush_denormals;  // as the thread that gives the work does
};

constexpr int kClosed = -1;

// All state of the pool; a fork's child drops it whole and makes a new one.
struct Pool {
  std::mutex busy;                      // one parallel region at a time
  std::atomic<uint32_t> generation{0};  // bumped for every job
  std::atomic<int> gate{kClosed};       // workers inside the current job, or kClosed
  std::atomic<uint8_t> taken[kMaxThreads * kChunksPerThread];
  std::atomic<bool> failed{false};
  std::exception_ptr failure;  // of the thread that set `failed`
  Job job{};
  int workers = 0;
};

Pool* pool = nullptr;
std::atomic<int> thread_count{0};
thread_local bool inside = false;

struct Inside {  // for a scope
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

void run_chunks(const Job& job, Pool& p, int self) {
  auto take = [&](int c) {
    if (p.taken[c].load(std::memory_order_relaxed) || p.taken[c].exchange(1, std::memory_order_acq_rel)) return;
    int64_t begin = c * job.chunk_size;
    try {
      job.fn(job.context, begin, std::min(job.n, begin + job.chunk_size));
    } catch (...) {
      if (!p.failed.exchange(true)) p.failure = std::current_exception();
    }
  };
  int first = static_cast<int>(static_cast<int64_t>(job.chunks) * self / job.threads);
  int last = static_cast<int>(static_cast<int64_t>(job.chunks) * (self + 1) / job.threads);
  for (int c = first; c < last; ++c) take(job.backwards ? first + last - 1 - c : c);
  // Help the others from their far end, where their owners arrive last.
  for (int other = 1; other < job.threads; ++other) {
    int who = (self + other) % job.threads;
    int lo = static_cast<int>(static_cast<int64_t>(job.chunks) * who / job.threads);
    int hi = static_cast<int>(static_cast<int64_t>(job.chunks) * (who + 1) / job.threads);
    for (int c = hi - 1; c >= lo; --c) take(c);
  }
}

void worker_main(Pool* p, int self) {
  inside = true;
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = p->generation.load(std::memory_order_acquire);
    for (int spin = 0; now == seen && spin < kSpins; ++spin) {
      relax();
      now = p->generation.load(std::memory_order_acquire);
    }
    if (now == seen) {
      p->generation.wait(seen, std::memory_order_acquire);
      continue;
    }
    seen = now;
    // A worker that comes too late finds the gate closed: nobody waits for it.
    int inside_now = p->gate.load(std::memory_order_acquire);
    while (inside_now != kClosed &&
           !p->gate.compare_exchange_weak(inside_now, inside_now + 1, std::memory_order_acq_rel)) {
    }
    if (inside_now == kClosed) continue;
    if (self < p->job.threads) {
      if (p->job.flush_denormals != flushes_denormals()) set_flush_denormals(p->job.flush_denormals);
      run_chunks(p->job, *p, self);
    }
    p->gate.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void forget_pool() { pool = nullptr; }

Pool& ready_pool(int threads) {
  static std::once_flag once;
  static std::mutex creating;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, forget_pool);
    hold_across_fork(creating, ForkOrder::Pool);
  });
  std::lock_guard lock(creating);
  if (!pool) pool = new Pool();
  while (pool->workers < threads - 1) {
    int self = ++pool->workers;
    std::thread(worker_main, pool, self).detach();
  }
  return *pool;
}

int default_threads() {
  for (const char* name : {"TOCHA_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (const char* text = std::getenv(name)) {
      int n = std::atoi(text);
      if (n > 0) return std::min(n, kMaxThreads);
    }
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

}  // namespace

int num_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n == 0) thread_count.store(n = default_threads(), std::memory_order_relaxed);
  return n;
}

void set_num_threads(int n) { thread_count.store(std::clamp(n, 1, kMaxThreads), std::memory_order_relaxed); }

bool in_parallel_region() { return inside; }

void parallel_range(int64_t n, int64_t grain, RangeFn fn, void* context) {
  grain = std::max<int64_t>(grain, 1);
  int threads = static_cast<int>(std::min<int64_t>(num_threads(), (n + grain - 1) / grain));
  if (threads <= 1 || inside) {
    fn(context, 0, n);
    return;
  }
  Pool& p = ready_pool(num_threads());
  std::unique_lock lock(p.busy, std::try_to_lock);
  if (!lock) {  // another Python thread has the pool: do it here rather than wait
    Inside here;
    fn(context, 0, n);
    return;
  }
  int64_t pieces = std::min<int64_t>((n + grain - 1) / grain, static_cast<int64_t>(threads) * kChunksPerThread);
  int64_t chunk = (n + pieces - 1) / pieces;
  chunk = (chunk + grain - 1) / grain * grain;
  int chunks = static_cast<int>((n + chunk - 1) / chunk);
  for (int c = 0; c < chunks; ++c) p.taken[c].store(0, std::memory_order_relaxed);
  p.job = Job{fn,
              context,
              n,
              chunk,
              chunks,
              std::min(threads, chunks),
              (p.generation.load(std::memory_order_relaxed) & 1) != 0,
              flushes_denormals()};
  p.gate.store(0, std::memory_order_release);
  p.generation.fetch_add(1, std::memory_order_release);
  p.generation.notify_all();
  {
    Inside here;
    run_chunks(p.job, p, 0);
  }
  int nobody = 0;
  for (int spin = 0; !p.gate.compare_exchange_weak(nobody, kClosed, std::memory_order_acq_rel); ++spin) {
    nobody = 0;
    if (spin < kSpins) {
      relax();
    } else {
      sched_yield();
    }
  }
  if (p.failed.exchange(false)) [[unlikely]]
    std::rethrow_exception(std::exchange(p.failure, nullptr));
}

}  // namespace tocha
