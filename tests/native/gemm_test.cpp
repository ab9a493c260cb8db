// Compares gemm and gemm_batched with three plain loops, over random shapes, strides, factors and
// dtypes. Standalone: prints the first failures and exits non-zero if there are any.
// sources: core/parallel.cpp core/fork.cpp core/dtype.cpp core/dtype_messages.cpp core/scalar.cpp
// sources: cpu/gemm/blas.cpp cpu/gemm/gemm.cpp cpu/gemm/tiles.cpp cpu/gemm/unit.cpp cpu/gemm/vector.cpp
// sources: cpu/gemm/isa/*.cpp cpu/units/*.cpp
#include "cpu/gemm/gemm.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "core/parallel.h"

namespace tocha::cpu {
namespace {

std::mt19937 rng(20240229);
int failures = 0;

int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[rng() % from.size()]; }

int64_t pick_size() {
  if (rng() % 4 == 0) return static_cast<int64_t>(rng() % 200) + 1;
  return pick({0, 1, 1, 2, 3, 6, 7, 8, 13, 14, 15, 16, 17, 31, 32, 33, 48, 65, 112, 113});
}

template <class T>
constexpr bool is_complex_type = false;
template <class R>
constexpr bool is_complex_type<Complex<R>> = true;

// The type that the reference computes in.
template <class T>
using Wide = std::conditional_t<is_complex_type<T>, Complex<double>,
                                std::conditional_t<std::is_integral_v<T>, uint64_t, double>>;

template <class T>
Wide<T> widen(T x) {
  if constexpr (is_complex_type<T>) {
    return Complex<double>(x);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(x);
  } else {
    return static_cast<double>(x);
  }
}

float random_real() { return static_cast<float>(static_cast<int>(rng() % 4001) - 2000) / 1000; }

template <class T>
T random_element() {
  if constexpr (is_complex_type<T>) {
    return T(Complex<double>(random_real(), random_real()));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>((static_cast<uint64_t>(rng()) << 32) | rng());
  } else {
    return T(random_real());
  }
}

template <class T>
struct Matrix {
  std::vector<T> memory;
  int64_t offset, batch_stride, row_stride, col_stride;

  MatrixRef ref() { return {memory.data() + offset, row_stride, col_stride}; }
  T& at(int64_t b, int64_t i, int64_t j) {
    return memory[static_cast<size_t>(offset + b * batch_stride + i * row_stride + j * col_stride)];
  }
};

// Row-major, column-major, padded, strided both ways, or (operands only) one row or column repeated.
template <class T>
Matrix<T> random_matrix(int64_t batch, int64_t rows, int64_t cols, bool may_repeat) {
  const int64_t inner = pick({1, 1, 1, 2, 3});
  const int64_t pad = pick({0, 0, 5});
  const bool by_columns = rng() % 2;
  const int64_t long_stride = std::max<int64_t>(1, (by_columns ? rows : cols) * inner + pad);
  Matrix<T> m;
  m.offset = pick({0, 3});
  m.row_stride = by_columns ? inner : long_stride;
  m.col_stride = by_columns ? long_stride : inner;
  m.batch_stride = long_stride * std::max<int64_t>(1, by_columns ? cols : rows) + pick({0, 7});
  m.memory.resize(static_cast<size_t>(m.offset + std::max<int64_t>(1, batch) * m.batch_stride + 16));
  for (T& x : m.memory) x = random_element<T>();
  if (may_repeat && rng() % 8 == 0) (rng() % 2 ? m.row_stride : m.col_stride) = 0;
  if (may_repeat && rng() % 8 == 0) m.batch_stride = 0;
  return m;
}

double magnitude(double x) { return std::abs(x); }
double magnitude(Complex<double> z) { return std::hypot(z.re, z.im); }

Complex<double> conjugate(Complex<double> z) { return {z.re, -z.im}; }

// Relative error of one operation, and of storing the result.
template <class T>
double unit() {
  return sizeof(T) == (is_complex_type<T> ? 16 : 8) ? 0x1p-52 : 0x1p-23;
}
template <class T>
double rounding() {
  return std::is_same_v<T, BFloat16> ? 0x1p-8 : std::is_same_v<T, Half> ? 0x1p-11 : unit<T>();
}

template <class T>
bool close(Wide<T> got, Wide<T> want, double size) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(got) == static_cast<T>(want);
  } else {
    const double error = magnitude(got - want);
    const double smallest = std::is_same_v<T, Half> ? 0x1p-24 : 1e-30;
    const bool overflow = std::is_same_v<T, Half> && magnitude(want) > 65000;
    return overflow || error <= 8 * unit<T>() * size + rounding<T>() * magnitude(want) + smallest;
  }
}

template <class T>
Scalar random_factor() {
  const int64_t whole = pick({0, 0, 1, 1, 1, -3, 2});
  if (rng() % 2 || std::is_integral_v<T>) return Scalar(whole);
  if (is_complex_type<T>) return Scalar(Complex<double>(0.5, -1.0));
  return Scalar(0.75);
}

struct Case {
  int64_t batch, m, n, k;  // batch < 0: gemm instead of gemm_batched
};

