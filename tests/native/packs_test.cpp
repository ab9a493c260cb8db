// Holds every function on packs to the bits of the form that eager kernels have (the scalar one, or that on vectors of
// AVX-512), over floats of all exponents; packs that are not full to what lies in memory; and transposed tiles to their
// source. Exits with 1 where they differ. `packs_test [stride]` takes every stride-th float.
// sources:
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "cpu/engine/program_packs_half.h"
#include "cpu/engine/program_packs_lanes.h"
#include "cpu/engine/program_packs_math.h"
#include "cpu/engine/program_packs_trig.h"
#include "cpu/engine/program_tiles.h"

namespace {

using namespace tocha;
using vec::Pack;

int failures = 0;

bool same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b); }

template <class OnPacks, class OnFloats>
void compare(const char* name, const float* x, const float* other, OnPacks&& on_packs, OnFloats&& on_floats) {
  float y[vec::kPack];
  vec::store(y, on_packs(vec::load(x, vec::Whole()), vec::load(other, vec::Whole())), vec::Whole());
  for (int i = 0; i < vec::kPack; ++i) {
    float expected = on_floats(x[i], other[i]);
    if (same(y[i], expected)) continue;
    if (++failures < 20) std::printf("%s(%a, %a) is %a on packs, %a else\n", name, x[i], other[i], y[i], expected);
  }
}

#define COMPARE(NAME, PACKS, FLOATS) \
  compare(NAME, x, other, [](Pack a, Pack b) { return PACKS; }, [](float a, float b) { return FLOATS; })
#define BINARY(F) COMPARE(#F, math::F(a, b), math::F(a, b))

#if TOCHA_VECTOR_F32
#define EAGER(F, A) math::first(math::F(math::splat(A)))
#define EAGER_BELOW_ZERO(A) EAGER(exp, A)
#else
#define EAGER(F, A) math::F(A)
#define EAGER_BELOW_ZERO(A) math::exp_below_zero(A)
#endif

void functions(const float* x, const float* other) {
#define ONE(F) COMPARE(#F, math::F(a), math::F(a))
#define DEAR(F) COMPARE(#F, math::F(a), EAGER(F, a))
  ONE(abs);
  ONE(sqrt);
  ONE(rsqrt);
  ONE(relu);
  DEAR(exp);
  DEAR(expm1);
  DEAR(tanh);
  DEAR(sigmoid);
  DEAR(log);
  DEAR(log1p);
  DEAR(erf);
  DEAR(gelu);
  DEAR(exp2);
  DEAR(log2);
  DEAR(log10);
  DEAR(sin);
  DEAR(cos);
  ONE(tan);
  DEAR(lgamma);
  ONE(digamma);
  ONE(erfinv);
  ONE(erfc);
  ONE(asinh);
  ONE(acosh);
  ONE(atanh);
  ONE(sign);
  ONE(floor);
  ONE(ceil);
  ONE(trunc);
  ONE(round);
  ONE(sinh);
  ONE(cosh);
  ONE(asin);
  ONE(acos);
  ONE(atan);
  COMPARE("exp_below_zero", math::exp_below_zero(-math::abs(a)), EAGER_BELOW_ZERO(-math::abs(a)));
  BINARY(maximum);
  BINARY(minimum);
  BINARY(fmax);
  BINARY(fmin);
  BINARY(clamp_min);
  BINARY(clamp_max);
  COMPARE("clamp", math::clamp(a, -math::abs(b), math::abs(b)), math::clamp(a, -math::abs(b), math::abs(b)));
  BINARY(copysign);
  BINARY(pow);
  BINARY(atan2);
  BINARY(hypot);
  BINARY(fmod);
  BINARY(remainder);
  BINARY(floordiv);
  COMPARE("a + b", a + b, a + b);
  COMPARE("a - b", a - b, a - b);
  COMPARE("a * b", a * b, a * b);
  COMPARE("a / b", a / b, a / b);
  COMPARE("1 / a", 1.0f / a, 1.0f / a);
  COMPARE("-a", -a, -a);
  COMPARE("madd", math::madd(a, b, a), math::madd(a, b, a));
  COMPARE("a < b", vec::choose(a < b, a, b), a < b ? a : b);
  COMPARE("a <= b", vec::choose(a <= b, a, b), a <= b ? a : b);
  COMPARE("a > b", vec::choose(a > b, a, b), a > b ? a : b);
  COMPARE("a >= b", vec::choose(a >= b, a, b), a >= b ? a : b);
  COMPARE("a == b", vec::choose(a == b, a, b), a == b ? a : b);
  COMPARE("a != b", vec::choose(a != b, a, b), a != b ? a : b);
  COMPARE("isnan", vec::choose(math::isnan(a), b, a), math::isnan(a) ? b : a);
  COMPARE("isinf", vec::choose(math::isinf(a), b, a), math::isinf(a) ? b : a);
  COMPARE("isfinite", vec::choose(math::isfinite(a), b, a), math::isfinite(a) ? b : a);
  COMPARE("to float16", vec::cast<Half>(a), float(Half(a)));
  COMPARE("to bfloat16", vec::cast<BFloat16>(a), float(BFloat16(a)));
  COMPARE("to float", vec::cast<float>(a < b), static_cast<float>(a < b));
  COMPARE("and", vec::choose((a < b) & !(b < 1.0f), a, b), (a < b) && !(b < 1.0f) ? a : b);
  COMPARE("or", vec::choose((a < b) | (b < 1.0f), a, b), (a < b) || (b < 1.0f) ? a : b);
  COMPARE("xor", vec::choose((a < b) ^ (b < 1.0f), a, b), (a < b) != (b < 1.0f) ? a : b);
}

