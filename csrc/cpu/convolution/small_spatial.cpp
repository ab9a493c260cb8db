// Convolution of few pixels, tap by tap. Each tap is a matrix product of its own: its weights [rows, channels], read
// where they lie, times the pixels that it meets [channels, pixels]; then the products are added up where they fall.
// What a tap meets beyond the picture costs nothing: of 3x3 pixels a kernel of 3x3 meets 49, not 81. And nothing is
// copied that is as large as the weights, which are most of the work here.
//
// Correlations and transposed convolutions differ in their pairs of pixels only. Threads share out the rows.
#include <atomic>
#include <limits>

#include "core/parallel.h"
#include "cpu/convolution/patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kDepth = 64;          // channels at a time: the weights of a few rows stay in the first cache
constexpr int64_t kDepthOfRuns = 32;    // likewise, where channels are so far apart that they meet in few sets of it
constexpr int64_t kMostSums = 1 << 17;  // of products, per thread
constexpr int64_t kMostColumns = 2048;  // of all taps, in a block of images
constexpr int64_t kFewPixels = 64;
constexpr int64_t kSharedElements = 1 << 20;

struct Pair {
  int64_t from, to;  // element of an image of in, pixel of a picture of out
};
struct TapPairs {
  int64_t weight;
  std::vector<Pair> pairs;
};

// A correlation or a transposed convolution: out[n, r, to] += weight[r, c, tap] * in[n, c, from] for the pairs of a
// tap.
struct Sum {
  DType dtype;
  int64_t batch, rows, channels;
  const Field &in, &out;
  std::vector<TapPairs> taps;
  const char* weight;
  int64_t weight_row, weight_channel;
  const char* bias;
};

// For all pixels of `walked`, the pixel of `met` at step * pixel + offset: f(walked pixel, met pixel).
template <class F>
void for_meetings(const Extent& walked, const Extent& met, const Extent& step, const Extent& offset, F f) {
  Extent at{}, there{};
  auto along = [&](size_t d, auto&& inner) {
    const Span span = meetings(walked[d], met[d], step[d], offset[d]);
    for (at[d] = span.begin; at[d] < span.end; ++at[d]) {
      there[d] = at[d] * step[d] + offset[d];
      inner();
    }
  };
  along(0, [&] { along(1, [&] { along(2, [&] { f(at, there); }); }); });
}

int64_t element(const Field& f, const Extent& at) {
  return at[0] * f.stride[0] + at[1] * f.stride[1] + at[2] * f.stride[2];
}
int64_t pixel(const Field& f, const Extent& at) { return (at[0] * f.size[1] + at[1]) * f.size[2] + at[2]; }

Sum sum_of(const Correlation& c) {
  Sum s{c.dtype, c.batch, c.rows, c.channels, c.in, c.out, {}, c.weight, c.weight_row, c.weight_channel, c.bias};
  for (const Tap& tap : c.taps) {
    TapPairs t{tap.weight, {}};
    for_meetings(c.out.size, c.in.size, c.step, tap.offset, [&](const Extent& here, const Extent& there) {
      t.pairs.push_back({element(c.in, there), pixel(c.out, here)});
    });
    if (!t.pairs.empty()) s.taps.push_back(std::move(t));
  }
  return s;
}

Sum sum_of(const Spreading& c) {
  const int64_t taps = static_cast<int64_t>(c.taps.size());
  Sum s{c.dtype, c.batch, c.rows, c.channels, c.in, c.out, {}, c.weight, taps, c.rows * taps, c.bias};
  for (const Tap& tap : c.taps) {
    TapPairs t{tap.weight, {}};
    for_meetings(c.in.size, c.out.size, c.stride, tap.offset, [&](const Extent& here, const Extent& there) {
      t.pairs.push_back({element(c.in, here), pixel(c.out, there)});
    });
    if (!t.pairs.empty()) s.taps.push_back(std::move(t));
  }
  return s;
}

