// searchsorted, bincount and histc. See search.h; their vector loops are in isa/kernels.cpp.
#include "cpu/search/search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <vector>

#include "core/dtype_messages.h"
#include "core/error.h"
#include "cpu/engine/lanes.h"
#include "cpu/search/kernels.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kSearchBlock = 256;
constexpr int64_t kLaneMin = 1 << 14;

// ---- searchsorted

// The type in which a dtype is searched: the vector kernel knows four.
template <class T>
using SearchType = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                      std::conditional_t<sizeof(T) <= 2, int32_t, T>>;

template <class T>
struct Searched {
  const T* sequence;
  const int64_t* sorter;
  const T* values;

  SearchType<T> at(int64_t i) const { return static_cast<SearchType<T>>(sequence[sorter ? sorter[i] : i]); }
};

template <class T>
int64_t bisect(const Searched<T>& row, int64_t length, SearchType<T> value, bool right) {
  int64_t lo = 0, hi = length;
  while (lo < hi) {
    int64_t mid = lo + ((hi - lo) >> 1);
    bool below = right ? !(row.at(mid) > value) : !(row.at(mid) >= value);
    (below ? lo : hi) = below ? mid + 1 : mid;
  }
  return lo;
}

template <class Out>
void store(Out* out, const int64_t* found, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(found[i]);
}

template <class T, class Out>
void search_row(const SearchSorted& job, const Searched<T>& row, const SearchType<T>* plain, int64_t begin, int64_t end,
                Out* out) {
  using S = SearchType<T>;
  if (!plain) {
    for (int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<Out>(bisect(row, job.length, static_cast<S>(row.values[i]), job.right));
    }
    return;
  }
  S values[kSearchBlock];
  int64_t found[kSearchBlock];
  for (int64_t b = begin; b < end; b += kSearchBlock) {
    int64_t count = std::min(kSearchBlock, end - b);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<S>(row.values[b + i]);
    search_kernels().search(DTypeOf<S>::value, plain, job.length, values, count, job.right, found);
    store(out + b, found, count);
  }
}

// The sequence as the vector kernel wants it: itself, or a converted and ordered copy where enough values are
// looked up to pay for it. Null: bisect one value at a time.
template <class T>
const SearchType<T>* plain_sequence(const Searched<T>& row, int64_t length, int64_t lookups,
                                    std::vector<SearchType<T>>& copy) {
  if (sizeof(T) <= 4 && length > std::numeric_limits<int32_t>::max()) return nullptr;
  if constexpr (std::is_same_v<SearchType<T>, T>) {
    if (!row.sorter) return row.sequence;
  }
  if (lookups * static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(length))) < length) return nullptr;
  copy.resize(length);
  for (int64_t i = 0; i < length; ++i) copy[i] = row.at(i);
  return copy.data();
}

template <class T, class Out>
void search_rows(const SearchSorted& job, Out* out) {
  std::vector<SearchType<T>> copy;
  const T* sequence = static_cast<const T*>(job.sequence);
  const T* values = static_cast<const T*>(job.values);
  // With one sequence all rows are one long row.
  int64_t rows = job.shared ? 1 : job.rows;
  int64_t n = job.shared ? job.rows * job.n : job.n;
  auto row_at = [&](int64_t r) {
    return Searched<T>{sequence + r * job.length, job.sorter ? job.sorter + r * job.length : nullptr, values + r * n};
  };
  if (rows > 1 && rows >= num_threads()) {
    // One row per step: no copies here, since nothing may be allocated in parallel.
    constexpr bool direct = std::is_same_v<SearchType<T>, T>;
    bool vector = direct && !job.sorter && (sizeof(T) > 4 || job.length <= std::numeric_limits<int32_t>::max());
    parallel_for(rows, std::max<int64_t>(1, 2048 / std::max<int64_t>(n, 1)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        Searched<T> row = row_at(r);
        const SearchType<T>* plain = nullptr;
        if constexpr (direct) plain = vector ? row.sequence : nullptr;
        search_row(job, row, plain, 0, n, out + r * n);
      }
    });
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    Searched<T> row = row_at(r);
    const SearchType<T>* plain = plain_sequence(row, job.length, n, copy);
    parallel_for(n, 2048, [&](int64_t begin, int64_t end) { search_row(job, row, plain, begin, end, out + r * n); });
  }
}

template <class Out>
void search_dispatch(const SearchSorted& job, Out* out) {
  switch (job.dtype) {
    case DType::UInt8:
      return search_rows<uint8_t>(job, out);
    case DType::Int8:
      return search_rows<int8_t>(job, out);
    case DType::Int16:
      return search_rows<int16_t>(job, out);
    case DType::Int32:
      return search_rows<int32_t>(job, out);
    case DType::Int64:
      return search_rows<int64_t>(job, out);
    case DType::Float16:
      return search_rows<Half>(job, out);
    case DType::BFloat16:
      return search_rows<BFloat16>(job, out);
    case DType::Float32:
      return search_rows<float>(job, out);
    case DType::Float64:
      return search_rows<double>(job, out);
    default:
      refuse_dtype("searchsorted", job.dtype);
  }
}

// ---- bincount

