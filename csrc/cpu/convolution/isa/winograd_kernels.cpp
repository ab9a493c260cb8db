// Winograd's transforms for F(2x2, 3x3) and F(4x4, 3x3), on vectors of channels.
#include "cpu/convolution/winograd_kernels.h"

#include "cpu/engine/isa/simd.h"

TOCHA_ISA_BEGIN
namespace gemm {

using V = Vec<float>;

#define TOCHA_INLINE __attribute__((always_inline))

// One dimension of the transforms for tiles of M results, on vectors: of a kernel's 3 taps, of M + 2 inputs, and of
// M + 2 products; and the transposes of the first and the last.
template <int M>
struct Transforms;

// Polynomials through 0, 1, -1 and infinity.
template <>
struct Transforms<2> {
  TOCHA_INLINE static void kernel(const V (&g)[3], V (&out)[4]) {
    const V half = broadcast(0.5f), outer = (g[0] + g[2]) * half, middle = g[1] * half;
    out[0] = g[0];
    out[1] = outer + middle;
    out[2] = outer - middle;
    out[3] = g[2];
  }
  TOCHA_INLINE static void input(const V (&d)[4], V (&out)[4]) {
    out[0] = d[0] - d[2];
    out[1] = d[1] + d[2];
    out[2] = d[2] - d[1];
    out[3] = d[1] - d[3];
  }
  TOCHA_INLINE static void results(const V (&m)[4], V (&out)[2]) {
    out[0] = m[0] + m[1] + m[2];
    out[1] = m[1] - m[2] - m[3];
  }
  TOCHA_INLINE static void spread(const V (&y)[2], V (&out)[4]) {
    out[0] = y[0];
    out[1] = y[0] + y[1];
    out[2] = y[0] - y[1];
    out[3] = -y[1];
  }
  TOCHA_INLINE static void gather(const V (&m)[4], V (&out)[3]) {
    const V half = broadcast(0.5f), middle = (m[1] + m[2]) * half;
    out[0] = m[0] + middle;
    out[1] = (m[1] - m[2]) * half;
    out[2] = middle + m[3];
  }
};

// Polynomials through 0, a, -a, b, -b and infinity. With a = 5/8 and b = 3/2 the rounding errors are about twice those
// of a plain sum; with the usual 1 and 2 they are four times as large.
template <>
struct Transforms<4> {
  static constexpr float a = 0.625f, b = 1.5f, aa = a * a, bb = b * b;
  static constexpr float kZero = 1 / (aa * bb), kA = 1 / (2 * aa * (aa - bb)), kB = 1 / (2 * bb * (bb - aa));

