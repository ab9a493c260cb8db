// What a profiler records: ranges of operators, backward nodes and kernels of compiled graphs, and memory. While nobody
// records, nothing is tested for it but words that are tested anyway.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tocha::profile {

enum class Kind : uint8_t { op, node, kernel, mark, memory, python };

// An argument of an operator: a tensor, a list of them, or something else as text.
struct Input {
  std::string type;  // float, TensorList, Scalar, ...; empty: nothing
  bool list = false;
  std::vector<std::vector<int64_t>> sizes, strides;  // of each tensor
  std::string text;
};

struct Event {
  const char* name;  // lives forever
  Kind kind;
  int64_t begin, end;  // nanoseconds of the monotonic clock; 0: not ended
  uint64_t thread;
  int64_t parent;               // the event that it lies in, or -1
  int64_t sequence = -1;        // of the node that an operator would record, or that runs
  int64_t bytes = 0;            // memory: what was taken (or given back, below 0)
  int64_t in_use = 0;           // of memory, then
  const void* place = nullptr;  // of memory
  std::vector<Input> inputs;
  std::vector<std::string> stack;
};

struct Options {
  bool ops = true, memory = false, sizes = false, stacks = false;
};

extern bool recording;        // some profiler is on
extern bool watching;         // ranges are wanted: by a profiler, or by who keeps the history of memory
extern bool watching_memory;  // likewise of memory
extern Options options;

void start(const Options& wanted);
std::vector<Event> stop();  // what was recorded, in order of begin
std::vector<Event> taken_so_far();

int64_t now();
const char* keep_name(const std::string& name);  // the same text, for good
void remember_memory(const void* place, int64_t bytes, int64_t in_use);
// Told of the same, while ranges are watched for it (see memory_history.h).
void set_memory_listener(void (*listener)(const void* place, int64_t bytes, int64_t in_use));
std::vector<const char*> open_ranges();  // of this thread, innermost first

// One range of a program. Ranges need not end in the order in which they began: a program may leave a marked one from
// within a function that it entered later. `id` tells operators apart: one that calls itself below autograd is one
// range.
class Range {
 public:
  Range(Kind kind, const char* name, const void* id = nullptr, int64_t sequence = -1);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  void add_input(Input input);
  static bool is_open(const void* id);  // the innermost one of this thread

 private:
  int64_t place_;
  uint64_t session_;
  uint64_t number_;
};

// A range that is told of when it has ended.
void add_range(Kind kind, const char* name, int64_t begin);

// The number of the next node, which an operator that begins would record. Set by csrc/python.
extern uint64_t (*next_sequence)();

// Called when a range begins and stacks are wanted: the lines of the program, innermost first. Set by csrc/python.
extern std::vector<std::string> (*list_stack)();

}  // namespace tocha::profile
