// The gradient of a convolution for its weight: grad [rows, pixels] times transposed patches [pixels, channels x taps],
// summed over blocks of pixels. Threads share out the channels, or, where the weight is small, the pixels.
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "cpu/convolution/patches.h"
#include "cpu/engine/lanes.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kDepth = 288;        // columns at a time
constexpr int64_t kBlockPixels = 288;  // and rows of patches
constexpr int64_t kSmallWeight = 1 << 16;
constexpr int64_t kFewColumns = 160;

template <class T>
class WeightSum {
 public:
  explicit WeightSum(const WeightGradient& w)
      : w_(w),
        tiles_(KernelsOf<T>::tiles()),
        packing_(KernelsOf<T>::packing()),
        gathering_(KernelsOf<T>::patches()),
        plan_(w.grad.size, w.batch, w.step, w.taps, 1, kBlockPixels),
        taps_(static_cast<int64_t>(w.taps.size())),
        columns_(w.channels * taps_),
        block_channels_(channel_block(w.channels, taps_, kDepth, plan_)),
        in_place_(meets_in_place(plan_, w.taps, w.step, w.in, w.grad.size)),
        grad_in_place_(itemsize(w.dtype) == sizeof(T) && columns_ <= kFewColumns && w.grad.stride[2] == 1 &&
                       w.grad.evenly_spaced() && !plan_.crosses_images()) {}

