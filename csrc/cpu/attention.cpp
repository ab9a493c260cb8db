// Scaled dot-product attention and its gradients: the kernels of tocha/operators/attention.py. Scores exist only as
// tiles of a few rows; the softmax of a row is carried from tile to tile. Half types are computed in float.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/attention_kernels.h"
#include "cpu/elementwise.h"
#include "cpu/tile_products.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using cpu::RightOperand;

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

// A thread's work memory, handed out in pieces. With no memory it only counts.
template <class T>
class Room {
 public:
  explicit Room(T* memory = nullptr) : memory_(memory) {}
  T* take(int64_t n) {
    T* piece = memory_ ? memory_ + used_ : nullptr;
    used_ += cpu::ceil_div(n, 16) * 16;
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
  // Columns that row i may look at, of those from `first` on.
  int64_t allowed(int64_t i, int64_t first, int64_t width) const {
    return causal ? std::clamp<int64_t>(i + 1 - first, 0, width) : width;
  }
  // How wide a tile must be so that rows before `end` see all of theirs: whole panels, or up to the last column.
  int64_t tile_width(int64_t first, int64_t end, int64_t nr) const {
    int64_t width = std::min(kColumns, k.rows - first);
    return causal ? std::min(width, cpu::ceil_div(end - first, nr) * nr) : width;
  }
  int64_t work() const { return heads * q.rows * k.rows * (q.cols + v.cols); }
};

// One thread's part of the forward pass.
template <class T>
class Forward {
 public:
  Forward(const Task& task, const Tensor& out, const Tensor& lse)
      : task_(task), out_(out), lse_(lse.data<T>()), bias_(task.mask, nullptr) {}

  void layout(Room<T>& room) {
    const Task& t = task_;
    key_room_ = room.take(cpu::packed_size<T>(t.q.cols, t.k.rows));
    value_room_ = room.take(cpu::packed_size<T>(t.v.rows, t.v.cols));
    query_room_ = room.take(t.q.plain<T>() ? 0 : t.tile_rows * t.q.cols);
    out_room_ = room.take(out_.plain<T>() ? 0 : t.tile_rows * t.v.cols);
    scores_ = room.take(t.tile_rows * kStride);
    bias_ = Bias<T>(t.mask, room.take(t.mask ? kColumns : 0));
  }

  bool run(int64_t first, int64_t last, int64_t blocks) {
    if (!with_room<T>(*this)) return false;
    for (int64_t i = first; i < last; ++i) {
      int64_t head = i / blocks;
      enter(head);
      block(head, i % blocks * task_.tile_rows);
    }
    return true;
  }

 private:
  void enter(int64_t head) {
    const Task& t = task_;
    bias_.start(head);
    const char *key = t.k.at(head), *value = t.v.at(head);
    if (key != key_) keys_ = cpu::packed(t.key.dtype(), key, t.k.col, t.k.row, t.k.cols, t.k.rows, key_room_);
    if (value != value_)
      values_ = t.v.plain<T>() && t.v.rows <= kFewRows
                    ? cpu::in_place(reinterpret_cast<const T*>(value), t.v.row, t.v.rows, t.v.cols, value_room_)
                    : cpu::packed(t.value.dtype(), value, t.v.row, t.v.col, t.v.rows, t.v.cols, value_room_);
    key_ = key;
    value_ = value;
  }

  void block(int64_t head, int64_t first) {
    const Task& t = task_;
    const int64_t rows = std::min(t.tile_rows, t.q.rows - first), nr = cpu::tile_kernels<T>().nr;
    const int64_t end = t.causal ? std::min(t.k.rows, first + rows) : t.k.rows;
    Rows<T> query = read_rows(t.q, t.q.at(head), first, rows, query_room_);
    Rows<T> out = result_rows(out_, out_.at(head), first, out_room_);
    T max[kRows], sum[kRows];
    std::fill(max, max + rows, -std::numeric_limits<T>::infinity());
    std::fill(sum, sum + rows, T(0));
    for (int64_t column = 0; column < end; column += kColumns) {
      const int64_t width = t.tile_width(column, end, nr);
      cpu::multiply<T>(rows, query.data, query.row, 1, keys_.columns(column, width), scores_, kStride,
                       static_cast<T>(t.scale), 0);
      for (int64_t r = 0; r < rows; ++r) {
        T* s = scores_ + r * kStride;
        const int64_t n = t.allowed(first + r, column, width);
        T factor = loops<T>().exponentials(s, n, bias_.row(first + r, column, n), &max[r], &sum[r]);
        std::fill(s + n, s + width, T(0));
        if (column && factor != T(1)) loops<T>().scale(out.data + r * out.row, t.v.cols, factor);
      }
      cpu::multiply<T>(rows, scores_, kStride, 1, values_.rows(column, width), out.data, out.row, 1, column ? 1 : 0);
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* o = out.data + r * out.row;
      if (sum[r] == 0)
        std::fill(o, o + t.v.cols, T(0));  // nothing to look at
      else
        loops<T>().scale(o, t.v.cols, T(1) / sum[r]);
      lse_[head * t.q.rows + first + r] = sum[r] == 0 ? std::numeric_limits<T>::infinity() : max[r] + std::log(sum[r]);
    }
    write_rows(out_, out_.at(head), first, rows, out);
  }

