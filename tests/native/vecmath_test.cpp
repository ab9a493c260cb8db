// Holds every function of cpu/vecmath to its accuracy: prints the largest error in ulp per function and type, and
// exits with 1 if one is above its bound or an edge case is wrong. Built once per instruction set by the test-suite;
// `vecmath_test [stride] [count]` takes every stride-th float and count random doubles.
// sources:
#include "cpu/vecmath/vecmath.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cpu/engine/scalar_ops.h"

namespace {

namespace math = tocha::math;

template <class T>
struct WideType;
template <>
struct WideType<float> {
  using type = double;
};
template <>
struct WideType<double> {
  using type = long double;
};
template <class T>
using Wide = typename WideType<T>::type;

constexpr int64_t kBlock = 1 << 14;
// Where products and sums round separately, a function may miss its bound by a little.
constexpr double kSlack = TOCHA_HAS_FMA ? 1 : 1.15;
int failures = 0;

// The distance between neighbours of T at the size of `reference`.
template <class T>
Wide<T> ulp_at(Wide<T> reference) {
  int e = 0;
  std::frexp(reference, &e);
  e = std::max(e, std::numeric_limits<T>::min_exponent);
  return std::ldexp(Wide<T>(1), e - std::numeric_limits<T>::digits);
}

// Error in ulp; infinite where NaN, infinity or the sign of zero is wrong.
template <class T>
double error_in_ulp(T got, Wide<T> reference) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(reference) || std::isnan(got)) return std::isnan(reference) && std::isnan(got) ? 0 : wrong;
  if (reference == 0) return got == 0 && std::signbit(got) == std::signbit(reference) ? 0 : wrong;
  T rounded = static_cast<T>(reference);
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : wrong;
  return static_cast<double>(std::abs(static_cast<Wide<T>>(got) - reference) / ulp_at<T>(reference));
}

template <class T>
struct Worst {
  double error = 0;
  T x = 0, y = 0, got = 0;
  Wide<T> reference = 0;

  void see(T a, T b, T value, Wide<T> expected) { see(a, b, value, expected, error_in_ulp<T>(value, expected)); }
  void see(T a, T b, T value, Wide<T> expected, double e) {
    if (e > error) *this = {e, a, b, value, expected};
  }
  void report(const char* name, double bound) const {
    bound *= kSlack;
    const char* type = sizeof(T) == 4 ? "float" : "double";
    bool bad = error > bound;
    failures += bad;
    std::printf("%-4s %-18s %-6s %8.3f ulp (bound %g) at %.17g, %.17g: %.17g, not %.20Lg\n", bad ? "FAIL" : "ok", name,
                type, error, bound, static_cast<double>(x), static_cast<double>(y), static_cast<double>(got),
                static_cast<long double>(reference));
  }
};

template <class T>
std::vector<T> special_values() {
  std::vector<T> v;
  using L = std::numeric_limits<T>;
  for (double d : {0.0,
                   0.25,
                   0.4142135623730951,
                   0.5,
                   0.7071067811865476,
                   1.0,
                   1.4142135623730951,
                   1.5,
                   2.0,
                   2.5,
                   3.0,
                   3.141592653589793,
                   4.0,
                   7.0,
                   10.0,
                   16777215.0,
                   88.72283,
                   87.33654,
                   103.97208,
                   709.782712893384,
                   708.3964185322641,
                   745.1332191019411,
                   1e5,
                   65536.0,
                   1048576.0,
                   1e10,
                   1e22,
                   4503599627370497.0}) {
    T x = static_cast<T>(d);
    for (T y : {x, std::nextafter(x, T(0)), std::nextafter(x, L::infinity())}) v.insert(v.end(), {y, -y});
  }
  for (T x : {L::infinity(), L::max(), L::min(), L::denorm_min(), L::epsilon(), L::min() / 3, L::quiet_NaN()})
    v.insert(v.end(), {x, -x});
  return v;
}

