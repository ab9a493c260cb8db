// Transposed convolution with strides, line by line: with the channels of a pixel side by side, what a line of pixels
// sends to one place of the kernel is a matrix product whose results lie `stride` pixels apart in a line of the
// result, and is added to them there. Threads share out the images and the rows (channels of the result).
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution/patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kLeastChannels = 32;      // of both sides
constexpr int64_t kShortestLine = 6;        // or tiles would be too low
constexpr int64_t kMostElements = 1 << 18;  // of a plane, which is added to many times
constexpr int64_t kMostPlanes = 8;          // as many elements as so large ones have

template <class T>
class LineSpreader {
 public:
  explicit LineSpreader(const Spreading& s)
      : s_(s),
        tiles_(KernelsOf<T>::tiles()),
        packing_(KernelsOf<T>::packing()),
        taps_(static_cast<int64_t>(s.taps.size())),
        panels_(ceil_div(s.rows, tiles_.nr)),
        image_(s.in.pixels() * s.channels) {}

  void run() {
    bias_ = load_bias<T>(s_.dtype, s_.bias, s_.rows);
    pixels_ = allocate<T>(s_.batch * image_);
    weights_ = allocate<T>(panels_ * panel_elements());
    parallel_for(s_.batch + panels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) i < s_.batch ? load_image(i) : load_weights(i - s_.batch);
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
    parallel_for(s_.batch * panels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_panel(i / panels_, i % panels_);
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  int64_t panel_elements() const { return s_.channels * taps_ * tiles_.nr; }
  int64_t rows_of(int64_t panel) const { return std::min(tiles_.nr, s_.rows - panel * tiles_.nr); }

  // [pixel][channel]; packing writes beyond the end of its room.
  void load_image(int64_t n) {
    const Field& f = s_.in;
    T* room = scratch<T>(Purpose::staged, f.piece() * s_.channels + kPackSlack);
    if (!room) return ok_.store(false, std::memory_order_relaxed);
    f.for_pieces([&](int64_t p, int64_t at) {
      const char* from = f.data + (n * f.batch_stride + at) * itemsize(s_.dtype);
      packing_.pack_a(s_.dtype, from, f.channel_stride, f.stride[2], s_.channels, 1, f.piece(), room);
      std::copy_n(room, f.piece() * s_.channels, pixels_.get() + n * image_ + p * s_.channels);
    });
  }

  // [channel][tap][row], with zeros for the rows that fill up the panel.
  void load_weights(int64_t panel) {
    const int64_t rows = rows_of(panel);
    T* room = scratch<T>(Purpose::packed_a, taps_ * tiles_.nr + kPackSlack);
    if (!room) return ok_.store(false, std::memory_order_relaxed);
    T* out = weights_.get() + panel * panel_elements();
    for (int64_t c = 0; c < s_.channels; ++c) {
      const char* from = s_.weight + (c * s_.rows + panel * tiles_.nr) * taps_ * itemsize(s_.dtype);
      packing_.pack_a(s_.dtype, from, taps_, 1, rows, 1, taps_, room);
      for (int64_t t = 0; t < taps_; ++t, out += tiles_.nr) {
        std::fill(std::copy_n(room + t * rows, rows, out), out + tiles_.nr, T(0));
      }
    }
  }

  void run_panel(int64_t n, int64_t panel) {
    const int64_t nr = tiles_.nr, rows = rows_of(panel), pixels = s_.out.pixels();
    T* picture = scratch<T>(Purpose::accumulator, pixels * nr);
    T* planes = scratch<T>(Purpose::gathered, pixels * nr + kPackSlack);
    if (!picture || !planes) return ok_.store(false, std::memory_order_relaxed);
    std::fill_n(picture, pixels * nr, T(0));
    if (bias_) {
      for (int64_t p = 0; p < pixels; ++p) std::copy_n(bias_.get() + panel * nr, rows, picture + p * nr);
    }
    for (int64_t z = 0; z < s_.in.size[0]; ++z) {
      for (int64_t t = 0; t < taps_; ++t) add_tap(n, z, weights_.get() + panel * panel_elements() + t * nr, t, picture);
    }
    write(n, panel, picture, planes);
  }

  // What all lines of a plane of an image send to one place of the kernel.
  void add_tap(int64_t n, int64_t plane, const T* weights, int64_t t, T* picture) const {
    const Extent &in = s_.in.size, &out = s_.out.size, &stride = s_.stride,
                 &to = s_.taps[static_cast<size_t>(t)].offset;
    const auto [begin, end] = meetings(in[2], out[2], stride[2], to[2]);
    const int64_t z = plane * stride[0] + to[0];
    if (begin >= end || z < 0 || z >= out[0]) return;
    TileJob<T> job{};
    job.rows = end - begin;
    job.panels = ceil_div(job.rows, tiles_.mr);
    job.n = tiles_.nr;
    job.k = s_.channels;
    job.a_row = s_.channels;
    job.a_k = 1;
    job.b = weights;
    job.b_k = taps_ * tiles_.nr;
    job.c_row = stride[2] * tiles_.nr;
    job.alpha = job.beta = T(1);
    for (int64_t line = 0; line < in[1]; ++line) {
      const int64_t y = line * stride[1] + to[1];
      if (y < 0 || y >= out[1]) continue;
      job.a = pixels_.get() + n * image_ + ((plane * in[1] + line) * in[2] + begin) * s_.channels;
      job.c = picture + ((z * out[1] + y) * out[2] + begin * stride[2] + to[2]) * tiles_.nr;
      tiles_.multiply(job);
    }
  }

  void write(int64_t n, int64_t panel, const T* picture, T* planes) const {
    const Field& f = s_.out;
    const int64_t nr = tiles_.nr, rows = rows_of(panel), pixels = f.pixels(), size = itemsize(s_.dtype);
    char* out = f.data + (n * f.batch_stride + panel * nr * f.channel_stride) * size;
    const bool last = f.channel_stride == 1;
    if (!last) packing_.pack_a(compute_dtype<T>(), picture, nr, 1, pixels, 1, rows, planes);
    f.for_pieces([&](int64_t p, int64_t at) {
      char* to = out + at * size;
      if (last)
        packing_.finish(s_.dtype, f.piece(), rows, picture + p * nr, nr, 1, to, f.stride[2], 1, T(1), T(0));
      else
        packing_.finish(s_.dtype, rows, f.piece(), planes + p, pixels, 1, to, f.channel_stride, f.stride[2], T(1),
                        T(0));
    });
  }

  const Spreading& s_;
  const TileKernels<T>& tiles_;
  const PackKernels<T>& packing_;
  const int64_t taps_, panels_, image_;
  Memory<T> bias_, pixels_, weights_;
  std::atomic<bool> ok_{true};
};

}  // namespace

bool lines_serve(const Spreading& s) {
  // Pixels that only one place of the kernel comes to are not added to.
  const bool adds = static_cast<int64_t>(s.taps.size()) > s.stride[0] * s.stride[1] * s.stride[2];
  const int64_t most = adds ? kMostPlanes * kMostElements : kMostElements;
  auto fits = [&](const Field& f, int64_t width) {
    return f.size[1] * f.size[2] * width <= kMostElements && f.pixels() * width <= most;
  };
  return s.stride[1] * s.stride[2] > 1 && s.taps.size() > 1 && std::min(s.rows, s.channels) >= kLeastChannels &&
         s.in.size[2] >= kShortestLine && fits(s.out, gemm_tiles().f32.nr) && fits(s.in, s.channels);
}

void spread_lines(const Spreading& s) {
  with_compute_type(s.dtype, [&](auto t) { LineSpreader<decltype(t)>(s).run(); });
}

}  // namespace tocha::cpu
