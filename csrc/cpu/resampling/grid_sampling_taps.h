// Sampling by a grid: from a point of the grid to places of the picture, their weights, and the slopes of the weights.
// Points are handled in blocks; csrc/cpu/resampling/grid_sampling.cpp walks through them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tocha::cpu {

enum class Interpolation : int64_t { bilinear, nearest, bicubic };
enum class Padding : int64_t { zeros, border, reflection };

// One coordinate as taps along its dim: places (below 0: outside), weights, and the first and second derivatives of the
// weights by the coordinate.
template <class T>
struct AxisTaps {
  int count = 0;
  int64_t place[4];
  T weight[4], slope[4], curve[4];
};

// A dim of the picture as grids address it: -1 and 1 are its ends.
template <class T>
class Axis {
 public:
  Axis(int64_t size, Interpolation mode, Padding padding, bool align_corners)
      : size_(size), mode_(mode), padding_(padding), align_(align_corners) {}

  AxisTaps<T> taps(T coordinate) const {
    T rate = align_ ? static_cast<T>(size_ - 1) / 2 : static_cast<T>(size_) / 2;
    T x =
        align_ ? (coordinate + 1) / 2 * static_cast<T>(size_ - 1) : ((coordinate + 1) * static_cast<T>(size_) - 1) / 2;
    if (mode_ == Interpolation::bicubic) return cubic(x, rate);
    x = padded(x, &rate);
    return mode_ == Interpolation::nearest ? nearest(x) : linear(x, rate);
  }

 private:
  // Infinities, NaN and what no integer holds are far outside.
  static T bounded(T x) { return std::isfinite(x) && std::abs(x) < T(2147483520) ? x : T(-100); }

  static T clipped(T x, T most, T* rate) {
    if (!(x > 0)) {
      *rate = 0;
      return 0;
    }
    if (x >= most) {
      *rate = 0;
      return most;
    }
    return x;
  }

  // Mirrored at the edges until it is inside: at the outer pixels' centers, or at their borders.
  T reflected(T x, T* rate) const {
    const T low = align_ ? T(0) : T(-0.5), span = align_ ? static_cast<T>(size_ - 1) : static_cast<T>(size_);
    if (span == 0) {
      *rate = 0;
      return 0;
    }
    if (x < low) *rate = -*rate;
    const T beyond = std::abs(x - low), rest = std::fmod(beyond, span);
    if (static_cast<int64_t>(std::floor(bounded(beyond / span))) % 2 == 0) return rest + low;
    *rate = -*rate;
    return span - rest + low;
  }

  T padded(T x, T* rate) const {
    const T most = static_cast<T>(size_ - 1);
    if (padding_ == Padding::reflection) x = reflected(x, rate);
    if (padding_ != Padding::zeros) x = clipped(x, most, rate);
    return bounded(x);
  }

  int64_t inside(int64_t place) const { return place >= 0 && place < size_ ? place : -1; }

  AxisTaps<T> nearest(T x) const {
    AxisTaps<T> t;
    t.count = 1;
    t.place[0] = inside(static_cast<int64_t>(std::nearbyint(x)));
    t.weight[0] = 1, t.slope[0] = 0, t.curve[0] = 0;
    return t;
  }

  AxisTaps<T> linear(T x, T rate) const {
    AxisTaps<T> t;
    const T floor = std::floor(x), beyond = x - floor;
    const int64_t low = static_cast<int64_t>(floor);
    t.count = 2;
    t.place[0] = inside(low), t.place[1] = inside(low + 1);
    t.weight[0] = 1 - beyond, t.weight[1] = beyond;
    t.slope[0] = -rate, t.slope[1] = rate;
    t.curve[0] = t.curve[1] = 0;
    return t;
  }

  // The cubic convolution kernel and its derivatives at a distance x >= 0.
  static void cubic_kernel(T x, T* value, T* slope, T* curve) {
    constexpr T a = T(-0.75);
    if (x <= 1) {
      *value = ((a + 2) * x - (a + 3)) * x * x + 1;
      *slope = (3 * (a + 2) * x - 2 * (a + 3)) * x;
      *curve = 6 * (a + 2) * x - 2 * (a + 3);
    } else {
      *value = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      *slope = (3 * a * x - 10 * a) * x + 8 * a;
      *curve = 6 * a * x - 10 * a;
    }
  }

  AxisTaps<T> cubic(T x, T rate) const {
    AxisTaps<T> t;
    x = bounded(x);
    const T floor = std::floor(x), beyond = x - floor;
    t.count = 4;
    for (int k = 0; k < 4; ++k) {
      const T signed_distance = beyond + 1 - static_cast<T>(k);
      T slope;
      cubic_kernel(std::abs(signed_distance), &t.weight[k], &slope, &t.curve[k]);
      t.slope[k] = rate * (signed_distance < 0 ? -slope : slope);
      t.curve[k] *= rate * rate;
      T unused = 1;
      const T place = padded(floor + static_cast<T>(k - 1), &unused);
      t.place[k] = inside(static_cast<int64_t>(std::floor(place)));
    }
    return t;
  }

  int64_t size_;
  Interpolation mode_;
  Padding padding_;
  bool align_;
};

