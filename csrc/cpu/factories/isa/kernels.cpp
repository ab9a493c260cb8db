// Evenly spaced numbers and windows, bit for bit as PyTorch rounds them; see kernels.h.
#include "cpu/factories/kernels.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "cpu/vecmath/vecmath.h"

TOCHA_ISA_BEGIN
namespace sequences {
namespace {

using cpu::CosineSum;
using cpu::Spacing;

constexpr int64_t kBlock = 256;

// What a T is computed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// -- evenly spaced -----------------------------------------------------------------------------------

// Counted from both ends, so that each end is met exactly. Half types are rounded after every operation; integers
// truncate what lies between the ends.
template <class T>
void space(T* p, int64_t begin, int64_t end, const Spacing& s) {
  using Acc = std::conditional_t<std::is_integral_v<T>, double, Wide<T>>;
  const Acc a = static_cast<Acc>(s.first), b = static_cast<Acc>(s.last);
  const int64_t half = s.n / 2, middle = std::clamp(half, begin, end), top = s.n - 1;
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, Acc>) {
    const Acc step = (b - a) / static_cast<Acc>(top);
    auto number = [](Acc v) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<int64_t>(v));
      else
        return v;
    };
    for (int64_t i = begin; i < middle; ++i) p[i] = number(std::fma(step, static_cast<Acc>(i), a));
    for (int64_t i = middle; i < end; ++i) p[i] = number(std::fma(-step, static_cast<Acc>(top - i), b));
  } else {
    auto r = [](float v) { return static_cast<float>(T(v)); };
    const float step = r(r(b - a) / r(static_cast<float>(top)));
    for (int64_t i = begin; i < middle; ++i) p[i] = T(a + r(step * r(static_cast<float>(i))));
    for (int64_t i = middle; i < end; ++i) p[i] = T(b - r(step * r(static_cast<float>(top - i))));
  }
}

void space_any(DType dtype, void* out, int64_t begin, int64_t end, const Spacing& s) {
  switch (dtype) {
#define _(e, t, n, c)                                                                                 \
  case DType::e:                                                                                      \
    if constexpr (!is_complex_type<t> && !std::is_same_v<t, bool> &&                                  \
                  !(is_small_float<t> && sizeof(t) == 1)) /* which have no arithmetic of their own */ \
      space(static_cast<t*>(out), begin, end, s);                                                     \
    break;
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      break;
  }
}

// -- windows -----------------------------------------------------------------------------------------

// Steps that each round to T, as those of operators on tensors do.
template <class T>
T times(T x, double factor) {
  return static_cast<T>(static_cast<Wide<T>>(x) * static_cast<Wide<T>>(factor));
}
template <class T>
T plus(T x, double addend) {
  return static_cast<T>(static_cast<Wide<T>>(x) + static_cast<Wide<T>>(addend));
}
template <class T>
T position(int64_t i) {
  return static_cast<T>(static_cast<Wide<T>>(i));
}

// Angles of a few turns. A float's cosine is a double's, rounded.
TOCHA_MATH double cosine(double x) { return math::cos_fast(x); }
TOCHA_MATH float cosine(float x) {
  const auto [r, quadrant] = math::reduce_trig_lite(x);
  const double z = r * r, sine = math::madd(r * z, math::sin_tail(z), r);
  const double cosine = math::madd(z * z, math::cos_tail(z), math::madd(z, -0.5, 1.0));
  const uint64_t quarter = quadrant + 1;
  return static_cast<float>(math::flip_sign((quarter & 1) != 0 ? cosine : sine, quarter << 62 & 1ull << 63));
}

// The highest term first.
template <class T>
void sum_cosines(T* p, int64_t begin, int64_t end, const CosineSum& sum) {
  const double turn = 2 * std::numbers::pi / sum.last;
  Wide<T> terms[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t n = std::min(kBlock, end - first);
    T* y = p + first;
    std::fill_n(y, n, position<T>(0));
    for (int64_t k = sum.terms - 1; k > 0; --k) {
      const double factor = static_cast<double>(k), weight = k % 2 ? -sum.a[k] : sum.a[k];
      for (int64_t i = 0; i < n; ++i)
        terms[i] = static_cast<Wide<T>>(times(times(position<T>(first + i), turn), factor));
      for (int64_t i = 0; i < n; ++i) terms[i] = cosine(terms[i]);
      for (int64_t i = 0; i < n; ++i) y[i] = plus(y[i], static_cast<Wide<T>>(times(static_cast<T>(terms[i]), weight)));
    }
    for (int64_t i = 0; i < n; ++i) y[i] = plus(y[i], sum.a[0]);
  }
}

// Up from 0 to 1, and down again.
template <class T>
void triangle(T* p, int64_t begin, int64_t end, int64_t last) {
  for (int64_t i = begin; i < end; ++i) {
    const T x = times(position<T>(i), 2.0 / static_cast<double>(last));
    p[i] = i <= last / 2 ? x : plus(times(x, -1), 2);
  }
}

// f(T*) for the dtypes that windows are computed in.
template <class F>
void with_floats(DType dtype, void* out, F f) {
  switch (dtype) {
    case DType::Float64:
      return f(static_cast<double*>(out));
    case DType::Float16:
      return f(static_cast<Half*>(out));
    case DType::BFloat16:
      return f(static_cast<BFloat16*>(out));
    default:
      return f(static_cast<float*>(out));
  }
}
void sum_cosines_any(DType dtype, void* out, int64_t begin, int64_t end, const CosineSum& sum) {
  with_floats(dtype, out, [&](auto* p) { sum_cosines(p, begin, end, sum); });
}
void triangle_any(DType dtype, void* out, int64_t begin, int64_t end, int64_t last) {
  with_floats(dtype, out, [&](auto* p) { triangle(p, begin, end, last); });
}

}  // namespace
}  // namespace sequences
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const SequenceKernels sequence_kernels;
const SequenceKernels sequence_kernels = {sequences::space_any, sequences::sum_cosines_any, sequences::triangle_any};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
