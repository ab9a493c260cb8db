// Lines in memory, as vectors of the same point of several lines: how neighbouring lanes lie decides how they are read.
#pragma once

#include "cpu/fft/isa/passes.h"

TOCHA_ISA_BEGIN
namespace fft {

enum class Lie { interleaved, split, rows, any };

// Point k of line l: its real part is at base[at[l] + k * step], its imaginary part `other` behind it; with other == 0
// it has none.
template <class P>
struct Lines {
  P* base;
  const int64_t* at;
  int64_t step, other;
  int64_t lines;  // those that exist, of a group of lanes
};

template <class T, class P>
bool adjacent(const Lines<P>& m, int64_t apart) {
  for (int64_t l = 1; l < kLanes<T>; ++l) {
    if (m.at[l] != m.at[0] + l * apart) return false;
  }
  return true;
}

// interleaved: complex numbers of all lanes side by side. split: real numbers of all lanes side by side.
// rows: complex numbers, read one by one; where vectors are short that is as good as a transposition.
template <class T, class P>
Lie lie_of(const Lines<P>& m) {
  if (m.lines < kLanes<T>) return Lie::any;
  if (m.other == 1 && adjacent<T>(m, 2)) return Lie::interleaved;
  if (adjacent<T>(m, 1)) return Lie::split;
#if defined(__aarch64__)
  if (m.other == 1) return Lie::rows;
#endif
  return Lie::any;
}

template <class T>
constexpr auto kSequence = std::make_index_sequence<kLanes<T>>{};

template <class T, Lie kLie>
struct Access;

template <class T>
struct Access<T, Lie::interleaved> {
  T* base;
  int64_t step;

  Access() = default;
  template <class P>
  explicit Access(const Lines<P>& m) : base(const_cast<T*>(m.base) + m.at[0]), step(m.step) {}
  TOCHA_INLINE Pair<T> load(int64_t k) const {
    const Vec<T> a = gemm::load(base + k * step), b = gemm::load(base + k * step + kLanes<T>);
    return {gemm::every_other<T, false>(a, b, kSequence<T>), gemm::every_other<T, true>(a, b, kSequence<T>)};
  }
  TOCHA_INLINE void store(int64_t k, Pair<T> v) const {
    gemm::store(base + k * step, gemm::interleave_half<T, false>(v.re, v.im, kSequence<T>));
    gemm::store(base + k * step + kLanes<T>, gemm::interleave_half<T, true>(v.re, v.im, kSequence<T>));
  }
};

template <class T>
struct Access<T, Lie::split> {
  T* base;
  int64_t step, other;

  Access() = default;
  template <class P>
  explicit Access(const Lines<P>& m) : base(const_cast<T*>(m.base) + m.at[0]), step(m.step), other(m.other) {}
  TOCHA_INLINE Pair<T> load(int64_t k) const {
    return {gemm::load(base + k * step), other ? gemm::load(base + k * step + other) : Vec<T>{}};
  }
  TOCHA_INLINE void store(int64_t k, Pair<T> v) const {
    gemm::store(base + k * step, v.re);
    if (other) gemm::store(base + k * step + other, v.im);
  }
};

#if defined(__aarch64__)
template <>
struct Access<float, Lie::rows> {
  float* base[4];
  int64_t step;

  Access() = default;
  template <class P>
  explicit Access(const Lines<P>& m) : step(m.step) {
    for (int l = 0; l < 4; ++l) base[l] = const_cast<float*>(m.base) + m.at[l];
  }
  TOCHA_INLINE Pair<float> load(int64_t k) const {
    const int64_t at = k * step;
    const float32x4_t a = vcombine_f32(vld1_f32(base[0] + at), vld1_f32(base[1] + at));
    const float32x4_t b = vcombine_f32(vld1_f32(base[2] + at), vld1_f32(base[3] + at));
    return {(Vec<float>)vuzp1q_f32(a, b), (Vec<float>)vuzp2q_f32(a, b)};
  }
  TOCHA_INLINE void store(int64_t k, Pair<float> v) const {
    const int64_t at = k * step;
    const float32x4_t a = vzip1q_f32((float32x4_t)v.re, (float32x4_t)v.im);
    const float32x4_t b = vzip2q_f32((float32x4_t)v.re, (float32x4_t)v.im);
    vst1_f32(base[0] + at, vget_low_f32(a));
    vst1q_lane_f64(reinterpret_cast<float64_t*>(base[1] + at), vreinterpretq_f64_f32(a), 1);
    vst1_f32(base[2] + at, vget_low_f32(b));
    vst1q_lane_f64(reinterpret_cast<float64_t*>(base[3] + at), vreinterpretq_f64_f32(b), 1);
  }
};

template <>
struct Access<double, Lie::rows> {
  double* base[2];
  int64_t step;

