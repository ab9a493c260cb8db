// Who holds the CPU's memory: for every block in use, and for the latest requests in order, the lines of the program,
// the operator and the module that asked for it. Kept only while somebody wants it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tocha::memory_history {

// Texts live forever.
struct Holder {
  std::vector<const char*> lines;    // of the program, innermost first
  std::vector<const char*> ranges;   // operators, backward nodes and marked ranges, likewise
  std::vector<const char*> modules;  // whose forward runs, likewise
};

struct Change {
  const void* place;
  int64_t bytes;  // below 0: given back
  int64_t in_use;
  int64_t time;  // nanoseconds of the monotonic clock
  std::shared_ptr<const Holder> holder;
};

// Keeps at most `most` changes: the latest.
void start(size_t most);
void stop();  // what was kept stays, for who reads it
void clear();
bool is_kept();
std::vector<Change> changes();  // in order
std::vector<Change> blocks();   // in use, of those that were asked for since the start

// Adds lines and modules. Set by csrc/python.
extern void (*describe_program)(Holder& holder);

}  // namespace tocha::memory_history
