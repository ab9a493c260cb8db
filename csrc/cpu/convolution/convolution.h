// Convolution of any rank up to three as two kinds of work: correlation (the forward pass of a convolution, its
// gradient for the input, and transposed convolution) and the gradient for the weight. convolution.cpp brings
// operators into this form.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "cpu/gemm/gemm.h"

namespace tocha::cpu {

using Extent = std::array<int64_t, 3>;  // depth, height, width

// A batch of pictures with channels. Strides count elements.
struct Field {
  char* data;
  int64_t batch_stride, channel_stride;
  Extent stride, size;

  int64_t pixels() const { return size[0] * size[1] * size[2]; }
  // Whether all pixels of an image are equally far apart.
  bool evenly_spaced() const {
    return (size[1] == 1 || stride[1] == size[2] * stride[2]) &&
           (size[0] == 1 || stride[0] == size[1] * size[2] * stride[2]);
  }
  // f(first pixel, its element) for the longest pieces of an image whose pixels are equally far apart.
  template <class F>
  void for_pieces(F f) const {
    for (int64_t p = 0; p < pixels(); p += piece()) {
      const int64_t line = p / size[2];
      f(p, line / size[1] * stride[0] + line % size[1] * stride[1]);
    }
  }
  int64_t piece() const { return evenly_spaced() ? pixels() : size[2]; }
};

// One position of the kernel: which input pixel it meets, counted from step * (output pixel), and where its weight is.
struct Tap {
  Extent offset;
  int64_t weight;
};

// out[n, g, r, p] = bias[g, r] + sum over c and taps of weight[g, r, c, tap] * in[n, g, c, step * p + tap.offset];
// in is zero outside of its picture.
struct Correlation {
  DType dtype;
  int64_t batch, groups;
  int64_t rows, channels;  // per group: of out, of in
  Field in, out;
  Extent step;
  std::vector<Tap> taps;
  const char* weight;
  int64_t weight_group, weight_row, weight_channel;
  const char* bias;                 // groups * rows elements, or null
  const float* prepared = nullptr;  // what winograd_prepare() makes of the weights, or null
  RowsDone done = {};               // told of channels of images, numbered through (see planes.h)
};

// out[g, r, c, tap] = sum over n and pixels p of rows_field[n, g, r, p] * in[n, g, c, step * p + offset of tap], where
// out is contiguous.
struct WeightGradient {
  DType dtype;
  int64_t batch, groups;
  int64_t rows, channels;
  Field grad, in;
  Extent step;
  std::vector<Tap> taps;
  char* out;
};

// What each pixel p of `in` spreads over `out`: out[n, r, stride * p + tap.offset] += weight[c, r, tap] * in[n, c, p].
// weight is contiguous; pixels outside of out are dropped.
struct Spreading {
  DType dtype;
  int64_t batch, rows, channels;
  Field in, out;
  Extent stride;
  std::vector<Tap> taps;
  const char* weight;
  const char* bias;  // rows elements, or null
};

// All throw std::bad_alloc where there is no memory to work in.
void correlate(const Correlation& c);
// Groups of one channel and one row: every channel by itself.
void correlate_channels(const Correlation& c);
void weight_gradient_of_channels(const WeightGradient& w);
bool winograd_serves(const Correlation& c);  // 3x3 kernels, enough channels and pixels
void correlate_winograd(const Correlation& c);
// The transformed weights of a correlation that is computed so, for those who use them again: how many elements, and
// the elements. 0 where another way is taken.
int64_t winograd_prepared_size(const Correlation& c);
void winograd_prepare(const Correlation& c, float* out);
bool winograd_serves(const WeightGradient& w);
void weight_gradient_winograd(const WeightGradient& w);
// Few pixels: tap by tap, where that spares products with what lies beyond the picture.
bool few_serves(const Correlation& c);
void correlate_few(const Correlation& c);
bool few_serves(const Spreading& s);
void spread_few(const Spreading& s);
// Volumes with strides: line by line.
bool lines_serve(const Correlation& c);
void correlate_lines(const Correlation& c);
// On a matrix unit (see units/matrix_unit.h).
bool unit_serves(const Correlation& c);
bool unit_serves(const Spreading& s);  // as correlations
void correlate_unit(const Correlation& c);
bool unit_serves(const WeightGradient& w);
[[nodiscard]] bool weight_gradient_unit(const WeightGradient& w);  // false where the input has infinities
bool spreads_well(const Spreading& s);                             // few pixels: better than as correlations
void spread(const Spreading& s);
bool lines_serve(const Spreading& s);  // with strides
void spread_lines(const Spreading& s);
void weight_gradient(const WeightGradient& w);

}  // namespace tocha::cpu
