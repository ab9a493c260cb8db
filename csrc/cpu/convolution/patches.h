// How convolution walks over output pixels: blocks of them, the box of the input that a block meets, and the moves that
// gather the block's patches from that box. Shared by correlation and the gradient for the weight.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "core/storage.h"
#include "cpu/convolution/convolution.h"
#include "cpu/convolution/kernels.h"
#include "cpu/engine/casts.h"
#include "cpu/gemm/internal.h"

namespace tocha::cpu {

template <class T>
struct KernelsOf;
#define TOCHA_KERNELS_OF(TYPE, MEMBER)                                                  \
  template <>                                                                           \
  struct KernelsOf<TYPE> {                                                              \
    static const TileKernels<TYPE>& tiles() { return gemm_tiles().MEMBER; }             \
    static const PackKernels<TYPE>& packing() { return gemm_packing().MEMBER; }         \
    static const PatchKernels<TYPE>& patches() { return convolution_kernels().MEMBER; } \
  };
TOCHA_KERNELS_OF(float, f32)
TOCHA_KERNELS_OF(double, f64)
TOCHA_KERNELS_OF(uint32_t, u32)
TOCHA_KERNELS_OF(uint64_t, u64)
#undef TOCHA_KERNELS_OF

// n elements side by side become v, in vectors: std::fill_n writes one after the other outside of the ISA folders.
template <class T>
void fill_run(T* out, int64_t n, T v) {
  constexpr int type = static_cast<int>(DTypeOf<T>::value);
  cast_table().loops[type][type](reinterpret_cast<char*>(out), sizeof(T), reinterpret_cast<const char*>(&v), 0, n);
}

// Calls f(T{}) with the type that a dtype computes in.
template <class F>
void with_compute_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float32:
    case DType::BFloat16:
    case DType::Float16:
      return f(float{});
    case DType::Float64:
      return f(double{});
    case DType::Int64:
    case DType::UInt64:
      return f(uint64_t{});
    default:
      return f(uint32_t{});
  }
}

// The dtype whose elements are T, for packing what is in the compute type already.
template <class T>
constexpr DType compute_dtype() {
  return std::is_same_v<T, float>    ? DType::Float32
         : std::is_same_v<T, double> ? DType::Float64
         : sizeof(T) == 4            ? DType::UInt32
                                     : DType::UInt64;
}

struct FreeMemory {
  size_t bytes = 0;
  void operator()(void* p) const { cpu_free(p, bytes); }
};
template <class T>
using Memory = std::unique_ptr<T, FreeMemory>;

// Memory for one call, from the cache of tensors' memory: the system would have to clear its pages.
template <class T>
Memory<T> allocate(int64_t n) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(T);
  return Memory<T>(static_cast<T*>(cpu_allocate(bytes)), FreeMemory{bytes});
}

// Memory of this thread, or null.
template <class T>
T* scratch(Purpose purpose, int64_t n) {
  return static_cast<T*>(work_buffer(purpose, n * static_cast<int64_t>(sizeof(T))));
}

// The bias in the compute type, or null.
template <class T>
Memory<T> load_bias(DType dtype, const char* bias, int64_t n) {
  if (!bias) return {};
  Memory<T> loaded = allocate<T>(n + kPackSlack);
  KernelsOf<T>::packing().pack_a(dtype, bias, n, 1, 1, 1, n, loaded.get());
  return loaded;
}

// Along one dim: which of the first `walked` pixels meet one of `met` at step * pixel + offset.
struct Span {
  int64_t begin, end;
};
inline Span meetings(int64_t walked, int64_t met, int64_t step, int64_t offset) {
  return {ceil_div(std::max<int64_t>(0, -offset), step),
          std::min(walked, ceil_div(std::max<int64_t>(0, met - offset), step))};
}

constexpr int64_t kWideRow = 128;     // rows this long are cut by themselves
constexpr int64_t kMostPixels = 512;  // of a block
constexpr int64_t kStagedElements = 1 << 17;

// Pixels are numbered through the batch: image, depth, height, width.
struct PixelBlock {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

// Pixels that lie side by side in a row (or, with `whole`, in an image) of the output.
struct PixelRun {
  int64_t image, z, y, x;
  int64_t begin, count;  // begin counts from the block's first pixel
};

class PixelPlan {
 public:
  // `pixels` is the size of the output picture. A block has at most most_pixels, a multiple of `unit` unless its
  // picture ends; `together` lets blocks reach through the whole batch.
  PixelPlan(Extent pixels, int64_t batch, const Extent& step, const std::vector<Tap>& taps, int64_t unit,
            int64_t most_pixels, bool together = false)
      : size_(pixels), batch_(batch), step_(step) {
    const int64_t row = size_[2], plane = row * size_[1], image = plane * size_[0];
    // Planes that end in the middle of a unit are put together where there are several.
    const bool ragged = size_[0] > 1 && (unit - plane % unit) % unit > plane / kMostWaste;
    level_ = together ? 3 : row >= kWideRow ? 0 : plane >= kSmall && !ragged ? 1 : image >= kSmall ? 2 : 3;
    span_ = level_ == 0 ? row : level_ == 1 ? plane : level_ == 2 ? image : image * batch;
    const int64_t units = ceil_div(span_, unit);
    const int64_t blocks = ceil_div(units, most_pixels / unit);
    block_ = ceil_div(units, blocks) * unit;
    per_span_ = ceil_div(span_, block_);
    measure_taps(taps);
    measure_box();
    place_taps(taps);
  }

