#include "core/memory_history.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/fork.h"
#include "core/profile.h"

namespace tocha::memory_history {

void (*describe_program)(Holder& holder) = nullptr;

namespace {

struct History {
  std::mutex mutex;
  bool kept = false;
  size_t most = 0;
  std::deque<Change> changes;
  std::unordered_map<const void*, Change> blocks;
};

// Never destroyed: memory may be given back by static destructors.
History& history() {
  static History& h = []() -> History& {
    auto* fresh = new History();
    hold_across_fork(fresh->mutex, ForkOrder::History);
    return *fresh;
  }();
  return h;
}

void note(const void* place, int64_t bytes, int64_t in_use) {
  Change change{place, bytes, in_use, profile::now(), nullptr};
  if (bytes > 0) {
    auto holder = std::make_shared<Holder>();
    holder->ranges = profile::open_ranges();
    if (describe_program) describe_program(*holder);
    change.holder = std::move(holder);
  }
  History& all = history();
  Change dropped{};  // freed when nothing is locked
  std::lock_guard lock(all.mutex);
  if (bytes > 0) {
    all.blocks[place] = change;
  } else if (auto found = all.blocks.find(place); found != all.blocks.end()) {
    change.holder = found->second.holder;
    all.blocks.erase(found);
  }
  all.changes.push_back(std::move(change));
  if (all.changes.size() > all.most) {
    dropped = std::move(all.changes.front());
    all.changes.pop_front();
  }
}

}  // namespace

void start(size_t most) {
  {
    std::lock_guard lock(history().mutex);
    history().kept = true;
    history().most = most;
  }
  profile::set_memory_listener(note);
}

void stop() {
  profile::set_memory_listener(nullptr);
  std::lock_guard lock(history().mutex);
  history().kept = false;
}

void clear() {
  std::lock_guard lock(history().mutex);
  history().changes.clear();
  history().blocks.clear();
}

bool is_kept() { return history().kept; }

std::vector<Change> changes() {
  std::lock_guard lock(history().mutex);
  return {history().changes.begin(), history().changes.end()};
}

std::vector<Change> blocks() {
  std::lock_guard lock(history().mutex);
  std::vector<Change> found;
  for (const auto& [place, change] : history().blocks) found.push_back(change);
  return found;
}

}  // namespace tocha::memory_history
