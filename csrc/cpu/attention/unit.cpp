// Attention in bfloat16 on a matrix unit. Tiles of scores are summed up in float, as everything is that is done to
// them; they are rounded where they are an operand again: probabilities, and the gradients of scores.
#include "cpu/attention/unit.h"

#include <cmath>

#include "cpu/units/matrix_unit.h"

namespace tocha::native::attention {
namespace {

using cpu::kBlockBytes;
using cpu::MatrixUnit;
using cpu::UnitFinish;
using cpu::UnitJob;

constexpr int64_t kItem = sizeof(BFloat16);
constexpr int64_t kRoundedRow = (kColumns + 32) * kItem;  // bytes of a row of rounded scores

// A right operand in packed panels.
struct Words {
  char* data = nullptr;
  int64_t depth = 0, columns = 0;
};

// A left operand: rows with the depth side by side.
struct Lines {
  const char* data = nullptr;
  int64_t row = 0, panel = 0, block = kBlockBytes;
};

class Products {
 public:
  explicit Products(const MatrixUnit& unit) : unit_(unit) {}

  int64_t words_bytes(int64_t depth, int64_t columns) const {
    return cpu::ceil_div(columns, unit_.columns) * cpu::packed_panel_bytes(unit_, depth);
  }
  int64_t lines_bytes(int64_t rows, int64_t depth) const {
    return cpu::ceil_div(rows, unit_.rows) * unit_.rows * unit_.blocks(depth) * kBlockBytes;
  }
  int64_t wide(int64_t columns) const { return cpu::ceil_div(columns, unit_.columns) * unit_.columns; }

  Words words(const char* b, int64_t b_k, int64_t b_col, int64_t depth, int64_t columns, char* room) const {
    cpu::pack_panels(unit_, b, b_k, b_col, depth, columns, room);
    return {room, depth, columns};
  }
  Lines packed_lines(const char* a, int64_t a_row, int64_t a_k, int64_t rows, int64_t depth, char* room) const {
    const int64_t block = unit_.rows * kBlockBytes, panel = unit_.blocks(depth) * block;
    for (int64_t i = 0; i < rows; i += unit_.rows) {
      unit_.pack_rows(a + i * a_row * kItem, a_row, a_k, std::min(unit_.rows, rows - i), depth,
                      room + i / unit_.rows * panel, kBlockBytes, block);
    }
    return {room, kBlockBytes, panel, block};
  }
  Lines lines_at(const char* a, int64_t row_bytes) const { return {a, row_bytes, unit_.rows * row_bytes}; }
  // Rows of a matrix where they lie, or copied.
  bool reads(const Matrices& m) const { return m.col == 1 && m.cols % unit_.block_depth() == 0; }
  Lines lines(const Matrices& m, const char* head, int64_t first, int64_t count, char* room) const {
    const char* from = head + first * m.row * kItem;
    return reads(m) ? lines_at(from, m.row * kItem) : packed_lines(from, m.row, m.col, count, m.cols, room);
  }

  // sums[rows, columns] (+)= a @ b, where b's columns from `column` on (a whole panel's first) and blocks of its depth
  // from `block` on count.
  void multiply(int64_t rows, int64_t columns, int64_t depth, const Lines& a, const Words& b, int64_t block,
                int64_t column, float* sums, int64_t sums_row, bool add) const {
    UnitJob job{};
    job.rows = rows;
    job.columns = columns;
    job.blocks = unit_.blocks(depth);
    job.a = a.data;
    job.a_row = a.row;
    job.a_panel = a.panel;
    job.a_block = a.block;
    job.b_row = unit_.panel_row();
    job.b_block = unit_.block_words() * job.b_row;
    job.b_panel = cpu::packed_panel_bytes(unit_, b.depth);
    job.b = b.data + column / unit_.columns * job.b_panel + block * job.b_block;
    job.sums = reinterpret_cast<char*>(sums);
    job.sums_row = sums_row * 4;
    job.add = add;
    unit_.multiply(job);
  }

  void round(int64_t rows, int64_t columns, const float* sums, int64_t sums_row, void* c, int64_t c_row, int64_t c_col,
             float alpha) const {
    UnitFinish job{};
    job.rows = rows;
    job.columns = columns;
    job.sums = sums;
    job.sums_row = sums_row;
    job.c = c;
    job.c_row = c_row;
    job.c_col = c_col;
    job.alpha = alpha;
    unit_.finish(job);
  }

