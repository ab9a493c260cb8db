// Real lines of odd length, at half the cost of complex ones. With n = radix * rest the butterflies over the first
// factor give one real line and radix / 2 complex lines of length `rest`; the others are their conjugates. The complex
// ones are transformed side by side, the real one in the same way again.
#pragma once

#include "cpu/fft/isa/passes.h"

TOCHA_ISA_BEGIN
namespace fft {

// For J values of j, the sums of a[k] cos(2 pi j (k + 1) / radix) and of b[k] times the sine; in parts, as in
// odd_points.
template <class T, int J>
TOCHA_INLINE void root_sums(const Vec<T>* a, const Vec<T>* b, int64_t half, const T* roots, int64_t j,
                            Pair<T> (&total)[J]) {
  const int64_t radix = 2 * half + 1;
  int64_t at[J];
#pragma GCC unroll 4
  for (int i = 0; i < J; ++i) {
    total[i] = Pair<T>{};
    at[i] = 0;
  }
  for (int64_t begin = 0; begin < half; begin += kSummands) {
    const int64_t end = begin + kSummands < half ? begin + kSummands : half;
    Pair<T> part[J] = {};
    for (int64_t k = begin; k < end; ++k) {
#pragma GCC unroll 4
      for (int i = 0; i < J; ++i) {
        at[i] += j + i;
        if (at[i] >= radix) at[i] -= radix;
        const Factor<T> w(roots + 2 * at[i]);
        part[i] = {w.plus_re(part[i].re, a[k]), w.plus_im(part[i].im, b[k])};
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < J; ++i) total[i] = total[i] + part[i];
  }
}

// put(j, its sums) for j from 1 to half.
template <class T, class Put>
TOCHA_INLINE void all_root_sums(const Vec<T>* a, const Vec<T>* b, int64_t half, const T* roots, Put put) {
  int64_t j = 1;
  for (; j + 3 <= half; j += 4) {
    Pair<T> found[4];
    root_sums<T, 4>(a, b, half, roots, j, found);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) put(j + i, found[i]);
  }
  for (; j <= half; ++j) {
    Pair<T> found[1];
    root_sums<T, 1>(a, b, half, roots, j, found);
    put(j, found[0]);
  }
}

// Butterflies of real points, in[k] (only real parts are read): their real sums to `first`, the complex ones times
// their factors to lines [rest][half][width].
template <class T, int R>
void real_butterflies(const cpu::FftPass<T>& p, int64_t width, const T* in, T* lines, T* first) {
  const int64_t radix = R ? R : p.radix, half = radix / 2, point = width * kPair<T>;
  Vec<T> sum[cpu::kFftLargestRadix / 2], rest[cpu::kFftLargestRadix / 2];
  for (int64_t i = 0; i < p.rest; ++i) {
    const T* factors = p.factors + i * 2 * (radix - 1);
    for (int64_t g = 0; g < width; ++g) {
      const T* from = in + i * point + g * kPair<T>;
      const Vec<T> zero = load(from);
      Vec<T> total = zero;
#pragma GCC unroll 4
      for (int64_t k = 0; k < half; ++k) {
        const Vec<T> a = load(from + (k + 1) * p.rest * point), b = load(from + (radix - 1 - k) * p.rest * point);
        sum[k] = a + b;
        rest[k] = b - a;
        total += sum[k];
      }
      store_pair(first + i * point + g * kPair<T>, Pair<T>{total, Vec<T>{}});
      all_root_sums<T>(sum, rest, half, p.roots, [&](int64_t j, Pair<T> found) __attribute__((always_inline)) {
        const Pair<T> v{zero + found.re, found.im};
        store_pair(lines + ((i * half + j - 1) * width + g) * kPair<T>, times(v, factors + 2 * (j - 1)));
      });
    }
  }
}

// The inverse, of conjugated lines: twice their real parts, since the conjugates that are not there count as well.
template <class T, int R>
void real_butterflies_back(const cpu::FftPass<T>& p, int64_t width, const T* lines, const T* first, T* out) {
  const int64_t radix = R ? R : p.radix, half = radix / 2, point = width * kPair<T>;
  Vec<T> re[cpu::kFftLargestRadix / 2], im[cpu::kFftLargestRadix / 2];
  for (int64_t i = 0; i < p.rest; ++i) {
    const T* factors = p.factors + i * 2 * (radix - 1);
    for (int64_t g = 0; g < width; ++g) {
      const Vec<T> zero = load(first + i * point + g * kPair<T>);
      Vec<T> total = zero;
#pragma GCC unroll 4
      for (int64_t j = 0; j < half; ++j) {
        const Pair<T> v = load_pair(lines + ((i * half + j) * width + g) * kPair<T>);
        const Pair<T> twisted = times(v + v, factors + 2 * j);
        re[j] = twisted.re;
        im[j] = twisted.im;
        total += twisted.re;
      }
      T* to = out + i * point + g * kPair<T>;
      store(to, total);
      all_root_sums<T>(re, im, half, p.roots, [&](int64_t k, Pair<T> found) __attribute__((always_inline)) {
        const Vec<T> even = zero + found.re, odd = found.im;
        store(to + k * p.rest * point, even + odd);
        store(to + (radix - k) * p.rest * point, even - odd);
      });
    }
  }
}

// Calls f(the radix as a constant, or 0 for any).
template <class F>
inline void with_odd_radix(int64_t radix, F&& f) {
  switch (radix) {
    case 3:
      return f(std::integral_constant<int, 3>{});
    case 5:
      return f(std::integral_constant<int, 5>{});
    case 7:
      return f(std::integral_constant<int, 7>{});
    default:
      return f(std::integral_constant<int, 0>{});
  }
}

// The frequencies 0 to n / 2 of the real points in `a`, to out[k * step]. `a` and `b` have room for n points.
template <class T>
void transform_real_odd(const cpu::FftPlan<T>& plan, int64_t width, T* a, T* b, T* out, int64_t step) {
  const int64_t point = width * kPair<T>;
  if (plan.n == 1) {
    for (int64_t g = 0; g < width; ++g) store_pair(out + g * kPair<T>, Pair<T>{load(a + g * kPair<T>), Vec<T>{}});
    return;
  }
  const cpu::FftPass<T>& p = plan.passes[0];
  const int64_t radix = p.radix, half = radix / 2, rest = p.rest, apart = rest * half * point;
  with_odd_radix(radix, [&](auto r) { real_butterflies<T, r()>(p, width, a, b, b + apart); });
  const T* found = run_passes(*plan.rest, 0, plan.rest->passes.size(), width * half, b, a);
  transform_real_odd(*plan.rest, width, b + apart, a + apart, out, step * radix);
  for (int64_t k = 0; k < rest; ++k)
    for (int64_t j = 1; j <= half; ++j) {
      const int64_t f = k * radix + j, mirrored = plan.n - f;
      const T* from = found + (k * half + j - 1) * point;
      const bool high = mirrored < f;
      T* to = out + (high ? mirrored : f) * step;
      for (int64_t g = 0; g < point; g += kPair<T>) {
        const Pair<T> v = load_pair(from + g);
        store_pair(to + g, Pair<T>{v.re, high ? -v.im : v.im});
      }
    }
}

// The way back: from frequencies in[k * step], conjugated, to n real points in `out`. `in` may be `out`; `a` and `b`
// have room for n points.
template <class T>
void transform_odd_to_real(const cpu::FftPlan<T>& plan, int64_t width, const T* in, int64_t step, T* a, T* b, T* out) {
  const int64_t point = width * kPair<T>;
  if (plan.n == 1) {
    for (int64_t g = 0; g < point; g += kPair<T>) store(out + g, load(in + g));
    return;
  }
  const cpu::FftPass<T>& p = plan.passes[0];
  const int64_t radix = p.radix, half = radix / 2, rest = p.rest, apart = rest * half * point;
  for (int64_t k = 0; k < rest; ++k)
    for (int64_t j = 1; j <= half; ++j) {
      const int64_t f = k * radix + j, mirrored = plan.n - f;
      const bool high = mirrored < f;
      const T* from = in + (high ? mirrored : f) * step;
      T* to = a + (k * half + j - 1) * point;
      for (int64_t g = 0; g < point; g += kPair<T>) {
        const Pair<T> v = load_pair(from + g);
        store_pair(to + g, Pair<T>{v.re, high ? -v.im : v.im});
      }
    }
  T* lines = run_passes(*plan.rest, 0, plan.rest->passes.size(), width * half, a, b);
  T* free = lines == a ? b : a;
  T* first = lines + apart;
  transform_odd_to_real(*plan.rest, width, in, step * radix, free, free + rest * point, first);
  with_odd_radix(radix, [&](auto r) { real_butterflies_back<T, r()>(p, width, lines, first, out); });
}

}  // namespace fft
TOCHA_ISA_END