constexpr int64_t kGridBlock = 256;  // points that are handled together

// Taps of a block of points; tap k of point i is at k * points + i. Dims are counted as the grid does: x, y, z.
template <class T>
struct GridTaps {
  int64_t points = 0, count = 0;
  int dims = 2;
  std::vector<int32_t> place;
  std::vector<T> weight;
  std::vector<T> slope[3];     // of the weights by each coordinate
  std::vector<T> curve[3][3];  // second derivatives

  // The weights' change along a direction of each point (dims numbers a point).
  void along(const T* direction, std::vector<T>* changes) const {
    changes->assign(weight.size(), T(0));
    for (int d = 0; d < dims; ++d) add_scaled(slope[d], direction, d, changes->data());
  }
  // The change of the slopes by coordinate d along a direction.
  void bend(int d, const T* direction, std::vector<T>* changes) const {
    changes->assign(weight.size(), T(0));
    for (int e = 0; e < dims; ++e) add_scaled(curve[d][e], direction, e, changes->data());
  }

 private:
  void add_scaled(const std::vector<T>& values, const T* direction, int d, T* into) const {
    for (int64_t k = 0; k < count; ++k) {
      for (int64_t i = 0; i < points; ++i) into[k * points + i] += values[k * points + i] * direction[i * dims + d];
    }
  }
};

// What a picture's points need: an axis per dim of the grid, and how much of the derivatives.
template <class T>
class GridSampler {
 public:
  // sizes: w, h(, d)
  GridSampler(const int64_t* sizes, int dims, int64_t mode, int64_t padding, bool align_corners) : dims_(dims) {
    int64_t stride = 1;
    for (int d = 0; d < dims; ++d) {
      axes_.emplace_back(sizes[d], static_cast<Interpolation>(mode), static_cast<Padding>(padding), align_corners);
      strides_[d] = stride;
      stride *= sizes[d];
    }
    const int64_t each = mode == 1 ? 1 : mode == 0 ? 2 : 4;
    taps_ = each * each * (dims == 3 ? each : 1);
  }

  // Room for the taps of some points. orders: 0 for weights alone, 1 with slopes, 2 with curves.
  void prepare(int64_t points, int orders, GridTaps<T>* t) const {
    t->points = points, t->count = taps_, t->dims = dims_;
    const size_t n = static_cast<size_t>(points * taps_);
    t->place.resize(n);
    t->weight.resize(n);
    for (int d = 0; orders >= 1 && d < dims_; ++d) t->slope[d].resize(n);
    for (int d = 0; orders >= 2 && d < dims_; ++d)
      for (int e = 0; e < dims_; ++e) t->curve[d][e].resize(n);
  }
  void fill(const T* grid, int64_t points, int orders, GridTaps<T>* t) const {
    prepare(points, orders, t);
    for (int64_t i = 0; i < points; ++i) point(grid + i * dims_, i, orders, t);
  }

 private:
  void point(const T* coordinates, int64_t i, int orders, GridTaps<T>* t) const {
    AxisTaps<T> a[3];
    for (int d = 0; d < dims_; ++d) a[d] = axes_[static_cast<size_t>(d)].taps(coordinates[d]);
    if (dims_ == 2) a[2] = flat();
    int64_t k = 0;
    for (int z = 0; z < a[2].count; ++z) {
      for (int y = 0; y < a[1].count; ++y) {
        for (int x = 0; x < a[0].count; ++x, ++k) tap(a, {x, y, z}, static_cast<size_t>(k * t->points + i), orders, t);
      }
    }
  }

  static AxisTaps<T> flat() {
    AxisTaps<T> t;
    t.count = 1, t.place[0] = 0, t.weight[0] = 1, t.slope[0] = 0, t.curve[0] = 0;
    return t;
  }

  struct Corner {
    int at[3];
  };
  void tap(const AxisTaps<T>* a, Corner c, size_t into, int orders, GridTaps<T>* t) const {
    int64_t place = 0;
    bool outside = false;
    for (int d = 0; d < dims_; ++d) {
      outside |= a[d].place[c.at[d]] < 0;
      place += a[d].place[c.at[d]] * strides_[d];
    }
    t->place[into] = outside ? -1 : static_cast<int32_t>(place);
    t->weight[into] = derivative(a, c, -1, -1);
    for (int d = 0; orders >= 1 && d < dims_; ++d) {
      t->slope[d][into] = derivative(a, c, d, -1);
      for (int e = 0; orders >= 2 && e < dims_; ++e) t->curve[d][e][into] = derivative(a, c, d, e);
    }
  }

  // The product of the axes' weights, differentiated by the coordinates d and e (none where negative).
  T derivative(const AxisTaps<T>* a, Corner c, int d, int e) const {
    T product = 1;
    for (int f = 0; f < dims_; ++f) {
      const int order = (f == d) + (f == e), k = c.at[f];
      product *= order == 0 ? a[f].weight[k] : order == 1 ? a[f].slope[k] : a[f].curve[k];
    }
    return product;
  }

  std::vector<Axis<T>> axes_;
  int64_t strides_[3] = {0, 0, 0};
  int64_t taps_;
  int dims_;
};

}  // namespace tocha::cpu
