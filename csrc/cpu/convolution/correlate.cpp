// Correlation by matrix multiplication: weights [rows, channels x taps] times patches [channels x taps, pixels].
// Patches are gathered for a block of pixels and of channels at a time, straight into the panels that the tiles read.
//
// Where there are many pixels the weights are packed once and the threads share out the pixels. Where there are few,
// the patches are gathered once and the threads share out the rows, so that each reads its own part of the weights.
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution/patches.h"
#include "cpu/convolution/planes.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kDepth = 576;        // (channel, tap) pairs at a time: results are read and written once for each
constexpr int64_t kBlockPixels = 256;  // of a thread that has the patches for itself
constexpr int64_t kFewPixels = 320;    // up to here patches are shared
constexpr int64_t kSharedElements = 1 << 20;
constexpr int64_t kRowBlock = 56;
constexpr int64_t kStraightRows = 32;  // up to here gathering patches costs more than it spares

template <class T>
class Correlator {
 public:
  explicit Correlator(const Correlation& c)
      : c_(c),
        planes_(c),
        tiles_(KernelsOf<T>::tiles()),
        packing_(KernelsOf<T>::packing()),
        gathering_(KernelsOf<T>::patches()),
        few_(is_few()),
        plan_(c.out.size, c.batch, c.step, c.taps, tiles_.nr, few_ ? kMostPixels : block_pixels(), few_),
        taps_(static_cast<int64_t>(c.taps.size())),
        block_channels_(channel_block(c.channels, taps_, kDepth, plan_)),
        affine_(c.weight_channel == taps_),
        direct_(stored_as_computed() && plan_.contiguous_in(c.out)),
        in_place_(meets_in_place(plan_, c.taps, c.step, c.in, c.out.size)),
        straight_(taps_ > 0 && !few_ && !in_place_ && c.rows <= kStraightRows && shares() == 1) {
    for (int64_t t = 0; t < taps_; ++t) {
      tap_weights_.push_back(c.taps[static_cast<size_t>(t)].weight);
      affine_ = affine_ && tap_weights_.back() == t;
    }
    neighbours_ = taps_ > 4 && tap_weights_.back() - tap_weights_.front() == taps_ - 1;
  }

