// The gradient of a convolution for its weight on a matrix unit: for each tap, the flat picture's planes [channels,
// positions], shifted, times the gradient's words [positions, rows] (see convolution_flat.h). Positions between the
// rows of the picture have gradients of zero; what they meet must be finite for that to count for nothing.
//
// Some blocks of rows are staged at a time, then the threads share out the sums, which are kept in float.
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution_flat.h"
#include "cpu/convolution_patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kBlockPositions = 4096;  // of a block's rows
constexpr int64_t kStagedBytes = 8 << 20;  // of all blocks at a time

bool has_infinities(const char* plane, int64_t n) {
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(plane);
  uint16_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max<uint16_t>(most, bits[i] & 0x7fffu);
  return most >= 0x7f80u;
}

class UnitWeightSum {
 public:
  UnitWeightSum(const MatrixUnit& unit, const WeightGradient& w)
      : unit_(unit),
        w_(w),
        taps_(static_cast<int64_t>(w.taps.size())),
        plan_(w.grad.size, w.in.size, w.step, w.taps, w.batch),
        row_panels_(ceil_div(w.rows, unit.columns)),
        width_(row_panels_ * unit.columns) {
    plan_.set_rows(std::max<int64_t>(1, kBlockPositions / plan_.pitch()), w.taps);
    depth_ = unit_.blocks(plan_.most_positions()) * unit_.block_depth();
    plane_ = apart((plan_.staged() + kFlatSlack) * unit_.item) / unit_.item;
    planes_bytes_ = plan_.phases() * w_.channels * plane_ * unit_.item;
    words_bytes_ = row_panels_ * packed_panel_bytes(unit_, depth_);
  }

  bool run() {
    const int64_t per_block = planes_bytes_ + words_bytes_;
    const int64_t most = std::clamp<int64_t>(kStagedBytes / per_block, 1, plan_.blocks());
    planes_ = allocate<char>(most * planes_bytes_ + kFlatSlack * unit_.item);
    words_ = allocate<char>(most * words_bytes_);
    sums_ = allocate<float>(w_.channels * taps_ * width_ + kFlatSlack);
    for (int64_t group = 0; group < w_.groups; ++group) {
      for (int64_t first = 0; first < plan_.blocks(); first += most) {
        const int64_t count = std::min(most, plan_.blocks() - first);
        stage(group, first, count);
        if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
        if (infinite_.load(std::memory_order_relaxed)) return false;
        add_up(first, count);
      }
      finish(group);
    }
    return true;
  }

