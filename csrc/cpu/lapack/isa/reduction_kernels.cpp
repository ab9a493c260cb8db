// Products of a column-major matrix and a vector; see reduction_kernels.h.
#include "cpu/lapack/reduction_kernels.h"

#include <algorithm>

#include "cpu/engine/isa/simd.h"

TOCHA_ISA_BEGIN
namespace gemm {
namespace {

constexpr int kColumns = 8;  // columns that are gone through at once: y and x are read once for all of them

// f(row, count) for the whole vectors of [0, rows), then for what is left.
template <class T, class F>
inline void for_vectors(int64_t rows, F f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= rows; i += kLanes<T>) f(i, std::integral_constant<int64_t, kLanes<T>>{});
  if (i < rows) f(i, rows - i);
}

template <class T, class Count>
inline Vec<T> load_some(const T* p, Count count) {
  if constexpr (std::is_same_v<Count, int64_t>)
    return load_first(p, count);
  else
    return load(p);
}

template <class T, class Count>
inline void store_some(T* p, Vec<T> v, Count count) {
  if constexpr (std::is_same_v<Count, int64_t>)
    store_first(p, v, count);
  else
    store(p, v);
}

template <int C, class T>
void add_columns(int64_t rows, const T* a, int64_t ld, const T* x, int64_t x_step, T alpha, T* y) {
  Vec<T> factors[C];
  for (int j = 0; j < C; ++j) factors[j] = broadcast<T>(alpha * x[j * x_step]);
  for_vectors<T>(rows, [&](int64_t i, auto count) {
    Vec<T> sum = load_some(y + i, count);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sum = multiply_add<T>(load_some(a + j * ld + i, count), factors[j], sum);
    store_some(y + i, sum, count);
  });
}

template <class T>
void add_product(int64_t rows, int64_t columns, const T* a, int64_t ld, const T* x, int64_t x_step, T alpha, T* y) {
  int64_t j = 0;
  for (; j + kColumns <= columns; j += kColumns)
    add_columns<kColumns>(rows, a + j * ld, ld, x + j * x_step, x_step, alpha, y);
  for (; j + 3 <= columns; j += 3) add_columns<3>(rows, a + j * ld, ld, x + j * x_step, x_step, alpha, y);
  for (; j < columns; ++j) add_columns<1>(rows, a + j * ld, ld, x + j * x_step, x_step, alpha, y);
}

template <int C, class T>
void dot_columns(int64_t rows, const T* a, int64_t ld, const T* x, T* y) {
  Vec<T> sums[C] = {};
  for_vectors<T>(rows, [&](int64_t i, auto count) {
    const Vec<T> v = load_some(x + i, count);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sums[j] = multiply_add<T>(load_some(a + j * ld + i, count), v, sums[j]);
  });
  for (int j = 0; j < C; ++j) y[j] = sum_of<T>(sums[j]);
}

template <class T>
void dots(int64_t rows, int64_t columns, const T* a, int64_t ld, const T* x, T* y) {
  int64_t j = 0;
  for (; j + kColumns <= columns; j += kColumns) dot_columns<kColumns>(rows, a + j * ld, ld, x, y + j);
  for (; j + 3 <= columns; j += 3) dot_columns<3>(rows, a + j * ld, ld, x, y + j);
  for (; j < columns; ++j) dot_columns<1>(rows, a + j * ld, ld, x, y + j);
}

// What C columns of a lower triangle contribute: the square on the diagonal, then what is below it, which stands for
// what is right of it as well.
template <int C, class T>
void add_symmetric_columns(int64_t n, const T* a, int64_t ld, const T* x, T* y) {
  for (int j = 0; j < C; ++j) {
    y[j] += a[j * ld + j] * x[j];
    for (int i = j + 1; i < C; ++i) y[i] += a[j * ld + i] * x[j], y[j] += a[j * ld + i] * x[i];
  }
  Vec<T> factors[C], sums[C] = {};
  for (int j = 0; j < C; ++j) factors[j] = broadcast<T>(x[j]);
  for_vectors<T>(n - C, [&](int64_t i, auto count) {
    Vec<T> sum = load_some(y + C + i, count);
    const Vec<T> v = load_some(x + C + i, count);
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) {
      const Vec<T> element = load_some(a + j * ld + C + i, count);
      sum = multiply_add<T>(element, factors[j], sum);
      sums[j] = multiply_add<T>(element, v, sums[j]);
    }
    store_some(y + C + i, sum, count);
  });
  for (int j = 0; j < C; ++j) y[j] += sum_of<T>(sums[j]);
}

template <class T>
void add_symmetric(int64_t n, int64_t first, int64_t last, const T* a, int64_t ld, const T* x, T* y) {
  constexpr int columns = 4;
  int64_t j = first;
  for (; j + columns <= last; j += columns) add_symmetric_columns<columns>(n - j, a + j * ld + j, ld, x + j, y + j);
  for (; j < last; ++j) add_symmetric_columns<1>(n - j, a + j * ld + j, ld, x + j, y + j);
}

template <class T>
constexpr cpu::ReductionKernels<T> reduction() {
  return {add_product<T>, dots<T>, add_symmetric<T>};
}

}  // namespace
}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const ReductionTable reduction_kernels;
const ReductionTable reduction_kernels = {gemm::reduction<float>(), gemm::reduction<double>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
