// The inner loops of pooling, one table per instruction set: isa/kernels.cpp. Pictures are of the
// compute type (float, double or int64); pooling.cpp lays out windows and cuts the work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/isa.h"

namespace tocha::cpu {

// Along one dim: the places of the input that each place of the output sees.
struct Windows {
  int64_t in = 1, out = 1;
  int64_t step = 1;     // between the places of a window
  int64_t stride = 0;   // between windows; 0 where they follow no stride
  int64_t padding = 0;  // of the first window's begin; together with stride
  int64_t width = 1;    // places in a window that nothing cuts
  std::vector<int64_t> first, count;
  std::vector<int64_t> divisor;  // what an average divides by, a factor per dim

  // The places that whole windows span, padding included.
  int64_t span() const { return (out - 1) * stride + (width - 1) * step + 1; }
  // Elements of a padded row of the input.
  int64_t row() const { return stride ? std::max(padding + in, span()) : in; }
  // The same with room for whole vectors at every stride.
  int64_t max_row() const { return row() + 16 * std::max<int64_t>(stride, 1); }
};

struct Pool {
  Windows d, h, w;
  int64_t divisor = 0;  // instead of the windows' own where not 0
  int64_t plane() const { return d.in * h.in * w.in; }
  int64_t places() const { return d.out * h.out * w.out; }
  // One window that is the whole plane.
  bool whole() const { return places() == 1 && w.stride == 0; }
  int64_t divisor_of(int64_t od, int64_t oh) const { return divisor ? divisor : d.divisor[od] * h.divisor[oh]; }
};

// A place in a plane, as wide as the values, so that vectors of both have as many lanes.
template <class T>
using PlaceIn = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// What maxima of nothing are.
template <class T>
constexpr T kLeast =
    std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();

template <class T>
struct PoolLoops {
  // Maxima of a plane and their places. row and row_places: scratch for max_row() elements.
  void (*max_plane)(const T* x, T* y, int64_t* where, const Pool& p, T* row, PlaceIn<T>* row_places);
  // Maxima alone, of windows along one line. row: scratch for max_row() elements, which are kLeast at first.
  void (*max_line)(const T* x, T* y, const Windows& w, T* row);
  // One output pixel of all channels; x is the sample. places: scratch for `channels` elements.
  void (*max_pixel)(const T* x, T* y, int64_t* where, const Pool& p, const int64_t* at, int64_t channels,
                    int32_t* places);
  // y[i] = the sum of plane i's n elements over divisor, and the way back.
  void (*means)(const T* x, T* y, int64_t planes, int64_t n, T divisor);
  void (*means_backward)(const T* g, T* dx, int64_t planes, int64_t n, T divisor);
  void (*average_plane)(const T* x, T* y, const Pool& p, T* row);
  void (*average_pixel)(const T* x, T* y, const Pool& p, const int64_t* at, int64_t channels);
  // dx += what the gradients g of a plane, or of one pixel's channels [from, to), give. row: scratch, w.out longer.
  void (*average_plane_backward)(const T* g, T* dx, const Pool& p, T* row);
  void (*average_pixel_backward)(const T* g, T* dx, const Pool& p, const int64_t* at, int64_t channels, int64_t from,
                                 int64_t to);
};

struct PoolKernels {
  PoolLoops<float> f32;
  PoolLoops<double> f64;
  PoolLoops<int64_t> i64;
};
TOCHA_ISA_TABLE(PoolKernels, pool_kernels)

}  // namespace tocha::cpu
