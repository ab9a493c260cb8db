// Correlation with 3x3 kernels by Winograd's algorithm, in float32: per tile of 2x2 results 16 products instead of 36,
// or per tile of 4x4 results 36 instead of 144, as so many matrix products over blocks of tiles. The gradient for the
// weight is the same computation transposed. A kernel of several planes is the sum of as many 3x3 kernels: the channels
// of the pictures that its planes meet stand side by side, and one product sums over all of them.
//
// Threads share out the tiles. Where these are few, most of the work is in the weights, and the threads share out the
// rows (output channels) instead: each transforms and reads its own weights only, and meets all tiles.
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution/patches.h"
#include "cpu/convolution/planes.h"
#include "cpu/convolution/winograd_kernels.h"
#include "cpu/engine/lanes.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kLeastChannels = 32;
constexpr int64_t kMostChannels = 512;
constexpr int64_t kLeastTiles = 24;                  // in the batch
constexpr int64_t kFewTiles = 64;                    // up to here the rows are shared out
constexpr int64_t kMostWeights = 1 << 14;            // whose gradient is summed by each thread for itself
constexpr int64_t kScratchElements = 3 * (1 << 17);  // of transformed tiles, per thread
constexpr int64_t kKernelsAtOnce = 16;

// Elements from one point of the transforms to the next, for n elements of each: transforms write to all points at
// once, which must not all fall into the same sets of the first cache.
int64_t point_stride(int64_t n) { return ceil_div(n, 1024) * 1024 + 32; }

// Products that are summed in a row, of sums that are short or long.
constexpr int64_t kShortSum = 128, kShortPiece = 32, kPiece = 64;

struct Range {
  int64_t first, count;
};

// The transforms magnify what a sum has lost: it is made of pieces, each summed for itself. Pieces of 32 cost a tenth
// more time than pieces of 64 and lose a quarter less, which counts where a plain sum is short and loses little.
void multiply_in_pieces(const TileKernels<float>& tiles, const TileJob<float>& job) {
  const int64_t depth = job.k <= kShortSum ? kShortPiece : kPiece;
  // Where lanes of packed columns multiply faster than single elements do, and there is enough to multiply with.
  float* packed = tiles.vector_bytes < 32 && job.a_k == 1 && job.n >= 4 * tiles.nr
                      ? scratch<float>(Purpose::vector, job.rows * depth + kPackSlack)
                      : nullptr;
  const bool lanes = packed != nullptr;
  for (int64_t at = 0; at < job.k; at += depth) {
    TileJob<float> piece = job;
    piece.k = std::min(depth, job.k - at);
    piece.a += at * job.a_k;
    piece.b += at * job.b_k;
    piece.b_edge += at * tiles.nr;
    if (at) piece.beta = 1;
    if (lanes) {
      gemm_packing().f32.pack_a(DType::Float32, piece.a, job.a_row, job.a_k, job.rows, job.panels, piece.k, packed);
      piece.a = packed;
      piece.a_packed = true;
    }
    tiles.multiply(piece);
  }
}

// Where the kernel begins, counted from the output pixel.
Extent first_offset(const std::vector<Tap>& taps) {
  Extent first = taps[0].offset;
  for (const Tap& t : taps) {
    for (size_t d = 0; d < 3; ++d) first[d] = std::min(first[d], t.offset[d]);
  }
  return first;
}

// Large tiles need fewer products, unless they reach too far beyond the picture.
const WinogradTransforms& transforms_for(const Extent& pixels) {
  const WinogradKernels& k = winograd_kernels();
  auto products = [&](const WinogradTransforms& t) {
    return ceil_div(pixels[1], t.tile) * ceil_div(pixels[2], t.tile) * (t.tile + 2) * (t.tile + 2);
  };
  return 5 * products(k.large) <= 4 * products(k.small) ? k.large : k.small;
}

// The tiles of a batch: lines of tiles that lie side by side, numbered through image, depth and height.
class Tiling {
 public:
  Tiling(const Extent& pixels, int64_t batch)
      : transforms(transforms_for(pixels)),
        size(pixels),
        across(ceil_div(pixels[2], transforms.tile)),
        down(ceil_div(pixels[1], transforms.tile)),
        lines(batch * pixels[0] * down) {}

