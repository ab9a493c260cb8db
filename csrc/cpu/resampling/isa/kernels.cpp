// Resampling: rows of a plane are mixed first, with whole vectors, and then read at the places of the width's taps.
#include "cpu/resampling/kernels.h"

#include <cmath>
#include <cstring>

namespace tocha::cpu {
namespace {

// Calls f(first element of the row in its plane, weight) for the rows that (od, oh) is made of.
template <class T, class F>
inline void for_rows(const Resample<T>& r, int64_t od, int64_t oh, F f) {
  for (int64_t i = 0; i < r.d.count; ++i) {
    const int64_t at_d = i * r.d.out + od;
    for (int64_t j = 0; j < r.h.count; ++j) {
      const int64_t at_h = j * r.h.out + oh;
      const T weight = r.d.weight[at_d] * r.h.weight[at_h];
      if (weight != 0) f((r.d.place[at_d] * r.h.in + r.h.place[at_h]) * r.w.in, weight);
    }
  }
}

template <class T, class F>
inline void for_places(const Resample<T>& r, const int64_t* at, F f) {
  for_rows(r, at[0], at[1], [&](int64_t row, T weight) {
    for (int64_t k = 0; k < r.w.count; ++k) {
      const int64_t i = k * r.w.out + at[2];
      if (r.w.weight[i] != 0) f(row + r.w.place[i], weight * r.w.weight[i]);
    }
  });
}

template <class T>
void set_scaled(const T* x, T* y, int64_t n, T weight) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = weight * x[i];
}
template <class T>
void add_scaled(const T* x, T* y, int64_t n, T weight) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] += weight * x[i];
}

// y[i] = the sum of weight * row[place] over K taps.
template <int K, class T>
void read_taps(const T* row, T* y, const Taps<T>& w) {
  const int32_t* place = w.place.data();
  const T* weight = w.weight.data();
  const int64_t n = w.out;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T sum = weight[i] * row[place[i]];
#pragma GCC unroll 4
    for (int k = 1; k < K; ++k) sum += weight[k * n + i] * row[place[k * n + i]];
    y[i] = sum;
  }
}

template <class T>
void read_row(const T* row, T* y, const Taps<T>& w) {
  const int32_t* place = w.place.data();
  const T* weight = w.weight.data();
  const int64_t n = w.out;
  if (w.plain()) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = row[place[i]];
    return;
  }
  if (w.count == 2) return read_taps<2>(row, y, w);
  if (w.count == 3) return read_taps<3>(row, y, w);
  read_taps<4>(row, y, w);
  for (int64_t k = 4; k < w.count; ++k) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] += weight[k * n + i] * row[place[k * n + i]];
  }
}

template <class T>
void plane(const T* x, T* y, const Resample<T>& r, T* row) {
  const bool choice = r.d.plain() && r.h.plain();
  for (int64_t od = 0; od < r.d.out; ++od) {
    for (int64_t oh = 0; oh < r.h.out; ++oh, y += r.w.out) {
      const T* mixed = row;
      if (choice) {
        mixed = x + (r.d.place[od] * r.h.in + r.h.place[oh]) * r.w.in;
      } else {
        bool begun = false;
        for_rows(r, od, oh, [&](int64_t begin, T weight) {
          begun ? add_scaled(x + begin, row, r.w.in, weight) : set_scaled(x + begin, row, r.w.in, weight);
          begun = true;
        });
        if (!begun) set_scaled(x, row, r.w.in, T(0));
      }
      read_row(mixed, y, r.w);
    }
  }
}

template <class T>
void pixel(const T* x, T* y, const Resample<T>& r, const int64_t* at, int64_t channels) {
  bool begun = false;
  for_places(r, at, [&](int64_t place, T weight) {
    begun ? add_scaled(x + place * channels, y, channels, weight)
          : set_scaled(x + place * channels, y, channels, weight);
    begun = true;
  });
  if (!begun) set_scaled(x, y, channels, T(0));
}