uint64_t float_stride = 1021;
int64_t double_count = 200000;

// Bit patterns of all floats in steps; for doubles, any bits, moderate values, and neighbourhoods of 0 and 1.
template <class T>
std::vector<T> make_arguments() {
  std::vector<T> v = special_values<T>();
  if constexpr (sizeof(T) == 4) {
    for (uint64_t u = 0; u < 1ull << 32; u += float_stride) v.push_back(std::bit_cast<float>(static_cast<uint32_t>(u)));
  } else {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> unit(-1, 1), decades(-12, 3);
    for (int64_t i = 0; i < double_count / 8; i++) {
      double u = unit(random), size = std::pow(10.0, decades(random));
      for (double x : {std::bit_cast<double>(random()), u, u * 6, u * 40, u * 800, std::copysign(size, u), 1 + u * size,
                       std::copysign(1 - 1e-3 * size * std::abs(u), u)})
        v.push_back(x);
    }
  }
  return v;
}

template <class T>
const std::vector<T>& arguments() {
  static const std::vector<T> v = make_arguments<T>();
  return v;
}

template <class T, class Function, class Reference>
void check(const char* name, double bound, Function function, Reference reference) {
  const std::vector<T>& inputs = arguments<T>();
  std::vector<T> out(kBlock);
  Worst<T> worst;
  for (size_t begin = 0; begin < inputs.size(); begin += kBlock) {
    const T* in = inputs.data() + begin;
    int64_t size = std::min<int64_t>(kBlock, static_cast<int64_t>(inputs.size() - begin));
    function(out.data(), in, size);
    for (int64_t i = 0; i < size; i++) worst.see(in[i], 0, out[i], reference(static_cast<Wide<T>>(in[i])));
  }
  worst.report(name, bound);
}

template <class T, class Function, class Reference>
void check2(const char* name, double bound, Function function, Reference reference) {
  std::vector<T> a, b, special = special_values<T>();
  for (T x : special)
    for (T y : special) a.push_back(x), b.push_back(y);
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> unit(-1, 1), decades(-4, 2);
  for (int64_t i = 0; i < double_count; i++) {
    T x = static_cast<T>(unit(random) * std::pow(10.0, decades(random)));
    T y = static_cast<T>(unit(random) * std::pow(10.0, decades(random)));
    uint64_t any = random();
    T wild = sizeof(T) == 4 ? static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(any)))
                            : static_cast<T>(std::bit_cast<double>(any));
    a.insert(a.end(), {x, wild, std::abs(x), std::abs(wild), 1 + x / 1000});
    b.insert(b.end(), {y, y, y, x / 100, y * 100});
  }
  std::vector<T> out(a.size());
  function(out.data(), a.data(), b.data(), static_cast<int64_t>(a.size()));
  Worst<T> worst;
  for (size_t i = 0; i < a.size(); i++)
    worst.see(a[i], b[i], out[i], reference(static_cast<Wide<T>>(a[i]), static_cast<Wide<T>>(b[i])));
  worst.report(name, bound);
}

// For x times something like e^(-x^2/2) or e^(-x^3): the left tail multiplies the rounding of the exponent, so an ulp
// counts 1 / (1 + |exponent|) there, and values below 1e-21 may vanish. Infinities are the caller's business.
template <class T, class Function, class Reference>
void check_tail(const char* name, double bound, Function function, Reference reference) {
  Worst<T> worst;
  std::vector<T> in, out;
  for (T x : arguments<T>())
    if (std::abs(x) < T(1e6)) in.push_back(x);
  out.resize(in.size());
  function(out.data(), in.data(), static_cast<int64_t>(in.size()));
  for (size_t i = 0; i < in.size(); i++) {
    Wide<T> expected = reference(static_cast<Wide<T>>(in[i]));
    double e = error_in_ulp<T>(out[i], expected);
    if (in[i] < 0) e /= 1 + std::abs(std::log(std::abs(static_cast<double>(expected / in[i])) + 1e-300));
    if (std::abs(expected) < 1e-21 && std::abs(static_cast<Wide<T>>(out[i])) < 1e-21 && in[i] < -1) e = 0;
    worst.see(in[i], 0, out[i], expected, e);
  }
  worst.report(name, bound);
}