  int64_t side() const { return transforms.tile; }
  int64_t points() const { return (side() + 2) * (side() + 2); }
  int64_t tiles() const { return lines * across; }

  // f(image, z, first line in the picture, lines, first tile of the block) for each picture that some lines belong to.
  template <class F>
  void for_pictures(const Range& block, F f) const {
    for (int64_t line = block.first, end = block.first + block.count; line < end;) {
      const int64_t picture = line / down, next = std::min(end, (picture + 1) * down);
      f(picture / size[0], picture % size[0], line % down, next - line, (line - block.first) * across);
      line = next;
    }
  }

  const WinogradTransforms& transforms;
  const Extent size;  // of a picture of results
  const int64_t across, down, lines;
};

// Brings the pixels that a block of tiles meets side by side, with their channels: pixel 0 is all zeros. Names the
// pixels of each tile, which begin `first` beyond the tile's own place and reach `beyond` farther than its results.
class TileReader {
 public:
  TileReader(const Tiling& tiling, const Field& field, const Extent& first, int64_t beyond)
      : tiling_(tiling), field_(field), first_(first), beyond_(beyond), edge_(tiling.side() + beyond) {}

  int64_t most_pixels(int64_t lines) const {
    const int64_t pictures = std::min(lines, lines / tiling_.down + 2);
    return 1 + (tiling_.side() * lines + beyond_ * pictures) * field_.size[2];
  }

  // Transforms the block's tiles with one of the kernels; job says where to.
  void transform(const Range& block, const Range& channels, void (*kernel)(const WinogradTileJob&), WinogradTileJob job,
                 float* staged, int32_t* names) const {
    std::fill_n(staged, channels.count, 0.0f);
    int64_t pixels = 1;
    tiling_.for_pictures(block, [&](int64_t image, int64_t z, int64_t line, int64_t lines, int64_t tile) {
      z += first_[0];
      const int64_t side = tiling_.side(), top = side * line + first_[1], bottom = top + side * lines + beyond_;
      const int64_t begin = std::clamp<int64_t>(top, 0, field_.size[1]);
      const int64_t end = z < 0 || z >= field_.size[0] ? begin : std::clamp<int64_t>(bottom, begin, field_.size[1]);
      load(image, z, begin, end, channels, staged + pixels * channels.count);
      int32_t* name = names + tile * edge_ * edge_;
      for (int64_t i = 0; i < lines; ++i) {
        for (int64_t x = 0; x < tiling_.across; ++x, name += edge_ * edge_) {
          name_pixels(pixels, begin, end, top + side * i, side * x + first_[2], name);
        }
      }
      pixels += (end - begin) * field_.size[2];
    });
    job.in = staged;
    job.pixel = names;
    job.tiles = block.count * tiling_.across;
    job.channels = channels.count;
    kernel(job);
  }

 private:
  // Lines [begin, end) of a picture. Packing writes beyond its end; what follows is written later.
  void load(int64_t image, int64_t z, int64_t begin, int64_t end, const Range& channels, float* out) const {
    const Field& f = field_;
    const float* from = reinterpret_cast<const float*>(f.data) + image * f.batch_stride +
                        channels.first * f.channel_stride + z * f.stride[0] + begin * f.stride[1];
    const bool even = f.stride[1] == f.size[2] * f.stride[2];
    const int64_t pieces = even ? 1 : end - begin, pixels = (even ? end - begin : 1) * f.size[2];
    for (int64_t i = 0; i < pieces; ++i, from += f.stride[1], out += pixels * channels.count) {
      gemm_packing().f32.pack_a(DType::Float32, from, f.channel_stride, f.stride[2], channels.count, 1, pixels, out);
    }
  }