  Access() = default;
  template <class P>
  explicit Access(const Lines<P>& m) : step(m.step) {
    for (int l = 0; l < 2; ++l) base[l] = const_cast<double*>(m.base) + m.at[l];
  }
  TOCHA_INLINE Pair<double> load(int64_t k) const {
    const float64x2_t a = vld1q_f64(base[0] + k * step), b = vld1q_f64(base[1] + k * step);
    return {(Vec<double>)vzip1q_f64(a, b), (Vec<double>)vzip2q_f64(a, b)};
  }
  TOCHA_INLINE void store(int64_t k, Pair<double> v) const {
    vst1q_f64(base[0] + k * step, vzip1q_f64((float64x2_t)v.re, (float64x2_t)v.im));
    vst1q_f64(base[1] + k * step, vzip2q_f64((float64x2_t)v.re, (float64x2_t)v.im));
  }
};
#endif

// Calls f(access to one group of lanes) if its lie is one that passes can read and write directly.
template <class T, class P, class F>
bool with_access(const Lines<P>& m, F&& f) {
  switch (lie_of<T>(m)) {
    case Lie::interleaved:
      return f(Access<T, Lie::interleaved>(m)), true;
    case Lie::split:
      return f(Access<T, Lie::split>(m)), true;
#if defined(__aarch64__)
    case Lie::rows:
      return f(Access<T, Lie::rows>(m)), true;
#endif
    default:
      return false;
  }
}

// n points of a group of lanes into a buffer, where points are `point` numbers apart.
template <class T>
void gather(const Lines<const T>& m, int64_t n, T* buffer, int64_t point) {
  constexpr int lanes = kLanes<T>;
  const bool consecutive = m.other == 1 && m.step == 2;
  const bool direct = !consecutive && with_access<T>(m, [&](const auto& from) {
    for (int64_t k = 0; k < n; ++k) store_pair(buffer + k * point, from.load(k));
  });
  if (direct) return;
  int64_t k = 0;
  if (consecutive) {
    // Half as many points as lanes: their parts are as many numbers of each line.
    for (; 2 * k + lanes <= 2 * n; k += lanes / 2) {
      Vec<T> v[lanes];
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) v[l] = load(m.base + m.at[l] + 2 * k);
      gemm::transpose<T>(v);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(buffer + (k + i / 2) * point + i % 2 * lanes, v[i]);
    }
  } else if (m.other == 0 && m.step == 1) {
    for (; k + lanes <= n; k += lanes) {
      Vec<T> v[lanes];
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) v[l] = load(m.base + m.at[l] + k);
      gemm::transpose<T>(v);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store_pair(buffer + (k + i) * point, Pair<T>{v[i], Vec<T>{}});
    }
  }
  for (; k < n; ++k)
    for (int l = 0; l < lanes; ++l) {
      const T* p = m.base + m.at[l] + k * m.step;
      buffer[k * point + l] = p[0];
      buffer[k * point + lanes + l] = m.other ? p[m.other] : T(0);
    }
}

template <class T>
void scatter(const Lines<T>& m, int64_t n, const T* buffer, int64_t point, T re_scale, T im_scale) {
  constexpr int lanes = kLanes<T>;
  const Vec<T> by_re = broadcast(re_scale), by_im = broadcast(im_scale);
  auto at = [&](int64_t k) __attribute__((always_inline)) {
    const Pair<T> v = load_pair(buffer + k * point);
    return Pair<T>{v.re * by_re, v.im * by_im};
  };
  const bool consecutive = m.other == 1 && m.step == 2;
  const bool direct = !consecutive && with_access<T>(m, [&](const auto& to) {
    for (int64_t k = 0; k < n; ++k) to.store(k, at(k));
  });
  if (direct) return;
  int64_t k = 0;
  if (consecutive) {
    for (; 2 * k + lanes <= 2 * n; k += lanes / 2) {
      Vec<T> v[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes / 2; ++i) {
        const Pair<T> pair = at(k + i);
        v[2 * i] = pair.re;
        v[2 * i + 1] = pair.im;
      }
      gemm::transpose<T>(v);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) {
        if (l < m.lines) store(m.base + m.at[l] + 2 * k, v[l]);
      }
    }
  } else if (m.other == 0 && m.step == 1) {
    for (; k + lanes <= n; k += lanes) {
      Vec<T> v[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) v[i] = at(k + i).re;
      gemm::transpose<T>(v);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) {
        if (l < m.lines) store(m.base + m.at[l] + k, v[l]);
      }
    }
  }
  for (; k < n; ++k)
    for (int l = 0; l < m.lines; ++l) {
      T* p = m.base + m.at[l] + k * m.step;
      p[0] = buffer[k * point + l] * re_scale;
      if (m.other) p[m.other] = buffer[k * point + lanes + l] * im_scale;
    }
}

}  // namespace fft
TOCHA_ISA_END