// The columns of some images' products: those of each tap side by side, in whole vectors.
struct Columns {
  struct Range {
    int64_t first, count;
  };
  std::vector<Range> parts;      // columns of each tap
  std::vector<int64_t> taps;     // of each vector
  std::vector<Range> groups;     // of vectors, as many as are summed up at once
  std::vector<int32_t> sources;  // of each column: element of in, counted from the first image
  std::vector<int32_t> targets;  // pixel of out, counted likewise; without the gaps between parts
  int64_t lanes;

  Columns(const Sum& s, int64_t images, int64_t lanes_of_vector, int64_t most_vectors) : lanes(lanes_of_vector) {
    for (const TapPairs& tap : s.taps) {
      parts.push_back({width(), images * static_cast<int64_t>(tap.pairs.size())});
      for (int64_t n = 0; n < images; ++n) {
        for (const Pair& p : tap.pairs) {
          sources.push_back(static_cast<int32_t>(n * s.in.batch_stride + p.from));
          targets.push_back(static_cast<int32_t>(n * s.out.pixels() + p.to));
        }
      }
      taps.resize(static_cast<size_t>(ceil_div(static_cast<int64_t>(sources.size()), lanes)), tap.weight);
      sources.resize(static_cast<size_t>(width()), sources.back());  // the rest of a vector is not used
    }
    const int64_t count = ceil_div(vectors(), most_vectors);
    for (int64_t g = 0; g < count; ++g) {
      const int64_t first = g * vectors() / count;
      groups.push_back({first, (g + 1) * vectors() / count - first});
    }
  }

  int64_t vectors() const { return static_cast<int64_t>(taps.size()); }
  int64_t width() const { return vectors() * lanes; }
};

template <class T>
class FewPixels {
 public:
  explicit FewPixels(const Sum& s)
      : s_(s),
        packing_(KernelsOf<T>::packing()),
        kernels_(KernelsOf<T>::patches()),
        images_(images_per_block(s)),
        blocks_(ceil_div(s.batch, images_)),
        whole_(s, images_, kernels_.lanes, kernels_.sum_vectors),
        last_(s, s.batch - (blocks_ - 1) * images_, kernels_.lanes, kernels_.sum_vectors),
        by_rows_(s.weight_row > s.weight_channel),
        depth_(ceil_div(s.channels, ceil_div(s.channels, by_rows_ ? kDepth : kDepthOfRuns))),
        in_place_(itemsize(s.dtype) == sizeof(T)) {}