  void name_pixels(int64_t pixels, int64_t begin, int64_t end, int64_t top, int64_t left, int32_t* name) const {
    const int64_t width = field_.size[2];
    for (int64_t y = top; y < top + edge_; ++y) {
      const bool inside = y >= begin && y < end;
      for (int64_t x = left; x < left + edge_; ++x) {
        *name++ = inside && x >= 0 && x < width ? static_cast<int32_t>(pixels + (y - begin) * width + x) : 0;
      }
    }
  }

  const Tiling& tiling_;
  const Field& field_;
  const Extent first_;
  const int64_t beyond_, edge_;
};

// How many lines of tiles to take at once: what their transforms take up fits the second-level cache, and every thread
// gets as many blocks. `channels` are those of both sides.
int64_t line_blocks(const Tiling& tiling, int64_t channels) {
  const int64_t most = std::max<int64_t>(1, kScratchElements / tiling.points() / channels / tiling.across);
  const int64_t threads = num_threads();
  return std::min(tiling.lines, ceil_div(ceil_div(tiling.lines, most), threads) * threads);
}
Range line_block(const Tiling& tiling, int64_t i, int64_t blocks) {
  const int64_t first = i * tiling.lines / blocks;
  return {first, (i + 1) * tiling.lines / blocks - first};
}
int64_t longest_block(const Tiling& tiling, int64_t blocks) { return ceil_div(tiling.lines, blocks); }

bool splits_rows(const Tiling& tiling, int64_t rows) {
  return tiling.tiles() <= kFewTiles && rows >= 2 * kLeastChannels && num_threads() > 1 && !in_parallel_region();
}

class Winograd {
 public:
  explicit Winograd(const Correlation& c)
      : c_(c),
        planes_(c),
        tiles_(gemm_tiles().f32),
        tiling_(c.out.size, c.batch),
        taps_(static_cast<int64_t>(c.taps.size())),
        depth_(taps_ / 9 * c.channels),
        by_rows_(splits_rows(tiling_, c.rows)),
        blocks_(by_rows_ ? 1 : line_blocks(tiling_, depth_ + c.rows)),
        most_tiles_(longest_block(tiling_, blocks_) * tiling_.across),
        place_(c.taps.size()) {
    const Extent first = first_offset(c.taps);
    for (int64_t plane = 0; plane < taps_ / 9; ++plane) {
      readers_.emplace_back(tiling_, c.in, Extent{first[0] + plane, first[1], first[2]}, 2);
    }
    for (const Tap& t : c.taps) {
      const int64_t plane = t.offset[0] - first[0], y = t.offset[1] - first[1], x = t.offset[2] - first[2];
      place_[static_cast<size_t>(plane * 9 + y * 3 + x)] = t.weight;
    }
  }

  void run() {
    by_rows_ ? run_by_rows() : run_by_tiles();
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

  int64_t prepared_size() const { return panels() * panel_elements(); }
  void prepare(float* out) {
    const int64_t parts = ceil_div(c_.channels, kKernelsAtOnce);
    parallel_for(panels() * parts, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % parts * kKernelsAtOnce, panel = i / parts;
        transform_weights(panel, {first, std::min(kKernelsAtOnce, c_.channels - first)},
                          out + panel * panel_elements());
      }
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  int64_t panels() const { return ceil_div(c_.rows, tiles_.nr); }
  int64_t weight_point() const { return point_stride(depth_ * tiles_.nr); }
  int64_t input_point() const { return point_stride(most_tiles_ * depth_); }
  int64_t panel_elements() const { return tiling_.points() * weight_point(); }

  void run_by_tiles() {
    const Memory<float> own = c_.prepared ? Memory<float>() : allocate<float>(prepared_size());
    if (!c_.prepared) prepare(own.get());
    const float* weights = c_.prepared ? c_.prepared : own.get();
    parallel_for(blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Range block = line_block(tiling_, i, blocks_);
        if (const float* input = transform_input(block)) run_panels(block, {0, panels()}, weights, input);
      }
    });
    planes_.end();
  }

