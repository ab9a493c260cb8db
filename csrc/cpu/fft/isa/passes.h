// Butterflies on vectors of lines, and the passes of a transform (Stockham: every pass writes in the order that the
// next one reads, so nothing has to be permuted).
#pragma once

#include "cpu/engine/isa/simd.h"
#include "cpu/fft/plan.h"

TOCHA_ISA_BEGIN
namespace fft {

using gemm::broadcast;
using gemm::kLanes;
using gemm::load;
using gemm::multiply_add;
using gemm::store;
using gemm::Vec;

#define TOCHA_INLINE inline __attribute__((always_inline))

// A complex number per lane. In memory the real parts of all lanes come first.
template <class T>
struct Pair {
  Vec<T> re, im;
};
template <class T>
constexpr int64_t kPair = 2 * kLanes<T>;

template <class T>
TOCHA_INLINE Pair<T> load_pair(const T* p) {
  return {load(p), load(p + kLanes<T>)};
}
template <class T>
TOCHA_INLINE void store_pair(T* p, Pair<T> v) {
  store(p, v.re);
  store(p + kLanes<T>, v.im);
}
template <class T>
TOCHA_INLINE Pair<T> operator+(Pair<T> a, Pair<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
TOCHA_INLINE Pair<T> operator-(Pair<T> a, Pair<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
TOCHA_INLINE Pair<T> times(Pair<T> a, Vec<T> re, Vec<T> im) {
  return {multiply_add<T>(-a.im, im, a.re * re), multiply_add<T>(a.im, re, a.re * im)};
}

// A complex number for all lanes. Where an instruction can multiply by one element of a vector nothing is broadcast.
template <class T>
struct Factor {
  Vec<T> re, im;

  TOCHA_INLINE explicit Factor(const T* w) : re(broadcast(w[0])), im(broadcast(w[1])) {}
  TOCHA_INLINE Vec<T> times_re(Vec<T> a) const { return a * re; }
  TOCHA_INLINE Vec<T> times_im(Vec<T> a) const { return a * im; }
  TOCHA_INLINE Vec<T> plus_re(Vec<T> sum, Vec<T> a) const { return multiply_add<T>(a, re, sum); }
  TOCHA_INLINE Vec<T> plus_im(Vec<T> sum, Vec<T> a) const { return multiply_add<T>(a, im, sum); }
  TOCHA_INLINE Vec<T> minus_im(Vec<T> sum, Vec<T> a) const { return multiply_add<T>(-a, im, sum); }
};
#if defined(__aarch64__)
template <>
struct Factor<float> {
  float32x2_t w;
  using V = Vec<float>;
  using N = float32x4_t;

  TOCHA_INLINE explicit Factor(const float* p) : w(vld1_f32(p)) {}
  TOCHA_INLINE V times_re(V a) const { return (V)vmulq_lane_f32((N)a, w, 0); }
  TOCHA_INLINE V times_im(V a) const { return (V)vmulq_lane_f32((N)a, w, 1); }
  TOCHA_INLINE V plus_re(V sum, V a) const { return (V)vfmaq_lane_f32((N)sum, (N)a, w, 0); }
  TOCHA_INLINE V plus_im(V sum, V a) const { return (V)vfmaq_lane_f32((N)sum, (N)a, w, 1); }
  TOCHA_INLINE V minus_im(V sum, V a) const { return (V)vfmsq_lane_f32((N)sum, (N)a, w, 1); }
};
template <>
struct Factor<double> {
  float64x2_t w;
  using V = Vec<double>;
  using N = float64x2_t;

  TOCHA_INLINE explicit Factor(const double* p) : w(vld1q_f64(p)) {}
  TOCHA_INLINE V times_re(V a) const { return (V)vmulq_laneq_f64((N)a, w, 0); }
  TOCHA_INLINE V times_im(V a) const { return (V)vmulq_laneq_f64((N)a, w, 1); }
  TOCHA_INLINE V plus_re(V sum, V a) const { return (V)vfmaq_laneq_f64((N)sum, (N)a, w, 0); }
  TOCHA_INLINE V plus_im(V sum, V a) const { return (V)vfmaq_laneq_f64((N)sum, (N)a, w, 1); }
  TOCHA_INLINE V minus_im(V sum, V a) const { return (V)vfmsq_laneq_f64((N)sum, (N)a, w, 1); }
};
#endif

template <class T>
TOCHA_INLINE Pair<T> times(Pair<T> a, Factor<T> w) {
  return {w.minus_im(w.times_re(a.re), a.im), w.plus_re(w.times_im(a.re), a.im)};
}
template <class T>
TOCHA_INLINE Pair<T> times(Pair<T> a, const T* w) {
  return times(a, Factor<T>(w));
}
// -i a
template <class T>
TOCHA_INLINE Pair<T> turned(Pair<T> a) {
  return {a.im, -a.re};
}

template <class T>
TOCHA_INLINE void butterfly2(Pair<T>& a, Pair<T>& b) {
  const Pair<T> sum = a + b;
  b = a - b;
  a = sum;
}
template <class T>
TOCHA_INLINE void butterfly4(Pair<T>& a, Pair<T>& b, Pair<T>& c, Pair<T>& d) {
  const Pair<T> even = a + c, even_rest = a - c, odd = b + d, odd_rest = turned(b - d);
  a = even + odd;
  b = even_rest + odd_rest;
  c = even - odd;
  d = even_rest - odd_rest;
}

// The transform of R points in place.
template <class T, int R>
struct Butterfly {
  // Odd: points k and R - k in one, since their factors differ only in the sign of the sines.
  TOCHA_INLINE static void run(Pair<T> (&x)[R], const T* roots) {
    constexpr int half = R / 2;
    Pair<T> sum[half], rest[half];
    Pair<T> first = x[0];
#pragma GCC unroll 8
    for (int k = 0; k < half; ++k) {
      sum[k] = x[k + 1] + x[R - 1 - k];
      rest[k] = x[k + 1] - x[R - 1 - k];
      x[0] = x[0] + sum[k];
    }
#pragma GCC unroll 8
    for (int j = 1; j <= half; ++j) {
      Pair<T> even = first;
      Vec<T> odd_re{}, odd_im{};
#pragma GCC unroll 8
      for (int k = 0; k < half; ++k) {
        const Factor<T> w(roots + 2 * (j * (k + 1) % R));
        even = {w.plus_re(even.re, sum[k].re), w.plus_re(even.im, sum[k].im)};
        odd_re = k ? w.plus_im(odd_re, rest[k].re) : w.times_im(rest[k].re);
        odd_im = k ? w.plus_im(odd_im, rest[k].im) : w.times_im(rest[k].im);
      }
      x[j] = {even.re + odd_im, even.im - odd_re};
      x[R - j] = {even.re - odd_im, even.im + odd_re};
    }
  }
};
template <class T>
struct Butterfly<T, 2> {
  TOCHA_INLINE static void run(Pair<T> (&x)[2], const T*) { butterfly2(x[0], x[1]); }
};
template <class T>
struct Butterfly<T, 4> {
  TOCHA_INLINE static void run(Pair<T> (&x)[4], const T*) { butterfly4(x[0], x[1], x[2], x[3]); }
};
template <class T>
struct Butterfly<T, 8> {
  TOCHA_INLINE static void run(Pair<T> (&x)[8], const T*) {
    const Vec<T> root = broadcast(static_cast<T>(0.70710678118654752440));
    butterfly4(x[0], x[2], x[4], x[6]);
    butterfly4(x[1], x[3], x[5], x[7]);
    // times exp(-pi i k / 4)
    const Pair<T> a = x[3], b = turned(x[5]), c = x[7];
    x[3] = {(a.re + a.im) * root, (a.im - a.re) * root};
    const Pair<T> d{(c.im - c.re) * root, -(c.re + c.im) * root};
    const Pair<T> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], b, d};
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      x[k] = even[k] + odd[k];
      x[k + 4] = even[k] - odd[k];
    }
  }
};

