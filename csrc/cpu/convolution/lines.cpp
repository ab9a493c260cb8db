// Correlation of volumes with strides, line by line: with the channels of a pixel side by side, what neighbouring taps
// of the kernel meet in a line of pixels lies side by side too, and is the left operand of a matrix product as it is:
// no patches are gathered. A line of results has its channels side by side as well, until its plane is complete.
#include <algorithm>
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution/patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kLeastChannels = 16;      // of the input
constexpr int64_t kShortestLine = 6;        // or tiles would be too low
constexpr int64_t kMostElements = 1 << 20;  // of an image: it is read again for each panel of rows
constexpr int64_t kMostResults = 4096;      // pixels that are summed up at a time

// Taps side by side in a line: `count` of them from `first` on, which are one product.
struct TapRun {
  size_t first;
  int64_t count;
};

template <class T>
class LineCorrelator {
 public:
  explicit LineCorrelator(const Correlation& c)
      : c_(c),
        tiles_(KernelsOf<T>::tiles()),
        packing_(KernelsOf<T>::packing()),
        taps_(c.taps),
        panels_(ceil_div(c.rows, tiles_.nr)),
        panel_elements_(c.channels * static_cast<int64_t>(taps_.size()) * tiles_.nr) {
    auto place = [](const Tap& t) { return t.offset; };
    std::sort(taps_.begin(), taps_.end(), [&](const Tap& a, const Tap& b) { return place(a) < place(b); });
    int64_t least = 0, most = 0;
    for (size_t t = 0; t < taps_.size(); ++t) {
      const Extent at = taps_[t].offset;
      const bool goes_on = t > 0 && place(taps_[t - 1]) == Extent{at[0], at[1], at[2] - 1};
      goes_on ? void(++runs_.back().count) : runs_.push_back({t, 1});
      least = std::min(least, at[2]);
      most = std::max(most, at[2]);
    }
    left_ = -least;
    const int64_t end = (c.out.size[2] - 1) * c.step[2] + most + 1;
    line_ = (left_ + std::max(end, c.in.size[2])) * c.channels;
    plane_ = c.in.size[1] * line_ + kPackSlack;
  }

