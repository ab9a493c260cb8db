// What both ways of computing attention share (attention.cpp in float or double, unit.cpp on a matrix unit):
// the task, matrices of the heads, rows in the compute type, the mask as a bias, and the threads' work memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/attention/kernels.h"
#include "cpu/engine/elementwise.h"
#include "cpu/gemm/internal.h"
#include "dispatch/native.h"

namespace tocha::native::attention {

constexpr int64_t kRows = 64;  // of a tile; fewer where a causal mask leaves out more that way
constexpr int64_t kCausalRows = 32;
constexpr int64_t kBackwardRows = 128;      // more: they are what the products for key and value add up over
constexpr int64_t kColumns = 256;           // a multiple of every panel width
constexpr int64_t kStride = kColumns + 16;  // rows at a power of two would share their places in the cache
constexpr int64_t kFewRows = 64;  // a right operand with more is packed: read in place its rows evict each other

template <class T>
const cpu::AttentionLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::attention_kernels().f32;
  else
    return cpu::attention_kernels().f64;
}

// A tensor as one matrix for every place of its leading dims.
struct Matrices {
  explicit Matrices(const Tensor& t)
      : tensor(&t),
        rows(t.size(t.dim() - 2)),
        cols(t.size(t.dim() - 1)),
        row(t.stride(t.dim() - 2)),
        col(cols == 1 ? 1 : t.stride(t.dim() - 1)) {}

  char* at(int64_t head) const {
    int64_t offset = 0;
    for (int64_t d = tensor->dim() - 3; d >= 0; --d) {
      offset += head % tensor->size(d) * tensor->stride(d);
      head /= tensor->size(d);
    }
    return tensor->bytes() + offset * tensor->itemsize();
  }
  // Whether a kernel that computes in T reads and writes the rows where they lie.
  template <class T>
  bool plain() const {
    return tensor->dtype() == DTypeOf<T>::value && col == 1;
  }

  const Tensor* tensor;
  int64_t rows, cols, row, col;
};

// Rows of T: those of a matrix where they lie, or converted into a buffer.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t row = 0;
};

template <class T>
Rows<T> read_rows(const Matrices& m, const char* head, int64_t first, int64_t count, T* buffer) {
  const int64_t item = m.tensor->itemsize();
  const char* from = head + first * m.row * item;
  if (m.plain<T>()) return {reinterpret_cast<T*>(const_cast<char*>(from)), m.row};
  cpu::CastLoop cast = cpu::cast_loop(m.tensor->dtype(), DTypeOf<T>::value);
  for (int64_t i = 0; i < count; ++i)
    cast(reinterpret_cast<char*>(buffer + i * m.cols), sizeof(T), from + i * m.row * item, m.col * item, m.cols);
  return {buffer, m.cols};
}

template <class T>
Rows<T> result_rows(const Matrices& m, char* head, int64_t first, T* buffer) {
  if (!m.plain<T>()) return {buffer, m.cols};
  return {reinterpret_cast<T*>(head) + first * m.row, m.row};
}

template <class T>
void write_rows(const Matrices& m, char* head, int64_t first, int64_t count, Rows<T> rows) {
  if (m.plain<T>()) return;
  const int64_t item = m.tensor->itemsize();
  cpu::CastLoop cast = cpu::cast_loop(DTypeOf<T>::value, m.tensor->dtype());
  for (int64_t i = 0; i < count; ++i)
    cast(head + (first + i) * m.row * item, m.col * item, reinterpret_cast<char*>(rows.data + i * rows.row), sizeof(T),
         m.cols);
}