  const Task& task_;
  Matrices out_;
  T* lse_;
  Bias<T> bias_;
  T *key_room_ = nullptr, *value_room_ = nullptr, *query_room_ = nullptr, *out_room_ = nullptr, *scores_ = nullptr;
  const char *key_ = nullptr, *value_ = nullptr;
  RightOperand<T> keys_, values_;
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

template <class T>
void forward(const Task& t, const Tensor& out, const Tensor& lse) {
  const int64_t blocks = cpu::ceil_div(t.q.rows, t.tile_rows);
  // Whole heads where there are enough: their keys are packed once.
  const bool by_head = t.heads >= 2 * num_threads() || t.work() < cpu::kWorkPerThread;
  const int64_t grain = by_head ? blocks * std::max<int64_t>(1, cpu::kWorkPerThread * t.heads / (t.work() + 1)) : 1;
  ReleaseGil released(t.work() / 16);
  in_parallel(t.heads * blocks, grain,
              [&](int64_t first, int64_t last) { return Forward<T>(t, out, lse).run(first, last, blocks); });
}

struct Gradients {
  const Tensor &query, &key, &value, &mask;  // empty where not asked for
  bool for_query, for_key, for_value, for_mask;
};

// One thread's part of the backward pass: a head, or some of its rows or columns.
template <class T>
class Backward {
 public:
  Backward(const Task& task, const Tensor& grad, const Tensor& out, const Tensor& lse, const Gradients& to)
      : task_(task), grad_(grad), out_(out), lse_(lse.data<T>()), to_(to), bias_(task.mask, nullptr) {}

  void layout(Room<T>& room) {
    const Task& t = task_;
    const int64_t L = t.q.rows, S = t.k.rows, E = t.q.cols, V = t.v.cols;
    auto converted = [&](const Matrices& m) { return room.take(m.plain<T>() ? 0 : m.rows * m.cols); };
    query_room_ = converted(t.q);
    grad_room_ = converted(grad_);
    out_room_ = room.take(out_.plain<T>() ? 0 : V);
    keys_across_ = room.take(cpu::packed_size<T>(E, S));
    values_across_ = room.take(cpu::packed_size<T>(V, S));
    key_panels_ = room.take(cpu::packed_size<T>(S, E));
    query_edge_ = room.take(cpu::edge_size<T>(L, E));
    grad_edge_ = room.take(cpu::edge_size<T>(L, V));
    delta_ = room.take(L);
    scores_ = room.take(t.tile_rows * kStride);
    slopes_ = room.take(t.tile_rows * kStride);
    bias_ = Bias<T>(t.mask, room.take(t.mask ? kColumns : 0));
    to_query_ = room.take(L * E);
    to_key_ = room.take(S * E);
    to_value_ = room.take(S * V);
  }

  bool prepare() { return with_room<T>(*this); }