// Errors in units of half the last place of the operand: what is left of a difference of two numbers of its size.
template <class T, class Function, class Reference>
void check_beside(const char* name, double bound, Function function, Reference reference) {
  Worst<T> worst;
  std::vector<T> in;
  for (T x : arguments<T>())
    if (std::abs(x) < std::numeric_limits<T>::max() / 4 && std::abs(x) > std::numeric_limits<T>::min() * 1e8)
      in.push_back(x);
  std::vector<T> out(in.size());
  function(out.data(), in.data(), static_cast<int64_t>(in.size()));
  for (size_t i = 0; i < in.size(); i++) {
    const Wide<T> x = in[i], expected = reference(x), unit = std::abs(x) * std::numeric_limits<T>::epsilon() / 2;
    worst.see(in[i], 0, out[i], expected,
              static_cast<double>(std::abs(static_cast<Wide<T>>(out[i]) - expected) / unit));
  }
  worst.report(name, bound);
  const T infinity = std::numeric_limits<T>::infinity(),
          ends[3] = {infinity, -infinity, std::numeric_limits<T>::quiet_NaN()};
  T at[3];
  function(at, ends, 3);
  const bool ok = at[0] == infinity && std::isnan(at[1]) && std::isnan(at[2]);
  failures += !ok;
  if (!ok) std::printf("FAIL %s at the ends\n", name);
}

// Reference formulas in the wider type.
template <class W>
W erfinv_reference(W x) {
  W a = std::abs(x);
  if (!(a < 1))
    return a == 1 ? std::copysign(std::numeric_limits<W>::infinity(), x) : std::numeric_limits<W>::quiet_NaN();
  if (a == 0) return x;
  W y = math::precise_erfinv(static_cast<double>(a));
  for (int i = 0; i < 2; i++) {
    W error = a < W(0.5) ? std::erf(y) - a : (1 - a) - std::erfc(y);
    y -= error * std::exp(y * y) * W(0.886226925452758013649083741670572591L);
  }
  return std::copysign(y, x);
}
template <class W>
W sinc_reference(W x) {
  W a = std::abs(x);
  if (std::isinf(x)) return std::numeric_limits<W>::quiet_NaN();
  if (a == 0) return 1;
  W b = std::fmod(a, W(2)), c = b > 1 ? b - 1 : b, d = c > W(0.5) ? 1 - c : c;
  constexpr W pi = W(3.141592653589793238462643383279502884L);
  W s = d == 0 ? 0 : std::sin(pi * d) / pi;
  return (b >= 1 ? -s : s) / a;
}
template <class W>
W softplus_reference(W x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
template <class W>
W gelu_reference(W x) {
  return W(0.5) * x * std::erfc(-x * W(0.707106781186547524400844362104849039L));
}
template <class W>
W gelu_tanh_reference(W x) {
  W u = W(1.5957691216057307117597842397375274738L) * (x + W(0.044715L) * x * x * x);
  return x / (1 + std::exp(-u));
}
template <class W>
W logaddexp_reference(W a, W b) {
  return a == b ? a + W(0.693147180559945309417232121458176568L)
                : std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}
template <class W>
W remainder_reference(W a, W b) {
  W r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define LOOP(NAME)                                                                          \
  [](auto* out, const auto* in, int64_t size) {                                             \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < size; i++) { out[i] = math::NAME(in[i]); } \
  }
#define LOOP2(NAME)                                                                              \
  [](auto* out, const auto* a, const auto* b, int64_t size) {                                    \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < size; i++) { out[i] = math::NAME(a[i], b[i]); } \
  }
