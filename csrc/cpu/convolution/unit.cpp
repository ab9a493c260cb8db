// Correlation on a matrix unit: weights [rows, taps x channels] times the flat image's words [channels, positions],
// shifted for each tap (see flat.h). Where there are too few channels to fill the unit's blocks, (channel,
// tap) pairs take their place: each a shifted copy of its own, and one sum without shifts.
//
// Threads share out blocks of rows of the images, each with all that its sums need.
#include <array>
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution/flat.h"
#include "cpu/convolution/patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kStagedBytes = 640 * 1024;  // of words, in the second-level cache
constexpr int64_t kColumnsAtOnce = 256;       // of sums, in the first-level cache
constexpr int64_t kFewestPositions = 256;     // of a task
constexpr int64_t kMostUnzipped = 16;         // taps
constexpr int64_t kSlowestUnit = 4;           // a slower one is no better than fewer products of float

class UnitCorrelator {
 public:
  UnitCorrelator(const MatrixUnit& unit, const Correlation& c)
      : unit_(unit),
        c_(c),
        taps_(static_cast<int64_t>(c.taps.size())),
        plan_(c.out.size, c.in.size, c.step, c.taps, c.batch),
        pairs_(fills_poorly(unit, c)),
        sources_(pairs_ ? c.channels * taps_ : c.channels),
        source_blocks_(unit.blocks(sources_)),
        blocks_(pairs_ ? source_blocks_ : source_blocks_ * taps_) {
    choose_blocks();
    place_blocks();
  }