// One butterfly after another: `run` numbers lie between points that are multiplied alike.
template <class T, int R, bool kTwisted>
TOCHA_INLINE void butterflies(const T* in, T* out, int64_t run, int64_t apart, const T* factors, const T* roots) {
  for (int64_t q = 0; q < run; q += kPair<T>) {
    Pair<T> x[R];
#pragma GCC unroll 16
    for (int k = 0; k < R; ++k) x[k] = load_pair(in + q + k * apart);
    Butterfly<T, R>::run(x, roots);
    store_pair(out + q, x[0]);
#pragma GCC unroll 16
    for (int j = 1; j < R; ++j) {
      store_pair(out + q + j * run, kTwisted ? times(x[j], factors + 2 * (j - 1)) : x[j]);
    }
  }
}

template <class T, int R>
void pass(const cpu::FftPass<T>& p, int64_t width, const T* in, T* out) {
  const int64_t run = p.done * width * kPair<T>, apart = p.rest * run;
  butterflies<T, R, false>(in, out, run, apart, nullptr, p.roots);
  for (int64_t i = 1; i < p.rest; ++i) {
    butterflies<T, R, true>(in + i * run, out + i * R * run, run, apart, p.factors + i * 2 * (R - 1), p.roots);
  }
}

constexpr int64_t kSummands = 8;