  void run() {
    bias_ = allocate<T>(c_.groups * panels_ * tiles_.nr);
    pixels_ = allocate<T>(c_.batch * c_.groups * c_.in.size[0] * plane_);
    weights_ = allocate<T>(c_.groups * panels_ * panel_elements_ + kPackSlack);
    load_biases();
    const int64_t planes = c_.batch * c_.groups * c_.in.size[0];
    parallel_for(planes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) load_plane(i);
    });
    parallel_for(c_.groups * panels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) load_weights(i / panels_, i % panels_);
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
    run_blocks();
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  // Lines [begin, end) of one plane of results.
  struct Lines {
    int64_t image, group, z, begin, end;
  };

  int64_t rows_of(int64_t panel) const { return std::min(tiles_.nr, c_.rows - panel * tiles_.nr); }

  void load_biases() {
    const Memory<T> given = load_bias<T>(c_.dtype, c_.bias, c_.groups * c_.rows);
    const int64_t width = panels_ * tiles_.nr;
    std::fill_n(bias_.get(), c_.groups * width, T(0));
    for (int64_t g = 0; given && g < c_.groups; ++g)
      std::copy_n(given.get() + g * c_.rows, c_.rows, bias_.get() + g * width);
  }

  // A plane of an image and group as [line][pixel][channel], with zeros before and after each line. Packing writes
  // beyond a line's end, into what comes next.
  void load_plane(int64_t i) {
    const Field& f = c_.in;
    const int64_t z = i % f.size[0], group = i / f.size[0] % c_.groups, image = i / f.size[0] / c_.groups;
    T* to = pixels_.get() + i * plane_;
    for (int64_t y = 0; y < f.size[1]; ++y, to += line_) {
      const int64_t at =
          image * f.batch_stride + group * c_.channels * f.channel_stride + z * f.stride[0] + y * f.stride[1];
      T* first = std::fill_n(to, left_ * c_.channels, T(0));
      packing_.pack_a(c_.dtype, f.data + at * itemsize(c_.dtype), f.channel_stride, f.stride[2], c_.channels, 1,
                      f.size[2], first);
      std::fill(first + f.size[2] * c_.channels, to + line_, T(0));
    }
  }

  // The weights of some rows as [tap][channel][row], with zeros for the rows that fill up the panel.
  void load_weights(int64_t group, int64_t panel) {
    const int64_t size = itemsize(c_.dtype), part = c_.channels * tiles_.nr;
    T* room = scratch<T>(Purpose::packed_b, part + kPackSlack);
    if (!room) return ok_.store(false, std::memory_order_relaxed);
    T* out = weights_.get() + (group * panels_ + panel) * panel_elements_;
    for (const Tap& tap : taps_) {
      const int64_t at = group * c_.weight_group + panel * tiles_.nr * c_.weight_row + tap.weight;
      packing_.pack_b(c_.dtype, c_.weight + at * size, c_.weight_channel, c_.weight_row, c_.channels, rows_of(panel),
                      room);
      out = std::copy_n(room, part, out);
    }
  }

  // Threads share out blocks of lines; the panels of rows of one block follow each other, while its pixels are near.
  void run_blocks() {
    const Extent& size = c_.out.size;
    const int64_t planes = c_.batch * c_.groups * size[0];
    const int64_t wanted = ceil_div(4 * num_threads(), planes);
    const int64_t fit = std::max<int64_t>(1, kMostResults / size[2]);
    const int64_t lines = std::clamp<int64_t>(ceil_div(size[1], wanted), 1, fit);
    const int64_t blocks = ceil_div(size[1], lines);
    parallel_for(planes * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t plane = i / blocks, first = i % blocks * lines;
        const Lines block{plane / size[0] / c_.groups, plane / size[0] % c_.groups, plane % size[0], first,
                          std::min(first + lines, size[1])};
        for (int64_t p = 0; p < panels_; ++p) run_panel(block, p);
      }
    });
  }

  void run_panel(const Lines& l, int64_t panel) {
    const int64_t nr = tiles_.nr, pixels = (l.end - l.begin) * c_.out.size[2];
    T* sums = scratch<T>(Purpose::accumulator, pixels * nr);
    T* turned = scratch<T>(Purpose::gathered, pixels * nr + kPackSlack);
    if (!sums || !turned) return ok_.store(false, std::memory_order_relaxed);
    const int64_t own = l.group * panels_ + panel;
    for (int64_t p = 0; p < pixels; ++p) std::copy_n(bias_.get() + own * nr, nr, sums + p * nr);
    for (const TapRun& run : runs_) add_taps(l, run, weights_.get() + own * panel_elements_, sums);
    write(l, panel, sums, turned);
  }

  void add_taps(const Lines& l, const TapRun& run, const T* weights, T* sums) const {
    const Extent &in = c_.in.size, &offset = taps_[run.first].offset;
    const int64_t z = l.z * c_.step[0] + offset[0];
    if (z < 0 || z >= in[0]) return;
    TileJob<T> job{};
    job.rows = c_.out.size[2];
    job.panels = ceil_div(job.rows, tiles_.mr);
    job.n = tiles_.nr;
    job.k = run.count * c_.channels;
    job.a_row = c_.step[2] * c_.channels;
    job.a_k = 1;
    job.b = weights + static_cast<int64_t>(run.first) * c_.channels * tiles_.nr;
    job.b_k = tiles_.nr;
    job.c_row = tiles_.nr;
    job.alpha = job.beta = T(1);
    const T* plane = pixels_.get() + ((l.image * c_.groups + l.group) * in[0] + z) * plane_;
    for (int64_t line = l.begin; line < l.end; ++line) {
      const int64_t y = line * c_.step[1] + offset[1];
      if (y < 0 || y >= in[1]) continue;
      job.a = plane + y * line_ + (left_ + offset[2]) * c_.channels;
      job.c = sums + (line - l.begin) * job.rows * tiles_.nr;
      tiles_.multiply(job);
    }
  }

  void write(const Lines& l, int64_t panel, const T* sums, T* turned) const {
    const Field& f = c_.out;
    const int64_t nr = tiles_.nr, rows = rows_of(panel), width = f.size[2], size = itemsize(c_.dtype);
    const int64_t lines = l.end - l.begin, pixels = lines * width;
    char* out = f.data + (l.image * f.batch_stride + (l.group * c_.rows + panel * nr) * f.channel_stride +
                          l.z * f.stride[0] + l.begin * f.stride[1]) *
                             size;
    const bool last = f.channel_stride == 1, together = f.stride[1] == width * f.stride[2];
    const int64_t piece = together ? pixels : width;
    if (!last) packing_.pack_a(compute_dtype<T>(), sums, nr, 1, pixels, 1, rows, turned);
    for (int64_t p = 0; p < pixels; p += piece, out += f.stride[1] * size) {
      if (last)
        packing_.finish(c_.dtype, piece, rows, sums + p * nr, nr, 1, out, f.stride[2], 1, T(1), T(0));
      else
        packing_.finish(c_.dtype, rows, piece, turned + p, pixels, 1, out, f.channel_stride, f.stride[2], T(1), T(0));
    }
  }

  const Correlation& c_;
  const TileKernels<T>& tiles_;
  const PackKernels<T>& packing_;
  std::vector<Tap> taps_;
  std::vector<TapRun> runs_;
  const int64_t panels_, panel_elements_;
  int64_t left_, line_, plane_;  // zeros before a line; elements of a line and of a plane
  Memory<T> bias_, pixels_, weights_;
  std::atomic<bool> ok_{true};
};

}  // namespace

bool lines_serve(const Correlation& c) {
  const int64_t nr = gemm_tiles().f32.nr, filled = ceil_div(c.rows, nr) * nr;
  return c.in.size[0] > 1 && c.step[2] > 1 && c.taps.size() > 2 && c.channels >= kLeastChannels &&
         4 * c.rows >= 3 * filled && c.out.size[2] >= kShortestLine && c.channels * c.in.pixels() <= kMostElements;
}

void correlate_lines(const Correlation& c) {
  with_compute_type(c.dtype, [&](auto t) { LineCorrelator<decltype(t)>(c).run(); });
}

}  // namespace tocha::cpu
