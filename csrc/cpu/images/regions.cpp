#include "cpu/images/regions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/images/images.h"
#include "cpu/images/region_kernels.h"

namespace tocha::cpu {
namespace {

// The largest T that is not above the threshold: a T is above both or neither.
template <class T>
double bound_of(double threshold) {
  T near = static_cast<T>(threshold);
  return near <= threshold ? near : std::nextafter(near, -std::numeric_limits<T>::infinity());
}

template <class T, class Flag>
std::vector<int64_t> kept_of(const T* boxes, const int64_t* order, int64_t n, double threshold) {
  std::vector<T> sides(static_cast<size_t>(5 * n));
  for (int64_t i = 0; i < n; ++i) {
    const T* box = boxes + 4 * order[i];
    for (int64_t k = 0; k < 4; ++k) sides[static_cast<size_t>(k * n + i)] = box[k];
    sides[static_cast<size_t>(4 * n + i)] = (box[2] - box[0]) * (box[3] - box[1]);
  }
  std::vector<Flag> beaten(static_cast<size_t>(n));
  std::vector<int64_t> kept;
  const double bound = bound_of<T>(threshold);
  constexpr DType dtype = sizeof(T) == 8 ? DType::Float64 : DType::Float32;
  for (int64_t i = 0; i < n; ++i) {
    if (beaten[static_cast<size_t>(i)]) continue;
    kept.push_back(order[i]);
    region_kernels().beat(dtype, sides.data(), n, i, bound, beaten.data());
  }
  return kept;
}

constexpr int64_t kFar = int64_t{1} << 30;  // beyond every image, and sums of these do not overflow

// Half away from zero; what is no number is 0.
template <class T>
int64_t pixel_of(T x) {
  if (!(x == x)) return 0;
  return static_cast<int64_t>(std::clamp(std::round(x), static_cast<T>(-kFar), static_cast<T>(kFar)));
}

// One side of a region, cut into bins.
template <class T>
struct Side {
  int64_t start, limit;
  T step;
  Side(T low, T high, int64_t bins, int64_t size) : start(pixel_of(low)), limit(size) {
    step = static_cast<T>(std::max<int64_t>(pixel_of(high) - start + 1, 1)) / static_cast<T>(bins);
  }
  int64_t clipped(T offset) const { return std::clamp<int64_t>(static_cast<int64_t>(offset) + start, 0, limit); }
  int64_t begin(int64_t bin) const { return clipped(std::floor(static_cast<T>(bin) * step)); }
  int64_t end(int64_t bin) const { return clipped(std::ceil(static_cast<T>(bin + 1) * step)); }
};

// All bins of one row of a region; the image lies with its channels last.
template <class T>
class BinRow {
 public:
  BinRow(const T* image, const PictureSizes& size, int64_t height, int64_t width)
      : image_(image), size_(size), height_(height), width_(width), best_(size.c), where_(size.c) {}

  void pool(const T* region, T scale, int64_t row, T* values, int32_t* where) {
    const Side<T> down(region[2] * scale, region[4] * scale, height_, size_.h);
    const Side<T> across(region[1] * scale, region[3] * scale, width_, size_.w);
    const T* image = image_ + static_cast<int64_t>(region[0]) * size_.plane() * size_.c;
    for (int64_t bin = 0; bin < width_; ++bin) {
      search(image, down.begin(row), down.end(row), across.begin(bin), across.end(bin));
      for (int64_t c = 0; c < size_.c; ++c) {
        const int64_t at = (c * height_ + row) * width_ + bin;
        values[at] = best_[static_cast<size_t>(c)];
        where[at] = where_[static_cast<size_t>(c)];
      }
    }
  }

 private:
  // An empty bin is 0; pixels that are not above the least number are not seen.
  void search(const T* image, int64_t top, int64_t bottom, int64_t left, int64_t right) {
    const bool empty = bottom <= top || right <= left;
    std::fill(best_.begin(), best_.end(), empty ? T(0) : -static_cast<T>(std::numeric_limits<float>::max()));
    std::fill(where_.begin(), where_.end(), -1);
    constexpr DType dtype = sizeof(T) == 8 ? DType::Float64 : DType::Float32;
    for (int64_t y = top; y < bottom; ++y)
      for (int64_t x = left; x < right; ++x) {
        const int64_t pixel = y * size_.w + x;
        region_kernels().keep_largest(dtype, image + pixel * size_.c, size_.c, static_cast<int32_t>(pixel),
                                      best_.data(), where_.data());
      }
  }