 private:
  const MatrixUnit& unit_;
};

const MatrixUnit& unit() { return *cpu::matrix_unit(DType::BFloat16); }

class UnitForward {
 public:
  UnitForward(const Task& task, const Tensor& out, const Tensor& lse)
      : task_(task), out_(out), lse_(lse.data<float>()), bias_(task.mask, nullptr) {}

  void layout(Room<char>& room) {
    const Task& t = task_;
    auto floats = [&](int64_t n) { return reinterpret_cast<float*>(room.take(n * 4)); };
    key_room_ = room.take(products_.words_bytes(t.q.cols, t.k.rows));
    value_room_ = room.take(products_.words_bytes(t.v.rows, t.v.cols));
    query_room_ = room.take(products_.reads(t.q) ? 0 : products_.lines_bytes(t.tile_rows, t.q.cols));
    scores_ = floats(t.tile_rows * kStride);
    rounded_ = room.take(t.tile_rows * kRoundedRow);
    sums_ = floats(t.tile_rows * products_.wide(t.v.cols));
    bias_ = Bias<float>(t.mask, floats(t.mask ? kColumns : 0));
  }

  bool run(int64_t first, int64_t last, int64_t blocks) {
    if (!with_room<char>(*this)) return false;
    for (int64_t i = first; i < last; ++i) {
      const int64_t head = i / blocks;
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
    if (key != key_) keys_ = products_.words(key, t.k.col, t.k.row, t.k.cols, t.k.rows, key_room_);
    if (value != value_) values_ = products_.words(value, t.v.row, t.v.col, t.v.rows, t.v.cols, value_room_);
    key_ = key;
    value_ = value;
  }

  void block(int64_t head, int64_t first) {
    const Task& t = task_;
    const int64_t rows = std::min(t.tile_rows, t.q.rows - first), wide = products_.wide(t.v.cols);
    const int64_t end = t.causal ? std::min(t.k.rows, first + rows) : t.k.rows;
    const Lines query = products_.lines(t.q, t.q.at(head), first, rows, query_room_);
    float max[kRows], sum[kRows], factor[kRows];
    std::fill(max, max + rows, -std::numeric_limits<float>::infinity());
    std::fill(sum, sum + rows, 0.0f);
    for (int64_t column = 0; column < end; column += kColumns) {
      const int64_t width = t.tile_width(column, end, unit().columns);
      products_.multiply(rows, width, t.q.cols, query, keys_, 0, column, scores_, kStride, false);
      const auto tile = t.tile(scores_, first, rows, column, width, products_.wide(width));
      loops<float>().exponentials(tile, biased(tile, t.scale, bias_, first, column), column == 0, max, sum, factor);
      for (int64_t r = 0; column && r < rows; ++r)
        if (factor[r] != 1) loops<float>().scale(sums_ + r * wide, wide, factor[r]);
      products_.round(rows, products_.wide(width), scores_, kStride, rounded_, kRoundedRow / kItem, 1, 1);
      products_.multiply(rows, t.v.cols, width, products_.lines_at(rounded_, kRoundedRow), values_,
                         column / unit().block_depth(), 0, sums_, wide, column > 0);
    }
    loops<float>().finish(sums_, wide, rows, wide, max, sum, lse_ + head * t.q.rows + first);
    products_.round(rows, t.v.cols, sums_, wide, out_.at(head) + first * out_.row * kItem, out_.row, out_.col, 1);
  }

  const Task& task_;
  const Products products_{unit()};
  Matrices out_;
  float* lse_;
  Bias<float> bias_;
  char *key_room_ = nullptr, *value_room_ = nullptr, *query_room_ = nullptr, *rounded_ = nullptr;
  float *scores_ = nullptr, *sums_ = nullptr;
  const char *key_ = nullptr, *value_ = nullptr;
  Words keys_, values_;
};

// Gradients of key and value are summed up transposed, [depth, columns]: so the tiles of scores are right operands, and
// those are made of their rows by interleaving them.
class UnitBackward {
 public:
  UnitBackward(const Task& task, const Tensor& grad, const Tensor& out, const Tensor& lse, const Gradients& to)
      : task_(task), grad_(grad), out_(out), lse_(lse.data<float>()), to_(to), bias_(task.mask, nullptr) {}

