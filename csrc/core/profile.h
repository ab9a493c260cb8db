// What a profiler records: ranges of operators, backward nodes and kernels of compiled graphs, and memory. While nobody
// records, nothing is tested for it but words that are tested anyway.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tocha::profile {

enum class Kind : uint8_t { op, node, kernel, mark, memory };

struct Event {
  const char* name;  // lives forever
  Kind kind;
  int64_t begin, end;  // nanoseconds of the monotonic clock; 0: not ended
  uint64_t thread;
  int64_t parent;  // the event that it lies in, or -1
  int64_t bytes;   // memory: what was taken (or given back, below 0)
  int64_t in_use;  // of memory, then
  std::vector<std::vector<int64_t>> sizes;
  std::vector<std::string> stack;
};

struct Options {
  bool ops = true, memory = false, sizes = false, stacks = false;
};

extern bool recording;         // some profiler is on
extern bool recording_memory;  // and wants to know of memory
extern Options options;

void start(const Options& wanted);
std::vector<Event> stop();  // what was recorded, in order of begin
std::vector<Event> taken_so_far();

int64_t now();
const char* keep_name(const std::string& name);  // the same text, for good
void remember_memory(int64_t bytes, int64_t in_use);

// One range of a program. `id` tells operators apart: one that calls itself below autograd is one range.
class Range {
 public:
  Range(Kind kind, const char* name, const void* id = nullptr);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  void add_sizes(std::vector<int64_t> sizes);
  static bool is_open(const void* id);  // the innermost one of this thread

 private:
  int64_t place_;
  uint64_t session_;
  const void* id_;
  Range* outer_;
};

// A range that is told of when it has ended.
void add_range(Kind kind, const char* name, int64_t begin);

// Called when a range begins and stacks are wanted: the lines of the program, innermost first. Set by csrc/python.
extern std::vector<std::string> (*list_stack)();

}  // namespace tocha::profile
