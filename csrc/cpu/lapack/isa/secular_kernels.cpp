// Roots of secular equations and the vectors that belong to them; see secular_kernels.h.
#include "cpu/lapack/secular_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/engine/isa/simd.h"

TOCHA_ISA_BEGIN
namespace gemm {
namespace {

constexpr int kMostSteps = 200;  // interpolation takes about five; halving an interval as often as a float allows

// f(z, poles) for all vectors of [begin, end); lanes beyond the end are zero.
template <class T, class F>
inline void for_lanes(int64_t begin, int64_t end, const T* z, const T* poles, F f) {
  int64_t j = begin;
  for (; j + kLanes<T> <= end; j += kLanes<T>) f(load(z + j), load(poles + j));
  if (j < end) f(load_first(z + j, end - j), load_first(poles + j, end - j));
}

// The sum of z^2 / (pole - x) over some poles, and its slope.
struct Part {
  double value, slope;
};
template <class T>
Part part_of(int64_t begin, int64_t end, const T* z, const T* poles, T x) {
  Vec<T> value{}, slope{};
  for_lanes(begin, end, z, poles, [&](Vec<T> weight, Vec<T> pole) {
    const Vec<T> q = weight / (pole - x);
    value = multiply_add<T>(weight, q, value);
    slope = multiply_add<T>(q, q, slope);
  });
  return {sum_of<T>(value), sum_of<T>(slope)};
}

// The root of c x^2 - a x + b in (low, high), or the middle of that.
double quadratic_root(double a, double b, double c, double low, double high) {
  const double d = std::sqrt(std::max(0.0, a * a - 4 * b * c)), q = (a < 0 ? a - d : a + d) / 2;
  for (const double x : {b / q, q / c})
    if (x > low && x < high) return x;
  return low + (high - low) / 2;
}

// Steps to where two poles with a constant would be zero, which agree with the sums up to `split` and from there on in
// value and slope (R.-C. Li's middle way); half of the interval where that is outside of it.
template <class T>
T find_root(int64_t n, int64_t split, const T* poles, const T* z, double inverse_rho, double low, double high, T x) {
  for (int step = 0; step < kMostSteps; ++step) {
    const Part left = part_of(0, split, z, poles, x), right = part_of(split, n, z, poles, x);
    const double w = inverse_rho + left.value + right.value, slope = left.slope + right.slope;
    const double rounding = 8 * (std::abs(left.value) + std::abs(right.value)) + inverse_rho + std::abs(x) * slope;
    if (std::abs(w) <= std::numeric_limits<T>::epsilon() / 2 * rounding) break;
    (w < 0 ? low : high) = x;
    const double first = poles[split - 1] - x, second = poles[split] - x;
    const T next = x + static_cast<T>(quadratic_root((first + second) * w - first * second * slope, first * second * w,
                                                     w - first * left.slope - second * right.slope, low - x, high - x));
    if (next == x || !(next > low && next < high)) break;
    x = next;
  }
  return x;
}

template <class T>
T root(int64_t n, int64_t i, const T* poles, const T* z, T rho, T* distances) {
  // Two poles that matter most: the root's neighbours, or the last two.
  const int64_t split = std::min(i + 1, n - 1), before = split - 1;
  const bool last = i == n - 1;
  auto place = [&](int64_t origin) {
    for (int64_t j = 0; j < n; ++j) distances[j] = poles[j] - poles[origin];
  };
  place(i);
  const T middle = (last ? rho : distances[split]) / 2;
  const double inverse_rho = 1 / static_cast<double>(rho);
  const double w =
      inverse_rho + part_of(0, split, z, distances, middle).value + part_of(split, n, z, distances, middle).value;
  // Counted from the nearer pole the root keeps its digits.
  const bool right = !last && w <= 0;
  const double a = static_cast<double>(z[before]) * z[before], b = static_cast<double>(z[split]) * z[split];
  const double others = w - a / (distances[before] - middle) - b / (distances[split] - middle);
  double low = !last ? 0 : w <= 0 ? middle : 0, high = !last || w > 0 ? middle : 2 * middle;
  if (right) place(split), low = -middle, high = 0;
  const double p = distances[before], q = distances[split];
  const double start = quadratic_root(others * (p + q) + a + b, others * p * q + a * q + b * p, others, low, high);
  const T begin = static_cast<T>(static_cast<T>(start) == 0 ? low + (high - low) / 2 : start);
  const T x = find_root<T>(n, split, distances, z, inverse_rho, low, high, begin);
  for (int64_t j = 0; j < n; ++j) distances[j] -= x;
  return poles[right ? split : i] + x;
}

template <class T>
void exact_z(int64_t n, const T* poles, const T* distances, int64_t ld, int64_t first, int64_t last, T* z) {
  for (int64_t i = first; i < last; ++i) z[i] = distances[i * ld + i];
  for (int64_t j = 0; j < n; ++j) {
    const T *column = distances + j * ld, pole = poles[j];
    for (int64_t i = first; i < std::min(j, last); ++i) z[i] *= column[i] / (poles[i] - pole);
    for (int64_t i = std::max(j + 1, first); i < last; ++i) z[i] *= column[i] / (poles[i] - pole);
  }
  for (int64_t i = first; i < last; ++i) z[i] = std::sqrt(-z[i]);
}

template <class T>
void vector(int64_t n, const T* z, const int* places, T* distances, T* scratch) {
  Vec<T> sum{};
  int64_t j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) {
    const Vec<T> x = load(z + j) / load(distances + j);
    sum = multiply_add<T>(x, x, sum);
    store(scratch + j, x);
  }
  T total = sum_of<T>(sum);
  for (; j < n; ++j) {
    scratch[j] = z[j] / distances[j];
    total += scratch[j] * scratch[j];
  }
  const T scale = 1 / std::sqrt(total);
  for (int64_t i = 0; i < n; ++i) distances[i] = scratch[places[i] - 1] * scale;
}

template <class T>
constexpr cpu::SecularKernels<T> secular() {
  return {root<T>, exact_z<T>, vector<T>};
}

}  // namespace
}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const SecularTable secular_kernels;
const SecularTable secular_kernels = {gemm::secular<float>(), gemm::secular<double>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