  void run_by_rows() {
    const Range all{0, tiling_.lines};
    for_lanes(panels(), lane_count(panels(), 1), [&](int, int64_t begin, int64_t end) {
      const float* input = transform_input(all);
      float* own = c_.prepared ? nullptr : scratch<float>(Purpose::packed_a, panel_elements());
      if (!input || (!c_.prepared && !own)) return ok_.store(false, std::memory_order_relaxed);
      for (int64_t panel = begin; panel < end; ++panel) {
        for (int64_t c = 0; own && c < c_.channels; c += kKernelsAtOnce) {
          transform_weights(panel, {c, std::min(kKernelsAtOnce, c_.channels - c)}, own);
        }
        run_panels(all, {panel, 1}, own ? own : c_.prepared + panel * panel_elements(), input);
      }
    });
  }

  // The transformed kernels of a panel of rows, for some channels: out is [point][plane, channel][row of the panel].
  void transform_weights(int64_t panel, const Range& channels, float* out) {
    const int64_t nr = tiles_.nr, row = panel * nr, count = std::min(nr, c_.rows - row);
    float* taps = scratch<float>(Purpose::vector, kKernelsAtOnce * taps_ * nr + kMoveSlack);
    if (!taps) return ok_.store(false, std::memory_order_relaxed);
    const float* weight = reinterpret_cast<const float*>(c_.weight) + row * c_.weight_row;
    const bool together = c_.weight_channel == taps_;  // all kernels of a row lie side by side
    if (together) {
      gemm_packing().f32.pack_b(DType::Float32, weight + channels.first * taps_, 1, c_.weight_row,
                                channels.count * taps_, count, taps);
    }
    for (int64_t i = 0; i < channels.count; ++i) {
      const int64_t c = channels.first + i;
      if (!together) {
        gemm_packing().f32.pack_b(DType::Float32, weight + c * c_.weight_channel, 1, c_.weight_row, taps_, count, taps);
      }
      const float* from = taps + (together ? i * taps_ * nr : 0);
      for (int64_t plane = 0; plane < taps_ / 9; ++plane) {
        tiling_.transforms.weights(
            {from, nr, place_.data() + plane * 9, nr, out + (plane * c_.channels + c) * nr, weight_point()});
      }
    }
  }

  // This thread's [point][tile][plane, channel], or null.
  const float* transform_input(const Range& block) {
    const int64_t pixels = readers_[0].most_pixels(block.count);
    float* staged = scratch<float>(Purpose::staged, pixels * c_.channels + kPackSlack);
    float* out = scratch<float>(Purpose::packed_b, tiling_.points() * input_point());
    int32_t* names = scratch<int32_t>(Purpose::gathered, most_tiles_ * tiling_.points());
    if (!staged || !out || !names) {
      ok_.store(false, std::memory_order_relaxed);
      return nullptr;
    }
    WinogradTileJob job{};
    job.out = out;
    job.out_point = input_point();
    job.panel = job.out_panel = tiles_.nr;
    job.out_tile = depth_;
    for (const TileReader& reader : readers_) {
      reader.transform(block, {0, c_.channels}, tiling_.transforms.input, job, staged, names);
      job.out += c_.channels;
    }
    return out;
  }

  void run_panels(const Range& block, const Range& panels, const float* weights, const float* input) {
    const int64_t nr = tiles_.nr, tiles = block.count * tiling_.across;
    const Range rows{panels.first * nr, std::min(c_.rows, (panels.first + panels.count) * nr) - panels.first * nr};
    const int64_t side = tiling_.side(), pixels = side * side * tiles + 1;
    const int64_t point_products = point_stride(tiles * rows.count);
    float* products = scratch<float>(Purpose::accumulator, tiling_.points() * point_products);
    float* results = scratch<float>(Purpose::staged, pixels * rows.count);
    int32_t* names = scratch<int32_t>(Purpose::gathered, side * side * tiles);
    if (!products || !results || !names) return ok_.store(false, std::memory_order_relaxed);
    for (int64_t point = 0; point < tiling_.points(); ++point) {
      multiply(tiles, rows.count, input + point * input_point(), weights + point * weight_point(),
               products + point * point_products);
    }
    name_results(block, names);
    tiling_.transforms.results({products, point_products, names, tiles, rows.count,
                                c_.bias ? reinterpret_cast<const float*>(c_.bias) + rows.first : nullptr, results});
    write(block, rows, results);
    if (!by_rows_) return tell_of_pictures(block, rows.count);
    for (int64_t image = 0; c_.done && image < c_.batch; ++image) tell_of_planes(c_, image, rows.first, rows.count);
  }

