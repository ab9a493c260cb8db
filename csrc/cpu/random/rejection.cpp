// Distributions that draw a varying count of numbers: Poisson, binomial, gamma, multinomial, rrelu's slopes.
// They run on one thread, in the order of the elements. Constants and order of operations are those of the
// papers named below; results depend on every rounding, so products and sums must stay unfused here.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>
#include <type_traits>
#include <vector>

#include "cpu/random/dispatch.h"
#include "cpu/random/random.h"

namespace tocha::cpu {

namespace {

using Lock = std::lock_guard<std::mutex>;

double draw_normal(Generator& generator) {
  if (generator.next_normal) {
    double value = *generator.next_normal;
    generator.next_normal.reset();
    return value;
  }
  double angle = 2.0 * std::numbers::pi * generator.next_uniform();
  double radius = std::sqrt(-2.0 * std::log1p(-generator.next_uniform()));
  generator.next_normal = radius * std::sin(angle);
  return radius * std::cos(angle);
}

// Counts how many uniforms it takes for their product to fall to exp(-rate) (Knuth).
int64_t poisson_by_product(Generator& generator, double rate) {
  double limit = std::exp(-rate);
  double product = 1.0;
  for (int64_t count = 0;; ++count) {
    product *= generator.next_uniform();
    if (product <= limit) return count;
  }
}

// W. Hörmann: The transformed rejection method for generating Poisson random variables (1993), PTRS.
int64_t poisson_by_rejection(Generator& generator, double rate) {
  double log_rate = std::log(rate);
  double b = 0.931 + 2.53 * std::sqrt(rate);
  double a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  double accept = 0.9277 - 3.6224 / (b - 2.0);
  while (true) {
    double u = generator.next_uniform() - 0.5;
    double v = generator.next_uniform();
    double us = 0.5 - std::fabs(u);
    double k = std::floor((2.0 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= accept) return to_number<int64_t>(k);
    if (k < 0.0 || (us < 0.013 && v > us)) continue;
    double left = std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b);
    if (left <= -rate + k * log_rate - std::lgamma(k + 1.0)) return to_number<int64_t>(k);
  }
}

double draw_poisson(Generator& generator, double rate) {
  if (rate == 0.0) return 0.0;
  return static_cast<double>(rate < 10.0 ? poisson_by_product(generator, rate) : poisson_by_rejection(generator, rate));
}

// What Stirling's formula leaves of log k!.
double stirling_tail(double k) {
  static constexpr double kExact[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                      0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                      0.00925546218271273, 0.00833056343336287};
  if (k <= 9.0) return kExact[static_cast<int>(k)];
  double square = (k + 1.0) * (k + 1.0);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0);
}

// Adds up geometric waiting times; for count * p below 10.
template <class T>
double binomial_by_waiting(Generator& generator, T count, T p) {
  double log_miss = static_cast<double>(std::log1p(-p));
  double sum = 0.0;
  for (double hits = 0.0;; ++hits) {
    sum += std::ceil(std::log(generator.next_uniform()) / log_miss);
    if (sum > static_cast<double>(count)) return hits;
  }
}

// W. Hörmann: The generation of binomial random variates (1993), BTRS. PyTorch sets it up in the tensor's
// own precision and then runs it in double.
template <class T>
double binomial_by_rejection(Generator& generator, T count, T p) {
  T spread = std::sqrt(count * p * (1 - p));
  T b = static_cast<T>(1.15 + 2.53 * spread);
  T a = static_cast<T>(-0.0873 + 0.0248 * b + 0.01 * p);
  T center = static_cast<T>(count * p + T(0.5));
  T accept = static_cast<T>(0.92 - 4.2 / b);
  T ratio = p / (1 - p);
  T alpha = static_cast<T>((2.83 + 5.1 / b) * spread);
  double n = count, r = ratio;
  double mode = std::floor((count + 1) * p);
  while (true) {
    double u = generator.next_uniform() - 0.5;
    double v = generator.next_uniform();
    double us = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / us + b) * u + center);
    if (us >= 0.07 && v <= accept) return k;
    if (k < 0.0 || k > n) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    double bound = (mode + 0.5) * std::log((mode + 1) / (r * (n - mode + 1))) +
                   (n + 1) * std::log((n - mode + 1) / (n - k + 1)) + (k + 0.5) * std::log(r * (n - k + 1) / (k + 1)) +
                   stirling_tail(mode) + stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k);
    if (v <= bound) return k;
  }
}

template <class T>
double draw_binomial(Generator& generator, T count, T p) {
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0.0;
  if (p >= 1) return count;
  bool mirrored = p > T(0.5);
  T q = mirrored ? 1 - p : p;
  double hits = count * q >= 10 ? binomial_by_rejection(generator, count, q) : binomial_by_waiting(generator, count, q);
  return mirrored ? count - hits : hits;
}

