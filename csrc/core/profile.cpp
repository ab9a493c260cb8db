#include "core/profile.h"

#include <pthread.h>

#include <chrono>
#include <mutex>
#include <unordered_set>

#include "core/fork.h"

namespace tocha::profile {

bool recording = false;
bool recording_memory = false;
Options options;
std::vector<std::string> (*list_stack)() = nullptr;

namespace {

struct Recorded {
  std::mutex mutex;
  std::vector<Event> events;
  uint64_t session = 0;
  std::unordered_set<std::string> names;
};

// Never destroyed: memory may be given back by static destructors.
Recorded& recorded() {
  static Recorded& r = *new Recorded();
  return r;
}

thread_local Range* innermost = nullptr;
thread_local int64_t innermost_place = -1;
thread_local uint64_t innermost_session = 0;

uint64_t this_thread() { return reinterpret_cast<uint64_t>(pthread_self()); }

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
  recording_memory = wanted.memory;
}

std::vector<Event> stop() {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  recording = recording_memory = false;
  ++all.session;
  return std::move(all.events);
}

std::vector<Event> taken_so_far() {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  return all.events;
}

void remember_memory(int64_t bytes, int64_t in_use) {
  Recorded& all = recorded();
  const int64_t at = now();
  std::lock_guard lock(all.mutex);
  const int64_t parent = innermost_session == all.session ? innermost_place : -1;
  if (recording) all.events.push_back({"[memory]", Kind::memory, at, at, this_thread(), parent, bytes, in_use, {}, {}});
}

Range::Range(Kind kind, const char* name, const void* id) : place_(-1), session_(0), id_(id), outer_(innermost) {
  std::vector<std::string> stack;
  if (options.stacks && list_stack) stack = list_stack();
  Recorded& all = recorded();
  const int64_t begin = now();
  std::lock_guard lock(all.mutex);
  session_ = all.session;
  if (recording) {
    const int64_t parent = innermost_session == session_ ? innermost_place : -1;
    place_ = static_cast<int64_t>(all.events.size());
    all.events.push_back({name, kind, begin, 0, this_thread(), parent, 0, 0, {}, std::move(stack)});
  }
  innermost = this;
  innermost_place = place_;
  innermost_session = session_;
}

Range::~Range() {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  innermost = outer_;
  innermost_place = outer_ ? outer_->place_ : -1;
  innermost_session = outer_ ? outer_->session_ : 0;
  if (place_ >= 0 && all.session == session_) all.events[static_cast<size_t>(place_)].end = now();
}

void Range::add_sizes(std::vector<int64_t> sizes) {
  Recorded& all = recorded();
  std::lock_guard lock(all.mutex);
  if (place_ >= 0 && all.session == session_) all.events[static_cast<size_t>(place_)].sizes.push_back(std::move(sizes));
}

bool Range::is_open(const void* id) { return innermost && innermost->id_ == id; }

void add_range(Kind kind, const char* name, int64_t begin) {
  Recorded& all = recorded();
  const int64_t end = now();
  std::lock_guard lock(all.mutex);
  const int64_t parent = innermost_session == all.session ? innermost_place : -1;
  if (recording) all.events.push_back({name, kind, begin, end, this_thread(), parent, 0, 0, {}, {}});
}

}  // namespace tocha::profile