  void layout(Room<char>& room) {
    const Task& t = task_;
    const Products& p = products_;
    const int64_t L = t.q.rows, S = t.k.rows, E = t.q.cols, V = t.v.cols;
    auto floats = [&](int64_t n) { return reinterpret_cast<float*>(room.take(n * 4)); };
    query_room_ = room.take(p.reads(t.q) ? 0 : p.lines_bytes(L, E));
    grad_room_ = room.take(p.reads(grad_) ? 0 : p.lines_bytes(L, V));
    query_turned_ = room.take(p.lines_bytes(E, L));
    grad_turned_ = room.take(p.lines_bytes(V, L));
    keys_across_ = room.take(p.words_bytes(E, S));
    values_across_ = room.take(p.words_bytes(V, S));
    key_panels_ = room.take(p.words_bytes(S, E));
    out_row_ = floats(V);
    grad_row_ = floats(V);
    delta_ = floats(L);
    scores_ = floats(t.tile_rows * kStride);
    slopes_ = floats(t.tile_rows * kStride);
    rounded_ = room.take(t.tile_rows * kRoundedRow);
    words_room_ = room.take(p.words_bytes(t.tile_rows, kColumns));
    to_query_ = floats(L * p.wide(E));
    to_key_ = floats(E * kColumns);
    to_value_ = floats(V * kColumns);
    bias_ = Bias<float>(t.mask, floats(t.mask ? kColumns : 0));
  }

  bool prepare() { return with_room<char>(*this); }

  void enter(int64_t head) {
    const Task& t = task_;
    const Products& p = products_;
    const int64_t L = t.q.rows, S = t.k.rows, E = t.q.cols, V = t.v.cols;
    head_ = head;
    bias_.start(head);
    const char *query = t.q.at(head), *key = t.k.at(head), *value = t.v.at(head), *grad = grad_.at(head);
    queries_ = p.lines(t.q, query, 0, L, query_room_);
    grads_ = p.lines(grad_, grad, 0, L, grad_room_);
    keys_ = p.words(key, t.k.col, t.k.row, E, S, keys_across_);
    values_ = p.words(value, t.v.col, t.v.row, V, S, values_across_);
    if (to_.for_query) key_operand_ = p.words(key, t.k.row, t.k.col, S, E, key_panels_);
    if (to_.for_key) query_operand_ = p.packed_lines(query, t.q.col, t.q.row, E, L, query_turned_);
    if (to_.for_value) grad_operand_ = p.packed_lines(grad, grad_.col, grad_.row, V, L, grad_turned_);
    for (int64_t i = 0; !whole_rows_ && i < L; ++i) {
      const Rows<float> g = read_rows(grad_, grad, i, 1, grad_row_), o = read_rows(out_, out_.at(head), i, 1, out_row_);
      loops<float>().dots(g.data, 0, o.data, 0, 1, V, delta_ + i);
    }
  }

  // As for other types (see attention.cpp).
  void run(int64_t row, int64_t row_end, int64_t column, int64_t column_end, bool for_query, bool for_others) {
    const Task& t = task_;
    const Products& p = products_;
    const int64_t E = t.q.cols, V = t.v.cols, wide = p.wide(E);
    const bool to_query = for_query && to_.for_query;
    const bool to_key = for_others && to_.for_key, to_value = for_others && to_.for_value;
    const float scale = static_cast<float>(t.scale);
    for (int64_t j = column; j < column_end; j += kColumns) {
      const int64_t columns = std::min(kColumns, column_end - j);
      if (to_key) std::fill_n(to_key_, E * kColumns, 0.0f);
      if (to_value) std::fill_n(to_value_, V * kColumns, 0.0f);
      for (int64_t i = row; i < row_end; i += t.tile_rows) {
        const int64_t rows = std::min(t.tile_rows, row_end - i);
        if (t.causal && j >= i + rows) continue;
        const int64_t width = tile(i, rows, j, for_query && to_.for_mask);
        if (to_value) add_across(i, rows, width, scores_, grad_operand_, V, to_value_);
        if (to_key || to_query) p.round(rows, p.wide(width), slopes_, kStride, rounded_, kRoundedRow / kItem, 1, 1);
        if (to_key) add_rounded(i, rows, width, query_operand_, E, to_key_);
        if (to_query) {
          p.multiply(rows, E, width, p.lines_at(rounded_, kRoundedRow), key_operand_, j / unit().block_depth(), 0,
                     to_query_ + (i - row) * wide, wide, j > column);
        }
      }
      if (to_key) finish_across(to_.key, E, j, columns, to_key_, scale);
      if (to_value) finish_across(to_.value, V, j, columns, to_value_, 1);
    }
    if (!to_query) return;
    if (t.k.rows == 0) std::fill_n(to_query_, (row_end - row) * wide, 0.0f);
    const Matrices m(to_.query);
    p.round(row_end - row, E, to_query_, wide, m.at(head_) + row * m.row * kItem, m.row, m.col, scale);
  }