// G. Marsaglia, W. W. Tsang: A simple method for generating gamma variables (2000), with their boost below 1.
// The third that is taken from alpha is a float in PyTorch, also for float64.
template <class T>
double draw_gamma(Generator& generator, T alpha) {
  if (!(alpha >= 0)) return std::numeric_limits<double>::quiet_NaN();
  double scale = 1.0;
  if (alpha < 1) {
    if (alpha == 0) return 0.0;
    scale = std::pow(1.0 - generator.next_uniform(), static_cast<double>(T(1) / alpha));
    alpha += 1;
  }
  double d = alpha - static_cast<T>(1.0f / 3.0f);
  double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    double x, y;
    do {
      x = draw_normal(generator);
      y = 1.0 + c * x;
    } while (y <= 0.0);
    double v = y * y * y;
    double u = 1.0 - generator.next_uniform();
    double xx = x * x;
    if (u < 1.0 - 0.0331 * xx * xx || std::log(u) < 0.5 * xx + d * (1.0 - v + std::log(v))) return scale * d * v;
  }
}

// Calls f with float or double, the two precisions that PyTorch has for these.
template <class F>
void visit_single_or_double(const char* name, DType dtype, F&& f) {
  if (dtype == DType::Float32) return f(Type<float>{});
  if (dtype == DType::Float64) return f(Type<double>{});
  refuse_dtype(name, dtype);
}

template <class T>
void check_distribution(const T* p, int64_t n) {
  double total = 0.0;
  for (int64_t j = 0; j < n; ++j) {
    double value = static_cast<double>(p[j]);
    TOCHA_CHECK(
        value >= 0 && std::isfinite(value), Runtime,
        "[multinomial] invalid multinomial distribution (encountering probability entry < 0, infinity or NaN): got ",
        value, " at ", j);
    total += value;
  }
  TOCHA_CHECK(total > 0, Runtime, "[multinomial] invalid multinomial distribution (sum of probabilities <= 0): got ",
              total);
}

// shares[j] = (p[0] + ... + p[j]) / total, all in S.
template <class S, class T>
void running_shares(const T* p, int64_t n, std::vector<S>& shares) {
  S total = 0;
  for (int64_t j = 0; j < n; ++j) shares[static_cast<size_t>(j)] = total += static_cast<S>(p[j]);
  for (S& share : shares) share /= total;
}

}  // namespace

void poisson(Generator& generator, DType dtype, const void* rate, void* out, int64_t n) {
  visit_floating("poisson", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    const T* rates = static_cast<const T*>(rate);
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) {
      TOCHA_CHECK(rates[i] >= 0, Runtime, "[poisson] invalid Poisson rate, expected rate to be non-negative: got ",
                  static_cast<double>(rates[i]));
    }
    for (int64_t i = 0; i < n; ++i) to[i] = to_number<T>(draw_poisson(generator, static_cast<double>(rates[i])));
  });
}

void binomial(Generator& generator, DType dtype, const void* count, const void* probability, void* out, int64_t n) {
  visit_single_or_double("binomial", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    const T* counts = static_cast<const T*>(count);
    const T* p = static_cast<const T*>(probability);
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = to_number<T>(draw_binomial(generator, counts[i], p[i]));
  });
}

void standard_gamma(Generator& generator, DType dtype, const void* alpha, void* out, int64_t n) {
  visit_single_or_double("_standard_gamma", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    const T* alphas = static_cast<const T*>(alpha);
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) {
      to[i] = std::max(std::numeric_limits<T>::min(), static_cast<T>(draw_gamma(generator, alphas[i])));
    }
  });
}

void multinomial_with_replacement(Generator& generator, DType dtype, const void* probabilities, int64_t rows,
                                  int64_t columns, int64_t samples, int64_t* out) {
  visit_floating("multinomial", dtype, [&]<class T>(Type<T>) {
    using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
    Lock lock(generator.mutex);
    const T* p = static_cast<const T*>(probabilities);
    for (int64_t row = 0; row < rows; ++row) check_distribution(p + row * columns, columns);
    std::vector<S> shares(static_cast<size_t>(columns));
    for (int64_t row = 0; row < rows; ++row) {
      running_shares(p + row * columns, columns, shares);
      for (int64_t s = 0; s < samples; ++s) {
        double u = generator.next_uniform();
        auto at = std::lower_bound(shares.begin(), shares.end(), u,
                                   [](S share, double wanted) { return static_cast<double>(share) < wanted; });
        out[row * samples + s] = at - shares.begin();
      }
    }
  });
}

void rrelu_noise(Generator& generator, DType dtype, const void* input, void* noise, int64_t n, double lower,
                 double upper) {
  visit_single_or_double("rrelu", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    const T* x = static_cast<const T*>(input);
    T* to = static_cast<T*>(noise);
    double from = static_cast<T>(lower), range = static_cast<double>(static_cast<T>(upper)) - from;
    for (int64_t i = 0; i < n; ++i) {
      to[i] = x[i] <= 0 ? static_cast<T>(generator.next_uniform() * range + from) : T(1);
    }
  });
}

}  // namespace tocha::cpu
