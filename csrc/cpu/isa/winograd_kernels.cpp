// Winograd's transforms for F(2x2, 3x3), on vectors of channels.
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

// How many lanes of vectors exist: all, or the first ones.
struct AllLanes {
  static V load(const float* p) { return gemm::load(p); }
  static void store(float* p, V v) { gemm::store(p, v); }
};
struct FirstLanes {
  int64_t count;
  V load(const float* p) const { return load_first(p, count); }
  void store(float* p, V v) const { store_first(p, v, count); }
};

// f(first, lanes) for vectors that cover [0, n).
template <class F>
inline __attribute__((always_inline)) void for_vectors(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>) f(i, AllLanes{});
  if (i < n) f(i, FirstLanes{n - i});
}

void winograd_weights(const cpu::WinogradWeightJob& job) {
  for_vectors(job.count, [&](int64_t i, auto lanes) {
    auto at = [&](int t) { return lanes.load(job.weight + job.place[t] * job.weight_tap + i); };
    V columns[3][4];
    for (int x = 0; x < 3; ++x) transform_kernel(at(x), at(3 + x), at(6 + x), columns[x]);
    for (int y = 0; y < 4; ++y) {
      V row[4];
      transform_kernel(columns[0][y], columns[1][y], columns[2][y], row);
      for (int x = 0; x < 4; ++x) lanes.store(job.out + (y * 4 + x) * job.out_point + i, row[x]);
    }
  });
}

inline float* place_of(const cpu::WinogradTileJob& job, int64_t tile, int64_t channel) {
  return job.out + channel / job.panel * job.out_panel + tile * job.out_tile + channel % job.panel;
}

void winograd_input(const cpu::WinogradTileJob& job) {
  const int64_t point = job.out_point;
  for (int64_t tile = 0; tile < job.tiles; ++tile) {
    const float* pixel[16];
    for (int i = 0; i < 16; ++i) pixel[i] = job.in + job.pixel[tile * 16 + i] * job.channels;
    for_vectors(job.channels, [&](int64_t c, auto lanes) {
      auto at = [&](int i) { return lanes.load(pixel[i] + c); };
      V columns[4][4];
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x) transform_input(at(x), at(4 + x), at(8 + x), at(12 + x), columns[x]);
      float* to = place_of(job, tile, c);
#pragma GCC unroll 4
      for (int y = 0; y < 4; ++y, to += 4 * point) {
        V values[4];
        transform_input(columns[0][y], columns[1][y], columns[2][y], columns[3][y], values);
#pragma GCC unroll 4
        for (int x = 0; x < 4; ++x) lanes.store(to + x * point, values[x]);
      }
    });
  }
}

void winograd_grad(const cpu::WinogradTileJob& job) {
  const int64_t point = job.out_point;
  for (int64_t tile = 0; tile < job.tiles; ++tile) {
    const float* pixel[4];
    for (int i = 0; i < 4; ++i) pixel[i] = job.in + job.pixel[tile * 4 + i] * job.channels;
    for_vectors(job.channels, [&](int64_t c, auto lanes) {
      V columns[2][4];
      for (int x = 0; x < 2; ++x) spread_output(lanes.load(pixel[x] + c), lanes.load(pixel[2 + x] + c), columns[x]);
      float* to = place_of(job, tile, c);
#pragma GCC unroll 4
      for (int y = 0; y < 4; ++y, to += 4 * point) {
        V values[4];
        spread_output(columns[0][y], columns[1][y], values);
#pragma GCC unroll 4
        for (int x = 0; x < 4; ++x) lanes.store(to + x * point, values[x]);
      }
    });
  }
}

void winograd_results(const cpu::WinogradResultJob& job) {
  for (int64_t tile = 0; tile < job.tiles; ++tile) {
    float* pixel[4];
    for (int i = 0; i < 4; ++i) pixel[i] = job.out + job.pixel[tile * 4 + i] * job.rows;
    const float* in = job.in + tile * job.rows;
    for_vectors(job.rows, [&](int64_t r, auto lanes) {
      auto at = [&](int point) { return lanes.load(in + point * job.in_point + r); };
      V columns[4][2];
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x) transform_output(at(x), at(4 + x), at(8 + x), at(12 + x), columns[x]);
      const V bias = job.bias ? lanes.load(job.bias + r) : V{};
#pragma GCC unroll 2
      for (int y = 0; y < 2; ++y) {
        V values[2];
        transform_output(columns[0][y], columns[1][y], columns[2][y], columns[3][y], values);
        lanes.store(pixel[2 * y] + r, values[0] + bias);
        lanes.store(pixel[2 * y + 1] + r, values[1] + bias);
      }
    });
  }
}

void winograd_planes(const cpu::WinogradPlaneJob& job) {
  constexpr int n = kLanes<float>;
  for_vectors(job.rows, [&](int64_t r, auto rows) {
    const int64_t row_count = job.rows - r < n ? job.rows - r : n;
    for_vectors(job.pixels, [&](int64_t p, auto pixels) {
      V v[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) v[i] = p + i < job.pixels ? rows.load(job.in + (p + i) * job.rows + r) : V{};
      transpose<float>(v);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) {
        if (i < row_count) pixels.store(job.out + (r + i) * job.out_row + p, v[i]);
      }
    });
  });
}

// out[i * 9 + t] = lane i of taps[t], for i < count.
inline void store_kernels(const V (&taps)[9], int64_t count, float* out) {
  constexpr int n = kLanes<float>;
  for (int first = 0; first < 9; first += n) {
    const int some = 9 - first < n ? 9 - first : n;
    V v[n];
    for (int i = 0; i < n; ++i) v[i] = i < some ? taps[first + i] : V{};
    transpose<float>(v);
    for (int64_t i = 0; i < count; ++i) store_first(out + i * 9 + first, v[i], some);
  }
}

void winograd_kernel(const cpu::WinogradKernelJob& job) {
  for_vectors(job.count, [&](int64_t i, auto lanes) {
    auto at = [&](int point) {
      V sum{};
      for (int64_t p = 0; p < job.parts; ++p) sum += lanes.load(job.in + p * job.in_part + point * job.in_point + i);
      return sum;
    };
    V columns[4][3], taps[9];
    for (int x = 0; x < 4; ++x) gather_kernel(at(x), at(4 + x), at(8 + x), at(12 + x), columns[x]);
    for (int y = 0; y < 3; ++y) {
      V row[3];
      gather_kernel(columns[0][y], columns[1][y], columns[2][y], columns[3][y], row);
      for (int x = 0; x < 3; ++x) taps[y * 3 + x] = row[x];
    }
    const int64_t count = job.count - i < kLanes<float> ? job.count - i : kLanes<float>;
    store_kernels(taps, count, job.out + i * 9);
  });
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const WinogradKernels winograd_kernels;
const WinogradKernels winograd_kernels = {gemm::winograd_weights, gemm::winograd_input,  gemm::winograd_grad,
                                          gemm::winograd_results, gemm::winograd_planes, gemm::winograd_kernel};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