  void tell_of_pictures(const Range& block, int64_t rows) {
    tiling_.for_pictures(block, [&](int64_t image, int64_t, int64_t line, int64_t lines, int64_t) {
      const int64_t side = tiling_.side(), height = std::min(side * lines, c_.out.size[1] - side * line);
      planes_.finished(image, rows * height * c_.out.size[2]);
    });
  }

  void multiply(int64_t tiles, int64_t rows, const float* input, const float* weights, float* out) const {
    TileJob<float> job{};
    job.rows = tiles;
    job.panels = ceil_div(tiles, tiles_.mr);
    job.n = rows;
    job.k = depth_;
    job.a = input;
    job.a_row = depth_;
    job.a_k = 1;
    job.b = weights;
    job.b_k = tiles_.nr;
    job.b_panel = panel_elements();
    job.b_edge = weights + rows / tiles_.nr * job.b_panel;
    job.c = out;
    job.c_row = rows;
    job.alpha = 1;
    multiply_in_pieces(tiles_, job);
  }

  // Where the results of each tile go: pixel 0 is for those outside of the picture.
  void name_results(const Range& block, int32_t* name) const {
    int64_t pixels = 1;
    const int64_t side = tiling_.side(), width = tiling_.size[2];
    tiling_.for_pictures(block, [&](int64_t, int64_t, int64_t line, int64_t lines, int64_t) {
      const int64_t height = std::min(side * lines, tiling_.size[1] - side * line);
      for (int64_t i = 0; i < lines * tiling_.across; ++i) {
        const int64_t top = i / tiling_.across * side, left = i % tiling_.across * side;
        for (int64_t y = top; y < top + side; ++y) {
          for (int64_t x = left; x < left + side; ++x) {
            *name++ = y < height && x < width ? static_cast<int32_t>(pixels + y * width + x) : 0;
          }
        }
      }
      pixels += height * width;
    });
  }

  void write(const Range& block, const Range& rows, const float* results) const {
    const Field& f = c_.out;
    const int64_t side = tiling_.side();
    const float* from = results + rows.count;
    tiling_.for_pictures(block, [&](int64_t image, int64_t z, int64_t line, int64_t lines, int64_t) {
      const int64_t height = std::min(side * lines, f.size[1] - side * line), width = f.size[2];
      float* to = reinterpret_cast<float*>(f.data) + image * f.batch_stride + rows.first * f.channel_stride +
                  z * f.stride[0] + side * line * f.stride[1];
      const bool even = f.stride[1] == width * f.stride[2];
      const int64_t pieces = even ? 1 : height, pixels = (even ? height : 1) * width;
      for (int64_t i = 0; i < pieces; ++i, from += pixels * rows.count, to += f.stride[1]) {
        if (f.channel_stride == 1) {
          for (int64_t p = 0; p < pixels; ++p) std::copy_n(from + p * rows.count, rows.count, to + p * f.stride[2]);
        } else {
          winograd_kernels().planes({from, pixels, rows.count, to, f.channel_stride});
        }
      }
    });
  }

  const Correlation& c_;
  PlaneTracker planes_;
  const TileKernels<float>& tiles_;
  const Tiling tiling_;
  const int64_t taps_;
  const int64_t depth_;  // planes of the kernel x channels
  const bool by_rows_;
  const int64_t blocks_;
  const int64_t most_tiles_;         // of a block
  std::vector<int64_t> place_;       // of each tap in the weights
  std::vector<TileReader> readers_;  // of each plane
  std::atomic<bool> ok_{true};
};

