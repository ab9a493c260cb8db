// Inner loops of cdist and pdist: one point against many, a block of sums at a time in registers.
#include "cpu/distances/kernels.h"

#include "cpu/vecmath/vecmath.h"

TOCHA_ISA_BEGIN
namespace distances {
namespace {

using cpu::DistanceLoops;
using cpu::Norm;

constexpr int64_t kBlock = 64;
constexpr int64_t kSums = 32;

template <class T>
T magnitude(T x) {
  return x < 0 ? -x : x;
}

template <class T, Norm norm>
inline T add(T sum, T difference) {
  const T size = magnitude(difference);
  if constexpr (norm == Norm::count) return sum + (difference != 0 ? T(1) : T(0));
  if constexpr (norm == Norm::sum) return sum + size;
  if constexpr (norm == Norm::euclid) return sum + difference * difference;
  if constexpr (norm == Norm::largest) return sum >= size || sum != sum ? sum : size;  // NaN stays
}

template <class T, Norm norm>
inline T finish(T sum) {
  if constexpr (norm == Norm::euclid) return math::sqrt(sum);
  return sum;
}

template <class T, Norm norm>
void compare(T* out, const T* x, const T* y, int64_t coordinates, int64_t n, int64_t step) {
  int64_t j = 0;
  for (; j + kBlock <= n; j += kBlock) {
    T sums[kBlock] = {};
    for (int64_t k = 0; k < coordinates; ++k) {
      const T own = x[k];
      const T* row = y + k * step + j;
      for (int64_t i = 0; i < kBlock; ++i) sums[i] = add<T, norm>(sums[i], own - row[i]);
    }
    for (int64_t i = 0; i < kBlock; ++i) out[j + i] = finish<T, norm>(sums[i]);
  }
  const int64_t rest = n - j;
  T sums[kBlock] = {};
  for (int64_t k = 0; k < coordinates; ++k) {
    const T own = x[k];
    const T* row = y + k * step + j;
    for (int64_t i = 0; i < rest; ++i) sums[i] = add<T, norm>(sums[i], own - row[i]);
  }
  for (int64_t i = 0; i < rest; ++i) out[j + i] = finish<T, norm>(sums[i]);
}

// The exponents come as a list: with one for all, GCC does not vectorize pow.
template <class T>
__attribute__((noinline)) void powers(T* out, const T* in, const T* exponents, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = math::pow(in[i], exponents[i]);
}

template <class T>
void compare_powers(T p, T* out, const T* x, const T* y, int64_t coordinates, int64_t n, int64_t step) {
  T exponents[kBlock], roots[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) {
    exponents[i] = p;
    roots[i] = T(1) / p;
  }
  for (int64_t j = 0; j < n; j += kBlock) {
    const int64_t width = n - j < kBlock ? n - j : kBlock;
    T sums[kBlock] = {}, sizes[kBlock], raised[kBlock];
    for (int64_t k = 0; k < coordinates; ++k) {
      for (int64_t i = 0; i < width; ++i) sizes[i] = magnitude(x[k] - y[k * step + j + i]);
      powers(raised, sizes, exponents, width);
      for (int64_t i = 0; i < width; ++i) sums[i] += raised[i];
    }
    powers(out + j, sums, roots, width);
  }
}

template <class T>
void from_point(Norm norm, T p, T* out, const T* x, const T* y, int64_t coordinates, int64_t n, int64_t step) {
  switch (norm) {
    case Norm::count:
      return compare<T, Norm::count>(out, x, y, coordinates, n, step);
    case Norm::sum:
      return compare<T, Norm::sum>(out, x, y, coordinates, n, step);
    case Norm::euclid:
      return compare<T, Norm::euclid>(out, x, y, coordinates, n, step);
    case Norm::largest:
      return compare<T, Norm::largest>(out, x, y, coordinates, n, step);
    case Norm::power:
      return compare_powers(p, out, x, y, coordinates, n, step);
  }
}

template <class T, Norm norm>
inline T slope(T difference, T distance) {
  const T sign = (difference > 0 ? T(1) : T(0)) - (difference < 0 ? T(1) : T(0));
  if constexpr (norm == Norm::sum) return sign;
  return magnitude(difference) == distance ? sign : T(0);  // the largest
}

// The difference is scaled by its norm before it is raised: no overflow, and 1 where it is all there is.
template <class T>
void add_power_slopes(T p, T* out, const T* x, const T* y, int64_t coordinates, T grad, T distance) {
  T exponents[kBlock], sizes[kBlock], raised[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) exponents[i] = p - 1;
  for (int64_t k = 0; k < coordinates; k += kBlock) {
    const int64_t width = coordinates - k < kBlock ? coordinates - k : kBlock;
    for (int64_t i = 0; i < width; ++i) sizes[i] = magnitude(x[k + i] - y[k + i]) / distance;
    powers(raised, sizes, exponents, width);
    for (int64_t i = 0; i < width; ++i) {
      const T difference = x[k + i] - y[k + i];
      const T one = difference == 0 ? T(0) : grad * raised[i];
      out[k + i] += difference < 0 ? -one : one;
    }
  }
}

// out += the sum over points of (x - y) * grad / distance. Four points at a time share the reading and writing of out.
template <class T>
void add_euclid_slopes(T* out, const T* x, const T* y, int64_t coordinates, int64_t n, const T* grad,
                       const T* distances) {
  auto scale = [&](int64_t j) { return distances[j] == 0 ? T(0) : grad[j] / distances[j]; };
  int64_t j = 0;
  for (; j + 4 <= n; j += 4, y += 4 * coordinates) {
    const T s0 = scale(j), s1 = scale(j + 1), s2 = scale(j + 2), s3 = scale(j + 3);
    const T *y0 = y, *y1 = y0 + coordinates, *y2 = y1 + coordinates, *y3 = y2 + coordinates;
#pragma GCC ivdep
    for (int64_t k = 0; k < coordinates; ++k) {
      const T a = x[k];
      out[k] += (s0 * (a - y0[k]) + s1 * (a - y1[k])) + (s2 * (a - y2[k]) + s3 * (a - y3[k]));
    }
  }
  for (; j < n; ++j, y += coordinates) {
    const T s = scale(j);
#pragma GCC ivdep
    for (int64_t k = 0; k < coordinates; ++k) out[k] += s * (x[k] - y[k]);
  }
}

template <class T>
void add_slopes(Norm norm, T p, T* out, const T* x, const T* y, int64_t coordinates, int64_t n, const T* grad,
                const T* distances) {
  for (int64_t k = 0; k < coordinates; ++k) out[k] = 0;
  if (norm == Norm::count) return;
  if (norm == Norm::euclid) return add_euclid_slopes(out, x, y, coordinates, n, grad, distances);
  for (int64_t j = 0; j < n; ++j, y += coordinates) {
    const T g = grad[j], distance = distances[j];
    if (norm == Norm::sum) {
#pragma GCC ivdep
      for (int64_t k = 0; k < coordinates; ++k) out[k] += g * slope<T, Norm::sum>(x[k] - y[k], distance);
    } else if (norm == Norm::largest) {
#pragma GCC ivdep
      for (int64_t k = 0; k < coordinates; ++k) out[k] += g * slope<T, Norm::largest>(x[k] - y[k], distance);
    } else if (distance == 0) {
      continue;
    } else {
      add_power_slopes(p, out, x, y, coordinates, g, distance);
    }
  }
}

template <class T>
T squared_length(const T* x, int64_t n) {
  T total = 0;
  int64_t i = 0;
  if (n >= kSums) {
    T sums[kSums] = {};
    for (; i + kSums <= n; i += kSums) {
      for (int64_t j = 0; j < kSums; ++j) sums[j] += x[i + j] * x[i + j];
    }
    for (int64_t j = 0; j < kSums; ++j) total += sums[j];
  }
  for (; i < n; ++i) total += x[i] * x[i];
  return total;
}

template <class T>
void finish_euclid(T* out, T own, const T* others, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const T squared = out[j] + (own + others[j]);
    out[j] = math::sqrt(squared < 0 ? T(0) : squared);
  }
}

template <class T>
constexpr DistanceLoops<T> loops() {
  return {from_point<T>, squared_length<T>, add_slopes<T>, finish_euclid<T>};
}

}  // namespace
}  // namespace distances
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const DistanceKernels distance_kernels;
const DistanceKernels distance_kernels = {distances::loops<float>(), distances::loops<double>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
