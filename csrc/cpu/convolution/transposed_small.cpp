// Transposed convolution of few pixels: the pixels [pixels, channels] times the weight [channels, rows x taps], as it
// lies in memory, give what each pixel sends to every place of the kernel; then those are added up where they fall.
// Threads share out the rows of the result.
#include <atomic>
#include <numeric>

#include "core/parallel.h"
#include "cpu/convolution/patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kDepth = 256;    // channels at a time
constexpr int64_t kColumns = 512;  // (row, tap) pairs at a time
constexpr int64_t kFewPixels = 64;
constexpr int64_t kFewStridedPixels = 320;  // strided correlations are slower
constexpr int64_t kSharedElements = 1 << 20;
const std::vector<Tap> kOneTap = {{{0, 0, 0}, 0}};

template <class T>
class Spreader {
 public:
  explicit Spreader(const Spreading& s)
      : s_(s),
        tiles_(KernelsOf<T>::tiles()),
        packing_(KernelsOf<T>::packing()),
        gathering_(KernelsOf<T>::patches()),
        plan_(s.in.size, s.batch, {1, 1, 1}, kOneTap, tiles_.nr, kMostPixels, true),
        taps_(static_cast<int64_t>(s.taps.size())),
        pixels_(s.batch * s.in.pixels()),
        depth_(ceil_div(s.channels, ceil_div(s.channels, kDepth))) {}