// Points j and radix - j of an odd butterfly, for J values of j at once, from the sums and differences of points k and
// radix - k.
template <class T, int J>
TOCHA_INLINE void odd_points(const Pair<T>* sum, const Pair<T>* rest, Pair<T> first, int64_t half, const T* roots,
                             int64_t j, Pair<T> (&low)[J], Pair<T> (&high)[J]) {
  const int64_t radix = 2 * half + 1;
  Pair<T> even[J], odd[J];
  int64_t at[J];
#pragma GCC unroll 4
  for (int i = 0; i < J; ++i) {
    even[i] = first;
    odd[i] = Pair<T>{};
    at[i] = 0;
  }
  // In parts, whose rounding errors stay small.
  for (int64_t begin = 0; begin < half; begin += kSummands) {
    const int64_t end = begin + kSummands < half ? begin + kSummands : half;
    Pair<T> even_part[J] = {}, odd_part[J] = {};
    for (int64_t k = begin; k < end; ++k) {
#pragma GCC unroll 4
      for (int i = 0; i < J; ++i) {
        at[i] += j + i;
        if (at[i] >= radix) at[i] -= radix;
        const Factor<T> w(roots + 2 * at[i]);
        even_part[i] = {w.plus_re(even_part[i].re, sum[k].re), w.plus_re(even_part[i].im, sum[k].im)};
        odd_part[i] = {w.plus_im(odd_part[i].re, rest[k].re), w.plus_im(odd_part[i].im, rest[k].im)};
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < J; ++i) {
      even[i] = even[i] + even_part[i];
      odd[i] = odd[i] + odd_part[i];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < J; ++i) {
    low[i] = {even[i].re + odd[i].im, even[i].im - odd[i].re};
    high[i] = {even[i].re - odd[i].im, even[i].im + odd[i].re};
  }
}

// The same for any odd radix.
template <class T>
void odd_pass(const cpu::FftPass<T>& p, int64_t width, const T* in, T* out) {
  const int64_t radix = p.radix, half = radix / 2, run = p.done * width * kPair<T>, apart = p.rest * run;
  Pair<T> sum[cpu::kFftLargestRadix / 2], rest[cpu::kFftLargestRadix / 2];
  for (int64_t i = 0; i < p.rest; ++i) {
    const T* factors = p.factors + i * 2 * (radix - 1);
    for (int64_t q = 0; q < run; q += kPair<T>) {
      const T* from = in + i * run + q;
      T* to = out + i * radix * run + q;
      const Pair<T> first = load_pair(from);
      Pair<T> total = first;
      for (int64_t k = 0; k < half; ++k) {
        const Pair<T> a = load_pair(from + (k + 1) * apart), b = load_pair(from + (radix - 1 - k) * apart);
        sum[k] = a + b;
        rest[k] = a - b;
        total = total + sum[k];
      }
      store_pair(to, total);
      auto put = [&](int64_t j, Pair<T> v) __attribute__((always_inline)) {
        store_pair(to + j * run, i ? times(v, factors + 2 * (j - 1)) : v);
      };
      int64_t j = 1;
      for (; j + 1 <= half; j += 2) {
        Pair<T> low[2], high[2];
        odd_points<T, 2>(sum, rest, first, half, p.roots, j, low, high);
        put(j, low[0]);
        put(j + 1, low[1]);
        put(radix - j, high[0]);
        put(radix - j - 1, high[1]);
      }
      if (j <= half) {
        Pair<T> low[1], high[1];
        odd_points<T, 1>(sum, rest, first, half, p.roots, j, low, high);
        put(j, low[0]);
        put(radix - j, high[0]);
      }
    }
  }
}

template <class T>
void any_pass(const cpu::FftPass<T>& p, int64_t width, const T* in, T* out) {
  switch (p.radix) {
    case 2:
      return pass<T, 2>(p, width, in, out);
    case 3:
      return pass<T, 3>(p, width, in, out);
    case 4:
      return pass<T, 4>(p, width, in, out);
    case 5:
      return pass<T, 5>(p, width, in, out);
    case 7:
      return pass<T, 7>(p, width, in, out);
    case 8:
      return pass<T, 8>(p, width, in, out);
    case 11:
      return pass<T, 11>(p, width, in, out);
    case 13:
      return pass<T, 13>(p, width, in, out);
    default:
      return odd_pass<T>(p, width, in, out);
  }
}

// The first pass, straight from the lines in memory: from[g].load(k) gives point k of a group of lanes, whose imaginary
// part is multiplied by `sign`.
template <class T, int R, bool kTwisted, class From>
TOCHA_INLINE void first_butterflies(const From* from, int64_t i, int64_t rest, int64_t width, T* out, const T* factors,
                                    const T* roots, Vec<T> sign) {
  for (int64_t g = 0; g < width; ++g) {
    Pair<T> x[R];
#pragma GCC unroll 16
    for (int k = 0; k < R; ++k) {
      x[k] = from[g].load(i + k * rest);
      x[k].im *= sign;
    }
    Butterfly<T, R>::run(x, roots);
    T* to = out + (i * R * width + g) * kPair<T>;
    store_pair(to, x[0]);
#pragma GCC unroll 16
    for (int j = 1; j < R; ++j) {
      store_pair(to + j * width * kPair<T>, kTwisted ? times(x[j], factors + 2 * (j - 1)) : x[j]);
    }
  }
}
template <class T, int R, class From>
void first_pass(const cpu::FftPass<T>& p, int64_t width, const From* from, T sign, T* out) {
  const Vec<T> by = broadcast(sign);
  first_butterflies<T, R, false>(from, 0, p.rest, width, out, nullptr, p.roots, by);
  for (int64_t i = 1; i < p.rest; ++i) {
    first_butterflies<T, R, true>(from, i, p.rest, width, out, p.factors + i * 2 * (R - 1), p.roots, by);
  }
}

// The last pass, straight to memory: to[g].store(k, point).
template <class T, int R, class To>
void last_pass(const cpu::FftPass<T>& p, int64_t width, const T* in, const To* to, T re_scale, T im_scale) {
  const Vec<T> by_re = broadcast(re_scale), by_im = broadcast(im_scale);
  const int64_t apart = p.done * width * kPair<T>;
  for (int64_t q = 0; q < p.done; ++q) {
    for (int64_t g = 0; g < width; ++g) {
      Pair<T> x[R];
#pragma GCC unroll 16
      for (int k = 0; k < R; ++k) x[k] = load_pair(in + (q * width + g) * kPair<T> + k * apart);
      Butterfly<T, R>::run(x, p.roots);
#pragma GCC unroll 16
      for (int j = 0; j < R; ++j) to[g].store(q + j * p.done, Pair<T>{x[j].re * by_re, x[j].im * by_im});
    }
  }
}

// Calls f(radix as a constant) if passes from and to memory exist for it.
template <class F>
inline bool with_fused_radix(int64_t radix, F&& f) {
  switch (radix) {
    case 2:
      return f(std::integral_constant<int, 2>{}), true;
    case 3:
      return f(std::integral_constant<int, 3>{}), true;
    case 4:
      return f(std::integral_constant<int, 4>{}), true;
    case 5:
      return f(std::integral_constant<int, 5>{}), true;
    case 7:
      return f(std::integral_constant<int, 7>{}), true;
    case 8:
      return f(std::integral_constant<int, 8>{}), true;
    default:
      return false;
  }
}

// Runs passes [first, last) on what is in `a`; `b` is as large. Returns which of them has the result.
template <class T>
T* run_passes(const cpu::FftPlan<T>& plan, size_t first, size_t last, int64_t width, T* a, T* b) {
  for (size_t i = first; i < last; ++i) {
    any_pass(plan.passes[i], width, a, b);
    std::swap(a, b);
  }
  return a;
}

// Every point times a number of its own; conjugated, before that or after it.
template <class T, bool kBefore, bool kAfter>
void multiply(T* points, const T* by, int64_t n, int64_t width) {
  for (int64_t k = 0; k < n; ++k) {
    const Factor<T> w(by + 2 * k);
    for (int64_t g = 0; g < width; ++g) {
      T* at = points + (k * width + g) * kPair<T>;
      Pair<T> v = load_pair(at);
      if (kBefore) v.im = -v.im;
      v = times(v, w);
      if (kAfter) v.im = -v.im;
      store_pair(at, v);
    }
  }
}

// A transform as a convolution. The inverse transform in it is the conjugate of that of the conjugates.
template <class T>
T* convolve(const cpu::FftPlan<T>& plan, int64_t width, T* a, T* b) {
  const cpu::FftPlan<T>& inner = *plan.convolution;
  const int64_t point = width * kPair<T>;
  multiply<T, false, false>(a, plan.chirp.data(), plan.n, width);
  std::memset(a + plan.n * point, 0, static_cast<size_t>((inner.n - plan.n) * point) * sizeof(T));
  T* c = run_passes(inner, 0, inner.passes.size(), width, a, b);
  multiply<T, false, true>(c, plan.filter.data(), inner.n, width);
  T* d = run_passes(inner, 0, inner.passes.size(), width, c, c == a ? b : a);
  multiply<T, true, false>(d, plan.chirp.data(), plan.n, width);
  return d;
}

// Transforms the points in `a`; `b` is as large. Returns which of them has the result.
template <class T>
T* transform(const cpu::FftPlan<T>& plan, int64_t width, T* a, T* b) {
  if (plan.convolution) return convolve(plan, width, a, b);
  return run_passes(plan, 0, plan.passes.size(), width, a, b);
}

}  // namespace fft
TOCHA_ISA_END