template <class T>
Wide<T> expected(Matrix<T>& a, Matrix<T>& b, const Case& s, int64_t batch, int64_t i, int64_t j, bool conj_a,
                 bool conj_b, double* size) {
  Wide<T> sum = Wide<T>(0);
  for (int64_t p = 0; p < s.k; ++p) {
    Wide<T> x = widen(a.at(batch, i, p)), y = widen(b.at(batch, p, j));
    if constexpr (is_complex_type<T>) {
      if (conj_a) x = conjugate(x);
      if (conj_b) y = conjugate(y);
    }
    if constexpr (!std::is_integral_v<T>) *size += magnitude(x) * magnitude(y);
    sum = sum + x * y;
  }
  return sum;
}

template <class T>
void check(const char* name, const Case& s) {
  const int64_t batch = std::max<int64_t>(s.batch, s.batch < 0 ? 1 : 0);
  Matrix<T> a = random_matrix<T>(batch, s.m, s.k, true), b = random_matrix<T>(batch, s.k, s.n, true);
  Matrix<T> c = random_matrix<T>(batch, s.m, s.n, false);
  const Scalar alpha = random_factor<T>(), beta = random_factor<T>();
  const bool conj_a = is_complex_type<T> && rng() % 2, conj_b = is_complex_type<T> && rng() % 2;
  const bool reads_c = beta.to_bool();
  if constexpr (!std::is_integral_v<T>) {
    // What must not be read is not a number.
    const T nan = T(std::nanf(""));
    for (int64_t l = 0; l < batch && !reads_c; ++l)
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) c.at(l, i, j) = nan;
  }
  Matrix<T> before = c;
  set_num_threads(static_cast<int>(pick({1, 2, 3})));
  if (s.batch < 0) {
    gemm(DTypeOf<T>::value, s.m, s.n, s.k, alpha, a.ref(), b.ref(), beta, c.ref(), conj_a, conj_b);
  } else {
    gemm_batched(DTypeOf<T>::value, s.batch, s.m, s.n, s.k, alpha, a.ref(), a.batch_stride, b.ref(), b.batch_stride,
                 beta, c.ref(), c.batch_stride, conj_a, conj_b);
  }
  bool ok = true;
  for (int64_t l = 0; l < batch; ++l) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double size = 0;
        Wide<T> want = expected(a, b, s, l, i, j, conj_a, conj_b, &size) * alpha.to<Wide<T>>();
        if (reads_c) want = want + widen(before.at(l, i, j)) * beta.to<Wide<T>>();
        if constexpr (!std::is_integral_v<T>) {
          size = size * magnitude(alpha.to<Wide<T>>());
          if (reads_c) size += magnitude(widen(before.at(l, i, j))) * magnitude(beta.to<Wide<T>>());
        }
        ok = ok && close<T>(widen(c.at(l, i, j)), want, size);
        before.at(l, i, j) = c.at(l, i, j);
      }
    }
  }
  const bool inside = std::memcmp(before.memory.data(), c.memory.data(), c.memory.size() * sizeof(T)) == 0;
  if (ok && inside) return;
  ++failures;
  std::printf("%s: batch %lld m %lld n %lld k %lld, strides a (%lld, %lld) b (%lld, %lld) c (%lld, %lld): %s\n", name,
              (long long)s.batch, (long long)s.m, (long long)s.n, (long long)s.k, (long long)a.row_stride,
              (long long)a.col_stride, (long long)b.row_stride, (long long)b.col_stride, (long long)c.row_stride,
              (long long)c.col_stride, ok ? "wrote outside of c" : "wrong values");
}

template <class T>
void check_dtype(const char* name) {
  for (int round = 0; round < 60; ++round)
    check<T>(name, {pick({-1, -1, 0, 1, 2, 9}), pick_size(), pick_size(), pick_size()});
  // Vectors, long sums, and more columns and depth than one slab holds.
  for (int round = 0; round < 6; ++round) {
    check<T>(name, {-1, 1, pick_size(), pick_size()});
    check<T>(name, {-1, pick_size(), 1, pick_size()});
  }
  check<T>(name, {-1, 1, 1, 300'000});
  check<T>(name, {-1, 3, 1, 150'000});
  check<T>(name, {-1, 600, 1, 300});
  check<T>(name, {-1, 1, 600, 300});
  check<T>(name, {-1, 5, 1100, 20});
  check<T>(name, {-1, 20, 9, 4200});
  check<T>(name, {-1, 2100, 5, 9});
  check<T>(name, {-1, 260, 250, 256});
  // Left operands that are large enough to be packed, or read by columns that lie apart, beside few and many columns.
  for (int round = 0; round < 3; ++round) {
    check<T>(name, {-1, 150 + round, 40, 131});
    check<T>(name, {-1, 150 + round, 530, 131});
  }
}

}  // namespace
}  // namespace tocha::cpu

int main() {
  using namespace tocha;
  using namespace tocha::cpu;
#define RUN(dtype, type, python_name, code)                                        \
  if constexpr (DType::dtype != DType::Bool && DType::dtype != DType::Complex32 && \
                sizeof(type) + std::is_integral_v<type> != 1)                      \
    check_dtype<type>(python_name);
  TOCHA_FORALL_DTYPES(RUN)
#undef RUN
  std::printf(failures ? "gemm: %d cases failed\n" : "gemm: all cases pass\n", failures);
  return failures != 0;
}
