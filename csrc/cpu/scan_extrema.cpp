// cummax and cummin with indices. Along a row a new extremum is rare, so a branch is cheap; across columns the
// loop selects without branches. See scan.h.
#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "cpu/lanes.h"
#include "cpu/scan.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kTile = 64;
constexpr int64_t kLaneMin = 1 << 14;

// Whether x takes the place of the best so far: as good or better, or a NaN; nothing but a NaN replaces a NaN.
template <bool Max, class T>
inline bool takes_over(T x, T best) {
  bool as_good = Max ? x >= best : x <= best;
  if constexpr (std::is_floating_point_v<T>) return as_good | (x != x);
  return as_good;
}

// The type compared in.
template <class T>
using Compared = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <bool Max, class T>
void scan_range(const T* in, T* values, int64_t* indices, int64_t begin, int64_t end) {
  T best_value = in[begin];
  Compared<T> best = best_value;
  int64_t where = begin;
  for (int64_t i = begin; i < end; ++i) {
    T value = in[i];
    Compared<T> x = value;
    if (takes_over<Max>(x, best)) best = x, best_value = value, where = i;
    values[i] = best_value;
    indices[i] = where;
  }
}

// Every lane scans its own part; then the best of the parts before reaches as far as nothing there beats it.
template <bool Max, class T>
void scan_row(const T* in, T* values, int64_t* indices, int64_t n) {
  int lanes = lane_count(n, kLaneMin);
  if (lanes == 1) return scan_range<Max>(in, values, indices, 0, n);
  for_lanes(n, lanes, [&](int, int64_t begin, int64_t end) { scan_range<Max>(in, values, indices, begin, end); });
  for (int lane = 1; lane < lanes; ++lane) {
    int64_t begin = lane_begin(n, lanes, lane), end = lane_begin(n, lanes, lane + 1);
    T value = values[begin - 1];
    int64_t where = indices[begin - 1];
    auto beaten = [&](int64_t i) { return takes_over<Max>(Compared<T>(values[i]), Compared<T>(value)); };
    int64_t reach = begin;
    // The parts' own results improve monotonically: bisection finds where they take over.
    for (int64_t hi = end; reach < hi;) {
      int64_t mid = reach + (hi - reach) / 2;
      beaten(mid) ? hi = mid : reach = mid + 1;
    }
    parallel_for(reach - begin, kLaneMin, [&](int64_t b, int64_t e) {
      std::fill(values + begin + b, values + begin + e, value);
      std::fill(indices + begin + b, indices + begin + e, where);
    });
  }
}

template <bool Max, class T>
void scan_tile(const T* in, T* values, int64_t* indices, int64_t n, int64_t pitch, int64_t width) {
  Compared<T> best[kTile];
  T kept[kTile];
  int64_t where[kTile];
  for (int64_t j = 0; j < width; ++j) kept[j] = in[j], best[j] = in[j], where[j] = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T* from = in + i * pitch;
    for (int64_t j = 0; j < width; ++j) {
      T value = from[j];
      Compared<T> x = value;
      bool take = takes_over<Max>(x, best[j]);
      best[j] = take ? x : best[j];
      kept[j] = take ? value : kept[j];
      where[j] = take ? i : where[j];
    }
    std::copy_n(kept, width, values + i * pitch);
    std::copy_n(where, width, indices + i * pitch);
  }
}

template <bool Max, class T>
void scan_typed(const T* in, T* values, int64_t* indices, ScanShape shape) {
  if (shape.inner > 1) {
    int64_t tiles = (shape.inner + kTile - 1) / kTile;
    int64_t grain = std::max<int64_t>(1, kLaneMin / (shape.n * std::min(shape.inner, kTile)));
    parallel_for(shape.outer * tiles, grain, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        int64_t column = t % tiles * kTile;
        int64_t at = t / tiles * shape.n * shape.inner + column;
        scan_tile<Max>(in + at, values + at, indices + at, shape.n, shape.inner, std::min(kTile, shape.inner - column));
      }
    });
  } else if (shape.outer < num_threads()) {
    for (int64_t r = 0; r < shape.outer; ++r) {
      scan_row<Max>(in + r * shape.n, values + r * shape.n, indices + r * shape.n, shape.n);
    }
  } else {
    parallel_for(shape.outer, std::max<int64_t>(1, kLaneMin / shape.n), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        scan_range<Max>(in + r * shape.n, values + r * shape.n, indices + r * shape.n, 0, shape.n);
      }
    });
  }
}

template <bool Max>
void scan_any(const char* error, DType dtype, const void* in, void* values, int64_t* indices, ScanShape shape) {
  if (shape.outer == 0 || shape.n == 0 || shape.inner == 0) return;
  switch (dtype) {
#define _(e, t) \
  case DType::e: return scan_typed<Max>(static_cast<const t*>(in), static_cast<t*>(values), indices, shape);
    _(Bool, bool) _(UInt8, uint8_t) _(Int8, int8_t) _(Int16, int16_t) _(Int32, int32_t) _(Int64, int64_t)
    _(UInt16, uint16_t) _(UInt32, uint32_t) _(UInt64, uint64_t) _(Float16, Half) _(BFloat16, BFloat16)
    _(Float32, float) _(Float64, double)
#undef _
    default: throw std::invalid_argument(error);
  }
}

}  // namespace

void cummax(DType dtype, const void* in, void* values, int64_t* indices, ScanShape shape) {
  scan_any<true>("[cummax] not implemented for this dtype", dtype, in, values, indices, shape);
}

void cummin(DType dtype, const void* in, void* values, int64_t* indices, ScanShape shape) {
  scan_any<false>("[cummin] not implemented for this dtype", dtype, in, values, indices, shape);
}

}  // namespace tocha::cpu
