// Inner loops of cummax and cummin with indices. Along a row a new extremum is rare: blocks are first searched
// for one with vector compares. Across columns the loop selects without branches.
#include <type_traits>

#include "cpu/scan/extrema.h"

TOCHA_ISA_BEGIN
namespace scans {
namespace {

using cpu::ExtremaPiece;

// The type compared in.
template <class T>
using Compared = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <bool Max, class Element>
struct Extrema {
  using T = Element;
  using C = Compared<T>;

  // Whether x takes the place of the best so far: as good, better, or a NaN. Nothing but a NaN replaces a NaN.
  static bool takes_over(C x, C best) {
    bool as_good = Max ? x >= best : x <= best;
    if constexpr (std::is_floating_point_v<C>)
      return as_good | (x != x);
    else
      return as_good;
  }

  static bool any_takes_over(const T* in, int64_t n, C best) {
    int any = 0;
    for (int64_t i = 0; i < n; ++i) any |= takes_over(in[i], best);
    return any;
  }

  static void scan(const T* in, T* values, int64_t* indices, int64_t row, int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 64;
    T kept = in[begin];
    C best = kept;
    int64_t where = begin - row;
    for (int64_t b = begin; b < end; b += kBlock) {
      int64_t stop = b + kBlock < end ? b + kBlock : end;
      if (!any_takes_over(in + b, stop - b, best)) {
        for (int64_t i = b; i < stop; ++i) values[i] = kept;
        for (int64_t i = b; i < stop; ++i) indices[i] = where;
        continue;
      }
      for (int64_t i = b; i < stop; ++i) {
        T value = in[i];
        if (takes_over(value, best)) best = value, kept = value, where = i - row;
        values[i] = kept;
        indices[i] = where;
      }
    }
  }

  static void extend(T* values, int64_t* indices, int64_t begin, int64_t end) {
    T value = values[begin - 1];
    int64_t where = indices[begin - 1];
    for (int64_t i = begin; i < end && !takes_over(values[i], value); ++i) {
      values[i] = value;
      indices[i] = where;
    }
  }

  static void columns(const T* in, T* values, int64_t* indices, int64_t n, int64_t pitch, int64_t width) {
    C best[cpu::kExtremaTile];
    T kept[cpu::kExtremaTile];
    int64_t where[cpu::kExtremaTile];
    for (int64_t j = 0; j < width; ++j) kept[j] = in[j], best[j] = in[j], where[j] = 0;
    for (int64_t i = 0; i < n; ++i) {
      const T* from = in + i * pitch;
      T* to = values + i * pitch;
      int64_t* at = indices + i * pitch;
      for (int64_t j = 0; j < width; ++j) {
        T value = from[j];
        C x = value;
        bool take = takes_over(x, best[j]);
        best[j] = take ? x : best[j];
        kept[j] = take ? value : kept[j];
        where[j] = take ? i : where[j];
      }
      for (int64_t j = 0; j < width; ++j) to[j] = kept[j];
      for (int64_t j = 0; j < width; ++j) at[j] = where[j];
    }
  }
};

// f(Extrema); false for a dtype without an order.
template <class F>
bool with_extrema(DType dtype, bool max, F&& f) {
  switch (dtype) {
#define _(e, t)               \
  case DType::e:              \
    if (max)                  \
      f(Extrema<true, t>());  \
    else                      \
      f(Extrema<false, t>()); \
    return true;
    _(Bool, bool)
    _(UInt8, uint8_t)
    _(Int8, int8_t)
    _(Int16, int16_t)
    _(Int32, int32_t)
    _(Int64, int64_t)
    _(UInt16, uint16_t)
    _(UInt32, uint32_t)
    _(UInt64, uint64_t)
    _(Float16, Half)
    _(BFloat16, BFloat16)
    _(Float32, float)
    _(Float64, double)
#undef _
    default:
      return false;
  }
}

// f(Extrema, in, values)
template <class F>
void with_pointers(const ExtremaPiece& piece, F&& f) {
  with_extrema(piece.dtype, piece.max, [&](auto extrema) {
    using T = typename decltype(extrema)::T;
    f(extrema, static_cast<const T*>(piece.in), static_cast<T*>(piece.values));
  });
}

bool supports(DType dtype) {
  return with_extrema(dtype, true, [](auto) {});
}

void scan(const ExtremaPiece& piece, int64_t row, int64_t begin, int64_t end) {
  with_pointers(
      piece, [&](auto extrema, auto* in, auto* values) { extrema.scan(in, values, piece.indices, row, begin, end); });
}

void extend(const ExtremaPiece& piece, int64_t begin, int64_t end) {
  with_pointers(piece, [&](auto extrema, auto*, auto* values) { extrema.extend(values, piece.indices, begin, end); });
}

void columns(const ExtremaPiece& piece, int64_t begin, int64_t n, int64_t pitch, int64_t width) {
  with_pointers(piece, [&](auto extrema, auto* in, auto* values) {
    extrema.columns(in + begin, values + begin, piece.indices + begin, n, pitch, width);
  });
}

}  // namespace
}  // namespace scans
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {

extern const ExtremaKernels extrema_kernels;
const ExtremaKernels extrema_kernels = {scans::supports, scans::scan, scans::extend, scans::columns};

}  // namespace tocha::cpu::TOCHA_ISA_TABLES
