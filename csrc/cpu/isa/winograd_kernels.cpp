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

// Their transposes.
inline void spread_output(V a, V b, V (&out)[4]) {
  out[0] = a;
  out[1] = a + b;
  out[2] = a - b;
  out[3] = -b;
}
inline void gather_kernel(V a, V b, V c, V d, V (&out)[3]) {
  const V half = broadcast(0.5f), middle = (b + c) * half;
  out[0] = a + middle;
  out[1] = (b - c) * half;
  out[2] = middle + d;
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
  const int64_t x0 = p.tap[0], x1 = p.tap[1], x2 = p.tap[2], x3 = p.tap[3], row = p.tap[4] - p.tap[0];
  const int64_t point = job.out_point, count = p.move_count, channels = p.channels, out_row = p.out_row;
  const int64_t in_channel = p.channel;
  const cpu::Move* moves = p.moves;
  const float* channel = p.staged;
  float* out = p.out;
  for (int64_t c = 0; c < channels; ++c, channel += in_channel, out += out_row) {
    for (int64_t m = 0; m < count; ++m) {
      const float *a = channel + moves[m].from, *b = a + row, *d = b + row, *e = d + row;
      V columns[4][4];
      transform_input(load(a + x0), load(b + x0), load(d + x0), load(e + x0), columns[0]);
      transform_input(load(a + x1), load(b + x1), load(d + x1), load(e + x1), columns[1]);
      transform_input(load(a + x2), load(b + x2), load(d + x2), load(e + x2), columns[2]);
      transform_input(load(a + x3), load(b + x3), load(d + x3), load(e + x3), columns[3]);
      float* to = out + moves[m].to;
#pragma GCC unroll 4
      for (int y = 0; y < 4; ++y, to += 4 * point) {
        V values[4];
        transform_input(columns[0][y], columns[1][y], columns[2][y], columns[3][y], values);
        store(to, values[0]);
        store(to + point, values[1]);
        store(to + 2 * point, values[2]);
        store(to + 3 * point, values[3]);
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
  const int64_t point = job.in_point, tiles = job.tiles, width = job.width, height = job.height, out_y = job.out_y;
  const float* in = job.in;
  float* out = job.out;
  for (int64_t r = 0; r < job.rows; ++r, in += job.in_row, out += job.out_row) {
    const V bias = broadcast(job.bias ? job.bias[r] : 0.0f);
    for (int64_t i = 0; i < tiles; i += n) {
      const float *a = in + i, *b = a + 4 * point, *c = b + 4 * point, *d = c + 4 * point;
      V columns[4][2];
#pragma GCC unroll 4
      for (int64_t x = 0; x < 4; ++x) {
        transform_output(load(a + x * point), load(b + x * point), load(c + x * point), load(d + x * point),
                         columns[x]);
      }
      V above[2], below[2];
      transform_output(columns[0][0], columns[1][0], columns[2][0], columns[3][0], above);
      store_columns(out + 2 * i, above[0] + bias, above[1] + bias, width - 2 * i);
      if (height == 1) continue;
      transform_output(columns[0][1], columns[1][1], columns[2][1], columns[3][1], below);
      store_columns(out + out_y + 2 * i, below[0] + bias, below[1] + bias, width - 2 * i);
    }
  }
}

void winograd_grad(const cpu::WinogradGradJob& job) {
  const cpu::PatchJob<float>& p = job.patches;
  const int64_t t0 = p.tap[0], t1 = p.tap[1], t2 = p.tap[2], t3 = p.tap[3];
  const int64_t point = job.out_point, count = p.move_count;
  const cpu::Move* moves = p.moves;
  const float* channel = p.staged;
  float* out = p.out;
  for (int64_t c = 0; c < p.channels; ++c, channel += p.channel, out += p.out_row) {
    for (int64_t m = 0; m < count; ++m) {
      const float* from = channel + moves[m].from;
      V columns[2][4];
      spread_output(load(from + t0), load(from + t2), columns[0]);
      spread_output(load(from + t1), load(from + t3), columns[1]);
      float* to = out + moves[m].to;
#pragma GCC unroll 4
      for (int y = 0; y < 4; ++y, to += 4 * point) {
        V values[4];
        spread_output(columns[0][y], columns[1][y], values);
        store(to, values[0]);
        store(to + point, values[1]);
        store(to + 2 * point, values[2]);
        store(to + 3 * point, values[3]);
      }
    }
  }
}

void winograd_kernel(const cpu::WinogradKernelJob& job) {
  constexpr int64_t n = kLanes<float>;
  for (int64_t i = 0; i < job.count; i += n) {
    const int64_t lanes = job.count - i < n ? job.count - i : n;
    auto at = [&](int point) {
      V sum{};
      for (int64_t p = 0; p < job.parts; ++p) {
        sum += load_first(job.in + p * job.in_part + point * job.in_point + i, lanes);
      }
      return sum;
    };
    V columns[4][3];
    for (int x = 0; x < 4; ++x) gather_kernel(at(x), at(4 + x), at(8 + x), at(12 + x), columns[x]);
    float* out = job.out + i * 9;
    for (int y = 0; y < 3; ++y) {
      V row[3];
      gather_kernel(columns[0][y], columns[1][y], columns[2][y], columns[3][y], row);
      for (int x = 0; x < 3; ++x) {
        for (int64_t lane = 0; lane < lanes; ++lane) out[lane * 9 + y * 3 + x] = row[x][lane];
      }
    }
  }
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const WinogradKernels winograd_kernels;
const WinogradKernels winograd_kernels = {gemm::winograd_weights, gemm::winograd_input, gemm::winograd_output,
                                          gemm::winograd_grad, gemm::winograd_kernel};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
