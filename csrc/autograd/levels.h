// Levels of function transforms (tocha.func): vmap, grad and jvp nest, and each call of one is a level of its thread.
//
// A tensor of a level is a Tensor without memory that holds a value of the level outside: with a batch dim that only
// the value has (vmap), or with a history or tangent of its own (grad, jvp). Operators on it are recorded at its level
// as on any tensor, and below autograd handed on to the value (python/level_calls.cpp).
#pragma once

#include <vector>

#include "autograd/mode.h"

namespace tocha::levels {

enum class Kind : uint8_t { vmap, grad, jvp };
enum class Randomness : uint8_t { error, same, different };

struct Level {
  int64_t id;     // its name, which tensors hold
  int64_t order;  // of two levels the one with the greater is inside
  Kind kind;
  Randomness randomness;
  int64_t size;            // of a vmap: how many samples
  bool grad_before;        // grad mode outside
  int64_t forward_before;  // the open level of forward mode outside
  int64_t forward;         // of a jvp: its own
  int walks_before;        // walks of the engine underway outside
};

// Those of this thread that are open, outermost first. While operators run outside of one, it and those inside it are
// not.
std::vector<Level>& stack();
// Tells the operators' doors how many there are, after a change.
void count_open();
// Null once it has ended.
const Level* find(int64_t id);

// What a tensor of a level holds: an object of Python in the tensor's dict.
struct Held {
  PyObject_HEAD TensorObject* value;
  int64_t level;
  int64_t dim;  // the batch dim of the value, or -1
};
extern PyTypeObject* held_type;
void make_held_type();

const Held* look_up(const TensorObject* t);
// Null for tensors of no level: those outside of all transforms.
inline const Held* held(const TensorObject* t) { return t->dispatches && t->dict ? look_up(t) : nullptr; }
inline const Held* held(const Tensor& t) { return t ? held(t.get()) : nullptr; }
inline int64_t level_of(const Tensor& t) {
  const Held* h = held(t);
  return h ? h->level : 0;
}
inline Tensor value_of(const Held& h) { return Tensor::borrow(h.value); }

// A tensor of a level for a value; a batch dim is left out of its shape.
Tensor wrap(const Tensor& value, int64_t level, int64_t dim);
// The same, for a tensor that is there already: of the value's geometry without the batch dim.
void hold(const Tensor& t, const Tensor& value, int64_t level, int64_t dim);
// Another tensor of t's level on t's value, without history; shares the version counter.
Tensor alias(const Tensor& t);

// How far inside a level is. One that is opened again, for a backward after its end, is inside those that are open
// then.
int64_t order_of(int64_t id);
void set_order(int64_t id, int64_t order);

// Refuses a batch where Python is to choose a branch by it.
void check_no_branch(const Tensor& t);

// Refuses what changes a tensor's part in autograd while transforms run.
void check_none_open(const char* what, const char* call);
// backward() adds to leaves outside of all transforms.
void check_backward_outside();

// Where tangents of t live: the level of forward mode that t's own level has opened.
int64_t forward_level_of(const TensorObject* t);

// What `set_grad_enabled` and walks of the engine last asked for in this thread. Operators that record themselves
// switch grad mode off for what they are made of; levels outside record on their own.
extern thread_local bool asked_to_record;

// The level whose graph this thread's walk of the engine goes through, where a transform began it; and that of the walk
// that begins next.
extern thread_local int64_t walk_level, next_walk_level;
// A tensor that a node kept, as a walk that does not record sees it: one of an outer level belongs to the walk's level
// for the time, so that what is computed of it is recorded outside.
inline Tensor seen_in_walk(const Tensor& t) {
  const bool lifts = walk_level && !modes().grad && autograd::tracked(t) && level_of(t) != walk_level;
  return lifts ? wrap(t, walk_level, -1) : t;
}

// A number for a level of forward mode that opens.
int64_t new_forward_level();

// Operators as the level's values see them: recorded as outside of it.
class Outside {
 public:
  explicit Outside(const Level& level);
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  bool grad_, asked_;
  int64_t forward_;
  std::vector<Level> hidden_;  // this level, and those inside it
};

}  // namespace tocha::levels