 private:
  // Planes of the input and words of the gradient, for `count` blocks.
  void stage(int64_t group, int64_t first, int64_t count) {
    const int64_t at_once = unit_.block_depth(), shares = ceil_div(w_.channels, at_once);
    const int64_t planes = count * plan_.phases() * shares, panels = count * row_panels_;
    parallel_for(planes + panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i >= planes) {
          const int64_t block = (i - planes) / row_panels_;
          stage_gradient(group, plan_.block(first + block), (i - planes) % row_panels_,
                         words_.get() + block * words_bytes_);
          continue;
        }
        const int64_t block = i / shares / plan_.phases(), phase = i / shares % plan_.phases(),
                      c = i % shares * at_once;
        const int64_t channels = std::min(at_once, w_.channels - c);
        char* out = planes_.get() + block * planes_bytes_ + (phase * w_.channels + c) * plane_ * unit_.item;
        stage_planes(unit_, plan_, plan_.block(first + block), phase, w_.in, w_.step[2], group * w_.channels + c,
                     channels, out, plane_);
        for (int64_t j = 0; j < channels; ++j) {
          if (has_infinities(out + j * plane_ * unit_.item, plan_.staged()))
            infinite_.store(true, std::memory_order_relaxed);
        }
      }
    });
  }

  // Some rows (channels of the gradient) flat, with zeros between and behind the picture's rows, as one panel of words.
  void stage_gradient(int64_t group, const FlatPlan::Block& b, int64_t panel, char* words) {
    const int64_t first = panel * unit_.columns, rows = std::min(unit_.columns, w_.rows - first);
    char* flat = scratch<char>(Purpose::staged, rows * depth_ * unit_.item);
    if (!flat) return ok_.store(false, std::memory_order_relaxed);
    const Field& f = w_.grad;
    std::memset(flat, 0, static_cast<size_t>(rows * depth_ * unit_.item));
    for (int64_t r = 0; r < rows; ++r) {
      const char* from = f.data + (b.image * f.batch_stride + (group * w_.rows + first + r) * f.channel_stride +
                                   b.z * f.stride[0] + b.y * f.stride[1]) *
                                      unit_.item;
      for (int64_t y = 0; y < b.rows; ++y) {
        unit_.copy_row(from + y * f.stride[1] * unit_.item, f.stride[2], f.size[2],
                       flat + (r * depth_ + y * plan_.pitch()) * unit_.item);
      }
    }
    pack_panels(unit_, flat, 1, depth_, depth_, rows, words + panel * packed_panel_bytes(unit_, depth_));
  }

  // Sums [channel, tap][row].
  void add_up(int64_t first, int64_t count) {
    const int64_t panels = ceil_div(w_.channels, unit_.rows);
    parallel_for(panels * taps_ * row_panels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t panel = i / taps_ / row_panels_, t = i / row_panels_ % taps_, column = i % row_panels_;
        UnitJob job{};
        job.rows = std::min(unit_.rows, w_.channels - panel * unit_.rows);
        job.columns = std::min(unit_.columns, w_.rows - column * unit_.columns);
        job.blocks = unit_.blocks(depth_);
        job.a_row = plane_ * unit_.item;
        job.b_row = unit_.panel_row();
        job.b_block = unit_.block_words() * job.b_row;
        job.sums =
            reinterpret_cast<char*>(sums_.get() + (panel * unit_.rows * taps_ + t) * width_ + column * unit_.columns);
        job.sums_row = taps_ * width_ * 4;
        for (int64_t block = 0; block < count; ++block) {
          job.a = planes_.get() + block * planes_bytes_ +
                  ((plan_.phase_of(t) * w_.channels + panel * unit_.rows) * plane_ + plan_.shift_of(t)) * unit_.item;
          job.b = words_.get() + block * words_bytes_ + column * packed_panel_bytes(unit_, depth_);
          job.add = first + block > 0;
          unit_.multiply(job);
        }
      }
    });
  }

  void finish(int64_t group) const {
    const int64_t all = w_.channels * taps_;
    parallel_for(all, std::max<int64_t>(unit_.columns, (1 << 16) / width_), [&](int64_t begin, int64_t end) {
      UnitFinish job{};
      job.rows = end - begin;
      job.columns = w_.rows;
      job.sums = sums_.get() + begin * width_;
      job.sums_row = width_;
      job.c = w_.out + (group * w_.rows * all + begin) * unit_.item;
      job.c_row = 1;
      job.c_col = all;
      job.alpha = 1;
      unit_.finish(job);
    });
  }

  const MatrixUnit& unit_;
  const WeightGradient& w_;
  const int64_t taps_;
  FlatPlan plan_;
  const int64_t row_panels_, width_;
  int64_t depth_ = 0;                           // of the sums of a block: positions, in whole blocks
  int64_t plane_ = 0;                           // elements of a staged plane
  int64_t planes_bytes_ = 0, words_bytes_ = 0;  // of a block
  Memory<char> planes_, words_;
  Memory<float> sums_;
  std::atomic<bool> ok_{true}, infinite_{false};
};

}  // namespace

bool weight_gradient_unit(const WeightGradient& w) { return UnitWeightSum(*matrix_unit(w.dtype), w).run(); }

}  // namespace tocha::cpu