template <class T>
void plane_backward(const T* g, T* dx, const Resample<T>& r, T* row) {
  for (int64_t od = 0; od < r.d.out; ++od) {
    for (int64_t oh = 0; oh < r.h.out; ++oh, g += r.w.out) {
      for (int64_t i = 0; i < r.w.in; ++i) row[i] = 0;
      for (int64_t k = 0; k < r.w.count; ++k) {
        const int32_t* place = r.w.place.data() + k * r.w.out;
        const T* weight = r.w.weight.data() + k * r.w.out;
        for (int64_t i = 0; i < r.w.out; ++i) row[place[i]] += weight[i] * g[i];
      }
      for_rows(r, od, oh, [&](int64_t begin, T weight) { add_scaled(row, dx + begin, r.w.in, weight); });
    }
  }
}

template <class T>
void pixel_backward(const T* g, T* dx, const Resample<T>& r, const int64_t* at, int64_t channels, int64_t from,
                    int64_t to) {
  for_places(r, at,
             [&](int64_t place, T weight) { add_scaled(g + from, dx + place * channels + from, to - from, weight); });
}

// -- by grids --------------------------------------------------------------------------------------------------------

template <class T>
inline T value_at(const T* x, int32_t place) {
  const T v = x[place < 0 ? 0 : place];
  return place < 0 ? T(0) : v;
}

// A dim as grids address it: a number c is at pixel (c + 1) * half - shift.
template <class T>
struct GridDim {
  GridDim(int64_t size, bool align)
      : most(static_cast<T>(size - 1)),
        span(static_cast<T>(align ? size - 1 : size)),
        half(span / 2),
        shift(align ? T(0) : T(0.5)) {}
  T most, span, half, shift;
};

// A coordinate in pixels, and how fast it moves with the grid's number: the rules of Axis in grid_sampling_taps.h
// without a branch. kPadding: 0 zeros, 1 border, 2 reflection.
template <int kPadding, class T>
inline T pixel_of(T coordinate, GridDim<T> d, T* rate) {
  T x = (coordinate + 1) * d.half - d.shift;
  T r = d.half;
  if constexpr (kPadding == 2) {
    const T low = -d.shift, span = d.span;
    const T beyond = std::abs(x - low), turns = std::floor(beyond / span), rest = beyond - turns * span;
    const T odd = turns - 2 * std::floor(turns / 2);
    r = x < low ? -r : r;
    r = odd != 0 ? -r : r;
    x = odd != 0 ? span - rest + low : rest + low;
    r = span > 0 ? r : T(0);
    x = span > 0 ? x : T(0);
  }
  if constexpr (kPadding != 0) {
    r = (x > 0) & (x < d.most) ? r : T(0);
    x = x > 0 ? x : T(0);
    x = x < d.most ? x : d.most;
  }
  *rate = r;
  x = x > -2 ? x : T(-2);  // as far outside as any; NaN, too
  return x < d.most + 2 ? x : d.most + 2;
}

template <class T>
inline int32_t floor_of(T x) {
  const int32_t i = static_cast<int32_t>(x);
  return i - static_cast<int32_t>(static_cast<T>(i) > x);
}

// -1 where i is not a place of a dim, else 0.
inline int32_t outside(int32_t i, int32_t size) { return -static_cast<int32_t>((i < 0) | (i >= size)); }

// Places wrap around where they are outside anyhow.
inline int32_t next(int32_t place, int32_t step) {
  return static_cast<int32_t>(static_cast<uint32_t>(place) + static_cast<uint32_t>(step));
}