  int64_t blocks() const { return per_span_ * (batch_ * size_[0] * size_[1] * size_[2] / span_); }
  PixelBlock block(int64_t i) const {
    const int64_t base = i / per_span_ * span_, first = i % per_span_ * block_;
    return {base + first, base + std::min(span_, first + block_)};
  }
  int64_t largest_block() const { return std::min(block_, span_); }
  // Whether blocks reach from one image into the next.
  bool crosses_images() const { return level_ == 3; }
  // Whether a block is contiguous in a field of this many pixels.
  bool contiguous_in(const Field& f) const {
    if (f.stride[2] != 1 && size_[2] > 1) return false;
    if (level_ >= 1 && size_[1] > 1 && f.stride[1] != size_[2]) return false;
    if (level_ >= 2 && size_[0] > 1 && f.stride[0] != size_[2] * size_[1]) return false;
    return level_ < 3 || batch_ == 1;
  }

  int64_t staged_channel() const { return box_[0] * box_[1] * row_; }  // elements of one channel of one image
  int64_t images_per_block() const { return images_; }
  const std::vector<int64_t>& taps() const { return taps_; }

  PixelRun run_at(int64_t pixel, int64_t begin, int64_t count) const {
    PixelRun r{0, 0, 0, 0, begin, count};
    r.x = pixel % size_[2];
    pixel /= size_[2];
    r.y = pixel % size_[1];
    pixel /= size_[1];
    r.z = pixel % size_[0];
    r.image = pixel / size_[0];
    return r;
  }

  // f(run) for every row's part of a block; with whole images when the field allows it.
  template <class F>
  void for_runs(PixelBlock b, bool whole_images, F&& f) const {
    const int64_t length = whole_images ? size_[0] * size_[1] * size_[2] : size_[2];
    for (int64_t p = b.begin; p < b.end;) {
      const int64_t next = std::min(b.end, (p / length + 1) * length);
      f(run_at(p, p - b.begin, next - p));
      p = next;
    }
  }

  // Brings the box that a block meets, in `channels` channels of `in` from `first` on, to `staged`.
  template <class T>
  void stage(DType dtype, const Field& in, int64_t group_channel, int64_t channels, PixelBlock b, T* staged) const {
    const Corner c = corner(b);
    StageJob<T> job{};
    job.dtype = dtype;
    job.in_channel = in.channel_stride;
    job.in_z = in.stride[0], job.in_y = in.stride[1], job.in_x = in.stride[2];
    job.size_z = in.size[0], job.size_y = in.size[1], job.size_x = in.size[2];
    job.first_z = c.z * step_[0] + least_[0];
    job.first_y = c.y * step_[1] + least_[1];
    job.first_x = c.x * step_[2] + least_[2];
    job.channels = channels;
    job.count_z = box_[0], job.count_y = box_[1];
    job.step = step_[2], job.part = part_;
    job.out_channel = staged_channel(), job.out_z = box_[1] * row_, job.out_y = row_;
    const int64_t last = (b.end - 1) / (size_[0] * size_[1] * size_[2]);
    for (int64_t image = c.image; image <= last; ++image) {
      job.in = in.data + (image * in.batch_stride + group_channel * in.channel_stride) * itemsize(dtype);
      job.out = staged + (image - c.image) * channels * staged_channel();
      KernelsOf<T>::patches().stage(job);
    }
  }

  // The moves for pixels [begin, end) of a block, whose columns are counted from `begin`. Returns how many.
  int64_t moves(PixelBlock b, int64_t begin, int64_t end, int64_t channels, int64_t lanes, Move* out) const {
    const Corner c = corner(b);
    int64_t n = 0;
    for_runs({b.begin + begin, b.begin + end}, false, [&](const PixelRun& r) {
      const int64_t from = (r.image - c.image) * channels * staged_channel() +
                           ((r.z - c.z) * step_[0] * box_[1] + (r.y - c.y) * step_[1]) * row_ + r.x - c.x;
      for (int64_t i = 0; i < r.count; i += lanes) out[n++] = {from + i, r.begin + i};
    });
    return n;
  }