  void enter(int64_t head) {
    const Task& t = task_;
    const int64_t L = t.q.rows, S = t.k.rows, E = t.q.cols, V = t.v.cols;
    head_ = head;
    bias_.start(head);
    query_ = read_rows(t.q, t.q.at(head), 0, L, query_room_);
    grads_ = read_rows(grad_, grad_.at(head), 0, L, grad_room_);
    keys_ = cpu::packed(t.key.dtype(), t.k.at(head), t.k.col, t.k.row, E, S, keys_across_);
    values_ = cpu::packed(t.value.dtype(), t.v.at(head), t.v.col, t.v.row, V, S, values_across_);
    key_operand_ = cpu::packed(t.key.dtype(), t.k.at(head), t.k.row, t.k.col, S, E, key_panels_);
    query_operand_ = cpu::in_place<T>(query_.data, query_.row, L, E, query_edge_);
    grad_operand_ = cpu::in_place<T>(grads_.data, grads_.row, L, V, grad_edge_);
    for (int64_t i = 0; !whole_rows_ && i < L; ++i) {
      Rows<T> out = read_rows(out_, out_.at(head), i, 1, out_room_);
      delta_[i] = loops<T>().dot(grads_.data + i * grads_.row, out.data, V);
    }
  }

  // Gradients from rows [row, row_end) and columns [column, column_end), for the query or for key and value, or both.
  // Results are whole where the other range is: of the query over all columns, of key and value over all rows.
  void run(int64_t row, int64_t row_end, int64_t column, int64_t column_end, bool for_query, bool for_others) {
    const Task& t = task_;
    const bool to_query = for_query && to_.for_query;
    const bool to_key = for_others && to_.for_key, to_value = for_others && to_.for_value;
    const T scale = static_cast<T>(t.scale);
    Rows<T> dq = target(to_.query, to_query, row, to_query_), dk = target(to_.key, to_key, column, to_key_),
            dv = target(to_.value, to_value, column, to_value_);
    for (int64_t j = column; j < column_end; j += kColumns) {
      const int64_t columns = std::min(kColumns, column_end - j);
      if (to_key) clear(dk, j - column, columns, t.k.cols);
      if (to_value) clear(dv, j - column, columns, t.v.cols);
      for (int64_t i = row; i < row_end; i += t.tile_rows) {
        const int64_t rows = std::min(t.tile_rows, row_end - i);
        if (t.causal && j >= i + rows) continue;
        const int64_t width = tile(i, rows, j, for_query && to_.for_mask);
        if (to_value)
          cpu::multiply<T>(width, scores_, 1, kStride, grad_operand_.rows(i, rows), dv.data + (j - column) * dv.row,
                           dv.row, 1, 1);
        if (to_key)
          cpu::multiply<T>(width, slopes_, 1, kStride, query_operand_.rows(i, rows), dk.data + (j - column) * dk.row,
                           dk.row, scale, 1);
        if (to_query)
          cpu::multiply<T>(rows, slopes_, kStride, 1, key_operand_.rows(j, width), dq.data + (i - row) * dq.row, dq.row,
                           scale, j > column ? 1 : 0);
      }
    }
    if (to_query && t.k.rows == 0) clear(dq, 0, row_end - row, t.q.cols);
    finish(to_.query, to_query, row, row_end, dq);
    finish(to_.key, to_key, column, column_end, dk);
    finish(to_.value, to_value, column, column_end, dv);
  }

 private:
  Rows<T> target(const Tensor& to, bool wanted, int64_t first, T* buffer) const {
    if (!wanted) return {};
    Matrices m(to);
    return result_rows(m, m.at(head_), first, buffer);
  }
  void finish(const Tensor& to, bool wanted, int64_t first, int64_t end, Rows<T> rows) const {
    if (!wanted) return;
    Matrices m(to);
    write_rows(m, m.at(head_), first, end - first, rows);
  }
  static void clear(Rows<T> rows, int64_t first, int64_t count, int64_t cols) {
    for (int64_t i = first; i < first + count; ++i) std::fill_n(rows.data + i * rows.row, cols, T(0));
  }

  // A tile's probabilities and the gradients of its scores; returns its width.
  int64_t tile(int64_t first, int64_t rows, int64_t column, bool keep) {
    const Task& t = task_;
    const int64_t width = t.tile_width(column, first + rows, cpu::tile_kernels<T>().nr);
    cpu::multiply<T>(rows, query_.data + first * query_.row, query_.row, 1, keys_.columns(column, width), scores_,
                     kStride, static_cast<T>(t.scale), 0);
    cpu::multiply<T>(rows, grads_.data + first * grads_.row, grads_.row, 1, values_.columns(column, width), slopes_,
                     kStride, 1, 0);
    for (int64_t r = 0; r < rows; ++r) {
      T *s = scores_ + r * kStride, *d = slopes_ + r * kStride;
      const int64_t n = t.allowed(first + r, column, width), i = first + r;
      const T lse = lse_[head_ * t.q.rows + i];
      loops<T>().slopes(s, d, n, bias_.row(i, column, n), lse, whole_rows_ ? T(0) : delta_[i]);
      if (whole_rows_) loops<T>().settle(s, d, n);
      std::fill(s + n, s + width, T(0));
      std::fill(d + n, d + width, T(0));
    }
    if (keep) write_mask_gradient(first, rows, column, width);
    return width;
  }