template <int kPadding, bool kSlopes, class T>
void bilinear_taps_as(const T* grid, int64_t n, const GridPlane& p, int32_t* place, T* weight, T* slope_x, T* slope_y) {
  const GridDim<T> across(p.w, p.align_corners), down(p.h, p.align_corners);
  const int32_t wide = static_cast<int32_t>(p.w), high = static_cast<int32_t>(p.h);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T rx, ry;
    const T x = pixel_of<kPadding>(grid[2 * i], across, &rx), y = pixel_of<kPadding>(grid[2 * i + 1], down, &ry);
    const int32_t x0 = floor_of(x), y0 = floor_of(y);
    const T fx = x - static_cast<T>(x0), fy = y - static_cast<T>(y0), ex = 1 - fx, ey = 1 - fy;
    const int32_t no_x0 = outside(x0, wide), no_x1 = outside(x0 + 1, wide);
    const int32_t no_y0 = outside(y0, high), no_y1 = outside(y0 + 1, high);
    const int32_t at =
        static_cast<int32_t>(static_cast<uint32_t>(y0) * static_cast<uint32_t>(wide) + static_cast<uint32_t>(x0));
    place[i] = at | no_x0 | no_y0;
    place[n + i] = next(at, 1) | no_x1 | no_y0;
    place[2 * n + i] = next(at, wide) | no_x0 | no_y1;
    place[3 * n + i] = next(at, wide + 1) | no_x1 | no_y1;
    weight[i] = ex * ey;
    weight[n + i] = fx * ey;
    weight[2 * n + i] = ex * fy;
    weight[3 * n + i] = fx * fy;
    if constexpr (kSlopes) {
      slope_x[i] = -rx * ey;
      slope_x[n + i] = rx * ey;
      slope_x[2 * n + i] = -rx * fy;
      slope_x[3 * n + i] = rx * fy;
      slope_y[i] = -ry * ex;
      slope_y[n + i] = -ry * fx;
      slope_y[2 * n + i] = ry * ex;
      slope_y[3 * n + i] = ry * fx;
    }
  }
}

template <class T>
void bilinear_taps(const T* grid, int64_t n, const GridPlane& p, int32_t* place, T* weight, T* slope_x, T* slope_y) {
  constexpr decltype(&bilinear_taps_as<0, false, T>) by_padding[3][2] = {
      {bilinear_taps_as<0, false, T>, bilinear_taps_as<0, true, T>},
      {bilinear_taps_as<1, false, T>, bilinear_taps_as<1, true, T>},
      {bilinear_taps_as<2, false, T>, bilinear_taps_as<2, true, T>}};
  by_padding[p.padding][slope_x != nullptr](grid, n, p, place, weight, slope_x, slope_y);
}

// Loads from scattered places are quicker one by one than as vector gathers, which many processors slow down for
// safety.
#if defined(__GNUC__) && !defined(__clang__)
#define TOCHA_ONE_BY_ONE __attribute__((optimize("no-tree-vectorize")))
#else
#define TOCHA_ONE_BY_ONE
#endif

// Two neighbours in a row.
template <class T>
struct PairOf {
  typedef T type __attribute__((vector_size(2 * sizeof(T)), may_alias));
};
template <class T>
inline typename PairOf<T>::type load_pair(const T* p) {
  typename PairOf<T>::type v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

// The four taps of bilinear points, of C planes at once so that places and weights are read once for all of them. The
// taps are the corners of a square: where the first and the last are inside, so are the others, next to them.
template <int C, class T>
TOCHA_ONE_BY_ONE void gather_four(const T* x, T* y, const GridRows& r, const int32_t* place, const T* weight) {
  using Pair = typename PairOf<T>::type;
  const int64_t n = r.n;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t p0 = place[i], p3 = place[3 * n + i];
    const Pair upper = {weight[i], weight[n + i]}, lower = {weight[2 * n + i], weight[3 * n + i]};
    if ((p0 | p3) >= 0) {
      for (int c = 0; c < C; ++c) {
        const T* from = x + c * r.plane;
        const Pair sum = upper * load_pair(from + p0) + lower * load_pair(from + p3 - 1);
        y[c * r.row + i] = sum[0] + sum[1];
      }
      continue;
    }
    const int32_t p1 = place[n + i], p2 = place[2 * n + i];
    for (int c = 0; c < C; ++c) {
      const T* from = x + c * r.plane;
      y[c * r.row + i] = (upper[0] * value_at(from, p0) + lower[0] * value_at(from, p2)) +
                         (upper[1] * value_at(from, p1) + lower[1] * value_at(from, p3));
    }
  }
}

template <class T>
TOCHA_ONE_BY_ONE void gather_any(const T* x, T* y, int64_t n, int64_t taps, const int32_t* place, const T* weight,
                                 bool add) {
  for (int64_t i = 0; i < n; ++i) {
    T sum = add ? y[i] : T(0);
    for (int64_t k = 0; k < taps; ++k) sum += weight[k * n + i] * value_at(x, place[k * n + i]);
    y[i] = sum;
  }
}