void parts_of_packs() {
  float from[vec::kPack], to[vec::kPack];
  for (int64_t count = 0; count <= vec::kPack; ++count) {
    for (int i = 0; i < vec::kPack; ++i) from[i] = static_cast<float>(i + 1), to[i] = -1;
    vec::store(to, vec::load(from, vec::First{count}), vec::First{count});
    for (int i = 0; i < vec::kPack; ++i) failures += to[i] != (i < count ? from[i] : -1);
  }
  for (int64_t count = 0; count <= vec::kPack + 2; ++count) {
    float pairs[2 * vec::kPack];
    for (int i = 0; i < vec::kPack; ++i) to[i] = pairs[2 * i] = pairs[2 * i + 1] = -1;
    const Pack x = vec::load(from, vec::Part{count});
    vec::store(to, x, vec::Part{count});
    vec::store_in_turn(pairs, {x, x}, vec::Part{count});
    for (int i = 0; i < vec::kPack; ++i) {
      const float want = i < count ? from[i] : -1;
      failures += to[i] != want || pairs[2 * i] != want || pairs[2 * i + 1] != want;
    }
  }
}

// All numbers of a small type, to packs and back, and parts of a pack.
template <class T>
void small_floats() {
  for (uint32_t u = 0; u < 1u << 16; u += vec::kPack) {
    T from[vec::kPack], to[vec::kPack];
    float y[vec::kPack];
    for (uint32_t i = 0; i < vec::kPack; ++i) from[i].bits = static_cast<uint16_t>(u + i);
    const Pack x = vec::load(from, vec::Whole());
    vec::store(y, x, vec::Whole());
    vec::store(to, vec::cast<T>(x), vec::Whole());
    for (int i = 0; i < vec::kPack; ++i) failures += !same(y[i], float(from[i])) || !same(float(to[i]), y[i]);
  }
  for (int64_t count = 0; count <= vec::kPack + 2; ++count) {
    T from[vec::kPack], to[vec::kPack], rest[vec::kPack];
    for (int i = 0; i < vec::kPack; ++i) from[i] = T(static_cast<float>(i + 1)), to[i] = rest[i] = T(-1.0f);
    vec::store(to, vec::load(from, vec::Part{count}), vec::Part{count});
    if (count <= vec::kPack) vec::store(rest, vec::load(from, vec::First{count}), vec::First{count});
    for (int i = 0; i < vec::kPack; ++i) {
      failures += float(to[i]) != (i < count ? float(from[i]) : -1);
      failures += count <= vec::kPack && float(rest[i]) != float(to[i]);
    }
  }
}

