// Butterflies on vectors of lines, and the passes of a transform (Stockham: every pass writes in the order that the
// next one reads, so nothing has to be permuted).
#pragma once

#include "cpu/fft_plan.h"
#include "cpu/isa/gemm_simd.h"

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
template <class T>
TOCHA_INLINE Pair<T> times(Pair<T> a, const T* w) {
  return times(a, broadcast(w[0]), broadcast(w[1]));
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
        const T* w = roots + 2 * (j * (k + 1) % R);
        const Vec<T> c = broadcast(w[0]), s = broadcast(w[1]);
        even = {multiply_add<T>(sum[k].re, c, even.re), multiply_add<T>(sum[k].im, c, even.im)};
        odd_re = k ? multiply_add<T>(rest[k].re, s, odd_re) : rest[k].re * s;
        odd_im = k ? multiply_add<T>(rest[k].im, s, odd_im) : rest[k].im * s;
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
      for (int64_t j = 1; j <= half; ++j) {
        Pair<T> even = first, odd{};
        int64_t at = 0;
        for (int64_t k = 0; k < half; ++k) {
          at += j;
          if (at >= radix) at -= radix;
          const Vec<T> c = broadcast(p.roots[2 * at]), s = broadcast(p.roots[2 * at + 1]);
          even = {multiply_add<T>(sum[k].re, c, even.re), multiply_add<T>(sum[k].im, c, even.im)};
          odd = {multiply_add<T>(rest[k].re, s, odd.re), multiply_add<T>(rest[k].im, s, odd.im)};
        }
        const Pair<T> low{even.re + odd.im, even.im - odd.re}, high{even.re - odd.im, even.im + odd.re};
        store_pair(to + j * run, i ? times(low, factors + 2 * (j - 1)) : low);
        store_pair(to + (radix - j) * run, i ? times(high, factors + 2 * (radix - j - 1)) : high);
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
    const Vec<T> re = broadcast(by[2 * k]), im = broadcast(by[2 * k + 1]);
    for (int64_t g = 0; g < width; ++g) {
      T* at = points + (k * width + g) * kPair<T>;
      Pair<T> v = load_pair(at);
      if (kBefore) v.im = -v.im;
      v = times(v, re, im);
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