// The gradient for the weight: what reaches the transformed kernels, summed over tiles, transformed back.
class WinogradWeight {
 public:
  explicit WinogradWeight(const WeightGradient& w)
      : w_(w),
        tiles_(gemm_tiles().f32),
        tiling_(w.grad.size, w.batch),
        input_(tiling_, w.in, first_offset(w.taps), 2),
        grad_(tiling_, w.grad, {0, 0, 0}, 0),
        by_rows_(splits_rows(tiling_, w.rows)),
        blocks_(by_rows_ ? 1 : line_blocks(tiling_, w.channels + w.rows)),
        most_tiles_(longest_block(tiling_, blocks_) * tiling_.across) {}

  void run() {
    by_rows_ ? run_by_rows() : run_by_tiles();
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  void run_by_tiles() {
    const int parts = static_cast<int>(std::min<int64_t>(lane_count(blocks_, 1), blocks_));
    const int64_t point = point_stride(w_.rows * w_.channels), all = tiling_.points() * point;
    const Memory<float> sums = allocate<float>(parts * all);
    for_lanes(blocks_, parts, [&](int part, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Range block = line_block(tiling_, i, blocks_);
        if (const float* input = transform_input(block)) {
          add_rows(block, {0, w_.rows}, input, i == begin, sums.get() + part * all, point);
        }
      }
    });
    if (!ok_.load(std::memory_order_relaxed)) return;
    parallel_for(w_.rows, std::max<int64_t>(1, 2048 / w_.channels), [&](int64_t begin, int64_t end) {
      gather_kernels({begin, end - begin}, sums.get() + begin * w_.channels, point, parts, all);
    });
  }

  void run_by_rows() {
    const Range all{0, tiling_.lines};
    for_lanes(w_.rows, lane_count(w_.rows, tiles_.mr), [&](int, int64_t begin, int64_t end) {
      const int64_t most = 2 * tiles_.mr, point = point_stride(most * w_.channels);
      const float* input = transform_input(all);
      float* sums = scratch<float>(Purpose::packed_a, tiling_.points() * point);
      if (!input || !sums) return ok_.store(false, std::memory_order_relaxed);
      for (int64_t i = begin; i < end; i += most) {
        const Range rows{i, std::min(most, end - i)};
        add_rows(all, rows, input, true, sums, point);
        gather_kernels(rows, sums, point, 1, 0);
      }
    });
  }

  int64_t input_point() const { return point_stride(most_tiles_ * ceil_div(w_.channels, tiles_.nr) * tiles_.nr); }

  // This thread's [point][panel of channels][tile][channel of the panel], or null.
  const float* transform_input(const Range& block) {
    float* out = scratch<float>(Purpose::packed_b, tiling_.points() * input_point());
    WinogradTileJob job{};
    job.out = out;
    job.out_point = input_point();
    job.panel = job.out_tile = tiles_.nr;
    job.out_panel = block.count * tiling_.across * tiles_.nr;
    const bool done = out && transform(input_, block, {0, w_.channels}, tiling_.transforms.input, job);
    return done ? out : nullptr;
  }

  bool transform(const TileReader& reader, const Range& block, const Range& channels,
                 void (*kernel)(const WinogradTileJob&), const WinogradTileJob& job) {
    float* staged = scratch<float>(Purpose::staged, reader.most_pixels(block.count) * channels.count + kPackSlack);
    int32_t* names = scratch<int32_t>(Purpose::gathered, most_tiles_ * tiling_.points());
    if (!staged || !names) {
      ok_.store(false, std::memory_order_relaxed);
      return false;
    }
    reader.transform(block, channels, kernel, job, staged, names);
    return true;
  }

  // sums[point][row][channel] (+)= the transformed gradient times the transformed input.
  void add_rows(const Range& block, const Range& rows, const float* input, bool first, float* sums, int64_t sum_point) {
    const int64_t tiles = block.count * tiling_.across;
    WinogradTileJob job{};
    job.out_point = point_stride(tiles * rows.count);
    float* grad = scratch<float>(Purpose::accumulator, tiling_.points() * job.out_point);
    job.out = grad;
    job.panel = job.out_panel = tiles_.nr;
    job.out_tile = rows.count;
    if (!grad || !transform(grad_, block, rows, tiling_.transforms.grad, job)) {
      return ok_.store(false, std::memory_order_relaxed);
    }
    for (int64_t point = 0; point < tiling_.points(); ++point) {
      multiply(tiles, rows.count, grad + point * job.out_point, input + point * input_point(), first,
               sums + point * sum_point);
    }
  }

