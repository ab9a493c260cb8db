// What the source of a compiled graph includes: element types, scalar math, and the table that it calls the library by.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"
#include "cpu/engine/program_api.h"
#include "cpu/engine/program_folds.h"
#include "cpu/engine/program_packs_half.h"
#include "cpu/engine/program_packs_lanes.h"
#include "cpu/engine/program_packs_math.h"
#include "cpu/engine/program_packs_trig.h"
#include "cpu/engine/program_tiles.h"
#include "cpu/engine/program_vectors.h"
#include "cpu/engine/scalar_ops.h"
#include "cpu/special/special.h"
#include "cpu/vecmath/complex.h"
#include "cpu/vecmath/exp_below_zero.h"
#include "cpu/vecmath/vecmath.h"

#if defined(__clang__)
#define TOCHA_UNOPTIMIZED __attribute__((optnone))
#else
#define TOCHA_UNOPTIMIZED __attribute__((optimize("O0")))
#endif

namespace tocha {

constexpr int64_t kLanes = 32;  // elements that a fold keeps apart, so that it vectorizes

inline int64_t floor_division(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
inline int64_t index_min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t index_max(int64_t a, int64_t b) { return a > b ? a : b; }
// `n` elements, or none.
template <class T>
inline void fill_zeros(T* p, int64_t n) {
  if (n > 0) std::memset(static_cast<void*>(p), 0, static_cast<size_t>(n) * sizeof(T));
}
// A constant that the compiler does not know: the functions of it that it computed itself would be rounded otherwise
// than the library's, and 0 to the power of 0 is 1 to it and NaN to the library.
template <class T>
TOCHA_MATH T unfolded(T x) {
  asm("" : "+m"(x));
  return x;
}
// m ? a : b. By bits: where an operand is a constant GCC turns the choice around, and makes vectors of comparisons that
// mind NaNs, which take twice as long.
template <class T>
TOCHA_MATH T chosen(bool m, T a, T b) {
#if defined(__aarch64__)
  using Bits = typename math::FloatFormat<T>::Bits;
  const Bits other = std::bit_cast<Bits>(b);
  return std::bit_cast<T>(other ^ ((std::bit_cast<Bits>(a) ^ other) & (Bits(0) - Bits(m))));
#else
  return m ? a : b;
#endif
}
// Floats that are not known beforehand travel among the sizes, as their bits.
inline double real_of(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int64_t bits_of(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
// Python's division and remainder of floats.
inline double real_mod(double a, double b) {
  double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest == 0 ? std::copysign(0.0, b) : rest;
}
inline double real_floordiv(double a, double b) {
  double quotient = (a - real_mod(a, b)) / b, whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}
// An index that was read; one that is out of range is reported, and nothing is read there.
inline int64_t checked_index(int64_t i, int64_t size, unsigned& fault) {
  bool inside = i >= 0 && i < size;
  fault |= inside ? 0 : TOCHA_INDEX_OUT_OF_RANGE;
  return inside ? i : 0;
}

// One run of a kernel: memory of its buffers, sizes that are not known beforehand, and what went wrong.
struct KernelFrame {
  char* const* memory;
  const int64_t* sizes;
  unsigned fault;
};

// One of several kernels that run as one: its rows in tasks of `grain`, its share of the frame's memory and sizes.
struct KernelPart {
  void (*run)(void*, int64_t, int64_t);
  int64_t memory, sizes, rows, grain;
};

inline int64_t tasks_of(const KernelPart& part) { return (part.rows + part.grain - 1) / part.grain; }

// Those of tasks [begin, end) that are a part's tasks [low, high), which have the numbers from `first` on; the number
// after them.
inline int64_t run_tasks(const KernelPart& part, int64_t low, int64_t high, int64_t first, KernelFrame& frame,
                         int64_t begin, int64_t end) {
  const int64_t past = first + (high - low);
  high = low + (index_min(end, past) - first);
  low += index_max(begin, first) - first;
  if (low < high) {
    KernelFrame own{frame.memory + part.memory, frame.sizes + part.sizes, 0};
    part.run(&own, low * part.grain, index_min(high * part.grain, part.rows));
    if (own.fault) __atomic_fetch_or(&frame.fault, own.fault, __ATOMIC_RELAXED);
  }
  return past;
}

// Tasks [begin, end) of the parts, which are numbered through.
inline void run_parts(const KernelPart* parts, int64_t count, KernelFrame& frame, int64_t begin, int64_t end) {
  int64_t first = 0;
  for (int64_t k = 0; k < count && first < end; ++k)
    first = run_tasks(parts[k], 0, tasks_of(parts[k]), first, frame, begin, end);
}

// The same in turns: a share of the tasks of each part, then the next. What parts read in the same order is then still
// in the cache for the second.
inline void run_in_turns(const KernelPart* parts, int64_t count, KernelFrame& frame, int64_t begin, int64_t end) {
  int64_t turns = tasks_of(parts[0]), first = 0;
  for (int64_t k = 1; k < count; ++k) turns = index_min(turns, tasks_of(parts[k]));
  turns = index_max(turns, 1);  // a part may have nothing to do
  for (int64_t i = 0; i < turns && first < end; ++i) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t tasks = tasks_of(parts[k]);
      first = run_tasks(parts[k], i * tasks / turns, (i + 1) * tasks / turns, first, frame, begin, end);
    }
  }
}

// One of several kernels that run in turns: its rows in each.
struct KernelTurn {
  void (*run)(void*, int64_t, int64_t);
  KernelFrame* frame;
  int64_t rows;
};
struct KernelTurns {
  const KernelTurn* parts;
  int64_t count;
};
inline void run_in_turns(void* context, int64_t begin, int64_t end) {
  const auto& turns = *static_cast<const KernelTurns*>(context);
  for (int64_t turn = begin; turn < end; ++turn) {
    for (int64_t k = 0; k < turns.count; ++k) {
      const KernelTurn& part = turns.parts[k];
      part.run(part.frame, turn * part.rows, (turn + 1) * part.rows);
    }
  }
}

// A tensor that a program holds until its last use.
class Held {
 public:
  explicit Held(const tocha_api* api) : api_(api) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { reset(); }
  void reset() {
    if (tensor_) api_->release(tensor_);
    tensor_ = nullptr;
  }
  void take(void* t) {
    reset();
    tensor_ = t;
  }
  void share(void* t) {
    api_->retain(t);
    take(t);
  }
  void* give() {
    void* t = tensor_;
    tensor_ = nullptr;
    return t;
  }
  void* get() const { return tensor_; }
  void** slot() { return &tensor_; }
  char* data() const { return static_cast<char*>(api_->data(tensor_)); }

 private:
  const tocha_api* api_;
  void* tensor_ = nullptr;
};

// The memory of what lives only during one call of a program.
class Arena {
 public:
  Arena(const tocha_api* api, void* program, int64_t bytes)
      : api_(api), program_(program), tensor_(api->arena(program, bytes)) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    if (tensor_) api_->end_arena(program_, tensor_);
  }
  explicit operator bool() const { return tensor_ != nullptr; }
  char* data() const { return static_cast<char*>(api_->data(tensor_)); }

 private:
  const tocha_api* api_;
  void* program_;
  void* tensor_;
};

// An input that nothing reads any more.
inline void used_up(const tocha_api* api, void** inputs, int64_t i, int owned) {
  if (!owned) return;
  api->release(inputs[i]);
  inputs[i] = nullptr;
}

}  // namespace tocha