template <class T>
void gather(const T* x, T* y, const GridRows& r, int64_t taps, const int32_t* place, const T* weight, bool add) {
  if (taps == 4 && !add) {
    int64_t c = 0;
    for (; c + 4 <= r.channels; c += 4) gather_four<4>(x + c * r.plane, y + c * r.row, r, place, weight);
    constexpr decltype(&gather_four<1, T>) rest[] = {nullptr, gather_four<1, T>, gather_four<2, T>, gather_four<3, T>};
    if (c < r.channels) rest[r.channels - c](x + c * r.plane, y + c * r.row, r, place, weight);
    return;
  }
  for (int64_t c = 0; c < r.channels; ++c) gather_any(x + c * r.plane, y + c * r.row, r.n, taps, place, weight, add);
}

template <int C, class T>
TOCHA_ONE_BY_ONE void four_products(const T* x, const T* g, T* y, const GridRows& r, const int32_t* place) {
  const int64_t n = r.n;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t p0 = place[i], p1 = place[n + i], p2 = place[2 * n + i], p3 = place[3 * n + i];
    const bool inside = (p0 | p1 | p2 | p3) >= 0;
    T s0 = y[i], s1 = y[n + i], s2 = y[2 * n + i], s3 = y[3 * n + i];
    for (int c = 0; c < C; ++c) {
      const T* from = x + c * r.plane;
      const T v = g[c * r.row + i];
      s0 += v * (inside ? from[p0] : value_at(from, p0));
      s1 += v * (inside ? from[p1] : value_at(from, p1));
      s2 += v * (inside ? from[p2] : value_at(from, p2));
      s3 += v * (inside ? from[p3] : value_at(from, p3));
    }
    y[i] = s0, y[n + i] = s1, y[2 * n + i] = s2, y[3 * n + i] = s3;
  }
}

template <class T>
TOCHA_ONE_BY_ONE void any_products(const T* x, const T* g, T* y, int64_t n, int64_t taps, const int32_t* place) {
  for (int64_t k = 0; k < taps; ++k, place += n, y += n) {
    for (int64_t i = 0; i < n; ++i) y[i] += g[i] * value_at(x, place[i]);
  }
}

template <class T>
void gather_products(const T* x, const T* g, T* y, const GridRows& r, int64_t taps, const int32_t* place) {
  if (taps == 4) {
    int64_t c = 0;
    for (; c + 4 <= r.channels; c += 4) four_products<4>(x + c * r.plane, g + c * r.row, y, r, place);
    constexpr decltype(&four_products<1, T>) rest[] = {nullptr, four_products<1, T>, four_products<2, T>,
                                                       four_products<3, T>};
    if (c < r.channels) rest[r.channels - c](x + c * r.plane, g + c * r.row, y, r, place);
    return;
  }
  for (int64_t c = 0; c < r.channels; ++c) any_products(x + c * r.plane, g + c * r.row, y, r.n, taps, place);
}

template <class T>
void weigh(const T* products, const T* weights, int64_t n, int64_t taps, T* to, int64_t step) {
  if (taps == 4) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T sum = products[i] * weights[i] + products[n + i] * weights[n + i];
      to[i * step] += sum + (products[2 * n + i] * weights[2 * n + i] + products[3 * n + i] * weights[3 * n + i]);
    }
    return;
  }
  for (int64_t k = 0; k < taps; ++k, products += n, weights += n) {
    for (int64_t i = 0; i < n; ++i) to[i * step] += products[i] * weights[i];
  }
}

template <class T>
void scatter(const T* g, T* x, int64_t n, int64_t taps, const int32_t* place, const T* weight) {
  for (int64_t k = 0; k < taps; ++k, place += n, weight += n) {
    for (int64_t i = 0; i < n; ++i) {
      if (place[i] >= 0) x[place[i]] += weight[i] * g[i];
    }
  }
}

#undef TOCHA_ONE_BY_ONE

template <class T>
constexpr ResampleLoops<T> loops() {
  return {plane<T>,           pixel<T>, plane_backward<T>, pixel_backward<T>, gather<T>,
          gather_products<T>, weigh<T>, bilinear_taps<T>,  scatter<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const ResampleKernels resample_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