#define TRIG_LOOP(NAME)                                                                     \
  [](auto* out, const auto* in, int64_t size) {                                             \
    auto fast = [](auto x) __attribute__((always_inline)) { return math::NAME##_fast(x); }; \
    math::map_trig(out, in, size, fast, [](auto x) { return math::NAME(x); });              \
  }
#define BOTH(CHECK, NAME, LOOP, FLOAT_BOUND, DOUBLE_BOUND, PARAMETERS, REFERENCE) \
  {                                                                               \
    auto reference = [] PARAMETERS { return REFERENCE; };                         \
    CHECK<float>(#NAME, FLOAT_BOUND, LOOP(NAME), reference);                      \
    CHECK<double>(#NAME, DOUBLE_BOUND, LOOP(NAME), reference);                    \
  }
#define UNARY(NAME, FLOAT_BOUND, DOUBLE_BOUND, REFERENCE) \
  BOTH(check, NAME, LOOP, FLOAT_BOUND, DOUBLE_BOUND, (auto x), REFERENCE)
#define TAIL(NAME, FLOAT_BOUND, DOUBLE_BOUND, REFERENCE) \
  BOTH(check_tail, NAME, LOOP, FLOAT_BOUND, DOUBLE_BOUND, (auto x), REFERENCE)
#define BESIDE(NAME, FLOAT_BOUND, DOUBLE_BOUND, REFERENCE) \
  BOTH(check_beside, NAME, LOOP, FLOAT_BOUND, DOUBLE_BOUND, (auto x), REFERENCE)
#define BINARY(NAME, FLOAT_BOUND, DOUBLE_BOUND, REFERENCE) \
  BOTH(check2, NAME, LOOP2, FLOAT_BOUND, DOUBLE_BOUND, (auto x, auto y), REFERENCE)
#define TRIG(NAME, FLOAT_BOUND, DOUBLE_BOUND) \
  BOTH(check, NAME, TRIG_LOOP, FLOAT_BOUND, DOUBLE_BOUND, (auto x), std::NAME(x))

#if TOCHA_VECTOR_F32
// The vector forms, whole vectors and a part of one; the bounds are those of the generated loops.
#define VECTOR_LOOP(NAME)                                                                                     \
  [](float* out, const float* in, int64_t size) {                                                             \
    int64_t i = 0;                                                                                            \
    for (; i + math::kLanes <= size; i += math::kLanes) math::store(out + i, math::NAME(math::load(in + i))); \
    if (i < size) math::store_first(out + i, math::NAME(math::load_first(in + i, size - i)), size - i);       \
  }
#define VECTOR(NAME, BOUND, REFERENCE) \
  check<float>("vector " #NAME, BOUND, VECTOR_LOOP(NAME), [](double x) { return REFERENCE; });

// Sines that are beyond 1 would make NaN of what is done with them.
void check_at_most_one() {
  int64_t beyond = 0;
  for (uint64_t u = 0; u <= math::bits_of(math::kTrigLimit<float>); u += math::kLanes * 7) {
    alignas(64) uint32_t bits[math::kLanes];
    for (int k = 0; k < math::kLanes; k++) bits[k] = static_cast<uint32_t>(u) + static_cast<uint32_t>(k);
    math::F32x16 x = _mm512_castsi512_ps(_mm512_load_si512(bits));
    for (math::F32x16 y : {math::sin(x), math::cos(x)})
      beyond += _mm512_cmp_ps_mask(math::abs(y), math::splat(1.0f), _CMP_GT_OQ) != 0;
  }
  failures += beyond != 0;
  std::printf("%-4s %-18s %-6s %lld beyond 1\n", beyond ? "FAIL" : "ok", "vector sin, cos", "float",
              static_cast<long long>(beyond));
}

void check_vectors() {
  VECTOR(exp, 1, std::exp(x))
  VECTOR(exp2, 1, std::exp2(x))
  VECTOR(expm1, 1.75, std::expm1(x))
  VECTOR(sigmoid, 2.25, 1 / (1 + std::exp(-x)))
  VECTOR(tanh, 1.5, std::tanh(x))
  VECTOR(erf, 1.75, std::erf(x))
  check_beside<float>("vector gelu", 1.5, VECTOR_LOOP(gelu), [](double x) { return gelu_reference(x); });
  VECTOR(log, 1.5, std::log(x))
  VECTOR(log2, 1.75, std::log2(x))
  VECTOR(log10, 2, std::log10(x))
  VECTOR(log1p, 2, std::log1p(x))
  VECTOR(sin, 2, std::sin(x))
  VECTOR(cos, 2, std::cos(x))
  VECTOR(sqrt, 0.5, std::sqrt(x))
  VECTOR(abs, 0, std::abs(x))
  check_at_most_one();
}

// Values that a vector gives lane by lane, against the scalar forms.
void check_vector_orders() {
  std::vector<float> special = special_values<float>();
  auto same = [](float a, float b) { return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b)); };
  int bad = 0;
  for (float a : special) {
    for (float b : special) {
      math::F32x16 x = math::splat(a), y = math::splat(b);
      bad += !same(math::maximum(x, y)[3], math::maximum(a, b)) || !same(math::minimum(x, y)[7], math::minimum(a, b));
    }
  }
  failures += bad != 0;
  std::printf("%-4s %-18s %-6s %d wrong\n", bad ? "FAIL" : "ok", "vector maximum", "float", bad);
}
#endif

void check_exponentials() {
  UNARY(exp, 1, 1, std::exp(x))
  UNARY(exp2, 1.25, 1.25, std::exp2(x))
  UNARY(expm1, 2, 2, std::expm1(x))
  UNARY(sinh, 2, 2, std::sinh(x))
  UNARY(cosh, 2, 2, std::cosh(x))
  UNARY(tanh, 2, 2, std::tanh(x))
  UNARY(sigmoid, 2, 2, 1 / (1 + std::exp(-x)))
}

void check_logarithms() {
  UNARY(log, 1, 1, std::log(x))
  UNARY(log2, 2, 2, std::log2(x))
  UNARY(log10, 2, 2, std::log10(x))
  UNARY(log1p, 2, 2, std::log1p(x))
  UNARY(softplus, 2, 2, softplus_reference(x))
  UNARY(logsigmoid, 2, 2, 0 - softplus_reference(-x))
  UNARY(asinh, 2, 2, std::asinh(x))
  UNARY(acosh, 2, 2, std::acosh(x))
  UNARY(atanh, 2, 2, std::atanh(x))
}

void check_circular() {
  TRIG(sin, 2, 2)
  TRIG(cos, 2, 2)
  TRIG(tan, 2, 2)
  UNARY(asin, 2, 2, std::asin(x))
  UNARY(acos, 2, 2, std::acos(x))
  UNARY(atan, 2, 2, std::atan(x))
  BINARY(atan2, 2, 2, std::atan2(x, y))
  UNARY(sinc, 2, 2, sinc_reference(x))
}

void check_error_functions() {
  UNARY(erf, 2, 2, std::erf(x))
  UNARY(erfc, 2, 3, std::erfc(x))
  UNARY(precise_erfinv, 2, 4, erfinv_reference(x))
  BESIDE(gelu, 3, 3, gelu_reference(x))
  TAIL(gelu_tanh, 3, 3, gelu_tanh_reference(x))
}

void check_powers() {
  BINARY(pow, 1, 2, std::pow(x, y))
  UNARY(sqrt, 0.5, 0.51, std::sqrt(x))
  UNARY(rsqrt, 1.5, 1.5, 1 / std::sqrt(x))
  UNARY(cbrt, 1, 1, std::cbrt(x))
  BINARY(hypot, 1, 1.5, std::hypot(x, y))
}

void check_roundings() {
  UNARY(floor, 0, 0, std::floor(x))
  UNARY(ceil, 0, 0, std::ceil(x))
  UNARY(trunc, 0, 0, std::trunc(x))
  UNARY(round, 0, 0, std::nearbyint(x))
  BINARY(fmod, 0, 0, std::fmod(x, y))
  BINARY(remainder, 0.5, 0.51, remainder_reference(x, y))
  BINARY(copysign, 0, 0, std::copysign(x, y))
}

// Functions with a reference only in their own type.
template <class T>
void check_pieces() {
  std::vector<T> special = special_values<T>();
  auto same = [](T a, T b) { return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b)); };
  int bad = 0;
  for (T x : special) {
    int32_t e = 0;
    int expected_e = 0;
    T m = math::frexp(x, &e), expected_m = std::frexp(x, &expected_e);
    if (!std::isfinite(x)) expected_e = 0;
    bad += !same(m, expected_m) || e != expected_e;
    for (int n = -2300; n <= 2300; n += 7) bad += !same(math::ldexp(x, n), std::ldexp(x, n));
    for (T y : special) bad += !same(math::nextafter(x, y), std::nextafter(x, y));
  }
  failures += bad != 0;
  std::printf("%-4s %-18s %-6s %d wrong\n", bad ? "FAIL" : "ok", "frexp ldexp next",
              sizeof(T) == 4 ? "float" : "double", bad);
}

