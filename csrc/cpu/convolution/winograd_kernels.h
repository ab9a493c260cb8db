// The transforms of Winograd's convolution with 3x3 kernels, once per instruction set: a tile of 2x2 results takes 16
// multiplications per channel (its points) instead of 36, one of 4x4 results 36 instead of 144. Pixels have their
// channels side by side, so that vectors are of channels whatever the size of the picture. winograd.cpp
// drives them.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

// out[point * out_point + i] = the transform of the 3x3 kernel weight[place[t] * weight_tap + i], for i < count.
struct WinogradWeightJob {
  const float* weight;
  int64_t weight_tap;
  const int64_t* place;
  int64_t count;
  float* out;
  int64_t out_point;
};

// Transforms tiles of pixels: element c of pixel p is in[p * channels + c], and a tile's pixels are named row by row in
// `pixel` ((tile + 2)^2 of an input, tile^2 of a gradient). Channels go out in panels of `panel`: element c of a tile
// to out[point * out_point + c / panel * out_panel + tile * out_tile + c % panel].
struct WinogradTileJob {
  const float* in;
  const int32_t* pixel;
  int64_t tiles, channels;
  float* out;
  int64_t out_point, panel, out_panel, out_tile;
};

// The way back: element r of the tile's results, in[point * in_point + tile * rows + r] transformed, goes to
// out[pixel * rows + r]. Results without a place in the picture are sent to a pixel that nobody reads.
struct WinogradResultJob {
  const float* in;
  int64_t in_point;
  const int32_t* pixel;
  int64_t tiles, rows;
  const float* bias;  // of each row, or null
  float* out;
};

// out[row * out_row + p] = in[p * rows + row].
struct WinogradPlaneJob {
  const float* in;
  int64_t pixels, rows;
  float* out;
  int64_t out_row;
};

// The gradient of 3x3 kernels from that of their transforms: out[i * 9 + t] for i < count, where the gradient of
// transform `point` is the sum over parts of in[part * in_part + point * in_point + i].
struct WinogradKernelJob {
  const float* in;
  int64_t in_point;
  int64_t parts, in_part;
  int64_t count;
  float* out;
};

struct WinogradTransforms {
  int64_t tile;  // results along each side
  void (*weights)(const WinogradWeightJob& job);
  void (*input)(const WinogradTileJob& job);
  void (*grad)(const WinogradTileJob& job);
  void (*results)(const WinogradResultJob& job);
  void (*kernel)(const WinogradKernelJob& job);
};
struct WinogradKernels {
  WinogradTransforms small, large;  // tiles of 2 and of 4
  void (*planes)(const WinogradPlaneJob& job);
};
TOCHA_ISA_TABLE(WinogradKernels, winograd_kernels)

}  // namespace tocha::cpu
