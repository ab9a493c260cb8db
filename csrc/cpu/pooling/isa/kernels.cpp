// Maxima and averages over windows: rows of a plane are combined first, with whole vectors, and then the columns of
// the one row that is left.
#include "cpu/pooling/kernels.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "cpu/engine/isa/row_parts.h"

namespace tocha::cpu {
namespace {

template <class T>
constexpr PlaceIn<T> kNowhere = std::numeric_limits<PlaceIn<T>>::max();

// 0, 1, 2, ...
template <class P>
inline rows::Vec<P> counted() {
  rows::Vec<P> v;
  for (int i = 0; i < rows::kLanes<P>; ++i) v[i] = static_cast<P>(i);
  return v;
}

// Calls f(first element of the row in its plane) for the rows that the windows at (od, oh) see.
template <class F>
inline void for_rows(const Pool& p, int64_t od, int64_t oh, F f) {
  for (int64_t i = 0; i < p.d.count[od]; ++i) {
    for (int64_t j = 0; j < p.h.count[oh]; ++j) {
      const int64_t z = p.d.first[od] + i * p.d.step, y = p.h.first[oh] + j * p.h.step;
      f((z * p.h.in + y) * p.w.in);
    }
  }
}

// Calls f(place) for all places of the window at (od, oh, ow), in order.
template <class F>
inline void for_places(const Pool& p, int64_t od, int64_t oh, int64_t ow, F f) {
  for_rows(p, od, oh, [&](int64_t row) {
    for (int64_t k = 0; k < p.w.count[ow]; ++k) f(row + p.w.first[ow] + k * p.w.step);
  });
}

// Calls f(S) with the stride as a constant where that helps the compiler.
template <class F>
inline void with_stride(int64_t stride, F f) {
  if (stride == 1) return f([] { return int64_t{1}; });
  if (stride == 2) return f([] { return int64_t{2}; });
  f([stride] { return stride; });
}

// Calls f(first, lanes) for vectors that cover [0, n). Where n is no multiple of a vector, the last one begins earlier:
// f must not mind to meet an element twice. Only where there is less than one vector, it has fewer lanes.
template <class T, class F>
inline void for_vectors(int64_t n, F f) {
  constexpr int64_t w = rows::kLanes<T>;
  if (n < w) return f(int64_t{0}, n);
  int64_t i = 0;
  for (; i + w <= n; i += w) f(i, w);
  if (i < n) f(n - w, w);
}
template <class T>
inline rows::Vec<T> load_lanes(const T* p, int64_t lanes) {
  return lanes == rows::kLanes<T> ? rows::load(p) : rows::load_part(p, lanes);
}
template <class T>
inline void store_lanes(T* p, rows::Vec<T> v, int64_t lanes) {
  lanes == rows::kLanes<T> ? rows::store(p, v) : rows::store_part(p, v, lanes);
}

// Every stride-th element from p on; may read up to a vector times the stride.
template <class T, size_t... lane>
inline rows::Vec<T> every_second(rows::Vec<T> a, rows::Vec<T> b, std::index_sequence<lane...>) {
  return __builtin_shufflevector(a, b, (2 * static_cast<int>(lane))...);
}
template <class T>
inline rows::Vec<T> load_strided(const T* p, int64_t stride) {
  constexpr int w = rows::kLanes<T>;
  if (stride == 1) return rows::load(p);
  if (stride == 2) return every_second<T>(rows::load(p), rows::load(p + w), std::make_index_sequence<w>{});
  rows::Vec<T> v;
  for (int i = 0; i < w; ++i) v[i] = p[i * stride];
  return v;
}

// -- maxima ----------------------------------------------------------------------------------------------------------

// The rule in its own words: the first of the largest, and the last NaN if there is one.
template <class T>
void max_row_plainly(const T* x, T* y, int64_t* where, const Pool& p, int64_t od, int64_t oh) {
  for (int64_t ow = 0; ow < p.w.out; ++ow) {
    T best = kLeast<T>;
    int64_t place = -1;
    for_places(p, od, oh, ow, [&](int64_t at) {
      const T v = x[at];
      if (place < 0 || v > best || v != v) {
        best = v;
        place = at;
      }
    });
    y[ow] = best;
    where[ow] = std::max<int64_t>(place, 0);  // dilated windows can miss a small picture
  }
}

// row = the maxima of the columns that the windows at (od, oh) see, places = where they stand.
template <class T>
void max_columns(const T* x, const Pool& p, int64_t od, int64_t oh, T* row, PlaceIn<T>* places) {
  bool begun = false;
  const int64_t n = p.w.in;
  const rows::Vec<PlaceIn<T>> count = counted<PlaceIn<T>>();
  for_rows(p, od, oh, [&](int64_t begin) {
    const T* from = x + begin;
    const PlaceIn<T> base = static_cast<PlaceIn<T>>(begin);
    if (!begun) {
      begun = true;
      std::memcpy(row, from, static_cast<size_t>(n) * sizeof(T));
      for (int64_t i = 0; i < n; ++i) places[i] = base + static_cast<PlaceIn<T>>(i);
      return;
    }
    for_vectors<T>(n, [&](int64_t i, int64_t lanes) {
      const rows::Vec<T> v = load_lanes(from + i, lanes), best = load_lanes(row + i, lanes);
      const rows::Vec<PlaceIn<T>> place = load_lanes(places + i, lanes),
                                  here = count + (base + static_cast<PlaceIn<T>>(i));
      const auto better = (v > best) | (v != v);
      store_lanes<T>(row + i, better ? v : best, lanes);
      store_lanes<PlaceIn<T>>(places + i, better ? here : place, lanes);
    });
  });
}

// y = the maxima of windows along a padded row. Of equal ones the earlier place in the plane counts. Returns whether
// all is well: no NaN, and no window that saw nothing.
template <class T>
bool max_along(const T* row, const PlaceIn<T>* row_places, const Windows& w, T* y, int64_t* where) {
  rows::Vec<PlaceIn<T>> strange{};
  for_vectors<T>(w.out, [&](int64_t first, int64_t lanes) {
    rows::Vec<T> best = load_strided(row + first * w.stride, w.stride);
    rows::Vec<PlaceIn<T>> place = load_strided(row_places + first * w.stride, w.stride);
    for (int64_t k = 1; k < w.width; ++k) {
      const int64_t at = first * w.stride + k * w.step;
      const rows::Vec<T> v = load_strided(row + at, w.stride);
      const rows::Vec<PlaceIn<T>> here = load_strided(row_places + at, w.stride);
      const auto better = (v > best) | (v != v) | ((v == best) & (here < place));
      best = better ? v : best;
      place = better ? here : place;
    }
    const auto odd = (best != best) | (place == kNowhere<T>);
    store_lanes<T>(y + first, best, lanes);
    for (int64_t i = 0; i < lanes; ++i) where[first + i] = place[i];
    if (lanes == rows::kLanes<T>) {
      strange |= odd;
    } else {
      for (int64_t i = 0; i < lanes; ++i) strange[i] |= odd[i];
    }
  });
  PlaceIn<T> any = 0;
  for (int i = 0; i < rows::kLanes<T>; ++i) any |= strange[i];
  return any == 0;
}

template <class T>
void max_plane(const T* x, T* y, int64_t* where, const Pool& p, T* row, PlaceIn<T>* row_places) {
  const bool regular = p.w.stride != 0 && p.plane() < kNowhere<T>;
  if (regular) {
    std::fill_n(row, p.w.max_row(), kLeast<T>);
    std::fill_n(row_places, p.w.max_row(), kNowhere<T>);
  }
  for (int64_t od = 0; od < p.d.out; ++od) {
    for (int64_t oh = 0; oh < p.h.out; ++oh, y += p.w.out, where += p.w.out) {
      bool plainly = !regular || p.d.count[od] * p.h.count[oh] == 0;
      if (!plainly) {
        max_columns(x, p, od, oh, row + p.w.padding, row_places + p.w.padding);
        plainly = !max_along(row, row_places, p.w, y, where);
      }
      if (plainly) max_row_plainly(x, y, where, p, od, oh);
    }
  }
}

// The first of the largest, and NaN if there is one; a window that sees nothing keeps the least.
template <class T>
void max_line(const T* x, T* y, const Windows& w, T* row) {
  std::memcpy(row + w.padding, x, static_cast<size_t>(w.in) * sizeof(T));
  with_stride(w.stride, [&](auto stride) {
    for_vectors<T>(w.out, [&](int64_t first, int64_t lanes) {
      rows::Vec<T> best = load_strided(row + first * stride(), stride());
      for (int64_t k = 1; k < w.width; ++k) {
        const rows::Vec<T> v = load_strided(row + first * stride() + k * w.step, stride());
        best = (v > best) | (v != v) ? v : best;
      }
      store_lanes<T>(y + first, best, lanes);
    });
  });
}

template <class T>
void max_pixel(const T* x, T* y, int64_t* where, const Pool& p, const int64_t* at, int64_t channels, int32_t* places) {
  bool begun = false;
  for_places(p, at[0], at[1], at[2], [&](int64_t place) {
    const T* from = x + place * channels;
    const int32_t here = static_cast<int32_t>(place);
    if (!begun) {
      begun = true;
      for (int64_t c = 0; c < channels; ++c) {
        y[c] = from[c];
        places[c] = here;
      }
      return;
    }
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const T v = from[c], best = y[c];
      const bool better = (v > best) | (v != v);
      y[c] = better ? v : best;
      places[c] = better ? here : places[c];
    }
  });
  if (!begun) {
    for (int64_t c = 0; c < channels; ++c) {
      y[c] = kLeast<T>;
      places[c] = 0;
    }
  }
  for (int64_t c = 0; c < channels; ++c) where[c] = places[c];
}

// -- averages --------------------------------------------------------------------------------------------------------

template <class T>
void add(const T* x, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

// y = the sums of windows along a row; padded where the windows follow a stride.
template <class T>
void sum_along(const T* row, const Windows& w, T* y) {
  if (w.stride == 0) {
    for (int64_t i = 0; i < w.out; ++i) {
      T sum = 0;
      for (int64_t k = 0; k < w.count[i]; ++k) sum += row[w.first[i] + k];
      y[i] = sum;
    }
    return;
  }
  with_stride(w.stride, [&](auto stride) {
    for (int64_t i = 0; i < w.out; ++i) y[i] = row[i * stride()];
    for (int64_t k = 1; k < w.width; ++k) {
#pragma GCC ivdep
      for (int64_t i = 0; i < w.out; ++i) y[i] += row[i * stride() + k];
    }
  });
}

// Divides a row by the sizes of its windows.
template <class T>
void divide(const T* x, T* y, const Pool& p, int64_t od, int64_t oh) {
  const int64_t outer = p.divisor_of(od, oh);
  for (int64_t i = 0; i < p.w.out; ++i) y[i] = x[i] / static_cast<T>(p.divisor ? outer : outer * p.w.divisor[i]);
}

template <class T>
void means(const T* x, T* y, int64_t planes, int64_t n, T divisor) {
  constexpr int64_t w = rows::kLanes<T>;
  if (n >= rows::kStreams * w) {
    for (int64_t p = 0; p < planes; ++p) y[p] = rows::sum(x + p * n, n);
  } else {
    for (int64_t p = 0; p < planes; ++p, x += n) {
      rows::Vec<T> sum{};
      int64_t i = 0;
      for (; i + w <= n; i += w) sum += rows::load(x + i);
      if (i < n) sum += rows::load_part(x + i, n - i);
      y[p] = rows::sum_lanes<T>(sum);
    }
  }
  for (int64_t p = 0; p < planes; ++p) y[p] /= divisor;
}

template <class T>
void means_backward(const T* g, T* dx, int64_t planes, int64_t n, T divisor) {
  for (int64_t p = 0; p < planes; ++p, dx += n) {
    const T v = g[p] / divisor;
    for (int64_t i = 0; i < n; ++i) dx[i] = v;
  }
}

template <class T>
void average_plane(const T* x, T* y, const Pool& p, T* row) {
  for (int64_t i = 0; i < p.w.row(); ++i) row[i] = 0;
  for (int64_t od = 0; od < p.d.out; ++od) {
    for (int64_t oh = 0; oh < p.h.out; ++oh, y += p.w.out) {
      T* columns = row + p.w.padding;
      for (int64_t i = 0; i < p.w.in; ++i) columns[i] = 0;
      for_rows(p, od, oh, [&](int64_t begin) { add(x + begin, columns, p.w.in); });
      sum_along(row, p.w, y);
      divide(y, y, p, od, oh);
    }
  }
}

template <class T>
void average_pixel(const T* x, T* y, const Pool& p, const int64_t* at, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) y[c] = 0;
  for_places(p, at[0], at[1], at[2], [&](int64_t place) { add(x + place * channels, y, channels); });
  const int64_t outer = p.divisor_of(at[0], at[1]);
  const T divisor = static_cast<T>(p.divisor ? outer : outer * p.w.divisor[at[2]]);
  for (int64_t c = 0; c < channels; ++c) y[c] /= divisor;
}

// row += each window's value at all its places.
template <class T>
void spread_along(const T* values, const Windows& w, T* row) {
  if (w.stride == 0) {
    for (int64_t i = 0; i < w.out; ++i) {
      for (int64_t k = 0; k < w.count[i]; ++k) row[w.first[i] + k] += values[i];
    }
    return;
  }
  with_stride(w.stride, [&](auto stride) {
    for (int64_t k = 0; k < w.width; ++k) {
#pragma GCC ivdep
      for (int64_t i = 0; i < w.out; ++i) row[i * stride() + k] += values[i];
    }
  });
}

template <class T>
void average_plane_backward(const T* g, T* dx, const Pool& p, T* row) {
  T* values = row + p.w.row();
  for (int64_t od = 0; od < p.d.out; ++od) {
    for (int64_t oh = 0; oh < p.h.out; ++oh, g += p.w.out) {
      for (int64_t i = 0; i < p.w.row(); ++i) row[i] = 0;
      divide(g, values, p, od, oh);
      spread_along(values, p.w, row);
      for_rows(p, od, oh, [&](int64_t begin) { add(row + p.w.padding, dx + begin, p.w.in); });
    }
  }
}

template <class T>
void average_pixel_backward(const T* g, T* dx, const Pool& p, const int64_t* at, int64_t channels, int64_t from,
                            int64_t to) {
  const int64_t outer = p.divisor_of(at[0], at[1]);
  const T divisor = static_cast<T>(p.divisor ? outer : outer * p.w.divisor[at[2]]);
  for_places(p, at[0], at[1], at[2], [&](int64_t place) {
    T* into = dx + place * channels;
#pragma GCC ivdep
    for (int64_t c = from; c < to; ++c) into[c] += g[c] / divisor;
  });
}

template <class T>
constexpr PoolLoops<T> loops() {
  return {max_plane<T>,
          max_line<T>,
          max_pixel<T>,
          means<T>,
          means_backward<T>,
          average_plane<T>,
          average_pixel<T>,
          average_plane_backward<T>,
          average_pixel_backward<T>};
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const PoolKernels pool_kernels = {loops<float>(), loops<double>(), loops<int64_t>()};
}

}  // namespace tocha::cpu