// What is added to the scores: rows of an attention mask, as T.
template <class T>
class Bias {
 public:
  Bias(const Tensor& mask, T* buffer) : buffer_(buffer) {
    if (mask) matrices_.emplace(mask);
  }
  explicit operator bool() const { return matrices_.has_value(); }
  void start(int64_t head) {
    if (matrices_) head_ = matrices_->at(head);
    converted_ = nullptr;
  }
  // Columns from `first` on, `count` of them; null without a mask.
  const T* row(int64_t i, int64_t first, int64_t count) {
    if (!matrices_) return nullptr;
    const Matrices& m = *matrices_;
    const int64_t item = m.tensor->itemsize();
    const char* from = head_ + (i * m.row + first * m.col) * item;
    if (m.plain<T>()) return reinterpret_cast<const T*>(from);
    if (from == converted_ && count <= count_) return buffer_;  // one row for all
    if (m.tensor->dtype() == DType::Bool) {
      for (int64_t j = 0; j < count; ++j) buffer_[j] = from[j * m.col] ? T(0) : -std::numeric_limits<T>::infinity();
    } else {
      cpu::cast_loop(m.tensor->dtype(), DTypeOf<T>::value)(reinterpret_cast<char*>(buffer_), sizeof(T), from,
                                                           m.col * item, count);
    }
    converted_ = from;
    count_ = count;
    return buffer_;
  }

 private:
  std::optional<Matrices> matrices_;
  T* buffer_;
  const char* head_ = nullptr;
  const char* converted_ = nullptr;
  int64_t count_ = 0;
};

// Scores take their bias, and a scale that would not leave the greatest the greatest; returns the scale that is left.
template <class T>
T biased(const cpu::ScoreTile<T>& tile, double scale, Bias<T>& bias, int64_t first, int64_t column) {
  if (!bias && scale > 0) return static_cast<T>(scale);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t n = tile.counted(r);
    loops<T>().biased(tile.row(r), n, static_cast<T>(scale), bias.row(first + r, column, n));
  }
  return T(1);
}

// A thread's work memory, handed out in pieces. With no memory it only counts.
template <class T>
class Room {
 public:
  explicit Room(T* memory = nullptr) : memory_(memory) {}
  T* take(int64_t n) {
    T* piece = memory_ ? memory_ + used_ : nullptr;
    constexpr int64_t line = 64 / sizeof(T);
    used_ += cpu::ceil_div(n, line) * line;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  T* memory_;
  int64_t used_ = 0;
};

// Calls body(room) in memory as large as body(counting room) asked for; false when there is none.
template <class T, class Plan>
bool with_room(Plan& plan) {
  Room<T> counted;
  plan.layout(counted);
  void* memory = cpu::work_buffer(cpu::Purpose::packed_b, counted.used() * static_cast<int64_t>(sizeof(T)));
  if (!memory) return false;
  Room<T> room(static_cast<T*>(memory));
  plan.layout(room);
  return true;
}

struct Task {
  const Tensor &query, &key, &value, &mask;
  bool causal;
  double scale;
  Matrices q{query}, k{key}, v{value};
  int64_t heads = count(query);
  int64_t tile_rows = causal ? kCausalRows : kRows;

