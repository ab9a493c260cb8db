// Winograd's transforms for F(2x2, 3x3), on whole vectors: of weights side by side, of tiles side by side.
#include "cpu/winograd_kernels.h"

#include "cpu/isa/gemm_simd.h"

TOCHA_ISA_BEGIN
namespace gemm {

using V = Vec<float>;

// One dimension of the transforms, on vectors.
inline void transform_kernel(V a, V b, V c, V (&out)[4]) {
  const V half = broadcast(0.5f), outer = (a + c) * half, middle = b * half;
  out[0] = a;
  out[1] = outer + middle;
  out[2] = outer - middle;
  out[3] = c;
}
inline void transform_input(V a, V b, V c, V d, V (&out)[4]) {
  out[0] = a - c;
  out[1] = b + c;
  out[2] = c - b;
  out[3] = b - d;
}
inline void transform_output(V a, V b, V c, V d, V (&out)[2]) {
  out[0] = a + b + c;
  out[1] = b - c - d;
}

void winograd_weights(const cpu::WinogradWeightJob& job) {
  for (int64_t i = 0; i < job.count; i += kLanes<float>) {
    const int64_t lanes = job.count - i < kLanes<float> ? job.count - i : kLanes<float>;
    auto at = [&](int t) { return load_first(job.weight + job.place[t] * job.weight_tap + i, lanes); };
    V columns[3][4];
    for (int x = 0; x < 3; ++x) transform_kernel(at(x), at(3 + x), at(6 + x), columns[x]);
    for (int y = 0; y < 4; ++y) {
      V row[4];
      transform_kernel(columns[0][y], columns[1][y], columns[2][y], row);
      for (int x = 0; x < 4; ++x) store_first(job.out + (y * 4 + x) * job.out_point + i, row[x], lanes);
    }
  }
}

void winograd_input(const cpu::WinogradInputJob& job) {
  const cpu::PatchJob<float>& p = job.patches;
  for (int64_t c = 0; c < p.channels; ++c) {
    const float* channel = p.staged + c * p.channel;
    float* out = p.out + c * p.out_row;
    for (int64_t m = 0; m < p.move_count; ++m) {
      const float* from = channel + p.moves[m].from;
      V columns[4][4];
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x) {
        transform_input(load(from + p.tap[x]), load(from + p.tap[4 + x]), load(from + p.tap[8 + x]),
                        load(from + p.tap[12 + x]), columns[x]);
      }
      float* to = out + p.moves[m].to;
#pragma GCC unroll 4
      for (int y = 0; y < 4; ++y) {
        V row[4];
        transform_input(columns[0][y], columns[1][y], columns[2][y], columns[3][y], row);
#pragma GCC unroll 4
        for (int x = 0; x < 4; ++x) store(to + (y * 4 + x) * job.out_point, row[x]);
      }
    }
  }
}

// Two vectors of neighbouring columns, of which `count` exist.
inline void store_columns(float* out, V even, V odd, int64_t count) {
  constexpr auto lanes = std::make_index_sequence<kLanes<float>>{};
  constexpr int64_t n = kLanes<float>;
  const V low = interleave_half<float, false>(even, odd, lanes), high = interleave_half<float, true>(even, odd, lanes);
  if (count >= 2 * n) {
    store(out, low);
    store(out + n, high);
  } else if (count >= n) {
    store(out, low);
    store_first(out + n, high, count - n);
  } else {
    store_first(out, low, count);
  }
}

void winograd_output(const cpu::WinogradOutputJob& job) {
  constexpr int64_t n = kLanes<float>;
  for (int64_t r = 0; r < job.rows; ++r) {
    const V bias = broadcast(job.bias ? job.bias[r] : 0.0f);
    for (int64_t i = 0; i < job.tiles; i += n) {
      const float* from = job.in + r * job.in_row + i;
      V columns[4][2];
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x) {
        transform_output(load(from + x * job.in_point), load(from + (4 + x) * job.in_point),
                         load(from + (8 + x) * job.in_point), load(from + (12 + x) * job.in_point), columns[x]);
      }
      float* out = job.out + r * job.out_row + 2 * i;
#pragma GCC unroll 2
      for (int y = 0; y < 2; ++y) {
        if (y >= job.height) break;
        V row[2];
        transform_output(columns[0][y], columns[1][y], columns[2][y], columns[3][y], row);
        store_columns(out + y * job.out_y, row[0] + bias, row[1] + bias, job.width - 2 * i);
      }
    }
  }
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const WinogradKernels winograd_kernels;
const WinogradKernels winograd_kernels = {gemm::winograd_weights, gemm::winograd_input, gemm::winograd_output};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