  void run() {
    bias_ = load_bias<T>(s_.dtype, s_.bias, s_.rows);
    pixels_ = allocate<T>(blocks_ * s_.channels * whole_.width());
    const int64_t steps = ceil_div(s_.channels, depth_);
    parallel_for(blocks_ * steps, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) gather(i / steps, i % steps * depth_);
    });
    parallel_for(blocks_ * shares(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t share = i % shares();
        run_rows(i / shares(), share * s_.rows / shares(), (share + 1) * s_.rows / shares());
      }
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  static int64_t images_per_block(const Sum& s) {
    int64_t columns = 1;
    for (const TapPairs& t : s.taps) columns += static_cast<int64_t>(t.pairs.size());
    const int64_t most = std::clamp<int64_t>(kMostColumns / columns, 1, s.batch);
    return ceil_div(s.batch, ceil_div(s.batch, most));
  }

  const Columns& columns(int64_t block) const { return block + 1 < blocks_ ? whole_ : last_; }
  int64_t depth_at(int64_t channel) const { return std::min(depth_, s_.channels - channel); }
  // [group of vectors][channel][column] of some channels.
  T* pixels_at(int64_t block, int64_t channel) const {
    return pixels_.get() + block * s_.channels * whole_.width() + channel * columns(block).width();
  }
  const char* weight_at(int64_t row, int64_t channel) const {
    return s_.weight + (row * s_.weight_row + channel * s_.weight_channel) * itemsize(s_.dtype);
  }

  void gather(int64_t block, int64_t channel) const {
    const Columns& c = columns(block);
    const Field& f = s_.in;
    GatherJob<T> job{};
    job.dtype = s_.dtype;
    job.in = f.data + (block * images_ * f.batch_stride + channel * f.channel_stride) * itemsize(s_.dtype);
    job.channel = f.channel_stride;
    job.channels = depth_at(channel);
    for (const Columns::Range& group : c.groups) {
      job.columns = group.count * c.lanes;
      job.sources = c.sources.data() + group.first * c.lanes;
      job.out = pixels_at(block, channel) + group.first * c.lanes * job.channels;
      kernels_.gather_columns(job);
    }
  }

  // Where a row's weights lie side by side, few rows are taken through all channels. Where a channel's do, many rows
  // are taken through few channels, so that the weights are read in runs in either case.
  int64_t shares() const {
    if (by_rows_) return ceil_div(s_.rows, kernels_.sum_rows);
    const int64_t most = std::min(kMostSums / whole_.width(), s_.rows / (2 * num_threads()));
    return ceil_div(s_.rows, std::max(most, kernels_.sum_rows));
  }

  void run_rows(int64_t block, int64_t first, int64_t last) {
    const Columns& c = columns(block);
    T* sums = scratch<T>(Purpose::accumulator, (last - first) * c.width());
    T* weights = scratch<T>(Purpose::packed_a, in_place_ ? 1 : depth_ * kernels_.sum_rows * taps_stride() + kPackSlack);
    if (!sums || !weights) return ok_.store(false, std::memory_order_relaxed);
    const int64_t panels = ceil_div(last - first, kernels_.sum_rows);
    auto panel_row = [&](int64_t panel) { return first + panel * (last - first) / panels; };
    for (int64_t channel = 0; channel < s_.channels; channel += depth_) {
      for (int64_t i = 0; i < panels; ++i) {
        const int64_t row = panel_row(i);
        multiply(block, row, panel_row(i + 1) - row, channel, weights, sums + (row - first) * c.width());
      }
    }
    for (int64_t i = 0; i < panels; ++i) {
      const int64_t row = panel_row(i);
      add_up(block, row, panel_row(i + 1) - row, sums + (row - first) * c.width());
    }
  }

  // A few rows and channels of one block of images.
  void multiply(int64_t block, int64_t row, int64_t height, int64_t channel, T* weights, T* sums) const {
    const Columns& c = columns(block);
    TapSumJob<T> job{};
    job.rows = height;
    job.k = depth_at(channel);
    if (in_place_) {
      job.a = reinterpret_cast<const T*>(weight_at(row, channel));
      job.a_row = s_.weight_row;
      job.a_k = s_.weight_channel;
    } else {
      copy_weights(row, height, channel, job.k, weights);
      job.a = weights;
      job.a_row = by_rows_ ? job.k * s_.weight_channel : s_.weight_row;
      job.a_k = by_rows_ ? s_.weight_channel : height * s_.weight_row;
    }
    job.c_row = c.width();
    job.first = channel == 0;
    const T* pixels = pixels_at(block, channel);
    for (const Columns::Range& group : c.groups) {
      job.vectors = group.count;
      job.taps = c.taps.data() + group.first;
      job.b = pixels + group.first * c.lanes * job.k;
      job.c = sums + group.first * c.lanes;
      kernels_.sum_taps(job);
    }
  }

  int64_t taps_stride() const { return std::min(s_.weight_row, s_.weight_channel); }

  // The weights of some rows and channels, in the order in which they lie.
  void copy_weights(int64_t first, int64_t height, int64_t channel, int64_t depth, T* out) const {
    const int64_t runs = by_rows_ ? height : depth, run = (by_rows_ ? depth : height) * taps_stride();
    for (int64_t i = 0; i < runs; ++i, out += run) {
      const char* from = by_rows_ ? weight_at(first + i, channel) : weight_at(first, channel + i);
      packing_.pack_a(s_.dtype, from, run, 1, 1, 1, run, out);
    }
  }

  void add_up(int64_t block, int64_t first, int64_t height, const T* sums) {
    const Columns& c = columns(block);
    const Field& f = s_.out;
    const int64_t images = std::min(images_, s_.batch - block * images_), size = itemsize(s_.dtype);
    T* pictures = scratch<T>(Purpose::gathered, height * images * f.pixels());
    if (!pictures) return ok_.store(false, std::memory_order_relaxed);
    const int64_t picture = images * f.pixels();
    for (int64_t i = 0; i < height; ++i) {
      fill_run(pictures + i * picture, picture, bias_ ? bias_.get()[first + i] : T(0));
    }
    // Rows in the inner loop: additions to the same pixel must be far apart, or each waits for the one before.
    const int32_t* target = c.targets.data();
    for (const Columns::Range& part : c.parts) {
      for (const T *from = sums + part.first, *end = from + part.count; from != end; ++from) {
        T* to = pictures + *target++;
        for (int64_t i = 0; i < height; ++i) to[i * picture] += from[i * c.width()];
      }
    }
    for (int64_t n = 0; n < images; ++n) {
      char* image = f.data + ((block * images_ + n) * f.batch_stride + first * f.channel_stride) * size;
      f.for_pieces([&](int64_t p, int64_t at) {
        packing_.finish(s_.dtype, height, f.piece(), pictures + n * f.pixels() + p, picture, 1, image + at * size,
                        f.channel_stride, f.stride[2], T(1), T(0));
      });
    }
  }

  const Sum& s_;
  const PackKernels<T>& packing_;
  const PatchKernels<T>& kernels_;
  const int64_t images_, blocks_;
  const Columns whole_, last_;
  const bool by_rows_;  // all weights of a row lie side by side, else all of a channel
  const int64_t depth_;
  const bool in_place_;  // weights are read where they lie
  Memory<T> bias_, pixels_;
  std::atomic<bool> ok_{true};
};

