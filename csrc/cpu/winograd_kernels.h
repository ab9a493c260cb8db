// The transforms of Winograd's convolution F(2x2, 3x3), once per instruction set: a tile of 2x2 results from 4x4 inputs
// takes 16 multiplications per channel instead of 36. convolution_winograd.cpp drives them.
#pragma once

#include <cstdint>

#include "core/isa.h"
#include "cpu/convolution_kernels.h"

namespace tocha::cpu {

constexpr int64_t kWinogradPoints = 16;

// out[point * out_point + i] = the transform of the 3x3 kernel weight[place[t] * weight_tap + i], for i < count.
struct WinogradWeightJob {
  const float* weight;
  int64_t weight_tap;
  const int64_t* place;
  int64_t count;
  float* out;
  int64_t out_point;
};

// Like PatchJob with 16 taps, the inputs of a tile row by row; row (point, channel) of the result begins at
// out + point * out_point + channel * out_row.
struct WinogradInputJob {
  PatchJob<float> patches;
  int64_t out_point;
};

// Results of `tiles` neighbouring tiles in each of some rows (output channels). Element (point, row, tile) is
// in[point * in_point + row * in_row + tile]; width and height say how much of the tiles lies within the picture.
struct WinogradOutputJob {
  const float* in;
  int64_t in_point, in_row;
  int64_t rows, tiles;
  const float* bias;  // of each row, or null
  float* out;
  int64_t out_row, out_y;
  int64_t width, height;
};

// Like WinogradInputJob, for the gradient of tiles' results: four taps, the 2x2 pixels of a tile.
using WinogradGradJob = WinogradInputJob;

// The gradient of 3x3 kernels from that of their transforms: out[i * 9 + t] for i < count, where the gradient of
// transform `point` is the sum over parts of in[part * in_part + point * in_point + i].
struct WinogradKernelJob {
  const float* in;
  int64_t in_point;
  int64_t parts, in_part;
  int64_t count;
  float* out;
};

struct WinogradKernels {
  void (*weights)(const WinogradWeightJob& job);
  void (*input)(const WinogradInputJob& job);
  void (*output)(const WinogradOutputJob& job);
  void (*grad)(const WinogradGradJob& job);
  void (*kernel)(const WinogradKernelJob& job);
};
TOCHA_ISA_TABLE(WinogradKernels, winograd_kernels)

}  // namespace tocha::cpu