  static int64_t count(const Tensor& t) {
    int64_t n = 1;
    for (int64_t d = 0; d < t.dim() - 2; ++d) n *= t.size(d);
    return n;
  }
  // Rows from `first` on and columns from `column` on of a head's scores: of these row i may look at all, or at those
  // up to its own.
  template <class T>
  cpu::ScoreTile<T> tile(T* scores, int64_t first, int64_t rows, int64_t column, int64_t width, int64_t cleared) const {
    return {scores, kStride, rows, width, cleared, causal ? first + 1 - column : width, causal ? 1 : 0};
  }
  // How wide a tile must be so that rows before `end` see all of theirs: whole panels, or up to the last column.
  int64_t tile_width(int64_t first, int64_t end, int64_t nr) const {
    int64_t width = std::min(kColumns, k.rows - first);
    return causal ? std::min(width, cpu::ceil_div(end - first, nr) * nr) : width;
  }
  int64_t work() const { return heads * q.rows * k.rows * (q.cols + v.cols); }
};

// Runs part(first, last) over `tasks` on the threads; part returns false when memory ran out.
template <class Part>
void in_parallel(int64_t tasks, int64_t grain, Part part) {
  std::atomic<bool> ok{true};
  parallel_for(tasks, grain, [&](int64_t first, int64_t last) {
    if (!part(first, last)) ok.store(false, std::memory_order_relaxed);
  });
  if (!ok.load(std::memory_order_relaxed)) throw std::bad_alloc();
}

struct Gradients {
  const Tensor &query, &key, &value, &mask;  // empty where not asked for
  bool for_query, for_key, for_value, for_mask;
};

// Rows of a tile of the scores' gradients, from row `row` of all heads' on, become the mask's, which is contiguous.
template <class T>
void write_mask_gradient(const Tensor& to, const T* slopes, int64_t row, int64_t rows, int64_t column, int64_t width) {
  const int64_t item = to.itemsize(), columns = to.size(to.dim() - 1);
  cpu::CastLoop cast = cpu::cast_loop(DTypeOf<T>::value, to.dtype());
  for (int64_t r = 0; r < rows; ++r)
    cast(to.bytes() + ((row + r) * columns + column) * item, item, reinterpret_cast<const char*>(slopes + r * kStride),
         sizeof(T), width);
}

// Part is one thread's part of the pass.
template <class Part>
void forward(const Task& t, const Tensor& out, const Tensor& lse) {
  const int64_t blocks = cpu::ceil_div(t.q.rows, t.tile_rows);
  // Whole heads where there are enough: their keys are packed once.
  const bool by_head = t.heads >= 2 * num_threads() || t.work() < cpu::kWorkPerThread;
  const int64_t grain = by_head ? blocks * std::max<int64_t>(1, cpu::kWorkPerThread * t.heads / (t.work() + 1)) : 1;
  ReleaseGil released(t.work() / 16);
  in_parallel(t.heads * blocks, grain,
              [&](int64_t first, int64_t last) { return Part(t, out, lse).run(first, last, blocks); });
}

template <class Part>
void backward(const Task& t, const Tensor& grad, const Tensor& out, const Tensor& lse, const Gradients& to) {
  const int64_t L = t.q.rows, S = t.k.rows;
  ReleaseGil released(t.work() / 16);
  if (t.heads >= num_threads() || t.work() < cpu::kWorkPerThread) {
    in_parallel(t.heads, std::max<int64_t>(1, cpu::kWorkPerThread * t.heads / (t.work() + 1)),
                [&](int64_t first, int64_t last) {
                  Part part(t, grad, out, lse, to);
                  if (!part.prepare()) return false;
                  for (int64_t head = first; head < last; ++head) {
                    part.enter(head);
                    part.run(0, L, 0, S, true, true);
                  }
                  return true;
                });
    return;
  }
  // Few heads: rows for the query's gradient, columns for the others', each with the tiles it needs.
  auto pieces = [&](int64_t length, int64_t step, auto run) {
    const int64_t blocks = cpu::ceil_div(length, step);
    in_parallel(t.heads * blocks, 1, [&](int64_t first, int64_t last) {
      Part part(t, grad, out, lse, to);
      if (!part.prepare()) return false;
      for (int64_t i = first; i < last; ++i) {
        if (i == first || i % blocks == 0) part.enter(i / blocks);
        const int64_t begin = i % blocks * step;
        run(part, begin, std::min(length, begin + step));
      }
      return true;
    });
  };
  if (to.for_query || to.for_mask)
    pieces(L, t.tile_rows, [&](Part& part, int64_t row, int64_t end) { part.run(row, end, 0, S, true, false); });
  if (to.for_key || to.for_value)
    pieces(S, kColumns, [&](Part& part, int64_t column, int64_t end) { part.run(0, L, column, end, false, true); });
}

}  // namespace tocha::native::attention
