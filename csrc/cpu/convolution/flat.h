// Convolution on a matrix unit, without patches: images are laid out flat, row behind row with zeros around them, so
// that what one tap meets is the whole image shifted by one distance. A strided convolution meets `step` images in
// each dim (its phases), each with every step-th pixel, and shifts those.
//
//   position of (row y, column x) = y * pitch + x
//
// Results are computed for all positions, those between the rows too, which are dropped. The zeros to the right of a
// row are those to the left of the next.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/convolution/convolution.h"
#include "cpu/gemm/internal.h"
#include "cpu/units/matrix_unit.h"

namespace tocha::cpu {

class FlatPlan {
 public:
  // Some rows of one image's result.
  struct Block {
    int64_t image, z, y, rows;
  };

  FlatPlan(const Extent& out, const Extent& in, const Extent& step, const std::vector<Tap>& taps, int64_t batch)
      : out_(out), in_(in), step_(step), batch_(batch) {
    for (size_t d = 0; d < 3; ++d) measure(d, taps);
    const int64_t wide = out_[2] + most_[2] - least_[2];
    const int64_t left = std::max<int64_t>(0, -least_[2]);
    const int64_t right = std::max<int64_t>(0, out_[2] + most_[2] - ceil_div(in_[2], step_[2]));
    shared_ = std::min({left, right, wide - out_[2]});  // results do not share positions
    pitch_ = wide - shared_;
    for (const Tap& t : taps) {
      Extent phase;
      for (size_t d = 0; d < 3; ++d) phase[d] = t.offset[d] - floor_div(t.offset[d], step_[d]) * step_[d];
      auto found = std::find(phases_.begin(), phases_.end(), phase);
      tap_phases_.push_back(found - phases_.begin());
      if (found == phases_.end()) phases_.push_back(phase);
    }
    set_rows(out_[1], taps);
  }

  // Blocks of at most so many rows.
  void set_rows(int64_t rows, const std::vector<Tap>& taps) {
    rows_ = ceil_div(out_[1], ceil_div(out_[1], std::clamp<int64_t>(rows, 1, out_[1])));
    shifts_.clear();
    for (const Tap& t : taps) {
      auto from_least = [&](size_t d) { return floor_div(t.offset[d], step_[d]) - least_[d]; };
      shifts_.push_back((from_least(0) * staged_rows() + from_least(1)) * pitch_ + from_least(2));
    }
  }

  int64_t blocks() const { return batch_ * out_[0] * blocks_per_plane(); }
  Block block(int64_t i) const {
    const int64_t y = i % blocks_per_plane() * rows_;
    i /= blocks_per_plane();
    return {i / out_[0], i % out_[0], y, std::min(rows_, out_[1] - y)};
  }
  int64_t rows() const { return rows_; }
  int64_t pitch() const { return pitch_; }
  // Positions of a block's results, up to the last of its last row.
  int64_t positions(const Block& b) const { return (b.rows - 1) * pitch_ + out_[2]; }
  int64_t most_positions() const { return positions({0, 0, 0, rows_}); }
  // What a phase takes of the input for one block, up to the last position that a result meets.
  int64_t staged() const { return staged_planes() * staged_rows() * pitch_ + shared_; }
  int64_t phases() const { return static_cast<int64_t>(phases_.size()); }
  int64_t phase_of(int64_t tap) const { return tap_phases_[static_cast<size_t>(tap)]; }
  int64_t shift_of(int64_t tap) const { return shifts_[static_cast<size_t>(tap)]; }
  double waste() const { return static_cast<double>(pitch_) / static_cast<double>(out_[2]); }

