// Scaled dot-product attention and its gradients: the kernels of tocha/operators/attention.py. Scores exist only as
// tiles of a few rows; the softmax of a row is carried from tile to tile. Half types are computed in float.
#include <cmath>

#include "cpu/attention/unit.h"
#include "cpu/gemm/tile_products.h"

namespace tocha::native {
namespace {

using namespace attention;
using cpu::RightOperand;

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
    T max[kRows], sum[kRows], factor[kRows];
    std::fill(max, max + rows, -std::numeric_limits<T>::infinity());
    std::fill(sum, sum + rows, T(0));
    for (int64_t column = 0; column < end; column += kColumns) {
      const int64_t width = t.tile_width(column, end, nr);
      cpu::multiply<T>(rows, query.data, query.row, 1, keys_.columns(column, width), scores_, kStride, 1, 0);
      const auto tile = t.tile(scores_, first, rows, column, width, width);
      loops<T>().exponentials(tile, biased(tile, t.scale, bias_, first, column), column == 0, max, sum, factor);
      for (int64_t r = 0; column && r < rows; ++r)
        if (factor[r] != T(1)) loops<T>().scale(out.data + r * out.row, t.v.cols, factor[r]);
      cpu::multiply<T>(rows, scores_, kStride, 1, values_.rows(column, width), out.data, out.row, 1, column ? 1 : 0);
    }
    loops<T>().finish(out.data, out.row, rows, t.v.cols, max, sum, lse_ + head * t.q.rows + first);
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
    const int64_t together = out_.plain<T>() ? L : 1;
    for (int64_t i = 0; !whole_rows_ && i < L; i += together) {
      Rows<T> out = read_rows(out_, out_.at(head), i, together, out_room_);
      loops<T>().dots(grads_.data + i * grads_.row, grads_.row, out.data, out.row, together, V, delta_ + i);
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
                     kStride, 1, 0);
    cpu::multiply<T>(rows, grads_.data + first * grads_.row, grads_.row, 1, values_.columns(column, width), slopes_,
                     kStride, 1, 0);
    const auto scores = t.tile(scores_, first, rows, column, width, width);
    const T scale = biased(scores, t.scale, bias_, first, column);
    loops<T>().slopes(scores, slopes_, scale, lse_ + head_ * t.q.rows + first, whole_rows_ ? nullptr : delta_ + first);
    if (keep) write_mask_gradient(to_.mask, slopes_, head_ * t.q.rows + first, rows, column, width);
    return width;
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

}  // namespace

void _attention(const Tensor& out, const Tensor& lse, const Tensor& query, const Tensor& key, const Tensor& value,
                const Tensor& mask, bool causal, double scale) {
  const Task task{query, key, value, mask, causal, scale};
  if (out.numel() == 0 && lse.numel() == 0) return;
  if (unit_serves(task)) return forward_unit(task, out, lse);
  if (query.dtype() == DType::Float64)
    forward<Forward<double>>(task, out, lse);
  else
    forward<Forward<float>>(task, out, lse);
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
  if (unit_serves(task)) return backward_unit(task, grad, out, lse, to);
  if (query.dtype() == DType::Float64)
    backward<Backward<double>>(task, grad, out, lse, to);
  else
    backward<Backward<float>>(task, grad, out, lse, to);
}

}  // namespace tocha::native
