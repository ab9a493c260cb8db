// The gradient of a convolution for its weight on a matrix unit: for each tap, the flat image's planes [channels,
// positions], shifted, times the gradient's words [positions, rows] (see flat.h). Positions between the
// rows of the image have gradients of zero; what they meet must be finite for that to count for nothing.
//
// Some blocks of rows are staged at a time, then the threads share out the sums, which are kept in float. Where there
// are groups enough, each thread has its own.
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution/flat.h"
#include "cpu/convolution/patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kBlockPositions = 4096;  // of a block's rows
constexpr int64_t kStagedBytes = 8 << 20;  // of all blocks at a time
constexpr int64_t kNearBytes = 1 << 20;    // of words: they stay in the second-level cache while all taps meet them
constexpr int64_t kTasksPerThread = 2;

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
    const int64_t threads = in_parallel_region() ? 1 : num_threads();
    const int64_t shares = w_.groups >= threads ? threads : 1;
    const int64_t most = std::clamp<int64_t>(kStagedBytes / shares / (planes_bytes_ + words_bytes_), 1, plan_.blocks());
    std::vector<Staged> staged(static_cast<size_t>(shares));
    for (Staged& s : staged) {
      s.planes = allocate<char>(most * planes_bytes_ + kFlatSlack * unit_.item);
      s.words = allocate<char>(most * words_bytes_);
      s.sums = allocate<float>(w_.channels * taps_ * width_ + kFlatSlack);
      list_blocks(s, most);
    }
    auto run_share = [&](int64_t share) {
      for (int64_t group = share * w_.groups / shares; group < (share + 1) * w_.groups / shares; ++group) {
        run_group(staged[static_cast<size_t>(share)], group, most);
      }
    };
    if (shares == 1) {
      run_share(0);
    } else {
      parallel_for(shares, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) run_share(i);
      });
    }
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
    return !infinite_.load(std::memory_order_relaxed);
  }

 private:
  // What a group's sums are made of, for some blocks at a time.
  struct Staged {
    Memory<char> planes, words;
    Memory<float> sums;
    std::vector<int64_t> planes_at, words_at;  // the unit's blocks of all positions, one block of rows behind the other
  };

  void list_blocks(Staged& s, int64_t count) const {
    const int64_t word_block = unit_.block_words() * unit_.panel_row();
    for (int64_t block = 0; block < count; ++block) {
      for (int64_t i = 0; i < unit_.blocks(depth_); ++i) {
        s.planes_at.push_back(block * planes_bytes_ + i * kBlockBytes);
        s.words_at.push_back(block * words_bytes_ + i * word_block);
      }
    }
  }

  void run_group(Staged& s, int64_t group, int64_t most) {
    for (int64_t first = 0; first < plan_.blocks(); first += most) {
      const int64_t count = std::min(most, plan_.blocks() - first);
      stage(s, group, first, count);
      if (!ok_.load(std::memory_order_relaxed) || infinite_.load(std::memory_order_relaxed)) return;
      add_up(s, count, first > 0);
    }
    finish(s, group);
  }

  // Planes of the input and words of the gradient, for `count` blocks.
  void stage(Staged& s, int64_t group, int64_t first, int64_t count) {
    const int64_t at_once = unit_.block_depth(), shares = ceil_div(w_.channels, at_once);
    const int64_t planes = count * plan_.phases() * shares, panels = count * row_panels_;
    parallel_for(planes + panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i >= planes) {
          const int64_t block = (i - planes) / row_panels_;
          stage_gradient(group, plan_.block(first + block), (i - planes) % row_panels_,
                         s.words.get() + block * words_bytes_);
          continue;
        }
        const int64_t block = i / shares / plan_.phases(), phase = i / shares % plan_.phases(),
                      c = i % shares * at_once;
        const int64_t channels = std::min(at_once, w_.channels - c);
        char* out = s.planes.get() + block * planes_bytes_ + (phase * w_.channels + c) * plane_ * unit_.item;
        stage_planes(unit_, plan_, plan_.block(first + block), phase, w_.in, w_.step[2], group * w_.channels + c,
                     channels, out, plane_);
        for (int64_t j = 0; j < channels; ++j) {
          if (has_infinities(out + j * plane_ * unit_.item, plan_.staged()))
            infinite_.store(true, std::memory_order_relaxed);
        }
      }
    });
  }

  // Some rows (channels of the gradient) flat, with zeros between and behind the image's rows, as one panel of words.
  void stage_gradient(int64_t group, const FlatPlan::Block& b, int64_t panel, char* words) {
    const int64_t first = panel * unit_.columns, rows = std::min(unit_.columns, w_.rows - first);
    char* flat = scratch<char>(Purpose::staged, (rows * depth_ + plan_.pitch() + kFlatSlack) * unit_.item);
    if (!flat) return ok_.store(false, std::memory_order_relaxed);
    const Field& f = w_.grad;
    const int64_t rest = std::max<int64_t>(0, depth_ - b.rows * plan_.pitch());
    for (int64_t r = 0; r < rows; ++r) {
      const char* from = f.data + (b.image * f.batch_stride + (group * w_.rows + first + r) * f.channel_stride +
                                   b.z * f.stride[0] + b.y * f.stride[1]) *
                                      unit_.item;
      char* to = flat + r * depth_ * unit_.item;
      unit_.copy_rows({from, f.stride[1], f.stride[2], b.rows, f.size[2], to, plan_.pitch(), 0});
      std::memset(to + (depth_ - rest) * unit_.item, 0, static_cast<size_t>(rest * unit_.item));
    }
    pack_panels(unit_, flat, 1, depth_, depth_, rows, words + panel * packed_panel_bytes(unit_, depth_));
  }

  // Sums [channel, tap][row]: some of the positions meet all taps of a task, then the next.
  void add_up(Staged& s, int64_t count, bool add) const {
    const int64_t threads = in_parallel_region() ? 1 : num_threads();
    const int64_t products = ceil_div(w_.channels, unit_.rows) * taps_;
    const int64_t parts = products >= threads * kTasksPerThread ? 1 : row_panels_;
    const int64_t blocks = count * unit_.blocks(depth_), near = kNearBytes / (width_ * kBlockBytes);
    const int64_t pieces = ceil_div(blocks, std::max<int64_t>(near, 1));
    parallel_for(products * parts, ceil_div(products * parts, threads * kTasksPerThread),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t piece = 0; piece < pieces; ++piece) {
                     const int64_t first = piece * blocks / pieces, last = (piece + 1) * blocks / pieces;
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t part = i % parts;
                       multiply(s, i / parts / taps_, i / parts % taps_, part * row_panels_ / parts,
                                (part + 1) * row_panels_ / parts, first, last, add || piece > 0);
                     }
                   }
                 });
  }

  // A panel of channels, seen from a tap, times panels of rows, over some of the positions.
  void multiply(const Staged& s, int64_t panel, int64_t tap, int64_t column, int64_t last_column, int64_t first,
                int64_t last, bool add) const {
    UnitJob job{};
    job.rows = std::min(unit_.rows, w_.channels - panel * unit_.rows);
    job.columns = std::min(last_column * unit_.columns, w_.rows) - column * unit_.columns;
    job.blocks = last - first;
    job.a = s.planes.get() +
            ((plan_.phase_of(tap) * w_.channels + panel * unit_.rows) * plane_ + plan_.shift_of(tap)) * unit_.item;
    job.a_row = plane_ * unit_.item;
    job.a_at = s.planes_at.data() + first;
    job.b_panel = packed_panel_bytes(unit_, depth_);
    job.b = s.words.get() + column * job.b_panel;
    job.b_row = unit_.panel_row();
    job.b_at = s.words_at.data() + first;
    job.sums =
        reinterpret_cast<char*>(s.sums.get() + (panel * unit_.rows * taps_ + tap) * width_ + column * unit_.columns);
    job.sums_row = taps_ * width_ * 4;
    job.add = add;
    multiply_in_pieces(unit_, job);
  }

  void finish(const Staged& s, int64_t group) const {
    const int64_t all = w_.channels * taps_;
    parallel_for(all, std::max<int64_t>(unit_.columns, (1 << 16) / width_), [&](int64_t begin, int64_t end) {
      UnitFinish job{};
      job.rows = end - begin;
      job.columns = w_.rows;
      job.sums = s.sums.get() + begin * width_;
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
  std::atomic<bool> ok_{true}, infinite_{false};
};

}  // namespace

bool weight_gradient_unit(const WeightGradient& w) { return UnitWeightSum(*matrix_unit(w.dtype), w).run(); }

}  // namespace tocha::cpu