 private:
  static constexpr int64_t kSmall = 64;     // smaller pictures are put together
  static constexpr int64_t kMostWaste = 8;  // an eighth

  struct Corner {
    int64_t image, z, y, x;
  };
  // The first output pixel of the smallest box of whole rows, planes or images around a block.
  Corner corner(PixelBlock b) const {
    const PixelRun r = run_at(b.begin, 0, 0);
    return {r.image, level_ < 3 ? r.z : 0, level_ < 2 ? r.y : 0, level_ < 1 ? r.x : 0};
  }

  void measure_taps(const std::vector<Tap>& taps) {
    least_ = reach_ = {0, 0, 0};
    for (int d = 0; d < 3; ++d) {
      if (taps.empty()) continue;
      int64_t least = taps[0].offset[d], most = least;
      for (const Tap& t : taps) {
        least = std::min(least, t.offset[d]);
        most = std::max(most, t.offset[d]);
      }
      least_[d] = least;
      reach_[d] = most - least;
    }
  }

  // How much of the input the largest block meets.
  void measure_box() {
    const int64_t row = size_[2], plane = row * size_[1];
    const int64_t most = largest_block();
    const int64_t rows = level_ == 0 ? 1 : level_ == 1 ? std::min(size_[1], ceil_div(most - 1, row) + 1) : size_[1];
    const int64_t planes = level_ <= 1 ? 1 : level_ == 2 ? std::min(size_[0], ceil_div(most - 1, plane) + 1) : size_[0];
    images_ = level_ < 3 ? 1 : std::min(batch_, ceil_div(most - 1, plane * size_[0]) + 1);
    const int64_t columns = level_ == 0 ? most : row;
    box_ = {(planes - 1) * step_[0] + reach_[0] + 1, (rows - 1) * step_[1] + reach_[1] + 1, columns};
    part_ = columns + reach_[2] / step_[2];
    row_ = part_ * step_[2];
  }

  void place_taps(const std::vector<Tap>& taps) {
    for (const Tap& t : taps) {
      const int64_t x = t.offset[2] - least_[2];
      taps_.push_back(((t.offset[0] - least_[0]) * box_[1] + t.offset[1] - least_[1]) * row_ + x % step_[2] * part_ +
                      x / step_[2]);
    }
  }

  Extent size_;
  int64_t batch_;
  Extent step_;
  int level_ = 0;  // blocks stay within: 0 a row, 1 a plane, 2 an image, 3 the batch
  int64_t span_ = 1, block_ = 1, per_span_ = 1;
  Extent least_{}, reach_{}, box_{};
  int64_t part_ = 0, row_ = 0, images_ = 1;
  std::vector<int64_t> taps_;
};

// Whether the patches of a block are the input's pixels themselves, at equal distances: a single tap that meets every
// pixel in place, and blocks within one image.
inline bool meets_in_place(const PixelPlan& plan, const std::vector<Tap>& taps, const Extent& step, const Field& in,
                           const Extent& out) {
  return taps.size() == 1 && taps[0].offset == Extent{0, 0, 0} && step == Extent{1, 1, 1} && in.size == out &&
         in.evenly_spaced() && !plan.crosses_images();
}

// A product of packed rows. Short sums are bound by writing: those keep to one panel of rows at a time, so that what is
// written runs on in memory.
template <class T>
void multiply_packed(const TileKernels<T>& tiles, TileJob<T> job) {
  constexpr int64_t kShortSum = 128;
  if (job.k > kShortSum) return tiles.multiply(job);
  const int64_t rows = job.rows, panels = job.panels;
  const T* a = job.a;
  T* c = job.c;
  job.panels = 1;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t row = p * rows / panels;
    job.rows = (p + 1) * rows / panels - row;
    job.a = a + row * job.k;
    job.c = c + row * job.c_row;
    tiles.multiply(job);
  }
}

// Moves of a block: at least one lane each, at most one per pixel.
using Moves = std::array<Move, kMostPixels>;

// How many channels to take at once: about `depth` (channel, tap) pairs, in nearly equal shares.
inline int64_t channel_block(int64_t channels, int64_t taps, int64_t depth, const PixelPlan& plan) {
  const int64_t room = kStagedElements / std::max<int64_t>(1, plan.staged_channel() * plan.images_per_block());
  const int64_t most = std::clamp<int64_t>(std::min(depth / std::max<int64_t>(taps, 1), room), 1, channels);
  return ceil_div(channels, ceil_div(channels, most));
}

inline int64_t staged_elements(const PixelPlan& plan, int64_t channels) {
  return channels * plan.images_per_block() * plan.staged_channel() + kMoveSlack;
}

}  // namespace tocha::cpu
