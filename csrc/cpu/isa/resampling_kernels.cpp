// Resampling: rows of a plane are mixed first, with whole vectors, and then read at the places of the width's taps.
#include "cpu/resampling_kernels.h"

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

template <class T>
void gather(const T* x, T* y, int64_t n, int64_t taps, const int32_t* place, const T* weight, bool add) {
  if (!add) {
    for (int64_t i = 0; i < n; ++i) y[i] = 0;
  }
  for (int64_t k = 0; k < taps; ++k, place += n, weight += n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] += weight[i] * value_at(x, place[i]);
  }
}

template <class T>
void gather_products(const T* x, const T* g, T* y, int64_t n, int64_t taps, const int32_t* place) {
  for (int64_t k = 0; k < taps; ++k, place += n, y += n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] += g[i] * value_at(x, place[i]);
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

template <class T>
constexpr ResampleLoops<T> loops() {
  return {plane<T>, pixel<T>, plane_backward<T>, pixel_backward<T>, gather<T>, gather_products<T>, scatter<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const ResampleKernels resample_kernels = {loops<float>(), loops<double>()};
}

}  // namespace tocha::cpu
