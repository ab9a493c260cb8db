// Matrix-vector products on one thread. Both read the matrix once, in the order it lies in memory.
// Called by gemm.cpp.
#include "cpu/engine/isa/convert.h"
#include "cpu/gemm/kernels.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::VectorKernels;

// Halves are added to each other in registers: by way of memory the lanes of a short row took longer than the row.
template <class T, int kHalf, size_t... lane>
inline T sum_lanes(Vec<T> v, std::index_sequence<lane...> lanes) {
  v += __builtin_shufflevector(v, v, ((static_cast<int>(lane) + kHalf) % kLanes<T>)...);
  if constexpr (kHalf > 1)
    return sum_lanes<T, kHalf / 2>(v, lanes);
  else
    return v[0];
}
template <class T>
inline T sum_lanes(Vec<T> v) {
  return sum_lanes<T, kLanes<T> / 2>(v, std::make_index_sequence<kLanes<T>>{});
}

// kRows dot products at once share the loads of x; one row alone runs on four accumulators instead.
template <class T, class S, int kRows>
inline void dot_rows(int64_t k, const S* a, int64_t a_row, const T* x, T* out) {
  constexpr int kChains = kRows == 1 ? 4 : 1;
  constexpr int64_t lanes = kLanes<T>;
  Vec<T> acc[kRows][kChains];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) acc[i][c] = Vec<T>{};
  }
  int64_t p = 0;
  for (; p + kChains * lanes <= k; p += kChains * lanes) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
      const int64_t at = p + c * lanes;
      Vec<T> y = load(x + at);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) acc[i][c] = multiply_add<T>(load_as<T>(a + i * a_row + at), y, acc[i][c]);
    }
  }
  for (; p < k; p += lanes) {
    const int64_t count = k - p < lanes ? k - p : lanes;
    Vec<T> y = load_first(x + p, count);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      acc[i][0] = multiply_add<T>(load_first_as<T>(a + i * a_row + p, count), y, acc[i][0]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    Vec<T> total = acc[i][0];
#pragma GCC unroll 4
    for (int c = 1; c < kChains; ++c) total += acc[i][c];
    out[i] = sum_lanes<T>(total);
  }
}

template <class T>
void row_dots(DType dtype, int64_t rows, int64_t k, const void* a, int64_t a_row, const T* x, T* out) {
  with_storage<T>(dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    const S* src = static_cast<const S*>(a);
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) dot_rows<T, S, 4>(k, src + i * a_row, a_row, x, out + i);
    for (; i < rows; ++i) dot_rows<T, S, 1>(k, src + i * a_row, a_row, x, out + i);
  });
}

// out += sum of kRows rows of b, each times its element of x. out stays in the first-level cache.
template <class T, class S, int kRows>
inline void add_rows(int64_t n, const S* b, int64_t b_k, const T* x, T* out) {
  constexpr int64_t lanes = kLanes<T>;
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    Vec<T> acc = load(out + j);
#pragma GCC unroll 8
    for (int p = 0; p < kRows; ++p) acc = multiply_add<T>(load_as<T>(b + p * b_k + j), broadcast(x[p]), acc);
    store(out + j, acc);
  }
  if (j < n) {
    Vec<T> acc = load_first(out + j, n - j);
#pragma GCC unroll 8
    for (int p = 0; p < kRows; ++p) {
      acc = multiply_add<T>(load_first_as<T>(b + p * b_k + j, n - j), broadcast(x[p]), acc);
    }
    store_first(out + j, acc, n - j);
  }
}

template <class T>
void column_sums(DType dtype, int64_t k, int64_t n, const void* b, int64_t b_k, const T* x, T* out) {
  std::memset(out, 0, static_cast<size_t>(n) * sizeof(T));
  with_storage<T>(dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    const S* src = static_cast<const S*>(b);
    int64_t p = 0;
    for (; p + 8 <= k; p += 8) add_rows<T, S, 8>(n, src + p * b_k, b_k, x + p, out);
    for (; p < k; ++p) add_rows<T, S, 1>(n, src + p * b_k, b_k, x + p, out);
  });
}

template <class T>
constexpr VectorKernels<T> vector_kernels() {
  return {row_dots<T>, column_sums<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const GemvKernels gemv_kernels;
const GemvKernels gemv_kernels = {gemm::vector_kernels<float>(), gemm::vector_kernels<double>(),
                                  gemm::vector_kernels<uint32_t>(), gemm::vector_kernels<uint64_t>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
