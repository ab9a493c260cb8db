// Adding rows to rows, and the sums and maxima of rows that indices name.
#include "cpu/indexing/embedding_kernels.h"

#include <type_traits>

#include "cpu/engine/isa/each.h"
#include "cpu/engine/isa/simd.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::BagJob;

constexpr int64_t kRowsAhead = 8;  // rows that are fetched while others are added
constexpr int64_t kLine = 64;      // bytes

template <class T>
void add_scaled(T* y, const T* x, T factor, int64_t n) {
  if (factor == T(1))
    rows::each<T>(n, [=](int64_t i, auto at) { at.store(y + i, at.load(y + i) + at.load(x + i)); });
  else
    rows::each<T>(n, [=](int64_t i, auto at) { at.store(y + i, at.load(y + i) + at.all(factor) * at.load(x + i)); });
}

template <class T>
inline void fetch(const BagJob<T>& job, int64_t i, int64_t column, int64_t width) {
  if (i >= job.known) return;
  // An address only, of indices that nobody has checked yet.
  const uintptr_t p =
      reinterpret_cast<uintptr_t>(job.table) +
      (static_cast<uintptr_t>(job.index[i]) * static_cast<uintptr_t>(job.row) + static_cast<uintptr_t>(column)) *
          sizeof(T);
  for (int64_t b = 0; b < width * static_cast<int64_t>(sizeof(T)); b += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(p + static_cast<uintptr_t>(b)));
}

// Columns [column, column + width) of a bag's sum, in registers; `last` is how many of the last vector exist.
template <class T, int kVectors>
void sum_columns(const BagJob<T>& job, int64_t column, int64_t last, T* y) {
  constexpr int n = kLanes<T>;
  Vec<T> sum[kVectors] = {};
  for (int64_t i = 0; i < job.count; ++i) {
    fetch(job, i + kRowsAhead, column, kVectors * n);
    const T factor = job.factors ? job.factors[i] : T(1);
    if (factor == T(0)) continue;
    const T* x = job.table + job.index[i] * job.row + column;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Vec<T> loaded = v < kVectors - 1 || last == n ? load(x + v * n) : load_first(x + v * n, last);
      sum[v] += job.factors ? loaded * broadcast(factor) : loaded;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    if (v < kVectors - 1 || last == n)
      store(y + column + v * n, sum[v]);
    else
      store_first(y + column + v * n, sum[v], last);
  }
}

template <class T>
void sum_bag(const BagJob<T>& job, T* y) {
  constexpr int64_t n = kLanes<T>;
  int64_t c = 0;
  for (; c + 8 * n <= job.n; c += 8 * n) sum_columns<T, 8>(job, c, n, y);
  for (; c + 4 * n <= job.n; c += 4 * n) sum_columns<T, 4>(job, c, n, y);
  for (; c < job.n; c += n) sum_columns<T, 1>(job, c, job.n - c < n ? job.n - c : n, y);
}

template <class T>
void max_bag(const BagJob<T>& job, T* y, int64_t* at) {
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  constexpr int64_t kBlock = 32;
  for (int64_t c = 0; c < job.n; c += kBlock) {
    const int64_t width = job.n - c < kBlock ? job.n - c : kBlock;
    T best[kBlock] = {};
    Place place[kBlock];
    for (int64_t k = 0; k < kBlock; ++k) place[k] = -1;
    for (int64_t i = 0; i < job.count; ++i) {
      fetch(job, i + kRowsAhead, c, width);
      if (job.factors && job.factors[i] == T(0)) continue;
      const T* x = job.table + job.index[i] * job.row + c;
      T row[kBlock] = {};
      for (int64_t k = 0; k < width; ++k) row[k] = x[k];
      for (int64_t k = 0; k < kBlock; ++k) {
        const bool greater = (place[k] < 0) | (row[k] > best[k]) | (row[k] != row[k]);
        best[k] = greater ? row[k] : best[k];
        place[k] = greater ? static_cast<Place>(i) : place[k];
      }
    }
    for (int64_t k = 0; k < width; ++k) {
      y[c + k] = best[k];
      at[c + k] = place[k] < 0 ? -1 : job.index[place[k]];
    }
  }
}

template <class T>
constexpr cpu::EmbeddingLoops<T> embedding_loops() {
  return {add_scaled<T>, sum_bag<T>, max_bag<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const EmbeddingKernels embedding_kernels;
const EmbeddingKernels embedding_kernels = {gemm::embedding_loops<float>(), gemm::embedding_loops<double>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