  void run() {
    const int64_t weights = w_.rows * columns_, all = w_.groups * weights;
    const int64_t work = all * w_.batch * w_.grad.pixels();
    const int lanes = lane_count(work, kWorkPerThread);
    const bool direct = itemsize(w_.dtype) == sizeof(T);
    const int64_t shares = ceil_div(w_.channels, block_channels_);
    const bool split_pixels = w_.groups * shares < 4 * lanes || (w_.groups < 2 * lanes && weights <= kSmallWeight);
    const int parts = split_pixels ? static_cast<int>(std::min<int64_t>(lanes, plan_.blocks())) : 1;

    const int64_t aside = direct ? (parts - 1) * all : parts * all;
    const Memory<T> sums = aside ? allocate<T>(aside) : Memory<T>();
    T* first = direct ? reinterpret_cast<T*>(w_.out) : sums.get();
    T* others = direct ? sums.get() : sums.get() + all;
    if (parts > 1) {
      for_lanes(plan_.blocks(), parts, [&](int lane, int64_t begin, int64_t end) {
        T* to = lane == 0 ? first : others + (lane - 1) * all;
        for (int64_t g = 0; g < w_.groups; ++g) add_up(g, 0, w_.channels, begin, end, to + g * weights);
      });
      add_parts(first, others, parts - 1, all);
    } else {
      parallel_for(w_.groups * shares, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end;) {
          const int64_t g = i / shares, last = std::min(end, (g + 1) * shares);
          add_up(g, i % shares * block_channels_, std::min(w_.channels, (last - g * shares) * block_channels_), 0,
                 plan_.blocks(), first + g * weights);
          i = last;
        }
      });
    }
    if (!direct) packing_.finish(w_.dtype, 1, all, first, all, 1, w_.out, all, 1, T(1), T(0));
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  static void add_parts(T* to, const T* parts, int64_t count, int64_t n) {
    parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t p = 0; p < count; ++p) {
        for (int64_t i = begin; i < end; ++i) to[i] += parts[p * n + i];
      }
    });
  }

  T* scratch(Purpose purpose, int64_t n) {
    T* p = static_cast<T*>(work_buffer(purpose, n * static_cast<int64_t>(sizeof(T))));
    if (!p) ok_.store(false, std::memory_order_relaxed);
    return p;
  }

  // out[row, (channel, tap)] = the sum over some blocks of pixels, for channels [first, last).
  void add_up(int64_t group, int64_t first, int64_t last, int64_t block, int64_t last_block, T* out) {
    const int64_t most = plan_.largest_block();
    const int64_t wide = ceil_div(block_channels_ * taps_, tiles_.nr) * tiles_.nr;
    T* grads = scratch(Purpose::packed_a, w_.rows * most + kPackSlack);
    T* staged = scratch(Purpose::staged, staged_elements(plan_, block_channels_));
    T* rows = scratch(Purpose::gathered, wide * most + kMoveSlack);
    T* patches = scratch(Purpose::packed_b, wide * most + kMoveSlack);
    if (!grads || !staged || !rows || !patches) return;
    for (int64_t i = block; i < last_block; ++i) {
      const PixelBlock b = plan_.block(i);
      if (!grad_in_place_) pack_grads(group, b, grads);
      for (int64_t c = first; c < last; c += block_channels_) {
        const int64_t channels = std::min(block_channels_, last - c);
        if (in_place_) {
          pack_pixels(group, b, c, channels, patches);
        } else {
          plan_.stage(w_.dtype, w_.in, group * w_.channels + c, channels, b, staged);
          gather(b, channels, staged, rows, patches);
        }
        multiply(group, b, channels, grads, patches, i == block, out + c * taps_);
      }
    }
  }

  static const char* pixel_at(const Field& f, int64_t channel, const PixelRun& r, int64_t size) {
    return f.data + (r.image * f.batch_stride + channel * f.channel_stride + r.z * f.stride[0] + r.y * f.stride[1] +
                     r.x * f.stride[2]) *
                        size;
  }

  // The pixels of a block as panels [pixel][columns], where they are the patches.
  void pack_pixels(int64_t group, const PixelBlock& b, int64_t first, int64_t channels, T* out) const {
    const char* from = pixel_at(w_.in, group * w_.channels + first, plan_.run_at(b.begin, 0, 0), itemsize(w_.dtype));
    packing_.pack_b(w_.dtype, from, w_.in.stride[2], w_.in.channel_stride, b.count(), channels, out);
  }

  // grad's rows in panels [pixel][height].
  void pack_grads(int64_t group, const PixelBlock& b, T* out) const {
    const Field& f = w_.grad;
    const int64_t panels = ceil_div(w_.rows, tiles_.mr);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t first = p * w_.rows / panels, height = (p + 1) * w_.rows / panels - first;
      plan_.for_runs(b, f.evenly_spaced(), [&](const PixelRun& r) {
        packing_.pack_a(w_.dtype, pixel_at(f, group * w_.rows + first, r, itemsize(w_.dtype)), f.channel_stride,
                        f.stride[2], height, 1, r.count, out + first * b.count() + r.begin * height);
      });
    }
  }

  // Patches as rows (channel, tap) of pixels, then turned into panels [pixel][columns].
  void gather(const PixelBlock& b, int64_t channels, const T* staged, T* rows, T* out) const {
    Moves moves;
    PatchJob<T> job{};
    job.staged = staged;
    job.channel = plan_.staged_channel();
    job.channels = channels;
    job.taps = taps_;
    job.tap = plan_.taps().data();
    job.moves = moves.data();
    job.move_count = plan_.moves(b, 0, b.count(), channels, gathering_.lanes, moves.data());
    job.out = rows;
    job.out_row = b.count();
    gathering_.gather(job);
    packing_.pack_b(compute_dtype<T>(), rows, 1, b.count(), b.count(), channels * taps_, out);
  }

  void multiply(int64_t group, const PixelBlock& b, int64_t channels, const T* grads, const T* patches, bool first,
                T* out) const {
    TileJob<T> job{};
    job.rows = w_.rows;
    job.panels = ceil_div(w_.rows, tiles_.mr);
    job.n = channels * taps_;
    job.k = b.count();
    job.a = grads;
    job.a_packed = !grad_in_place_;
    if (grad_in_place_) {
      const char* from = pixel_at(w_.grad, group * w_.rows, plan_.run_at(b.begin, 0, 0), itemsize(w_.dtype));
      job.a = reinterpret_cast<const T*>(from);
      job.a_row = w_.grad.channel_stride;
      job.a_k = 1;
    }
    job.b = patches;
    job.b_k = tiles_.nr;
    job.b_panel = tiles_.nr * b.count();
    job.b_edge = patches + job.n / tiles_.nr * job.b_panel;
    job.c = out;
    job.c_row = columns_;
    job.alpha = T(1);
    job.beta = first ? T(0) : T(1);
    grad_in_place_ ? tiles_.multiply(job) : multiply_packed(tiles_, job);
  }

  const WeightGradient& w_;
  const TileKernels<T>& tiles_;
  const PackKernels<T>& packing_;
  const PatchKernels<T>& gathering_;
  const PixelPlan plan_;
  const int64_t taps_, columns_;
  const int64_t block_channels_;
  const bool in_place_;       // patches are pixels
  const bool grad_in_place_;  // too few columns to pay for packing
  std::atomic<bool> ok_{true};
};

}  // namespace

void weight_gradient(const WeightGradient& w) {
  if (w.rows == 1 && w.channels == 1) return weight_gradient_of_channels(w);
  if (unit_serves(w) && weight_gradient_unit(w)) return;
  if (winograd_serves(w)) return weight_gradient_winograd(w);
  with_compute_type(w.dtype, [&](auto t) { WeightSum<decltype(t)>(w).run(); });
}

}  // namespace tocha::cpu