  // f(position, plane z and row y of the input, or z = -1 outside of it, count) for the runs of staged rows, in order.
  // Rows of a run are row_step() rows of the input apart.
  template <class Run>
  void for_rows(const Block& b, int64_t phase, Run run) const {
    const Extent& f = phases_[static_cast<size_t>(phase)];
    const int64_t met = b.rows + most_[1] - least_[1], y = (b.y + least_[1]) * step_[1] + f[1];
    for (int64_t i = 0; i < staged_planes(); ++i) {
      const int64_t z = (b.z + least_[0] + i) * step_[0] + f[0], at = i * staged_rows() * pitch_;
      int64_t begin = std::clamp<int64_t>(ceil_div(std::max<int64_t>(0, -y), step_[1]), 0, met);
      int64_t end = std::clamp<int64_t>(ceil_div(std::max<int64_t>(0, in_[1] - y), step_[1]), begin, met);
      if (z < 0 || z >= in_[0]) begin = end = 0;
      if (begin > 0) run(at, -1, 0, begin);
      if (end > begin) run(at + begin * pitch_, z, y + begin * step_[1], end - begin);
      if (staged_rows() > end) run(at + end * pitch_, -1, 0, staged_rows() - end);
    }
  }
  int64_t row_step() const { return step_[1]; }
  // Of a row: how many zeros come first, and the x of the first pixel and how many follow (the rest is zeros).
  struct Columns {
    int64_t zeros, first, count;
  };
  Columns columns(int64_t phase) const {
    const int64_t f = phases_[static_cast<size_t>(phase)][2];
    const int64_t all = ceil_div(std::max<int64_t>(0, in_[2] - f), step_[2]);  // pixels of this phase
    const int64_t begin = std::max<int64_t>(0, least_[2]);
    const int64_t zeros = begin - least_[2];
    return {zeros, begin * step_[2] + f, std::clamp<int64_t>(all - begin, 0, pitch_ - zeros)};
  }

 private:
  static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

  void measure(size_t d, const std::vector<Tap>& taps) {
    least_[d] = most_[d] = floor_div(taps[0].offset[d], step_[d]);
    for (const Tap& t : taps) {
      least_[d] = std::min(least_[d], floor_div(t.offset[d], step_[d]));
      most_[d] = std::max(most_[d], floor_div(t.offset[d], step_[d]));
    }
  }
  int64_t blocks_per_plane() const { return ceil_div(out_[1], rows_); }
  int64_t staged_rows() const { return rows_ + most_[1] - least_[1]; }
  int64_t staged_planes() const { return 1 + most_[0] - least_[0]; }

  Extent out_, in_, step_;
  int64_t batch_;
  Extent least_{}, most_{};  // of the taps' offsets, in steps
  int64_t shared_ = 0, pitch_ = 0, rows_ = 1;
  std::vector<Extent> phases_;
  std::vector<int64_t> tap_phases_, shifts_;
};

// Elements that loads may reach beyond what is staged.
constexpr int64_t kFlatSlack = 128;

// Rows of a staged matrix at a power of two would share their places in the cache.
inline int64_t apart(int64_t bytes) {
  const int64_t lines = ceil_div(bytes, 64);
  return (lines + (lines % 2 == 0)) * 64;
}

// One phase of `channels` channels from `first` on, laid out flat: plane c at out + c * plane elements, with zeros for
// kFlatSlack elements behind what a block meets.
inline void stage_planes(const MatrixUnit& unit, const FlatPlan& plan, const FlatPlan::Block& b, int64_t phase,
                         const Field& in, int64_t step, int64_t first, int64_t channels, char* out, int64_t plane) {
  const int64_t item = unit.item;
  const FlatPlan::Columns columns = plan.columns(phase);
  auto clear = [&](char* p, int64_t n) { std::memset(p, 0, static_cast<size_t>(n * item)); };
  const char* image =
      in.data + (b.image * in.batch_stride + first * in.channel_stride + columns.first * in.stride[2]) * item;
  for (int64_t c = 0; c < channels; ++c, image += in.channel_stride * item, out += plane * item) {
    int64_t end = 0;
    plan.for_rows(b, phase, [&](int64_t at, int64_t z, int64_t y, int64_t count) {
      end = at + count * plan.pitch();
      if (z < 0) return clear(out + at * item, count * plan.pitch());
      unit.copy_rows({image + (z * in.stride[0] + y * in.stride[1]) * item, plan.row_step() * in.stride[1],
                      step * in.stride[2], count, columns.count, out + at * item, plan.pitch(), columns.zeros});
    });
    clear(out + end * item, plan.staged() - end + kFlatSlack);
  }
}

}  // namespace tocha::cpu