  void multiply(int64_t tiles, int64_t rows, const float* grad, const float* input, bool first, float* out) const {
    TileJob<float> job{};
    job.rows = rows;
    job.panels = ceil_div(rows, tiles_.mr);
    job.n = w_.channels;
    job.k = tiles;
    job.a = grad;
    job.a_row = 1;
    job.a_k = rows;
    job.b = input;
    job.b_k = tiles_.nr;
    job.b_panel = tiles_.nr * tiles;
    job.b_edge = input + w_.channels / tiles_.nr * job.b_panel;
    job.c = out;
    job.c_row = w_.channels;
    job.alpha = 1;
    job.beta = first ? 0 : 1;
    multiply_in_pieces(tiles_, job);
  }

  void gather_kernels(const Range& rows, const float* sums, int64_t point, int64_t parts, int64_t part) const {
    for (int64_t i = 0; i < rows.count; ++i) {
      tiling_.transforms.kernel({sums + i * w_.channels, point, parts, part, w_.channels,
                                 reinterpret_cast<float*>(w_.out) + (rows.first + i) * w_.channels * 9});
    }
  }

  const WeightGradient& w_;
  const TileKernels<float>& tiles_;
  const Tiling tiling_;
  const TileReader input_, grad_;
  const bool by_rows_;
  const int64_t blocks_;
  const int64_t most_tiles_;
  std::atomic<bool> ok_{true};
};

// What both directions ask for: planes of 3x3 neighbouring taps, enough channels to pay for the transforms, and enough
// tiles.
bool serves(DType dtype, int64_t groups, const Extent& step, const std::vector<Tap>& taps, int64_t rows,
            int64_t channels, const Tiling& tiling) {
  const int64_t planes = static_cast<int64_t>(taps.size()) / 9, depth = planes * channels;
  if (dtype != DType::Float32 || groups != 1 || step != Extent{1, 1, 1} || taps.size() % 9 != 0 || planes == 0)
    return false;
  const Extent first = first_offset(taps);
  for (const Tap& t : taps) {
    if (t.offset[0] >= first[0] + planes || t.offset[1] > first[1] + 2 || t.offset[2] > first[2] + 2) return false;
  }
  return std::min(channels, rows) >= kLeastChannels && std::max(depth, rows) <= kMostChannels &&
         tiling.tiles() >= kLeastTiles && tiling.across * tiling.points() * (depth + rows) <= 2 * kScratchElements;
}

}  // namespace

bool winograd_serves(const Correlation& c) {
  const int64_t taps = static_cast<int64_t>(c.taps.size());
  return serves(c.dtype, c.groups, c.step, c.taps, c.rows, c.channels, Tiling(c.out.size, c.batch)) &&
         (c.weight_channel == taps || c.weight_row == taps) && (c.out.stride[2] == 1 || c.out.channel_stride == 1);
}

void correlate_winograd(const Correlation& c) { Winograd(c).run(); }

int64_t winograd_prepared_size(const Correlation& c) {
  const bool other = (c.rows == 1 && c.channels == 1) || unit_serves(c) || !winograd_serves(c);
  return other ? 0 : Winograd(c).prepared_size();
}
void winograd_prepare(const Correlation& c, float* out) { Winograd(c).prepare(out); }

bool winograd_serves(const WeightGradient& w) {
  const Tiling tiling(w.grad.size, w.batch);
  return w.taps.size() == 9 && serves(w.dtype, w.groups, w.step, w.taps, w.rows, w.channels, tiling) &&
         (w.rows * w.channels <= kMostWeights || splits_rows(tiling, w.rows));
}

void weight_gradient_winograd(const WeightGradient& w) { WinogradWeight(w).run(); }

}  // namespace tocha::cpu
