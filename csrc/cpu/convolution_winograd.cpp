// Correlation with 3x3 kernels by Winograd's algorithm F(2x2, 3x3), in float32: per tile of 2x2 results 16 products
// instead of 36, as 16 matrix products over blocks of tiles. Its rounding errors are about those of the plain sum,
// unlike those of larger tiles. The gradient for the weight is the same computation transposed.
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution_patches.h"
#include "cpu/lanes.h"
#include "cpu/winograd_kernels.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kLeastChannels = 32;
constexpr int64_t kMostChannels = 512;
constexpr int64_t kLeastTiles = 96;                  // in the batch
constexpr int64_t kMostWeights = 1 << 14;            // whose gradient is summed by each thread for itself
constexpr int64_t kScratchElements = 3 * (1 << 17);  // of transformed tiles, per thread

Extent tile_grid(const Extent& pixels) { return {pixels[0], ceil_div(pixels[1], 2), ceil_div(pixels[2], 2)}; }

// Where the kernel begins, counted from the output pixel.
Extent first_offset(const std::vector<Tap>& taps) {
  Extent first = taps[0].offset;
  for (const Tap& t : taps) {
    for (size_t d = 0; d < 3; ++d) first[d] = std::min(first[d], t.offset[d]);
  }
  return first;
}

// The pixels of a tile, row by row.
std::vector<Tap> square(const Extent& first, int64_t size) {
  std::vector<Tap> taps;
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x) taps.push_back({{first[0], first[1] + y, first[2] + x}, 0});
  }
  return taps;
}

int64_t most_tiles(int64_t channels) { return std::min(kMostPixels, kScratchElements / kWinogradPoints / channels); }

// Tiles per block, in whole rows, such that the slowest thread has the fewest vectors to multiply. `channels` are those
// of both sides.
int64_t block_tiles(const Extent& grid, int64_t batch, int64_t channels) {
  const int64_t lanes = convolution_kernels().f32.lanes;
  const int64_t row = grid[2], rows = batch * grid[0] * grid[1], threads = num_threads();
  int64_t best = row, least = INT64_MAX;
  for (int64_t r = 1; r <= std::min(rows, most_tiles(channels) / row); ++r) {
    const int64_t cost = ceil_div(ceil_div(rows, r), threads) * (ceil_div(r * row, lanes) * 8 + 1);
    if (cost <= least) best = r * row, least = cost;
  }
  return best;
}

class Winograd {
 public:
  explicit Winograd(const Correlation& c)
      : c_(c),
        tiles_(gemm_tiles().f32),
        grid_(tile_grid(c.out.size)),
        plan_(grid_, c.batch, {1, 2, 2}, square(first_offset(c.taps), 4), grid_[2],
              block_tiles(grid_, c.batch, c.channels + c.rows)),
        by_channel_(c.weight_channel == 9),
        lanes_(by_channel_ ? c.channels : c.rows),
        columns_(ceil_div(plan_.largest_block(), tiles_.nr) * tiles_.nr) {}