  TOCHA_INLINE static void kernel(const V (&g)[3], V (&out)[6]) {
    const V outer_a = (g[0] + g[2] * broadcast(aa)) * broadcast(kA), inner_a = g[1] * broadcast(a * kA);
    const V outer_b = (g[0] + g[2] * broadcast(bb)) * broadcast(kB), inner_b = g[1] * broadcast(b * kB);
    out[0] = g[0] * broadcast(kZero);
    out[1] = outer_a + inner_a;
    out[2] = outer_a - inner_a;
    out[3] = outer_b + inner_b;
    out[4] = outer_b - inner_b;
    out[5] = g[2];
  }
  TOCHA_INLINE static void input(const V (&d)[6], V (&out)[6]) {
    const V even_a = d[4] - d[2] * broadcast(bb), odd_a = (d[3] - d[1] * broadcast(bb)) * broadcast(a);
    const V even_b = d[4] - d[2] * broadcast(aa), odd_b = (d[3] - d[1] * broadcast(aa)) * broadcast(b);
    out[0] = d[0] * broadcast(aa * bb) + (d[4] - d[2] * broadcast(aa + bb));
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = d[1] * broadcast(aa * bb) + (d[5] - d[3] * broadcast(aa + bb));
  }
  TOCHA_INLINE static void results(const V (&m)[6], V (&out)[4]) {
    const V sum_a = m[1] + m[2], rest_a = m[1] - m[2], sum_b = m[3] + m[4], rest_b = m[3] - m[4];
    out[0] = m[0] + sum_a + sum_b;
    out[1] = rest_a * broadcast(a) + rest_b * broadcast(b);
    out[2] = sum_a * broadcast(aa) + sum_b * broadcast(bb);
    out[3] = rest_a * broadcast(a * aa) + rest_b * broadcast(b * bb) + m[5];
  }
  TOCHA_INLINE static void spread(const V (&y)[4], V (&out)[6]) {
    const V even_a = y[0] + y[2] * broadcast(aa), odd_a = y[1] * broadcast(a) + y[3] * broadcast(a * aa);
    const V even_b = y[0] + y[2] * broadcast(bb), odd_b = y[1] * broadcast(b) + y[3] * broadcast(b * bb);
    out[0] = y[0];
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = y[3];
  }
  TOCHA_INLINE static void gather(const V (&m)[6], V (&out)[3]) {
    const V sum_a = (m[1] + m[2]) * broadcast(kA), rest_a = (m[1] - m[2]) * broadcast(a * kA);
    const V sum_b = (m[3] + m[4]) * broadcast(kB), rest_b = (m[3] - m[4]) * broadcast(b * kB);
    out[0] = m[0] * broadcast(kZero) + sum_a + sum_b;
    out[1] = rest_a + rest_b;
    out[2] = sum_a * broadcast(aa) + sum_b * broadcast(bb) + m[5];
  }
};

// Both dimensions: element (y, x) of the source is at(y * N + x), and put(y * M + x, value) gets the result's.
template <int N, int M, class F, class Read, class Write>
TOCHA_INLINE inline void transform(F one_dimension, Read at, Write put) {
  V columns[N][M];
#pragma GCC unroll 6
  for (int x = 0; x < N; ++x) {
    V column[N];
#pragma GCC unroll 6
    for (int y = 0; y < N; ++y) column[y] = at(y * N + x);
    one_dimension(column, columns[x]);
  }
#pragma GCC unroll 6
  for (int y = 0; y < M; ++y) {
    V row[N], out[M];
#pragma GCC unroll 6
    for (int x = 0; x < N; ++x) row[x] = columns[x][y];
    one_dimension(row, out);
#pragma GCC unroll 6
    for (int x = 0; x < M; ++x) put(y * M + x, out[x]);
  }
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
TOCHA_INLINE inline void for_vectors(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>) f(i, AllLanes{});
  if (i < n) f(i, FirstLanes{n - i});
}

template <int M>
void winograd_weights(const cpu::WinogradWeightJob& job) {
  for_vectors(job.count, [&](int64_t i, auto lanes) {
    transform<3, M + 2>([](const auto& in, auto& out) TOCHA_INLINE { Transforms<M>::kernel(in, out); },
                        [&](int t) { return lanes.load(job.weight + job.place[t] * job.weight_tap + i); },
                        [&](int point, V v) { lanes.store(job.out + point * job.out_point + i, v); });
  });
}

// Tiles of N x N pixels to (M + 2) x (M + 2) points.
template <int N, int M, class F>
inline void transform_tiles(const cpu::WinogradTileJob& job, F one_dimension) {
  for (int64_t tile = 0; tile < job.tiles; ++tile) {
    const float* pixel[N * N];
    for (int i = 0; i < N * N; ++i) pixel[i] = job.in + job.pixel[tile * N * N + i] * job.channels;
    for_vectors(job.channels, [&](int64_t c, auto lanes) {
      float* to = job.out + c / job.panel * job.out_panel + tile * job.out_tile + c % job.panel;
      transform<N, M + 2>(
          one_dimension, [&](int i) { return lanes.load(pixel[i] + c); },
          [&](int point, V v) { lanes.store(to + point * job.out_point, v); });
    });
  }
}

template <int M>
void winograd_input(const cpu::WinogradTileJob& job) {
  transform_tiles<M + 2, M>(job, [](const auto& in, auto& out) TOCHA_INLINE { Transforms<M>::input(in, out); });
}

template <int M>
void winograd_grad(const cpu::WinogradTileJob& job) {
  transform_tiles<M, M>(job, [](const auto& in, auto& out) TOCHA_INLINE { Transforms<M>::spread(in, out); });
}

template <int M>
void winograd_results(const cpu::WinogradResultJob& job) {
  for (int64_t tile = 0; tile < job.tiles; ++tile) {
    float* pixel[M * M];
    for (int i = 0; i < M * M; ++i) pixel[i] = job.out + job.pixel[tile * M * M + i] * job.rows;
    const float* in = job.in + tile * job.rows;
    for_vectors(job.rows, [&](int64_t r, auto lanes) {
      const V bias = job.bias ? lanes.load(job.bias + r) : V{};
      transform<M + 2, M>([](const auto& in, auto& out) TOCHA_INLINE { Transforms<M>::results(in, out); },
                          [&](int point) { return lanes.load(in + point * job.in_point + r); },
                          [&](int i, V v) { lanes.store(pixel[i] + r, v + bias); });
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

template <int M>
void winograd_kernel(const cpu::WinogradKernelJob& job) {
  for_vectors(job.count, [&](int64_t i, auto lanes) {
    V taps[9];
    transform<M + 2, 3>([](const auto& in, auto& out) TOCHA_INLINE { Transforms<M>::gather(in, out); },
                        [&](int point) {
                          V sum{};
                          for (int64_t p = 0; p < job.parts; ++p) {
                            sum += lanes.load(job.in + p * job.in_part + point * job.in_point + i);
                          }
                          return sum;
                        },
                        [&](int t, V v) { taps[t] = v; });
    const int64_t count = job.count - i < kLanes<float> ? job.count - i : kLanes<float>;
    store_kernels(taps, count, job.out + i * 9);
  });
}

template <int M>
constexpr cpu::WinogradTransforms transforms() {
  return {M, winograd_weights<M>, winograd_input<M>, winograd_grad<M>, winograd_results<M>, winograd_kernel<M>};
}

#undef TOCHA_INLINE

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const WinogradKernels winograd_kernels;
const WinogradKernels winograd_kernels = {gemm::transforms<2>(), gemm::transforms<4>(), gemm::winograd_planes};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