void positions() {
  for (int64_t first : {int64_t{0}, int64_t{1000}}) {
    for (int64_t k : {INT64_MIN, int64_t{-1}, first - 1, first, first + 7, first + 15, first + 16, INT64_MAX}) {
      const vec::Positions at{first};
      const Pack one = vec::pack(1.0f), zero = vec::pack(0.0f);
#define POSITIONS(OP)                                                        \
  {                                                                          \
    float y[vec::kPack], z[vec::kPack];                                      \
    vec::store(y, vec::choose(at OP vec::pack(k), one, zero), vec::Whole()); \
    vec::store(z, vec::choose(vec::pack(k) OP at, one, zero), vec::Whole()); \
    for (int i = 0; i < vec::kPack; ++i) {                                   \
      failures += (y[i] != 0) != (first + i OP k);                           \
      failures += (z[i] != 0) != (k OP first + i);                           \
    }                                                                        \
  }
      POSITIONS(<)
      POSITIONS(<=)
      POSITIONS(>)
      POSITIONS(>=)
      POSITIONS(==)
      POSITIONS(!=)
    }
  }
  uint8_t truths[vec::kPack];
  for (int i = 0; i < vec::kPack; ++i) truths[i] = i % 3 == 1;
  float y[vec::kPack], z[vec::kPack];
  vec::store(y, vec::choose(vec::load(truths, vec::Whole()), vec::pack(1.0f), 0.0f), vec::Whole());
  vec::store(z, vec::choose(vec::load(truths, vec::First{5}), vec::pack(1.0f), 0.0f), vec::Whole());
  for (int i = 0; i < vec::kPack; ++i) failures += y[i] != truths[i] || z[i] != (i < 5 ? truths[i] : 0);
}

void tiles() {
  constexpr int64_t step = 64;
  static float from[step * kTileColumns], tile[step * kTileColumns];
  for (int i = 0; i < step * kTileColumns; ++i) from[i] = static_cast<float>(i);
  for (int64_t rows = 1; rows < 40; ++rows) {
    for (int64_t columns = 1; columns <= kTileColumns; ++columns) {
      for (float& x : tile) x = -1;
      transpose_tile(tile, from, step, rows, columns);
      for (int64_t r = 0; r < step; ++r) {
        for (int64_t c = 0; c < kTileColumns; ++c) {
          const bool inside = r < rows && c < columns;
          failures += tile[r * kTileColumns + c] != (inside ? from[r + c * step] : -1);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t stride = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1009;
  uint64_t u = 0;
  while (u < uint64_t{1} << 32) {
    float x[vec::kPack], other[vec::kPack];
    for (int i = 0; i < vec::kPack; ++i, u += stride) {
      x[i] = std::bit_cast<float>(static_cast<uint32_t>(u));
      other[i] = std::bit_cast<float>(static_cast<uint32_t>(u) * 2654435761u);
    }
    functions(x, other);
  }
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float ends[vec::kPack] = {inf,  -inf,  nan,    -nan,    0.0f,  -0.0f,   1e-45f, -1e-45f,
                                  1.0f, -1.0f, 88.73f, -87.34f, 89.1f, -103.9f, 0.55f,  1e-8f};
  for (int turn = 0; turn < vec::kPack; ++turn) {
    float other[vec::kPack];
    for (int i = 0; i < vec::kPack; ++i) other[i] = ends[(i + turn) % vec::kPack];
    functions(ends, other);
  }
  parts_of_packs();
  small_floats<Half>();
  small_floats<BFloat16>();
  positions();
  tiles();
  if (failures) std::printf("%d differences\n", failures);
  return failures != 0;
}