template <class F>
void with_integers(DType dtype, const void* in, F&& f) {
  switch (dtype) {
    case DType::UInt8:
      return f(static_cast<const uint8_t*>(in));
    case DType::Int8:
      return f(static_cast<const int8_t*>(in));
    case DType::Int16:
      return f(static_cast<const int16_t*>(in));
    case DType::Int32:
      return f(static_cast<const int32_t*>(in));
    case DType::Int64:
      return f(static_cast<const int64_t*>(in));
    case DType::UInt16:
      return f(static_cast<const uint16_t*>(in));
    case DType::UInt32:
      return f(static_cast<const uint32_t*>(in));
    default:
      refuse_dtype("bincount", dtype);
  }
}

// Runs count(lane's own bins, begin, end) per lane and adds the bins up. Lanes that cost more memory traffic
// than they save work are not used.
template <class F>
void count_in_lanes(int64_t n, int64_t* counts, int64_t bins, F&& count) {
  std::fill_n(counts, bins, int64_t{0});
  int lanes = lane_count(n, std::max(kLaneMin, bins));
  if (lanes == 1) return count(counts, int64_t{0}, n);
  std::vector<int64_t> own(static_cast<size_t>(lanes - 1) * bins);
  for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
    count(lane == 0 ? counts : own.data() + static_cast<size_t>(lane - 1) * bins, begin, end);
  });
  for (int lane = 1; lane < lanes; ++lane) {
    const int64_t* more = own.data() + static_cast<size_t>(lane - 1) * bins;
    for (int64_t b = 0; b < bins; ++b) counts[b] += more[b];
  }
}

template <class T, class W>
void add_weights(const T* in, int64_t n, const W* weights, W* sums, int64_t bins) {
  std::fill_n(sums, bins, W(0));
  for (int64_t i = 0; i < n; ++i) sums[in[i]] += weights[i];
}

// ---- histc

template <class T>
T rounded(double x) {
  if constexpr (sizeof(T) == 8)
    return x;
  else
    return T(static_cast<float>(x));
}

// The place of x among the bins, in the dtype's own arithmetic: PyTorch rounds after each operation.
template <class T>
int64_t bin_of(T x, T low, T width, T bins) {
  T above = T(x - low);
  T scaled = T(above * bins);
  return static_cast<int64_t>(static_cast<double>(T(scaled / width)));
}

template <class T>
void histc_typed(const T* in, int64_t n, int64_t bins, double low, double high, T* counts) {
  const T lo = rounded<T>(low), hi = rounded<T>(high), width = T(hi - lo), size = rounded<T>(static_cast<double>(bins));
  std::vector<int64_t> totals(bins);
  count_in_lanes(n, totals.data(), bins, [&](int64_t* mine, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T x = in[i];
      if (!(x >= lo && x <= hi)) continue;
      ++mine[std::min(bin_of(x, lo, width, size), bins - 1)];
    }
  });
  for (int64_t b = 0; b < bins; ++b) counts[b] = rounded<T>(static_cast<double>(totals[b]));
}

}  // namespace

void searchsorted(const SearchSorted& job, void* out, bool out_int32) {
  if (job.rows == 0 || job.n == 0) return;
  if (out_int32) {
    search_dispatch(job, static_cast<int32_t*>(out));
  } else {
    search_dispatch(job, static_cast<int64_t*>(out));
  }
}

IntegerRange integer_range(DType dtype, const void* in, int64_t n) {
  IntegerRange range{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  with_integers(dtype, in, [&](const auto* x) {
    int lanes = lane_count(n, kLaneMin);
    std::vector<IntegerRange> found(lanes, range);
    for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
      search_kernels().extremes(dtype, x + begin, end - begin, &found[lane].low, &found[lane].high);
    });
    for (const IntegerRange& r : found) range = {std::min(range.low, r.low), std::max(range.high, r.high)};
  });
  return range;
}

void bincount(DType dtype, const void* in, int64_t n, int64_t* counts, int64_t bins) {
  with_integers(dtype, in, [&](const auto* x) {
    count_in_lanes(n, counts, bins, [&](int64_t* mine, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++mine[x[i]];
    });
  });
}

void bincount_weighted(DType dtype, const void* in, int64_t n, DType weight_dtype, const void* weights, void* sums,
                       int64_t bins) {
  with_integers(dtype, in, [&](const auto* x) {
    if (weight_dtype == DType::Float32) {
      add_weights(x, n, static_cast<const float*>(weights), static_cast<float*>(sums), bins);
    } else if (weight_dtype == DType::Float64) {
      add_weights(x, n, static_cast<const double*>(weights), static_cast<double*>(sums), bins);
    } else {
      fail(ErrorKind::NotImplemented, "[bincount] weights of ", info(weight_dtype).name);
    }
  });
}

void histc(DType dtype, const void* in, int64_t n, int64_t bins, double low, double high, void* counts) {
  switch (dtype) {
    case DType::Float16:
      return histc_typed(static_cast<const Half*>(in), n, bins, low, high, static_cast<Half*>(counts));
    case DType::BFloat16:
      return histc_typed(static_cast<const BFloat16*>(in), n, bins, low, high, static_cast<BFloat16*>(counts));
    case DType::Float32:
      return histc_typed(static_cast<const float*>(in), n, bins, low, high, static_cast<float*>(counts));
    case DType::Float64:
      return histc_typed(static_cast<const double*>(in), n, bins, low, high, static_cast<double*>(counts));
    default:
      refuse_dtype("histc", dtype);
  }
}

}  // namespace tocha::cpu