 private:
  // sums[depth of the operand, columns] += operand's rows of a tile @ the tile.
  void add_across(int64_t first, int64_t rows, int64_t width, const float* tile, const Lines& operand, int64_t depth,
                  float* sums) {
    products_.round(rows, products_.wide(width), tile, kStride, rounded_, kRoundedRow / kItem, 1, 1);
    add_rounded(first, rows, width, operand, depth, sums);
  }
  void add_rounded(int64_t first, int64_t rows, int64_t width, const Lines& operand, int64_t depth, float* sums) {
    const Words words = products_.words(rounded_, kRoundedRow / kItem, 1, rows, width, words_room_);
    Lines a = operand;
    a.data += first / unit().block_depth() * a.block;
    products_.multiply(depth, width, rows, a, words, 0, 0, sums, kColumns, true);
  }
  void finish_across(const Tensor& to, int64_t depth, int64_t first, int64_t columns, const float* sums,
                     float factor) const {
    const Matrices m(to);
    products_.round(depth, columns, sums, kColumns, m.at(head_) + first * m.row * kItem, m.col, m.row, factor);
  }

  // A tile's probabilities and the gradients of its scores; returns its width.
  int64_t tile(int64_t first, int64_t rows, int64_t column, bool keep) {
    const Task& t = task_;
    const int64_t width = t.tile_width(column, first + rows, unit().columns), wide = products_.wide(width);
    auto from = [&](Lines a) {
      a.data += first / unit().rows * a.panel;
      return a;
    };
    products_.multiply(rows, width, t.q.cols, from(queries_), keys_, 0, column, scores_, kStride, false);
    products_.multiply(rows, width, t.v.cols, from(grads_), values_, 0, column, slopes_, kStride, false);
    const auto scores = t.tile(scores_, first, rows, column, width, wide);
    const float scale = biased(scores, t.scale, bias_, first, column);
    loops<float>().slopes(scores, slopes_, scale, lse_ + head_ * t.q.rows + first,
                          whole_rows_ ? nullptr : delta_ + first);
    if (keep) write_mask_gradient(to_.mask, slopes_, head_ * t.q.rows + first, rows, column, width);
    return width;
  }

  const Task& task_;
  const Products products_{unit()};
  Matrices grad_, out_;
  const float* lse_;
  const Gradients& to_;
  const bool whole_rows_ = task_.k.rows <= kColumns;  // see attention.cpp
  Bias<float> bias_;
  int64_t head_ = 0;
  char *query_room_ = nullptr, *grad_room_ = nullptr, *query_turned_ = nullptr, *grad_turned_ = nullptr;
  char *keys_across_ = nullptr, *values_across_ = nullptr, *key_panels_ = nullptr, *rounded_ = nullptr,
       *words_room_ = nullptr;
  float *out_row_ = nullptr, *grad_row_ = nullptr, *delta_ = nullptr, *scores_ = nullptr, *slopes_ = nullptr;
  float *to_query_ = nullptr, *to_key_ = nullptr, *to_value_ = nullptr;
  Lines queries_, grads_, query_operand_, grad_operand_;
  Words keys_, values_, key_operand_;
};

}  // namespace

bool unit_serves(const Task& t) { return t.query.dtype() == DType::BFloat16 && cpu::matrix_unit(DType::BFloat16); }

void forward_unit(const Task& t, const Tensor& out, const Tensor& lse) { forward<UnitForward>(t, out, lse); }

void backward_unit(const Task& t, const Tensor& grad, const Tensor& out, const Tensor& lse, const Gradients& to) {
  backward<UnitBackward>(t, grad, out, lse, to);
}

}  // namespace tocha::native::attention
