#include "core/profile.h"

#include <pthread.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <chrono>
#include <mutex>
#include <unordered_set>

#include "core/fork.h"

namespace tocha::profile {

bool recording = false;
bool watching = false;
bool watching_memory = false;
Options options;
uint64_t (*next_sequence)() = nullptr;
std::vector<std::string> (*list_stack)() = nullptr;

namespace {

struct Recorded {
  std::mutex mutex;
  std::vector<Event> events;
  uint64_t session = 0;
  std::unordered_set<std::string> names;
  void (*listener)(const void*, int64_t, int64_t) = nullptr;

  void note_watching() {
    watching = recording || listener;
    watching_memory = (recording && options.memory) || listener;
  }
};

// Never destroyed: memory may be given back by static destructors.
Recorded& recorded() {
  static Recorded& r = []() -> Recorded& {
    auto* fresh = new Recorded();
    hold_across_fork(fresh->mutex, ForkOrder::Recorder);
    return *fresh;
  }();
  return r;
}

struct Open {
  uint64_t number;
  const char* name;
  const void* id;
  int64_t place;  // among the events of the session
  uint64_t session;
};
thread_local std::vector<Open> open;
thread_local uint64_t opened = 0;

// The event that something which happens now lies in.
int64_t parent_in(uint64_t session) { return !open.empty() && open.back().session == session ? open.back().place : -1; }

// As the system numbers threads: that is how other tools call them.
uint64_t this_thread() {
#ifdef __linux__
  static thread_local uint64_t id = 0, forks = 0;
  if (!id || forks != fork_depth()) {
    id = static_cast<uint64_t>(syscall(SYS_gettid));
    forks = fork_depth();
  }
  return id;
#else
  return reinterpret_cast<uint64_t>(pthread_self());
#endif
}

}  // namespace

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const char* keep_name(const std::string& name) {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  return all.names.insert(name).first->c_str();
}

void start(const Options& wanted) {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  all.events.clear();
  ++all.session;
  options = wanted;
  recording = true;
  all.note_watching();
}

std::vector<Event> stop() {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  recording = false;
  all.note_watching();
  ++all.session;
  return std::move(all.events);
}

std::vector<Event> taken_so_far() {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  return all.events;
}

void set_memory_listener(void (*listener)(const void*, int64_t, int64_t)) {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  all.listener = listener;
  all.note_watching();
}

void remember_memory(const void* place, int64_t bytes, int64_t in_use) {
  Recorded& all = recorded();
  const int64_t at = now();
  std::unique_lock lock(all.mutex);
  if (recording && options.memory) {
    const int64_t parent = parent_in(all.session);
    all.events.push_back({.name = "[memory]",
                          .kind = Kind::memory,
                          .begin = at,
                          .end = at,
                          .thread = this_thread(),
                          .parent = parent,
                          .bytes = bytes,
                          .in_use = in_use,
                          .place = place});
  }
  auto* listener = all.listener;
  lock.unlock();
  if (listener) listener(place, bytes, in_use);
}

std::vector<const char*> open_ranges() {
  std::vector<const char*> names;
  for (auto r = open.rbegin(); r != open.rend(); ++r) names.push_back(r->name);
  return names;
}

Range::Range(Kind kind, const char* name, const void* id, int64_t sequence)
    : place_(-1), session_(0), number_(++opened) {
  std::vector<std::string> stack;
  if (recording && options.stacks && kind != Kind::python && list_stack) stack = list_stack();
  Recorded& all = recorded();
  const int64_t begin = now();
  std::lock_guard lock(all.mutex);
  session_ = all.session;
  if (recording) {
    const int64_t parent = parent_in(session_);
    place_ = static_cast<int64_t>(all.events.size());
    all.events.push_back({.name = name,
                          .kind = kind,
                          .begin = begin,
                          .end = 0,
                          .thread = this_thread(),
                          .parent = parent,
                          .sequence = sequence,
                          .stack = std::move(stack)});
  }
  open.push_back({number_, name, id, place_, session_});
}

Range::~Range() {
  for (auto r = open.end(); r != open.begin();)
    if ((--r)->number == number_) {
      open.erase(r);
      break;
    }
  Recorded& all = recorded();
  const int64_t end = now();
  std::lock_guard lock(all.mutex);
  if (place_ >= 0 && all.session == session_) all.events[static_cast<size_t>(place_)].end = end;
}

void Range::add_input(Input input) {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  if (place_ >= 0 && all.session == session_)
    all.events[static_cast<size_t>(place_)].inputs.push_back(std::move(input));
}

bool Range::is_open(const void* id) { return !open.empty() && open.back().id == id; }

void add_range(Kind kind, const char* name, int64_t begin) {
  Recorded& all = recorded();
  const int64_t end = now();
  std::lock_guard lock(all.mutex);
  if (recording)
    all.events.push_back({.name = name,
                          .kind = kind,
                          .begin = begin,
                          .end = end,
                          .thread = this_thread(),
                          .parent = parent_in(all.session)});
}

}  // namespace tocha::profile