// How many pixels of `walked` meet one of `met`, summed over taps.
int64_t all_meetings(const Extent& walked, const Extent& met, const Extent& step, const std::vector<Tap>& taps) {
  int64_t sum = 0;
  for (const Tap& t : taps) {
    int64_t count = 1;
    for (size_t d = 0; d < 3; ++d) {
      const Span span = meetings(walked[d], met[d], step[d], t.offset[d]);
      count *= std::max<int64_t>(0, span.end - span.begin);
    }
    sum += count;
  }
  return sum;
}

// Whether pixels can be named by 32-bit numbers of elements.
bool near(const Field& f, int64_t batch) {
  double last = static_cast<double>(f.batch_stride) * static_cast<double>(batch);
  for (size_t d = 0; d < 3; ++d) last += static_cast<double>(f.stride[d]) * static_cast<double>(f.size[d]);
  return last < std::numeric_limits<int32_t>::max();
}

// Whether few pixels meet so much beyond the picture that sparing it is worth more than what the taps leave of their
// vectors.
bool spares_enough(int64_t pixels, int64_t taps, int64_t met, int64_t rows, int64_t channels) {
  return pixels <= kFewPixels && pixels * taps * channels <= kSharedElements && rows >= 32 && channels >= 32 &&
         met > 0 && 3 * met <= 2 * pixels * taps;
}

}  // namespace

bool few_serves(const Correlation& c) {
  const int64_t taps = static_cast<int64_t>(c.taps.size()), pixels = c.batch * c.out.pixels();
  return c.groups == 1 && pixels <= kFewPixels && std::min(c.weight_row, c.weight_channel) == taps &&
         near(c.in, c.batch) &&
         spares_enough(pixels, taps, c.batch * all_meetings(c.out.size, c.in.size, c.step, c.taps), c.rows, c.channels);
}
void correlate_few(const Correlation& c) {
  const Sum s = sum_of(c);
  with_compute_type(c.dtype, [&](auto t) { FewPixels<decltype(t)>(s).run(); });
}

bool few_serves(const Spreading& c) {
  const int64_t taps = static_cast<int64_t>(c.taps.size()), pixels = c.batch * c.in.pixels();
  const int64_t met = c.batch * all_meetings(c.in.size, c.out.size, c.stride, c.taps);
  // A kernel of one pixel leaves nothing to be added up, which pays for itself.
  return near(c.in, c.batch) && ((taps == 1 && met > 0) || spares_enough(pixels, taps, met, c.rows, c.channels));
}
void spread_few(const Spreading& c) {
  const Sum s = sum_of(c);
  with_compute_type(c.dtype, [&](auto t) { FewPixels<decltype(t)>(s).run(); });
}

}  // namespace tocha::cpu
