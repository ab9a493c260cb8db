// Inner loops of cdist and pdist: one point against many, a block of sums at a time in registers.
#include "cpu/distance_kernels.h"

#include "cpu/vecmath.h"

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
inline T add(T sum, T difference, T p) {
  const T size = magnitude(difference);
  if constexpr (norm == Norm::count) return sum + (difference != 0 ? T(1) : T(0));
  if constexpr (norm == Norm::sum) return sum + size;
  if constexpr (norm == Norm::euclid) return sum + difference * difference;
  if constexpr (norm == Norm::largest) return sum >= size || sum != sum ? sum : size;  // NaN stays
  if constexpr (norm == Norm::power) return sum + math::pow(size, p);
}

template <class T, Norm norm>
inline T finish(T sum, T p) {
  if constexpr (norm == Norm::euclid) return math::sqrt(sum);
  if constexpr (norm == Norm::power) return math::pow(sum, T(1) / p);
  return sum;
}

template <class T, Norm norm>
void compare(T p, T* out, const T* x, const T* y, int64_t coordinates, int64_t n, int64_t step) {
  int64_t j = 0;
  for (; j + kBlock <= n; j += kBlock) {
    T sums[kBlock] = {};
    for (int64_t k = 0; k < coordinates; ++k) {
      const T own = x[k];
      const T* row = y + k * step + j;
      for (int64_t i = 0; i < kBlock; ++i) sums[i] = add<T, norm>(sums[i], own - row[i], p);
    }
    for (int64_t i = 0; i < kBlock; ++i) out[j + i] = finish<T, norm>(sums[i], p);
  }
  const int64_t rest = n - j;
  T sums[kBlock] = {};
  for (int64_t k = 0; k < coordinates; ++k) {
    const T own = x[k];
    const T* row = y + k * step + j;
    for (int64_t i = 0; i < rest; ++i) sums[i] = add<T, norm>(sums[i], own - row[i], p);
  }
  for (int64_t i = 0; i < rest; ++i) out[j + i] = finish<T, norm>(sums[i], p);
}

template <class T>
void from_point(Norm norm, T p, T* out, const T* x, const T* y, int64_t coordinates, int64_t n, int64_t step) {
  switch (norm) {
    case Norm::count:
      return compare<T, Norm::count>(p, out, x, y, coordinates, n, step);
    case Norm::sum:
      return compare<T, Norm::sum>(p, out, x, y, coordinates, n, step);
    case Norm::euclid:
      return compare<T, Norm::euclid>(p, out, x, y, coordinates, n, step);
    case Norm::largest:
      return compare<T, Norm::largest>(p, out, x, y, coordinates, n, step);
    case Norm::power:
      return compare<T, Norm::power>(p, out, x, y, coordinates, n, step);
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
  return {from_point<T>, squared_length<T>, finish_euclid<T>};
}

}  // namespace
}  // namespace distances
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const DistanceKernels distance_kernels;
const DistanceKernels distance_kernels = {distances::loops<float>(), distances::loops<double>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