  void write_mask_gradient(int64_t first, int64_t rows, int64_t column, int64_t width) const {
    const Tensor& to = to_.mask;
    const int64_t item = to.itemsize(), S = task_.k.rows;
    cpu::CastLoop cast = cpu::cast_loop(DTypeOf<T>::value, to.dtype());
    for (int64_t r = 0; r < rows; ++r)
      cast(to.bytes() + ((head_ * task_.q.rows + first + r) * S + column) * item, item,
           reinterpret_cast<const char*>(slopes_ + r * kStride), sizeof(T), width);
  }

  const Task& task_;
  Matrices grad_, out_;
  const T* lse_;
  const Gradients& to_;
  // Rounded results are no good to find a row's sum from; where a tile has all of a row they are not needed.
  const bool whole_rows_ = task_.k.rows <= kColumns && !out_.plain<T>();
  Bias<T> bias_;
  int64_t head_ = 0;
  T *query_room_ = nullptr, *grad_room_ = nullptr, *out_room_ = nullptr;
  T *keys_across_ = nullptr, *values_across_ = nullptr;
  T *key_panels_ = nullptr, *query_edge_ = nullptr, *grad_edge_ = nullptr;
  T *delta_ = nullptr, *scores_ = nullptr, *slopes_ = nullptr;
  T *to_query_ = nullptr, *to_key_ = nullptr, *to_value_ = nullptr;
  Rows<T> query_, grads_;
  RightOperand<T> keys_, values_, key_operand_, query_operand_, grad_operand_;
};

template <class T>
void backward(const Task& t, const Tensor& grad, const Tensor& out, const Tensor& lse, const Gradients& to) {
  const int64_t L = t.q.rows, S = t.k.rows;
  ReleaseGil released(t.work() / 16);
  if (t.heads >= num_threads() || t.work() < cpu::kWorkPerThread) {
    in_parallel(t.heads, std::max<int64_t>(1, cpu::kWorkPerThread * t.heads / (t.work() + 1)),
                [&](int64_t first, int64_t last) {
                  Backward<T> part(t, grad, out, lse, to);
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
      Backward<T> part(t, grad, out, lse, to);
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
    pieces(L, t.tile_rows, [&](Backward<T>& part, int64_t row, int64_t end) { part.run(row, end, 0, S, true, false); });
  if (to.for_key || to.for_value)
    pieces(S, kColumns,
           [&](Backward<T>& part, int64_t column, int64_t end) { part.run(0, L, column, end, false, true); });
}

}  // namespace

void _attention(const Tensor& out, const Tensor& lse, const Tensor& query, const Tensor& key, const Tensor& value,
                const Tensor& mask, bool causal, double scale) {
  const Task task{query, key, value, mask, causal, scale};
  if (out.numel() == 0 && lse.numel() == 0) return;
  if (query.dtype() == DType::Float64)
    forward<double>(task, out, lse);
  else
    forward<float>(task, out, lse);
}

void _attention_backward(const Tensor& to_query, const Tensor& to_key, const Tensor& to_value, const Tensor& to_mask,
                         const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& mask, const Tensor& out, const Tensor& lse, bool causal, double scale,
                         const std::vector<bool>& wanted) {
  Task task{query, key, value, mask, causal, scale};
  if (!causal) task.tile_rows = kBackwardRows;
  const Gradients to{to_query, to_key, to_value, to_mask, wanted[0], wanted[1], wanted[2], wanted[3]};
  if (to.for_mask && causal) cpu::fill(to_mask, 0);  // tiles beyond the diagonal are never looked at
  if (task.heads == 0) return;
  if (query.dtype() == DType::Float64)
    backward<double>(task, grad, out, lse, to);
  else
    backward<float>(task, grad, out, lse, to);
}

}  // namespace tocha::native
