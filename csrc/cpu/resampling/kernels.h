// The inner loops of resampling and of sampling by grids, one table per instruction set:
// isa/kernels.cpp. Pictures are of the compute type.
#pragma once

#include <cstdint>

#include "core/isa.h"
#include "cpu/resampling/taps.h"

namespace tocha::cpu {

template <class T>
struct Resample {
  Taps<T> d, h, w;
  int64_t plane() const { return d.in * h.in * w.in; }
  int64_t places() const { return d.out * h.out * w.out; }
};

// A plane as the points of grids address it.
struct GridPlane {
  int64_t w, h;
  int64_t padding;  // a Padding of grid_sampling_taps.h
  bool align_corners;
};

// n points of `channels` channels: planes of the picture and rows of what is read from them lie this far apart.
struct GridRows {
  int64_t n, channels, plane, row;
};

template <class T>
struct ResampleLoops {
  // y of a plane; row: scratch for w.in elements.
  void (*plane)(const T* x, T* y, const Resample<T>& r, T* row);
  // All channels of the output pixel at (d, h, w); x is the sample.
  void (*pixel)(const T* x, T* y, const Resample<T>& r, const int64_t* at, int64_t channels);
  // The adjoints, which add to dx; of a pixel for its channels [from, to).
  void (*plane_backward)(const T* g, T* dx, const Resample<T>& r, T* row);
  void (*pixel_backward)(const T* g, T* dx, const Resample<T>& r, const int64_t* at, int64_t channels, int64_t from,
                         int64_t to);
  // Of every channel, y[i] (+)= the sum of weight * x[place] over `taps` taps, each r.n apart; places below 0 are
  // nothing.
  void (*gather)(const T* x, T* y, const GridRows& r, int64_t taps, const int32_t* place, const T* weight, bool add);
  // y[i] of each tap += g[i] * x[place], for every channel.
  void (*gather_products)(const T* x, const T* g, T* y, const GridRows& r, int64_t taps, const int32_t* place);
  // to[i * step] += the sum over taps of products * weights
  void (*weigh)(const T* products, const T* weights, int64_t n, int64_t taps, T* to, int64_t step);
  // The four taps of n points (x, y), each n apart, with the slopes of the weights by x and y where they are not null.
  void (*bilinear_taps)(const T* grid, int64_t n, const GridPlane& p, int32_t* place, T* weight, T* slope_x,
                        T* slope_y);
  // x[place] += weight * g[i]
  void (*scatter)(const T* g, T* x, int64_t n, int64_t taps, const int32_t* place, const T* weight);
};

struct ResampleKernels {
  ResampleLoops<float> f32;
  ResampleLoops<double> f64;
};
TOCHA_ISA_TABLE(ResampleKernels, resample_kernels)

}  // namespace tocha::cpu