  const T* image_;
  PictureSizes size_;
  int64_t height_, width_;
  std::vector<T> best_;
  std::vector<int32_t> where_;
};

template <class T>
void check_images(const T* region, int64_t count, int64_t batch) {
  for (int64_t k = 0; k < count; ++k)
    TOCHA_CHECK(region[5 * k] >= 0 && region[5 * k] < static_cast<T>(batch), Index, "[roi_pool] image ", region[5 * k],
                " of a region is out of bounds for a batch of ", batch);
}

template <class T>
void unpool_all(const Tensor& grad, const Tensor& regions, const Tensor& where, const PictureSizes& size, T* out) {
  const T* region = regions.data<T>();
  const int64_t count = regions.sizes()[0], bins = grad.sizes()[2] * grad.sizes()[3], plane = size.plane();
  check_images(region, count, size.n);
  ReleaseGil unlocked(grad.numel());
  parallel_for(size.c, 1,
               [&](int64_t begin, int64_t end) {  // a channel's regions overlap: one thread adds them in order
                 for (int64_t c = begin; c < end; ++c)
                   for (int64_t k = 0; k < count; ++k) {
                     T* image = out + (static_cast<int64_t>(region[5 * k]) * size.c + c) * plane;
                     const T* from = grad.data<T>() + (k * size.c + c) * bins;
                     const int32_t* pixel = where.data<int32_t>() + (k * size.c + c) * bins;
                     for (int64_t b = 0; b < bins; ++b)
                       if (static_cast<uint64_t>(pixel[b]) < static_cast<uint64_t>(plane)) image[pixel[b]] += from[b];
                   }
               });
}

template <class T>
void pool_all(const Tensor& image, const Tensor& regions, double scale, int64_t height, int64_t width, Pooled& out) {
  const PictureSizes size = picture_sizes(image.sizes(), 2);
  const T* region = regions.data<T>();
  const int64_t count = regions.sizes()[0];
  check_images(region, count, size.n);
  ReleaseGil unlocked(out.values.numel() * 16);
  const int64_t volume = size.c * height * width;
  parallel_for(count * height, 1, [&](int64_t begin, int64_t end) {
    BinRow<T> bins(image.data<T>(), size, height, width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = i / height;
      bins.pool(region + 5 * k, static_cast<T>(scale), i % height, out.values.data<T>() + k * volume,
                out.where.data<int32_t>() + k * volume);
    }
  });
}

}  // namespace

Tensor keep_apart(const Tensor& boxes, const Tensor& order, double threshold) {
  const int64_t n = order.numel();
  std::vector<int64_t> kept;
  {
    ReleaseGil unlocked(n * 64);
    const int64_t* numbers = order.data<int64_t>();
    kept = boxes.dtype() == DType::Float64 ? kept_of<double, int64_t>(boxes.data<double>(), numbers, n, threshold)
                                           : kept_of<float, int32_t>(boxes.data<float>(), numbers, n, threshold);
  }
  Tensor out = empty(Ints{static_cast<int64_t>(kept.size())}, DType::Int64, boxes.device());
  std::copy(kept.begin(), kept.end(), out.data<int64_t>());
  return out;
}

Pooled pool_regions(const Tensor& input, const Tensor& regions, double scale, int64_t height, int64_t width) {
  const Tensor image = arranged(input, input.dtype(), true);
  const Ints sizes = {regions.sizes()[0], input.sizes()[1], height, width};
  Pooled out{empty(sizes, input.dtype(), input.device()), empty(sizes, DType::Int32, input.device())};
  if (input.dtype() == DType::Float64)
    pool_all<double>(image, regions, scale, height, width, out);
  else
    pool_all<float>(image, regions, scale, height, width, out);
  return out;
}

Tensor unpool_regions(const Tensor& grad, const Tensor& regions, const Tensor& where, IntsView sizes) {
  Tensor out = empty(sizes, grad.dtype(), grad.device());
  std::memset(out.bytes(), 0, static_cast<size_t>(out.numel() * itemsize(out.dtype())));
  const PictureSizes size = picture_sizes(sizes, 2);
  if (grad.dtype() == DType::Float64)
    unpool_all(grad, regions, where, size, out.data<double>());
  else
    unpool_all(grad, regions, where, size, out.data<float>());
  return out;
}

}  // namespace tocha::cpu
