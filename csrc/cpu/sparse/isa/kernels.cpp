// A sparse row times a vector or the rows of a table, and products at given places.
#include "cpu/sparse/kernels.h"

#include "cpu/engine/isa/simd.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::SparseMatrix;

constexpr int64_t kRowsAhead = 8;  // rows of the table that are fetched while others are added
constexpr int64_t kCacheLine = 64;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kMostVectors = 16;  // sums in registers
#else
constexpr int kMostVectors = 8;
#endif

bool within(const int64_t* index, int64_t count, int64_t limit) {
  uint64_t outside = 0;
  for (int64_t i = 0; i < count; ++i) outside |= static_cast<uint64_t>(index[i]) >= static_cast<uint64_t>(limit);
  return outside == 0;
}

bool rising(const int64_t* index, int64_t count) {
  uint64_t fallen = 0;
  for (int64_t i = 1; i < count; ++i) fallen |= index[i] < index[i - 1];
  return fallen == 0;
}

// a * b + c, with one rounding where that is one instruction.
inline float fused(float a, float b, float c) {
#if defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
inline double fused(double a, double b, double c) {
#if defined(__FP_FAST_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <class T>
bool times_vector(const SparseMatrix<T>& matrix, int64_t first, int64_t last, const T* x, int64_t n, T* y) {
  const auto limit = static_cast<uint64_t>(n);
  const auto* column = reinterpret_cast<const uint64_t*>(matrix.column);  // negative ones are beyond the limit
  const T* values = matrix.values;
  for (int64_t r = first; r < last; ++r) {
    T sum[4] = {};
    int64_t i = matrix.begin[r];
    const int64_t end = matrix.begin[r + 1];
    for (; i + 4 <= end; i += 4) {
      const uint64_t a = column[i], b = column[i + 1], c = column[i + 2], d = column[i + 3];
      if ((a >= limit) | (b >= limit) | (c >= limit) | (d >= limit)) [[unlikely]]
        return false;
      sum[0] = fused(values[i], x[a], sum[0]);
      sum[1] = fused(values[i + 1], x[b], sum[1]);
      sum[2] = fused(values[i + 2], x[c], sum[2]);
      sum[3] = fused(values[i + 3], x[d], sum[3]);
    }
    for (; i < end; ++i) {
      if (column[i] >= limit) [[unlikely]]
        return false;
      sum[0] = fused(values[i], x[column[i]], sum[0]);
    }
    y[r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  return true;
}

// kVectors vectors of columns, in registers; the last one has `last` elements.
template <class T, int kVectors>
inline void times_columns(const SparseMatrix<T>& matrix, int64_t r, const T* table, int64_t step, int64_t last, T* y) {
  constexpr int n = kLanes<T>;
  Vec<T> sum[kVectors] = {};
  for (int64_t i = matrix.begin[r]; i < matrix.begin[r + 1]; ++i) {
    if (i + kRowsAhead < matrix.count) {
      const T* ahead = table + matrix.column[i + kRowsAhead] * step;
      for (int64_t k = 0; k < kVectors * n; k += kCacheLine / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(ahead + k);
    }
    const T* x = table + matrix.column[i] * step;
    const Vec<T> value = broadcast(matrix.values[i]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const Vec<T> loaded = kVectors > 1 || last == n ? load(x + v * n) : load_first(x, last);
      sum[v] = multiply_add<T>(value, loaded, sum[v]);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v)
    if (kVectors > 1 || last == n)
      store(y + v * n, sum[v]);
    else
      store_first(y, sum[v], last);
}

template <class T>
void times_table(const SparseMatrix<T>& matrix, int64_t first, int64_t last, const T* table, int64_t step, int64_t n,
                 T* y) {
  constexpr int64_t lanes = kLanes<T>, most = kMostVectors * lanes;
  for (int64_t r = first; r < last; ++r) {
    T* to = y + r * step;
    int64_t c = 0;
    for (; c + most <= n; c += most) times_columns<T, kMostVectors>(matrix, r, table + c, step, lanes, to + c);
    for (; c + 4 * lanes <= n; c += 4 * lanes) times_columns<T, 4>(matrix, r, table + c, step, lanes, to + c);
    for (; c < n; c += lanes) times_columns<T, 1>(matrix, r, table + c, step, n - c < lanes ? n - c : lanes, to + c);
  }
}

template <class T>
inline T sum_of_lanes(Vec<T> v) {
  T total = v[0];
#pragma GCC unroll 16
  for (int i = 1; i < kLanes<T>; ++i) total += v[i];
  return total;
}

// kRows dot products that share the loads of x.
template <class T, int kRows>
inline void some_dots(const int64_t* column, const T* x, const T* table, int64_t n, T* out) {
  constexpr int64_t lanes = kLanes<T>;
  Vec<T> sum[kRows] = {};
  const T* row[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) row[r] = table + column[r] * n;
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    const Vec<T> shared = load(x + k);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = multiply_add<T>(shared, load(row[r] + k), sum[r]);
  }
  if (k < n) {
    const Vec<T> shared = load_first(x + k, n - k);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = multiply_add<T>(shared, load_first(row[r] + k, n - k), sum[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) out[r] = sum_of_lanes<T>(sum[r]);
}

template <class T>
void dots(const int64_t* column, int64_t count, const T* x, const T* table, int64_t n, T* out) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) some_dots<T, 4>(column + i, x, table, n, out + i);
  for (; i < count; ++i) some_dots<T, 1>(column + i, x, table, n, out + i);
}

template <class T>
constexpr cpu::SparseLoops<T> sparse_loops() {
  return {times_vector<T>, times_table<T>, dots<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const SparseKernels sparse_kernels;
const SparseKernels sparse_kernels = {gemm::sparse_loops<float>(), gemm::sparse_loops<double>(), gemm::within,
                                      gemm::rising};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