  void run() {
    transform_weights();
    parallel_for(plan_.blocks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_block(plan_.block(i));
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  float* transformed(int64_t point) const { return weights_.get() + point * c_.rows * c_.channels; }

  // [point][row][channel] or [point][channel][row]: whichever of the two has its 3x3 kernels side by side goes last.
  void transform_weights() {
    const Extent first = first_offset(c_.taps);
    std::array<int64_t, 9> place{};
    for (size_t t = 0; t < 9; ++t) {
      const Extent& at = c_.taps[t].offset;
      place[static_cast<size_t>((at[1] - first[1]) * 3 + at[2] - first[2])] = c_.taps[t].weight;
    }
    weights_ = allocate<float>(kWinogradPoints * c_.rows * c_.channels);
    const int64_t lines = by_channel_ ? c_.rows : c_.channels;
    const int64_t stride = by_channel_ ? c_.weight_row : c_.weight_channel;
    parallel_for(lines, std::max<int64_t>(1, 2048 / lanes_), [&](int64_t begin, int64_t end) {
      float* taps = scratch<float>(Purpose::packed_b, 9 * tiles_.nr + kMoveSlack);
      if (!taps) return ok_.store(false, std::memory_order_relaxed);
      for (int64_t line = begin; line < end; ++line) {
        for (int64_t i = 0; i < lanes_; i += tiles_.nr) {
          const int64_t count = std::min(tiles_.nr, lanes_ - i);
          const float* from = reinterpret_cast<const float*>(c_.weight) + line * stride + i * 9;
          gemm_packing().f32.pack_b(DType::Float32, from, 1, 9, 9, count, taps);
          winograd_kernels().weights(
              {taps, tiles_.nr, place.data(), count, transformed(0) + line * lanes_ + i, c_.rows * c_.channels});
        }
      }
    });
  }

  int64_t panel_stride() const { return c_.channels * tiles_.nr + kMoveSlack; }
  int64_t point_stride() const { return columns_ / tiles_.nr * panel_stride(); }

  void run_block(const PixelBlock& b) {
    float* staged = scratch<float>(Purpose::staged, staged_elements(plan_, c_.channels));
    float* input = scratch<float>(Purpose::packed_b, kWinogradPoints * point_stride());
    float* output = scratch<float>(Purpose::accumulator, kWinogradPoints * c_.rows * columns_ + kMoveSlack);
    if (!staged || !input || !output) return ok_.store(false, std::memory_order_relaxed);
    transform_input(b, staged, input);
    for (int64_t point = 0; point < kWinogradPoints; ++point) {
      multiply(b, point, input + point * point_stride(), output + point * c_.rows * columns_);
    }
    plan_.for_runs(b, false, [&](const PixelRun& r) { transform_output(r, output); });
  }

  void transform_input(const PixelBlock& b, float* staged, float* out) const {
    Moves moves;
    WinogradInputJob job{};
    PatchJob<float>& p = job.patches;
    p.staged = staged;
    p.channel = plan_.staged_channel();
    p.channels = c_.channels;
    p.tap = plan_.taps().data();
    p.moves = moves.data();
    p.out = out;
    p.out_row = tiles_.nr;
    job.out_point = point_stride();
    plan_.stage(c_.dtype, c_.in, 0, c_.channels, b, staged);
    for (int64_t t = 0; t < b.count(); t += tiles_.nr, p.out += panel_stride()) {
      const int64_t end = std::min(b.count(), t + tiles_.nr);
      p.move_count = plan_.moves(b, t, end, c_.channels, kernels().lanes, moves.data());
      winograd_kernels().input(job);
      if (end - t < tiles_.nr) clear_beyond(end - t, p.out);
    }
  }

  static const PatchKernels<float>& kernels() { return convolution_kernels().f32; }

  // The columns of a panel that have no tile: the tiles' vectors read them, so they must be numbers.
  void clear_beyond(int64_t columns, float* panel) const {
    for (int64_t point = 0; point < kWinogradPoints; ++point) {
      for (int64_t c = 0; c < c_.channels; ++c) {
        std::fill_n(panel + point * point_stride() + c * tiles_.nr + columns, tiles_.nr - columns, 0.0f);
      }
    }
  }

  void multiply(const PixelBlock& b, int64_t point, const float* input, float* output) const {
    TileJob<float> job{};
    job.rows = c_.rows;
    job.panels = ceil_div(c_.rows, tiles_.mr);
    job.n = b.count();
    job.k = c_.channels;
    job.a = transformed(point);
    job.a_row = by_channel_ ? lanes_ : 1;
    job.a_k = by_channel_ ? 1 : lanes_;
    job.b = input;
    job.b_k = tiles_.nr;
    job.b_panel = panel_stride();
    job.b_edge = input + b.count() / tiles_.nr * panel_stride();
    job.c = output;
    job.c_row = columns_;
    job.alpha = 1;
    tiles_.multiply(job);
  }

  void transform_output(const PixelRun& r, const float* products) const {
    const Field& f = c_.out;
    WinogradOutputJob job{};
    job.in = products + r.begin;
    job.in_point = c_.rows * columns_;
    job.in_row = columns_;
    job.rows = c_.rows;
    job.tiles = r.count;
    job.bias = reinterpret_cast<const float*>(c_.bias);
    job.out = reinterpret_cast<float*>(f.data) + r.image * f.batch_stride + r.z * f.stride[0] + 2 * r.y * f.stride[1] +
              2 * r.x;
    job.out_row = f.channel_stride;
    job.out_y = f.stride[1];
    job.width = std::min(2 * r.count, f.size[2] - 2 * r.x);
    job.height = std::min<int64_t>(2, f.size[1] - 2 * r.y);
    winograd_kernels().output(job);
  }

  const Correlation& c_;
  const TileKernels<float>& tiles_;
  const Extent grid_;
  const PixelPlan plan_;
  const bool by_channel_;  // the 3x3 kernels of a row's channels lie side by side; else those of a channel's rows
  const int64_t lanes_;
  const int64_t columns_;
  Memory<float> weights_;
  std::atomic<bool> ok_{true};
};

// The gradient for the weight: what reaches the transformed kernels, summed over tiles, transformed back.
class WinogradWeight {
 public:
  explicit WinogradWeight(const WeightGradient& w)
      : w_(w),
        tiles_(gemm_tiles().f32),
        grid_(tile_grid(w.grad.size)),
        block_(block_tiles(grid_, w.batch, w.channels + w.rows)),
        in_plan_(grid_, w.batch, {1, 2, 2}, square(first_offset(w.taps), 4), grid_[2], block_),
        grad_plan_(grid_, w.batch, {1, 2, 2}, square({0, 0, 0}, 2), grid_[2], block_),
        row_(in_plan_.largest_block()),
        all_(kWinogradPoints * w.rows * w.channels) {}

  void run() {
    const int parts = static_cast<int>(std::min<int64_t>(lane_count(in_plan_.blocks(), 1), in_plan_.blocks()));
    const Memory<float> sums = allocate<float>(parts * all_);
    for_lanes(in_plan_.blocks(), parts, [&](int part, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) add_block(in_plan_.block(i), i == begin, sums.get() + part * all_);
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
    parallel_for(w_.rows, std::max<int64_t>(1, 2048 / w_.channels), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        winograd_kernels().kernel({sums.get() + r * w_.channels, w_.rows * w_.channels, parts, all_, w_.channels,
                                   reinterpret_cast<float*>(w_.out) + r * w_.channels * 9});
      }
    });
  }

 private:
  int64_t point_stride(int64_t channels) const { return channels * row_ + kMoveSlack; }

  void add_block(const PixelBlock& b, bool first, float* sums) {
    const int64_t staged_most = std::max(staged_elements(in_plan_, w_.channels), staged_elements(grad_plan_, w_.rows));
    float* staged = scratch<float>(Purpose::staged, staged_most);
    float* input = scratch<float>(Purpose::gathered, kWinogradPoints * point_stride(w_.channels));
    float* grad = scratch<float>(Purpose::accumulator, kWinogradPoints * point_stride(w_.rows));
    float* packed = scratch<float>(Purpose::packed_b, row_ * ceil_div(w_.channels, tiles_.nr) * tiles_.nr + kMoveSlack);
    if (!staged || !input || !grad || !packed) return ok_.store(false, std::memory_order_relaxed);
    transform(in_plan_, w_.in, w_.channels, b, winograd_kernels().input, staged, input);
    transform(grad_plan_, w_.grad, w_.rows, b, winograd_kernels().grad, staged, grad);
    for (int64_t point = 0; point < kWinogradPoints; ++point) {
      gemm_packing().f32.pack_b(DType::Float32, input + point * point_stride(w_.channels), 1, row_, b.count(),
                                w_.channels, packed);
      multiply(b, grad + point * point_stride(w_.rows), packed, first, sums + point * w_.rows * w_.channels);
    }
  }

  // Rows (point, channel) of tiles.
  void transform(const PixelPlan& plan, const Field& field, int64_t channels, const PixelBlock& b,
                 void (*kernel)(const WinogradInputJob&), float* staged, float* out) const {
    Moves moves;
    WinogradInputJob job{};
    PatchJob<float>& p = job.patches;
    p.staged = staged;
    p.channel = plan.staged_channel();
    p.channels = channels;
    p.tap = plan.taps().data();
    p.moves = moves.data();
    p.move_count = plan.moves(b, 0, b.count(), channels, convolution_kernels().f32.lanes, moves.data());
    p.out = out;
    p.out_row = row_;
    job.out_point = point_stride(channels);
    plan.stage(w_.dtype, field, 0, channels, b, staged);
    kernel(job);
  }

  void multiply(const PixelBlock& b, const float* grad, const float* packed, bool first, float* out) const {
    TileJob<float> job{};
    job.rows = w_.rows;
    job.panels = ceil_div(w_.rows, tiles_.mr);
    job.n = w_.channels;
    job.k = b.count();
    job.a = grad;
    job.a_row = row_;
    job.a_k = 1;
    job.b = packed;
    job.b_k = tiles_.nr;
    job.b_panel = tiles_.nr * b.count();
    job.b_edge = packed + w_.channels / tiles_.nr * job.b_panel;
    job.c = out;
    job.c_row = w_.channels;
    job.alpha = 1;
    job.beta = first ? 0 : 1;
    tiles_.multiply(job);
  }

  const WeightGradient& w_;
  const TileKernels<float>& tiles_;
  const Extent grid_;
  const int64_t block_;
  const PixelPlan in_plan_, grad_plan_;
  const int64_t row_, all_;
  std::atomic<bool> ok_{true};
};

// What both directions ask for: 3x3 neighbouring taps, enough channels to pay for the transforms, and enough tiles.
bool serves(DType dtype, int64_t groups, const Extent& step, const std::vector<Tap>& taps, int64_t rows,
            int64_t channels, int64_t batch, const Extent& pixels) {
  if (dtype != DType::Float32 || groups != 1 || step != Extent{1, 1, 1} || taps.size() != 9) return false;
  const Extent first = first_offset(taps);
  for (const Tap& t : taps) {
    if (t.offset[0] != first[0] || t.offset[1] > first[1] + 2 || t.offset[2] > first[2] + 2) return false;
  }
  const Extent grid = tile_grid(pixels);
  return std::min(channels, rows) >= kLeastChannels && std::max(channels, rows) <= kMostChannels &&
         batch * grid[0] * grid[1] * grid[2] >= kLeastTiles && grid[2] < kWideRow &&
         grid[2] <= most_tiles(channels + rows);
}

}  // namespace

bool winograd_serves(const Correlation& c) {
  return serves(c.dtype, c.groups, c.step, c.taps, c.rows, c.channels, c.batch, c.out.size) &&
         (c.weight_channel == 9 || c.weight_row == 9) && c.out.stride[2] == 1;
}

void correlate_winograd(const Correlation& c) { Winograd(c).run(); }

bool winograd_serves(const WeightGradient& w) {
  return serves(w.dtype, w.groups, w.step, w.taps, w.rows, w.channels, w.batch, w.grad.size) &&
         w.rows * w.channels <= kMostWeights;
}

void weight_gradient_winograd(const WeightGradient& w) { WinogradWeight(w).run(); }

}  // namespace tocha::cpu
