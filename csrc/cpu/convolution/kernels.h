// The inner loops of convolution that are compiled once per instruction set: staging a piece of the input, and
// gathering patches from it into the layouts that matrix multiplication reads. The .cpp files beside it drive them.
#pragma once

#include <cstdint>

#include "cpu/gemm/kernels.h"

namespace tocha::cpu {

// Copies a box of the input into the compute type, channel by channel, with zeros where it reaches beyond the
// picture. Of `step` neighbouring columns each goes to a part of its own (of `part` elements), so that the columns
// that one tap of a strided convolution meets lie side by side.
template <class T>
struct StageJob {
  DType dtype;
  const void* in;  // element (channel 0, z 0, y 0, x 0) of the picture
  int64_t in_channel, in_z, in_y, in_x;
  int64_t size_z, size_y, size_x;
  int64_t first_z, first_y, first_x;  // where the box begins; may be negative
  int64_t channels, count_z, count_y;
  int64_t step, part;
  T* out;
  int64_t out_channel, out_z, out_y;
};

// A vector's worth of columns: from `from` (beyond the tap's place) to column `to`. Later moves overwrite what
// earlier ones write beyond their columns.
struct Move {
  int64_t from;
  int64_t to;
};
constexpr int64_t kMoveSlack = 16;  // elements that a move may read or write beyond the last column

// Row (channel, tap) of the result begins at out + (channel * taps + tap) * out_row.
template <class T>
struct PatchJob {
  const T* staged;
  int64_t channel;  // elements between channels
  int64_t channels, taps;
  const int64_t* tap;  // where each tap's first element lies
  const Move* moves;
  int64_t move_count;
  T* out;
  int64_t out_row;
};

// Pixels from anywhere as [channel][column].
template <class T>
struct GatherJob {
  DType dtype;
  const void* in;  // of the first channel
  int64_t channel, channels, columns;
  const int32_t* sources;  // element of each column
  T* out;
};

// c[row, vector of columns] (+)= the sum over k of a[row, k, tap of the vector] * b[k, vector]: a few rows times a few
// vectors, each of which meets its own tap.
template <class T>
struct TapSumJob {
  int64_t rows, vectors, k;
  const T* a;
  int64_t a_row, a_k;
  const int64_t* taps;  // of each vector: where its weights begin
  const T* b;           // [k][vectors]
  T* c;
  int64_t c_row;
  bool first;  // c is written, else added to
};

// Weights of `height` rows as a panel [channel, tap][height], from anywhere.
template <class T>
struct TapJob {
  DType dtype;
  const void* weight;
  int64_t row, channel;  // element strides
  int64_t channels, taps;
  const int64_t* tap;  // where each tap lies
  int64_t height;
  T* out;
};

// One channel by itself: columns of the result (forward) or of its gradient, and the weights of the taps.
template <class T>
struct ChannelJob {
  const T* staged;
  int64_t taps;
  const int64_t* tap;
  const Move* moves;
  int64_t move_count;
  int64_t columns;
};

// The same for some rows that share what their taps meet: out[row, column] = start[row] + the sum over channels and
// taps of weight[channel, tap][row] * what the tap meets.
template <class T>
struct RowsJob {
  ChannelJob<T> at;
  int64_t channel, channels;  // elements between staged channels
  const T* weight;
  int64_t rows;    // at most sum_rows
  const T* start;  // of each row, or null
  T* out;
  int64_t out_row;
};

template <class T>
struct PatchKernels {
  int64_t lanes;  // of a move
  void (*stage)(const StageJob<T>& job);
  void (*gather)(const PatchJob<T>& job);
  void (*gather_columns)(const GatherJob<T>& job);
  int64_t sum_rows, sum_vectors;  // most of a TapSumJob; the rows also of a RowsJob
  void (*sum_taps)(const TapSumJob<T>& job);
  void (*pack_taps)(const TapJob<T>& job);
  // out[column] = start + the sum over taps of weight[tap] * what the tap meets.
  void (*combine)(const ChannelJob<T>& job, const T* weight, T start, T* out);
  void (*combine_rows)(const RowsJob<T>& job);
  // sums[tap] += the sum over columns of grad[column] * what the tap meets; a vector of partial sums for each tap.
  void (*correlate)(const ChannelJob<T>& job, const T* grad, T* sums);
};
using ConvolutionKernels = PerComputeType<PatchKernels>;
TOCHA_ISA_TABLE(ConvolutionKernels, convolution_kernels)

}  // namespace tocha::cpu