  void run() {
    bias_ = load_bias<T>(c_.dtype, c_.bias, c_.groups * c_.rows);
    if (few_)
      run_by_rows();
    else
      run_by_pixels();
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  struct Share {  // of the channels: one step of the sum
    int64_t first, channels, depth;
  };
  struct Rows {
    int64_t first, count, panels;
  };
  // Where a block of results is summed up: in place, or aside to be converted and distributed.
  struct Target {
    T* data;
    int64_t row;
  };

  bool stored_as_computed() const { return itemsize(c_.dtype) == sizeof(T); }

  bool is_few() const {
    const int64_t pixels = c_.batch * c_.out.pixels();
    const int64_t depth = c_.channels * static_cast<int64_t>(c_.taps.size());
    return c_.groups == 1 && pixels <= kFewPixels && pixels * depth <= kSharedElements && c_.rows >= 2 * tiles_.mr;
  }

  // Blocks small enough that every thread gets several.
  int64_t block_pixels() const {
    const int64_t panels = ceil_div(c_.batch * c_.out.pixels() * c_.groups, tiles_.nr);
    return std::clamp<int64_t>(panels / (2 * num_threads()), 1, kBlockPixels / tiles_.nr) * tiles_.nr;
  }

  int64_t shares() const { return ceil_div(c_.channels, block_channels_); }
  Share share(int64_t i) const {
    const int64_t first = i * block_channels_, channels = std::min(block_channels_, c_.channels - first);
    return {first, channels, channels * taps_};
  }
  int64_t panel_rows() const { return straight_ ? gathering_.sum_rows : tiles_.mr; }
  Rows all_rows() const { return {0, c_.rows, ceil_div(c_.rows, panel_rows())}; }

  const char* weight_at(int64_t group, int64_t row, int64_t channel) const {
    return c_.weight +
           (group * c_.weight_group + row * c_.weight_row + channel * c_.weight_channel) * itemsize(c_.dtype);
  }

  // Weights of some rows as one panel [channel, tap][height]; writes up to kPackSlack elements beyond it.
  void pack_panel(int64_t group, int64_t row, int64_t height, const Share& s, T* out) const {
    if (affine_) {
      packing_.pack_a(c_.dtype, weight_at(group, row, s.first), c_.weight_row, 1, height, 1, s.depth, out);
      return;
    }
    if (neighbours_) {
      for (int64_t c = 0; c < s.channels; ++c, out += height * taps_) {
        const char* from = weight_at(group, row, s.first + c) + tap_weights_[0] * itemsize(c_.dtype);
        packing_.pack_a(c_.dtype, from, c_.weight_row, 1, height, 1, taps_, out);
      }
      return;
    }
    TapJob<T> job{};
    job.dtype = c_.dtype;
    job.weight = weight_at(group, row, s.first);
    job.row = c_.weight_row;
    job.channel = c_.weight_channel;
    job.channels = s.channels;
    job.taps = taps_;
    job.tap = tap_weights_.data();
    job.height = height;
    job.out = out;
    gathering_.pack_taps(job);
  }

  void pack_rows(int64_t group, const Rows& r, const Share& s, T* out) const {
    for (int64_t p = 0; p < r.panels; ++p) {
      const int64_t first = p * r.count / r.panels, height = (p + 1) * r.count / r.panels - first;
      pack_panel(group, r.first + first, height, s, out + first * s.depth);
    }
  }

  int64_t panel_stride(const Share& s) const { return s.depth * tiles_.nr + (in_place_ ? 0 : kMoveSlack); }

  // The pixels of a block as panels, where they are the patches.
  void pack_pixels(int64_t group, const PixelBlock& b, const Share& s, T* out) const {
    const Field& f = c_.in;
    const PixelRun at = plan_.run_at(b.begin, 0, 0);
    const int64_t pixel = (at.z * f.size[1] + at.y) * f.size[2] + at.x;
    const char* from = f.data + (at.image * f.batch_stride + (group * c_.channels + s.first) * f.channel_stride +
                                 pixel * f.stride[2]) *
                                    itemsize(c_.dtype);
    packing_.pack_b(c_.dtype, from, f.channel_stride, f.stride[2], s.depth, b.count(), out);
  }

  // The patches of a block, as panels of nr pixels.
  void gather(const PixelBlock& b, const Share& s, const T* staged, T* out) const {
    Moves moves;
    PatchJob<T> job{};
    job.staged = staged;
    job.channel = plan_.staged_channel();
    job.channels = s.channels;
    job.taps = taps_;
    job.tap = plan_.taps().data();
    job.moves = moves.data();
    job.out = out;
    job.out_row = tiles_.nr;
    for (int64_t p = 0; p < b.count(); p += tiles_.nr, job.out += panel_stride(s)) {
      const int64_t end = std::min(b.count(), p + tiles_.nr);
      if (end - p < tiles_.nr) std::fill_n(job.out, s.depth * tiles_.nr, T(0));
      job.move_count = plan_.moves(b, p, end, s.channels, gathering_.lanes, moves.data());
      gathering_.gather(job);
    }
  }

  // Adds one share's products to the target; the first share begins the sum.
  void multiply(const Rows& r, int64_t columns, const Share& s, const T* weights, bool packed, const T* patches,
                const Target& target) const {
    TileJob<T> job{};
    job.rows = r.count;
    job.panels = r.panels;
    job.n = columns;
    job.k = s.depth;
    job.a = weights;
    job.a_packed = packed;
    job.a_row = c_.weight_row;
    job.a_k = 1;
    job.b = patches;
    job.b_k = tiles_.nr;
    job.b_panel = panel_stride(s);
    job.b_edge = patches + columns / tiles_.nr * panel_stride(s);
    job.c = target.data;
    job.c_row = target.row;
    job.alpha = T(1);
    job.beta = s.first == 0 && !bias_ ? T(0) : T(1);
    packed ? multiply_packed(tiles_, job) : tiles_.multiply(job);
  }

  void begin_with_bias(int64_t group, const Rows& r, int64_t columns, const Target& target) const {
    if (!bias_) return;
    for (int64_t i = 0; i < r.count; ++i) {
      fill_run(target.data + i * target.row, columns, bias_.get()[group * c_.rows + r.first + i]);
    }
  }

  char* out_at(int64_t group, int64_t row, const PixelRun& p) const {
    const Field& f = c_.out;
    return f.data + (p.image * f.batch_stride + (group * c_.rows + row) * f.channel_stride + p.z * f.stride[0] +
                     p.y * f.stride[1] + p.x * f.stride[2]) *
                        itemsize(c_.dtype);
  }

  Target target_of(int64_t group, const Rows& r, const PixelBlock& b) {
    if (direct_) {
      return {reinterpret_cast<T*>(out_at(group, r.first, plan_.run_at(b.begin, 0, 0))), c_.out.channel_stride};
    }
    const int64_t row = ceil_div(b.count(), tiles_.nr) * tiles_.nr;
    return {scratch<T>(Purpose::accumulator, r.count * row), row};
  }

  void finish(int64_t group, const Rows& r, const PixelBlock& b, const Target& target) const {
    if (direct_) return;
    const Field& f = c_.out;
    plan_.for_runs(b, f.evenly_spaced(), [&](const PixelRun& run) {
      packing_.finish(c_.dtype, r.count, run.count, target.data + run.begin, target.row, 1, out_at(group, r.first, run),
                      f.channel_stride, f.stride[2], T(1), T(0));
    });
  }

  // ---- many pixels

  void run_by_pixels() {
    const Memory<T> weights = pack_weights();
    const int64_t blocks = plan_.blocks();
    parallel_for(c_.groups * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const PixelBlock b = plan_.block(i % blocks);
        run_block(i / blocks, b, weights.get());
        planes_.finished(b.begin, b.end, c_.rows);
      }
    });
    planes_.end();
  }

  // All weights in panels, share by share.
  Memory<T> pack_weights() {
    const Rows r = all_rows();
    const int64_t depth = c_.channels * taps_;
    Memory<T> packed = allocate<T>(c_.groups * c_.rows * depth + kPackSlack);
    const int64_t tasks = c_.groups * shares() * r.panels;
    const int64_t grain = std::max<int64_t>(1, kWorkPerThread / 8 * tasks / (c_.groups * c_.rows * depth + 1));
    parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
      // Packing writes beyond a panel's end, where another thread may be at work: hence the detour.
      T* aside = scratch<T>(Purpose::packed_a, panel_rows() * block_channels_ * taps_ + kPackSlack);
      if (!aside) return ok_.store(false, std::memory_order_relaxed);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i % r.panels, group = i / r.panels / shares();
        const Share s = share(i / r.panels % shares());
        const int64_t first = p * r.count / r.panels, height = (p + 1) * r.count / r.panels - first;
        pack_panel(group, first, height, s, aside);
        std::copy_n(aside, height * s.depth, packed_at(packed.get(), group, s) + first * s.depth);
      }
    });
    return packed;
  }
  T* packed_at(T* packed, int64_t group, const Share& s) const {
    return packed + (group * c_.channels + s.first) * taps_ * c_.rows;
  }

  void run_block(int64_t group, const PixelBlock& b, T* weights) {
    const Rows r = all_rows();
    const int64_t panels = ceil_div(b.count(), tiles_.nr);
    T* staged = scratch<T>(Purpose::staged, staged_elements(plan_, block_channels_));
    const Target target = target_of(group, r, b);
    if (!staged || !target.data) return ok_.store(false, std::memory_order_relaxed);
    if (straight_) return run_straight(group, b, weights, staged, target);
    T* patches = scratch<T>(Purpose::packed_b, panels * panel_stride(share(0)));
    if (!patches) return ok_.store(false, std::memory_order_relaxed);
    begin_with_bias(group, r, b.count(), target);
    for (int64_t i = 0; i < shares(); ++i) {
      const Share s = share(i);
      if (in_place_) {
        pack_pixels(group, b, s, patches);
      } else {
        if (taps_ > 0) plan_.stage(c_.dtype, c_.in, group * c_.channels + s.first, s.channels, b, staged);
        gather(b, s, staged, patches);
      }
      multiply(r, b.count(), s, packed_at(weights, group, s), true, patches, target);
    }
    finish(group, r, b, target);
  }

  // Few rows: each panel of them is summed up from the staged pixels themselves.
  void run_straight(int64_t group, const PixelBlock& b, T* weights, T* staged, const Target& target) {
    const Rows r = all_rows();
    const Share s = share(0);
    Moves moves;
    RowsJob<T> job{};
    job.at.staged = staged;
    job.at.taps = taps_;
    job.at.tap = plan_.taps().data();
    job.at.moves = moves.data();
    job.at.move_count = plan_.moves(b, 0, b.count(), s.channels, gathering_.lanes, moves.data());
    job.at.columns = b.count();
    job.channel = plan_.staged_channel();
    job.channels = s.channels;
    job.out_row = target.row;
    plan_.stage(c_.dtype, c_.in, group * c_.channels, s.channels, b, staged);
    for (int64_t p = 0; p < r.panels; ++p) {
      const int64_t first = p * r.count / r.panels;
      job.rows = (p + 1) * r.count / r.panels - first;
      job.weight = packed_at(weights, group, s) + first * s.depth;
      job.start = bias_ ? bias_.get() + group * c_.rows + first : nullptr;
      job.out = target.data + first * target.row;
      gathering_.combine_rows(job);
    }
    finish(group, r, b, target);
  }

  // ---- few pixels

  void run_by_rows() {
    const PixelBlock b = plan_.block(0);
    const int64_t panels = ceil_div(b.count(), tiles_.nr), stride = panels * panel_stride(share(0));
    const Memory<T> patches = allocate<T>(shares() * stride);
    parallel_for(shares(), 1, [&](int64_t begin, int64_t end) {
      T* staged = scratch<T>(Purpose::staged, staged_elements(plan_, block_channels_));
      if (!staged) return ok_.store(false, std::memory_order_relaxed);
      for (int64_t i = begin; i < end; ++i) {
        const Share s = share(i);
        plan_.stage(c_.dtype, c_.in, s.first, s.channels, b, staged);
        gather(b, s, staged, patches.get() + i * stride);
      }
    });
    if (!ok_.load(std::memory_order_relaxed)) return;
    const int64_t threads = num_threads();
    const int64_t most = std::min(kRowBlock, std::max(tiles_.mr, c_.rows / (4 * threads)));
    const int64_t blocks = ceil_div(c_.rows, most);
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i * c_.rows / blocks, count = (i + 1) * c_.rows / blocks - first;
        run_rows({first, count, ceil_div(count, tiles_.mr)}, b, patches.get(), stride);
      }
    });
  }

  void run_rows(const Rows& r, const PixelBlock& b, const T* patches, int64_t patch_stride) {
    const bool in_place = affine_ && stored_as_computed();
    T* packed = nullptr;
    if (!in_place) {
      packed = scratch<T>(Purpose::packed_a, r.count * block_channels_ * taps_ + kPackSlack);
      if (!packed) return ok_.store(false, std::memory_order_relaxed);
    }
    const Target target = target_of(0, r, b);
    if (!target.data) return ok_.store(false, std::memory_order_relaxed);
    begin_with_bias(0, r, b.count(), target);
    for (int64_t i = 0; i < shares(); ++i) {
      const Share s = share(i);
      if (!in_place) pack_rows(0, r, s, packed);
      const T* weights = in_place ? reinterpret_cast<const T*>(weight_at(0, r.first, s.first)) : packed;
      multiply(r, b.count(), s, weights, !in_place, patches + i * patch_stride, target);
    }
    finish(0, r, b, target);
    for (int64_t image = 0; c_.done && image < c_.batch; ++image) tell_of_planes(c_, image, r.first, r.count);
  }

  const Correlation& c_;
  PlaneTracker planes_;
  const TileKernels<T>& tiles_;
  const PackKernels<T>& packing_;
  const PatchKernels<T>& gathering_;
  const bool few_;
  const PixelPlan plan_;
  const int64_t taps_;
  const int64_t block_channels_;
  bool affine_;          // the weights of a row lie in the order of (channel, tap)
  bool neighbours_;      // those of a row and channel do
  const bool direct_;    // results are summed up where they belong
  const bool in_place_;  // patches are pixels
  const bool straight_;  // no patches: taps are read from the staged pixels
  std::vector<int64_t> tap_weights_;
  Memory<T> bias_;
  std::atomic<bool> ok_{true};
};

}  // namespace

void correlate(const Correlation& c) {
  const bool by_channels = c.rows == 1 && c.channels == 1;
  if (by_channels || unit_serves(c)) {
    by_channels ? correlate_channels(c) : correlate_unit(c);
    return tell_of_all_planes(c);
  }
  if (winograd_serves(c)) return correlate_winograd(c);
  if (few_serves(c)) {
    correlate_few(c);
    return tell_of_all_planes(c);
  }
  if (lines_serve(c)) {
    correlate_lines(c);
    return tell_of_all_planes(c);
  }
  with_compute_type(c.dtype, [&](auto t) { Correlator<decltype(t)>(c).run(); });
}

}  // namespace tocha::cpu