  void run() {
    const int64_t panels = ceil_div(c_.rows, unit_.rows);
    weights_ = allocate<char>(c_.groups * panels * blocks_ * unit_.rows * kBlockBytes);
    parallel_for(c_.groups * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) pack_weights(i / panels, i % panels);
    });
    const int64_t image_blocks = ceil_div(plan_.blocks(), together_);
    const int64_t tasks = c_.groups * image_blocks * row_parts_;
    parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i % row_parts_, block = i / row_parts_ % image_blocks;
        run_blocks(i / row_parts_ / image_blocks, block * together_, std::min(plan_.blocks(), (block + 1) * together_),
                   part * panels / row_parts_, (part + 1) * panels / row_parts_);
      }
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  // Channels of zeros that fill up blocks are multiplied too; pairs cost a copy of every pixel for each tap.
  static bool fills_poorly(const MatrixUnit& unit, const Correlation& c) {
    return c.taps.size() > 1 && 8 * c.channels < 5 * unit.blocks(c.channels) * unit.block_depth();
  }

  int64_t word_rows() const { return source_blocks_ * unit_.block_words() * (pairs_ ? 1 : plan_.phases()); }

  // Blocks whose words stay near, several small images together, and enough of them for all threads.
  void choose_blocks() {
    const int64_t threads = in_parallel_region() ? 1 : num_threads();
    const int64_t row_bytes = word_rows() * plan_.pitch() * unit_.word;
    const int64_t all = c_.groups * c_.batch * c_.out.size[0] * c_.out.size[1];
    const int64_t fewest = ceil_div(kFewestPositions, plan_.pitch());
    const int64_t shares = std::max(fewest, all / (2 * threads));
    const int64_t rows = std::max<int64_t>(1, std::min(kStagedBytes / row_bytes, shares));
    plan_.set_rows(rows, c_.taps);
    together_ = std::clamp<int64_t>(std::min(rows / plan_.rows(), ceil_div(fewest, plan_.rows())), 1, plan_.blocks());
    const int64_t tasks = c_.groups * ceil_div(plan_.blocks(), together_);
    row_parts_ = tasks >= threads ? 1 : std::clamp<int64_t>(threads / tasks, 1, ceil_div(c_.rows, unit_.rows));
    row_ = apart(together_ * plan_.staged() * unit_.word + kFlatSlack * unit_.word);
  }

  // Where the blocks of a sum lie in weights and words.
  void place_blocks() {
    const int64_t a_block = unit_.rows * kBlockBytes, block_row = unit_.block_words() * row_;
    for (int64_t block = 0; block < source_blocks_; ++block) {
      for (int64_t t = 0; t < (pairs_ ? 1 : taps_); ++t) {
        a_at_.push_back(static_cast<int64_t>(a_at_.size()) * a_block);
        b_at_.push_back(pairs_ ? block * block_row
                               : (plan_.phase_of(t) * source_blocks_ + block) * block_row +
                                     plan_.shift_of(t) * unit_.word);
      }
    }
  }

  // ---- weights

  const char* weight_at(int64_t group, int64_t row, int64_t channel) const {
    return c_.weight + (group * c_.weight_group + row * c_.weight_row + channel * c_.weight_channel) * unit_.item;
  }
  char* panel_at(int64_t group, int64_t panel) const {
    return weights_.get() + (group * ceil_div(c_.rows, unit_.rows) + panel) * blocks_ * unit_.rows * kBlockBytes;
  }

  // A panel [block][row], where the blocks of a row are [channels][tap] or pairs.
  void pack_weights(int64_t group, int64_t panel) {
    const int64_t first = panel * unit_.rows, rows = std::min(unit_.rows, c_.rows - first);
    char* out = panel_at(group, panel);
    if (pairs_) return pack_pairs(group, first, rows, out);
    if (taps_ == 1) {
      return unit_.pack_rows(weight_at(group, first, 0) + c_.taps[0].weight * unit_.item, c_.weight_row,
                             c_.weight_channel, rows, c_.channels, out, kBlockBytes, unit_.rows * kBlockBytes);
    }
    const bool along_rows = c_.weight_row < c_.weight_channel;
    if (!along_rows && c_.weight_channel <= kMostUnzipped) return unzip_weights(group, first, rows, out);
    // Elements lie along the taps, or along rows and taps; those become rows with channels side by side.
    const int64_t at_once = along_rows ? rows : 1, all_taps = along_rows ? c_.weight_row : c_.weight_channel;
    char* turned = scratch<char>(Purpose::packed_a, at_once * all_taps * kBlockBytes);
    if (!turned) return ok_.store(false, std::memory_order_relaxed);
    for (int64_t block = 0; block < source_blocks_; ++block) {
      const int64_t channel = block * unit_.block_depth();
      const int64_t channels = std::min(unit_.block_depth(), c_.channels - channel);
      for (int64_t r = 0; r < rows; r += at_once) {
        unit_.pack_rows(weight_at(group, first + r, channel), 1, c_.weight_channel, at_once * all_taps, channels,
                        turned, kBlockBytes, 0);
        for (int64_t i = 0; i < at_once; ++i) {
          for (int64_t t = 0; t < taps_; ++t) {
            std::memcpy(out + ((block * taps_ + t) * unit_.rows + r + i) * kBlockBytes,
                        turned + (i * all_taps + c_.taps[static_cast<size_t>(t)].weight) * kBlockBytes, kBlockBytes);
          }
        }
      }
    }
  }

  // Few taps side by side, and channels behind them.
  void unzip_weights(int64_t group, int64_t first, int64_t rows, char* out) const {
    std::vector<int64_t> places;
    for (const Tap& t : c_.taps) places.push_back(t.weight);
    for (int64_t block = 0; block < source_blocks_; ++block) {
      const int64_t channel = block * unit_.block_depth(), out_place = unit_.rows * kBlockBytes;
      unit_.unzip({weight_at(group, first, channel), c_.weight_row, rows, c_.weight_channel,
                   std::min(unit_.block_depth(), c_.channels - channel), places.data(), taps_,
                   out + block * taps_ * out_place, out_place});
    }
  }

  void pack_pairs(int64_t group, int64_t first, int64_t rows, char* out) {
    char* row = scratch<char>(Purpose::packed_a, c_.channels * taps_ * unit_.item);
    if (!row) return ok_.store(false, std::memory_order_relaxed);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < c_.channels; ++c) {
        for (int64_t t = 0; t < taps_; ++t) {
          std::memcpy(row + (c * taps_ + t) * unit_.item,
                      weight_at(group, first + r, c) + c_.taps[static_cast<size_t>(t)].weight * unit_.item,
                      static_cast<size_t>(unit_.item));
        }
      }
      unit_.pack_rows(row, 0, 1, 1, c_.channels * taps_, out + r * kBlockBytes, 0, unit_.rows * kBlockBytes);
    }
  }

  // ---- the input

  // Words of a block, beside those of other blocks.
  bool stage(int64_t group, const FlatPlan::Block& b, char* words) {
    const int64_t plane = plan_.staged() + kFlatSlack, first = group * c_.channels;
    if (!pairs_ && c_.in.channel_stride == 1 && c_.channels > 1) {
      for (int64_t phase = 0; phase < plan_.phases(); ++phase) {
        stage_pixels(b, phase, first, words + phase * source_blocks_ * unit_.block_words() * row_);
      }
      return true;
    }
    if (pairs_) {
      char* planes = scratch<char>(Purpose::staged, c_.channels * plan_.phases() * plane * unit_.item);
      if (!planes) return false;
      for (int64_t phase = 0; phase < plan_.phases(); ++phase) {
        stage_planes(unit_, plan_, b, phase, c_.in, c_.step[2], first, c_.channels,
                     planes + phase * c_.channels * plane * unit_.item, plane);
      }
      zip_pairs(b, planes, plane, words);
      return true;
    }
    const int64_t at_once = unit_.block_depth();
    char* planes = scratch<char>(Purpose::staged, at_once * plane * unit_.item);
    if (!planes) return false;
    for (int64_t phase = 0; phase < plan_.phases(); ++phase) {
      for (int64_t c = 0; c < c_.channels; c += at_once) {
        const int64_t channels = std::min(at_once, c_.channels - c);
        stage_planes(unit_, plan_, b, phase, c_.in, c_.step[2], first + c, channels, planes, plane);
        unit_.pack_words(planes, plane, 1, channels, plan_.staged(),
                         words + (phase * source_blocks_ + c / at_once) * unit_.block_words() * row_, row_,
                         unit_.panel_row());
      }
    }
    return true;
  }

  // Channels side by side are words already, but for their order.
  void stage_pixels(const FlatPlan::Block& b, int64_t phase, int64_t first, char* words) const {
    const FlatPlan::Columns columns = plan_.columns(phase);
    const int64_t word_rows = ceil_div(c_.channels, unit_.depth());
    for (int64_t i = 0; i < word_rows; ++i)
      std::memset(words + i * row_, 0, static_cast<size_t>(plan_.staged() * unit_.word));
    const char* image =
        c_.in.data + (b.image * c_.in.batch_stride + first + columns.first * c_.in.stride[2]) * unit_.item;
    plan_.for_rows(b, phase, [&](int64_t at, int64_t z, int64_t y, int64_t count) {
      if (z < 0 || columns.count == 0) return;
      for (int64_t i = 0; i < count; ++i, at += plan_.pitch(), y += plan_.row_step()) {
        unit_.pack_words(image + (z * c_.in.stride[0] + y * c_.in.stride[1]) * unit_.item, 1,
                         c_.step[2] * c_.in.stride[2], c_.channels, columns.count,
                         words + (at + columns.zeros) * unit_.word, row_, unit_.panel_row());
      }
    });
  }

  void zip_pairs(const FlatPlan::Block& b, const char* planes, int64_t plane, char* words) const {
    const int64_t depth = unit_.depth();
    std::vector<const void*> rows(static_cast<size_t>(depth));
    for (int64_t k = 0; k < sources_; k += depth, words += row_) {
      const int64_t count = std::min(depth, sources_ - k);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t c = (k + i) / taps_, t = (k + i) % taps_;
        rows[static_cast<size_t>(i)] =
            planes + ((plan_.phase_of(t) * c_.channels + c) * plane + plan_.shift_of(t)) * unit_.item;
      }
      unit_.zip(rows.data(), count, plan_.positions(b), words, unit_.panel_row());
    }
  }

  // Rows of words that fill up the last block of each phase.
  void clear_missing(char* words) const {
    const int64_t used = ceil_div(sources_, unit_.depth()), all = source_blocks_ * unit_.block_words();
    for (int64_t phase = 0; phase < (pairs_ ? 1 : plan_.phases()); ++phase) {
      std::memset(words + (phase * all + used) * row_, 0, static_cast<size_t>((all - used) * row_));
    }
  }

  // ---- sums

  void run_blocks(int64_t group, int64_t first, int64_t last, int64_t panel, int64_t last_panel) {
    char* words = scratch<char>(Purpose::packed_b, word_rows() * row_ + kFlatSlack * unit_.word);
    float* sums = scratch<float>(Purpose::accumulator, unit_.rows * kColumnsAtOnce + kFlatSlack);
    if (!words || !sums) return ok_.store(false, std::memory_order_relaxed);
    clear_missing(words);
    for (int64_t i = first; i < last; ++i) {
      if (!stage(group, plan_.block(i), words + (i - first) * plan_.staged() * unit_.word)) {
        return ok_.store(false, std::memory_order_relaxed);
      }
    }
    const std::vector<Columns> columns = columns_of(first, last);
    for (int64_t p = panel; p < last_panel; ++p) run_panel(group, p, columns, words, sums);
  }

  // A panel of columns: positions of one of the blocks that are staged side by side.
  struct Columns {
    int64_t block, position, count;
    int64_t at;  // bytes, in a row of words
  };
  std::vector<Columns> columns_of(int64_t first, int64_t last) const {
    std::vector<Columns> columns;
    for (int64_t i = first; i < last; ++i) {
      const int64_t positions = plan_.positions(plan_.block(i));
      for (int64_t q = 0; q < positions; q += unit_.columns) {
        columns.push_back(
            {i, q, std::min(unit_.columns, positions - q), ((i - first) * plan_.staged() + q) * unit_.word});
      }
    }
    return columns;
  }

  // One panel of weights meets the columns of all blocks, some of them at a time.
  void run_panel(int64_t group, int64_t panel, const std::vector<Columns>& columns, const char* words,
                 float* sums) const {
    UnitJob job{};
    job.rows = std::min(unit_.rows, c_.rows - panel * unit_.rows);
    job.blocks = blocks_;
    job.a = panel_at(group, panel);
    job.a_row = kBlockBytes;
    job.a_at = a_at_.data();
    job.b = words;
    job.b_row = row_;
    job.b_at = b_at_.data();
    job.sums = reinterpret_cast<char*>(sums);
    job.sums_row = kColumnsAtOnce * 4;
    std::array<int64_t, kColumnsAtOnce> places;
    const size_t at_once = static_cast<size_t>(kColumnsAtOnce / unit_.columns);
    for (size_t first = 0; first < columns.size(); first += at_once) {
      const size_t last = std::min(columns.size(), first + at_once);
      for (size_t i = first; i < last; ++i) places[i - first] = columns[i].at;
      job.b_panels = places.data();
      job.columns = static_cast<int64_t>(last - first - 1) * unit_.columns + columns[last - 1].count;
      job.add = false;
      multiply_in_pieces(unit_, job);
      for (size_t i = first; i < last;) {  // neighbours of one block are finished together
        size_t end = i;
        int64_t count = 0;
        for (; end < last && columns[end].block == columns[i].block; ++end) count += columns[end].count;
        finish(group, panel * unit_.rows, job.rows, plan_.block(columns[i].block), columns[i].position, count,
               sums + static_cast<int64_t>(i - first) * unit_.columns);
        i = end;
      }
    }
  }

  // Sums of positions [q, q + columns) go to their rows of the result.
  void finish(int64_t group, int64_t row, int64_t rows, const FlatPlan::Block& b, int64_t q, int64_t columns,
              const float* sums) const {
    const Field& f = c_.out;
    const int64_t first = group * c_.rows + row;
    UnitFinish job{};
    job.rows = rows;
    job.sums_row = kColumnsAtOnce;
    job.c_row = f.channel_stride;
    job.c_col = f.stride[2];
    job.alpha = 1;
    job.bias = c_.bias ? c_.bias + first * unit_.item : nullptr;
    job.bias_by_row = true;
    for (int64_t y = q / plan_.pitch(); y * plan_.pitch() < q + columns; ++y) {
      const int64_t begin = std::max(q, y * plan_.pitch()), end = std::min(q + columns, y * plan_.pitch() + f.size[2]);
      if (begin >= end) continue;
      job.columns = end - begin;
      job.sums = sums + begin - q;
      job.c = f.data + (b.image * f.batch_stride + first * f.channel_stride + b.z * f.stride[0] +
                        (b.y + y) * f.stride[1] + (begin - y * plan_.pitch()) * f.stride[2]) *
                           unit_.item;
      unit_.finish(job);
    }
  }

  const MatrixUnit& unit_;
  const Correlation& c_;
  const int64_t taps_;
  FlatPlan plan_;
  const bool pairs_;
  const int64_t sources_, source_blocks_, blocks_;  // sources are channels or pairs
  int64_t together_ = 1, row_parts_ = 1, row_ = 0;  // blocks in a task; parts of the rows; bytes of a row of words
  std::vector<int64_t> a_at_, b_at_;
  Memory<char> weights_;
  std::atomic<bool> ok_{true};
};

bool unit_serves(DType dtype) {
  const MatrixUnit* unit = matrix_unit(dtype);
  return unit && unit->finish && unit->speed >= kSlowestUnit;
}

}  // namespace

bool unit_serves(const Correlation& c) { return unit_serves(c.dtype) && !c.taps.empty(); }
bool unit_serves(const Spreading& s) { return unit_serves(s.dtype); }
bool unit_serves(const WeightGradient& w) { return unit_serves(w.dtype) && !w.taps.empty(); }

void correlate_unit(const Correlation& c) { UnitCorrelator(*matrix_unit(c.dtype), c).run(); }

}  // namespace tocha::cpu
