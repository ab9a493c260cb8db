// Compares the random functions with numbers that PyTorch 2.13 gave for seed 42, and checks the engine against
// the C++ standard's. Standalone: prints the failures and exits non-zero if there are any.
// sources: core/parallel.cpp core/fork.cpp core/dtype.cpp core/dtype_messages.cpp core/generator.cpp
// sources: cpu/random/random.cpp cpu/random/rejection.cpp cpu/random/isa/kernels.cpp
#include "cpu/random/random.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <vector>

#include "core/error.h"

namespace tocha::cpu {
namespace {

int failures = 0;

void expect(bool ok, const char* what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

// Bits as a number that counts representable values, so that differences are in units in the last place.
int64_t place(uint32_t bits) { return bits >> 31 ? -static_cast<int64_t>(bits & 0x7fffffffu) : bits; }
int64_t place(uint64_t bits) { return bits >> 63 ? -static_cast<int64_t>(bits & ~(uint64_t{1} << 63)) : bits; }
int64_t place(uint16_t bits) { return bits >> 15 ? -static_cast<int64_t>(bits & 0x7fffu) : bits; }

// Draws n elements with seed 42 and compares those at `where` (all, when empty) with the wanted bits.
template <class Bits, class Draw>
void floats(const char* what, int ulps, int64_t n, std::initializer_list<int> where, std::initializer_list<Bits> wanted,
            Draw draw) {
  Generator generator(42);
  std::vector<Bits> got(static_cast<size_t>(n));
  draw(generator, got.data());
  for (size_t i = 0; i < wanted.size(); ++i) {
    size_t at = where.size() ? static_cast<size_t>(where.begin()[i]) : i;
    expect(std::llabs(place(got[at]) - place(wanted.begin()[i])) <= ulps, what);
  }
}

template <class T, class Draw>
void integers(const char* what, std::initializer_list<T> wanted, Draw draw) {
  Generator generator(42);
  std::vector<T> got(wanted.size());
  draw(generator, got.data());
  expect(std::equal(wanted.begin(), wanted.end(), got.begin()), what);
}

void test_engine() {
  std::mt19937 reference(static_cast<uint32_t>(Generator::kDefaultSeed));
  Generator one_by_one, batched;
  std::vector<uint32_t> words(5000);
  for (int64_t n : {1, 7, 623, 624, 625, 1300}) {
    batched.take(words.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      uint32_t wanted = static_cast<uint32_t>(reference());
      expect(one_by_one.next32() == wanted && words[static_cast<size_t>(i)] == wanted, "engine words");
    }
  }
  one_by_one.skip(700);
  reference.discard(700);
  expect(one_by_one.next32() == static_cast<uint32_t>(reference()), "skip");
}

void test_state() {
  Generator a(7), b;
  float x[3], y[3];
  normal(a, DType::Float32, x, 3, 0, 1);
  b.set_state(a.state());
  expect(b.initial_seed() == 7 && b.state() == a.state() && b.next_normal == a.next_normal, "state round trip");
  normal(a, DType::Float32, x, 3, 0, 1);
  normal(b, DType::Float32, y, 3, 0, 1);
  expect(std::equal(x, x + 3, y), "numbers after set_state");
  Generator::State zeros{};
  bool refused = false;
  try {
    b.set_state(zeros);
  } catch (const Error&) {
    refused = true;
  }
  expect(refused && b.state() == a.state(), "a bad state is refused and changes nothing");
}

void test_floats() {
  auto fill = [](auto fn, DType dtype, int64_t n, auto... args) {
    return [=](Generator& g, void* out) { fn(g, dtype, out, n, args...); };
  };
  floats<uint32_t>("uniform float32", 0, 4, {}, {0x3fd2ca99, 0x3fdf5c8c, 0x3e182850, 0x3ff05f95},
                   fill(uniform, DType::Float32, 4, -1.0, 2.0));
  floats<uint64_t>("uniform float64", 0, 3, {}, {0xbfea6acb9c4146e7, 0xbfe9f5eb731f40d6, 0xbfe422bfa932832b},
                   fill(uniform, DType::Float64, 3, -1.0, 2.0));
  floats<uint16_t>("uniform bfloat16", 0, 4, {}, {0x3f62, 0x3f6a, 0x3ec4, 0x3f76},
                   fill(uniform, DType::BFloat16, 4, 0.0, 1.0));
  floats<uint32_t>("normal float32, few", 1, 3, {}, {0x3eac62ae, 0x3e03e69d, 0x3e7016e7},
                   fill(normal, DType::Float32, 3, 0.0, 1.0));
#ifdef __aarch64__  // PyTorch's numbers there differ in the last bits
  constexpr uint32_t at0 = 0x3ff6a527, at8 = 0x3eb63341, at3 = 0x3ee111d7;
#else
  constexpr uint32_t at0 = 0x3ff6a529, at8 = 0x3eb63345, at3 = 0x3ee111d8;
#endif
  floats<uint32_t>("normal float32", 0, 19, {0, 8, 2, 3, 18}, {at0, at8, 0x3f669567, at3, 0x3f4dac3c},
                   fill(normal, DType::Float32, 19, 0.0, 1.0));
  floats<uint16_t>("normal float16", 0, 19, {0, 8, 2, 3, 18}, {0x3fb5, 0x3c50, 0x3b35, 0x3e92, 0x3ae1},
                   fill(normal, DType::Float16, 19, 0.0, 1.0));
  floats<uint64_t>("normal float64", 1, 19, {0, 8, 2, 3, 18},
                   {0x3fd32bee22ccb503, 0x3fa3adc896b5cc6a, 0x3fd22011e840abbd, 0x3fe3cc2503d82af8, 0xbff86cb9522f4ff6},
                   fill(normal, DType::Float64, 19, 0.0, 1.0));
  floats<uint32_t>("exponential", 1, 3, {}, {0x3cf56866, 0x3d051234, 0x3d871531},
                   fill(exponential, DType::Float32, 3, 2.0));
  floats<uint32_t>("cauchy", 1, 3, {}, {0xc11d3319, 0xc10fcc66, 0xc078f1a4}, fill(cauchy, DType::Float32, 3, 1.0, 2.0));
  floats<uint32_t>("log_normal", 1, 3, {}, {0x404ee7e5, 0x40088632, 0x4028a5a2},
                   fill(log_normal, DType::Float32, 3, 0.5, 2.0));
  floats<uint32_t>("gamma", 1, 3, {}, {0x3f9e769a, 0x3f576fcb, 0x40189c41}, [](Generator& g, void* out) {
    const float alpha[] = {0.3f, 1.0f, 7.5f};
    standard_gamma(g, DType::Float32, alpha, out, 3);
  });
  floats<uint32_t>("rrelu", 0, 3, {}, {0x3e0c6803, 0x3f800000, 0x3e0d6bbc}, [](Generator& g, void* out) {
    const float x[] = {-1.0f, 1.0f, -1.0f};
    rrelu_noise(g, DType::Float32, x, out, 3, 1.0 / 8, 1.0 / 3);
  });
}

void test_integers() {
  integers<int64_t>("geometric", {13, 13, 10, 14, 3, 4},
                    [](Generator& g, void* out) { geometric(g, DType::Int64, out, 6, 0.2); });
  integers<int64_t>("random_range, one word", {52, -3, 41, 14, 76, 75},
                    [](Generator& g, void* out) { random_range(g, DType::Int64, out, 6, -5, 105); });
  integers<int64_t>("random_range, two words", {441476371554, 395845085946, 458553876606}, [](Generator& g, void* out) {
    random_range(g, DType::Int64, out, 3, -5, (uint64_t{1} << 40) + 5);
  });
  integers<int32_t>("random_any", {1608637542, 1273642419, 1935803228},
                    [](Generator& g, void* out) { random_any(g, DType::Int32, out, 3); });
  integers<uint8_t>("bernoulli", {1, 1, 1, 1, 0, 0, 0, 0},
                    [](Generator& g, void* out) { bernoulli(g, DType::UInt8, out, 8, 0.4); });
  integers<int32_t>("bernoulli_from", {0, 0, 1, 0, 1, 0, 1, 0}, [](Generator& g, void* out) {
    std::vector<float> p(8, 0.4f);
    bernoulli_from(g, DType::Int32, out, 8, DType::Float32, p.data());
  });
  integers<int64_t>("randperm", {6, 3, 0, 7, 2, 1, 4, 5},
                    [](Generator& g, void* out) { randperm(g, DType::Int64, out, 8); });
  integers<int64_t>("multinomial", {0, 0, 1, 0, 2, 2, 3, 3}, [](Generator& g, void* out) {
    const float p[] = {0.1f, 0.2f, 0.3f, 0.4f};
    multinomial_with_replacement(g, DType::Float32, p, 1, 4, 8, static_cast<int64_t*>(out));
  });
  integers<double>("poisson", {0, 1, 18, 998}, [](Generator& g, void* out) {
    const double rate[] = {0.5, 4, 30, 1000};
    poisson(g, DType::Float64, rate, out, 4);
  });
  integers<float>("binomial", {0, 96, 220}, [](Generator& g, void* out) {
    const float count[] = {5, 100, 1000}, p[] = {0.3f, 0.9f, 0.25f};
    binomial(g, DType::Float32, count, p, out, 3);
  });
}

void test_bounds() {
  int64_t from = 0, to = 1000;
  fit_bounds(DType::BFloat16, from, to);
  expect(from == 0 && to == 996, "fit_bounds pulls the upper bound down");
  from = -2039;
  to = 5;
  fit_bounds(DType::BFloat16, from, to);
  expect(from == -2032 && to == 5, "fit_bounds pushes the lower bound up");
  from = -5;
  to = 1000;
  fit_bounds(DType::Int32, from, to);
  expect(from == -5 && to == 1000, "fit_bounds leaves integers alone");
  expect(range_up_from(DType::Int64, INT64_MIN) == 0 && range_up_from(DType::Float32, 1) == 1u << 24, "range_up_from");
}

// A large fill is cut into pieces; it must give the same numbers as its pieces drawn one after the other.
void test_pieces() {
  Generator whole(3), pieces(3);
  std::vector<double> a(200000), b(200000);
  exponential(whole, DType::Float64, a.data(), 200000, 1.5);
  for (int64_t at = 0; at < 200000; at += 40000) exponential(pieces, DType::Float64, b.data() + at, 40000, 1.5);
  expect(a == b && whole.state() == pieces.state(), "pieces of exponential");
  log_normal(whole, DType::Float64, a.data(), 199999, 0, 1);
  for (int64_t at = 0, n; at < 199999; at += n) {
    n = std::min<int64_t>(33333, 199999 - at);
    log_normal(pieces, DType::Float64, b.data() + at, n, 0, 1);
  }
  expect(a == b && whole.state() == pieces.state(), "pieces of log_normal");
}

}  // namespace
}  // namespace tocha::cpu

int main() {
  using namespace tocha::cpu;
  test_engine();
  test_state();
  test_floats();
  test_integers();
  test_bounds();
  test_pieces();
  std::printf("%s\n", failures == 0 ? "ok" : "random_test failed");
  return failures != 0;
}