// Cancellation between the larger argument and the logarithm is in the nature of these: bounded on the scale of both.
template <class T>
void check_sums_of_exponentials() {
  using W = Wide<T>;
  double worst = 0;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(-30, 30);
  constexpr W ln2 = W(0.693147180559945309417232121458176568L);
  for (int64_t i = 0; i < double_count; i++) {
    T a = static_cast<T>(unit(random)), b = static_cast<T>(unit(random));
    W wa = a, wb = b, scale = ulp_at<T>(std::max<W>(1, std::abs(std::max(wa, wb))));
    worst = std::max<double>(worst, std::abs(math::logaddexp(a, b) - logaddexp_reference(wa, wb)) / scale);
    worst = std::max<double>(worst,
                             std::abs(math::logaddexp2(a, b) - logaddexp_reference(wa * ln2, wb * ln2) / ln2) / scale);
  }
  T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  bool edges =
      math::logaddexp(inf, inf) == inf && math::logaddexp(-inf, -inf) == -inf && math::logaddexp(inf, -inf) == inf &&
      math::logaddexp(T(1), -inf) == 1 && std::isnan(math::logaddexp(nan, T(1))) &&
      std::isnan(math::logaddexp(T(1), nan)) && math::logaddexp2(inf, inf) == inf && math::xlogy(T(0), T(0)) == 0 &&
      std::isnan(math::xlogy(T(0), nan)) && math::xlogy(T(0), inf) == 0 && math::xlog1py(T(0), T(-1)) == 0 &&
      std::isnan(math::xlog1py(T(1), T(-2))) && std::abs(math::xlogy(T(2), T(8)) - 6 * ln2) <= 2 * ulp_at<T>(6 * ln2);
  bool bad = !(worst <= 2) || !edges;
  failures += bad;
  std::printf("%-4s %-18s %-6s %8.3f ulp of the larger, edges %s\n", bad ? "FAIL" : "ok", "logaddexp",
              sizeof(T) == 4 ? "float" : "double", worst, edges ? "right" : "wrong");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) float_stride = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) double_count = std::strtoll(argv[2], nullptr, 10);
  check_exponentials();
  check_logarithms();
  check_circular();
  check_error_functions();
  check_powers();
  check_roundings();
#if TOCHA_VECTOR_F32
  check_vectors();
  check_vector_orders();
#endif
  check_pieces<float>();
  check_pieces<double>();
  check_sums_of_exponentials<float>();
  check_sums_of_exponentials<double>();
  std::printf("%d failed\n", failures);
  return failures != 0;
}