  void run() {
    bias_ = load_bias<T>(s_.dtype, s_.bias, s_.rows);
    gather_pixels();
    place_targets();
    // Rows whose weights fill whole panels, so that they can be read in place.
    const int64_t unit = tiles_.nr / std::gcd(tiles_.nr, taps_);
    const int64_t share = std::max<int64_t>(1, std::min(kColumns / taps_, s_.rows / (2 * num_threads())) / unit) * unit;
    parallel_for(ceil_div(s_.rows, share), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_rows(i * share, std::min(s_.rows, (i + 1) * share));
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  // All pixels of all images side by side, channel by channel.
  void gather_pixels() {
    const PixelBlock all = plan_.block(0);
    pixel_values_ = allocate<T>(s_.channels * pixels_ + kMoveSlack);
    Moves moves;
    PatchJob<T> job{};
    job.channel = plan_.staged_channel();
    job.taps = 1;
    job.tap = plan_.taps().data();
    job.moves = moves.data();
    job.out_row = pixels_;
    T* staged = scratch<T>(Purpose::staged, staged_elements(plan_, depth_));
    if (!staged) throw std::bad_alloc();
    job.staged = staged;
    for (int64_t c = 0; c < s_.channels; c += depth_) {
      job.channels = std::min(depth_, s_.channels - c);
      job.move_count = plan_.moves(all, 0, pixels_, job.channels, gathering_.lanes, moves.data());
      job.out = pixel_values_.get() + c * pixels_;
      plan_.stage(s_.dtype, s_.in, c, job.channels, all, staged);
      gathering_.gather(job);
    }
  }

  void run_rows(int64_t first, int64_t last) {
    const int64_t count = (last - first) * taps_;
    const int64_t columns = ceil_div(count, tiles_.nr) * tiles_.nr;
    const bool in_place = itemsize(s_.dtype) == sizeof(T) && count == columns;
    T* weights = scratch<T>(Purpose::packed_b, in_place ? 1 : columns * depth_);
    T* sent = scratch<T>(Purpose::accumulator, pixels_ * columns);
    T* pictures = scratch<T>(Purpose::gathered, s_.batch * (s_.out.pixels() + 1));
    if (!weights || !sent || !pictures) return ok_.store(false, std::memory_order_relaxed);
    const int64_t all_columns = s_.rows * taps_;
    for (int64_t c = 0; c < s_.channels; c += depth_) {
      TileJob<T> job{};
      job.rows = pixels_;
      job.panels = ceil_div(pixels_, tiles_.mr);
      job.n = count;
      job.k = std::min(depth_, s_.channels - c);
      job.a = pixel_values_.get() + c * pixels_;
      job.a_row = 1;
      job.a_k = pixels_;
      const char* from = s_.weight + (c * all_columns + first * taps_) * itemsize(s_.dtype);
      if (in_place) {
        job.b = reinterpret_cast<const T*>(from);
        job.b_k = all_columns;
        job.b_panel = tiles_.nr;
      } else {
        packing_.pack_b(s_.dtype, from, all_columns, 1, job.k, count, weights);
        job.b = weights;
        job.b_k = tiles_.nr;
        job.b_panel = tiles_.nr * job.k;
        job.b_edge = weights + count / tiles_.nr * job.b_panel;
      }
      job.c = sent;
      job.c_row = columns;
      job.alpha = T(1);
      job.beta = c == 0 ? T(0) : T(1);
      tiles_.multiply(job);
    }
    for (int64_t r = first; r < last; ++r) add_up(r, sent + (r - first) * taps_, columns, pictures);
  }

  // Where in a picture each pixel's value for each tap falls; those that fall outside go behind its end.
  void place_targets() {
    const Extent &in = s_.in.size, &out = s_.out.size;
    targets_.reserve(static_cast<size_t>(s_.in.pixels() * taps_));
    for (int64_t p = 0; p < s_.in.pixels(); ++p) {
      const Extent at{p / in[2] / in[1], p / in[2] % in[1], p % in[2]};
      for (const Tap& tap : s_.taps) {
        int64_t target = 0;
        bool inside = true;
        for (size_t d = 0; d < 3; ++d) {
          const int64_t x = at[d] * s_.stride[d] + tap.offset[d];
          inside = inside && x >= 0 && x < out[d];
          target = target * out[d] + x;
        }
        targets_.push_back(inside ? target : s_.out.pixels());
      }
    }
  }

  // One row of all images, from what all pixels (`step` elements apart) sent to each tap.
  void add_up(int64_t row, const T* sent, int64_t step, T* pictures) const {
    const Field& f = s_.out;
    const int64_t picture = f.pixels() + 1, size = itemsize(s_.dtype);
    fill_run(pictures, s_.batch * picture, bias_ ? bias_.get()[row] : T(0));
    for (int64_t n = 0; n < s_.batch; ++n) {
      T* to = pictures + n * picture;
      const int64_t* target = targets_.data();
      for (int64_t p = 0; p < s_.in.pixels(); ++p, sent += step) {
        for (int64_t t = 0; t < taps_; ++t) to[*target++] += sent[t];
      }
      char* image = f.data + (n * f.batch_stride + row * f.channel_stride) * size;
      for (int64_t z = 0; z < f.size[0]; ++z) {
        packing_.finish(s_.dtype, f.size[1], f.size[2], to + z * f.size[1] * f.size[2], f.size[2], 1,
                        image + z * f.stride[0] * size, f.stride[1], f.stride[2], T(1), T(0));
      }
    }
  }

  const Spreading& s_;
  const TileKernels<T>& tiles_;
  const PackKernels<T>& packing_;
  const PatchKernels<T>& gathering_;
  const PixelPlan plan_;
  const int64_t taps_;
  const int64_t pixels_;
  const int64_t depth_;
  std::vector<int64_t> targets_;
  Memory<T> bias_, pixel_values_;
  std::atomic<bool> ok_{true};
};

}  // namespace

bool spreads_well(const Spreading& s) {
  const int64_t pixels = s.batch * s.in.pixels();
  const int64_t most = s.stride == Extent{1, 1, 1} ? kFewPixels : kFewStridedPixels;
  return pixels <= most && pixels * s.channels <= kSharedElements && s.channels >= 32 && s.rows >= 32;
}

void spread(const Spreading& s) {
  with_compute_type(s.dtype, [&](auto t) { Spreader<decltype(t)>(s).run(); });
}

}  // namespace tocha::cpu
