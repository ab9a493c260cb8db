// unique and unique_consecutive, over elements and over rows compared lexicographically.
// All of them reduce to: put equal things next to each other, then number the runs.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "cpu/engine/lanes.h"
#include "cpu/sort/keys.h"
#include "cpu/sort/sort.h"

namespace tocha::cpu {
namespace {

using namespace sorting;

constexpr int64_t kLaneMin = 1 << 14;

template <class T>
bool same_row(const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!same_value(a[i], b[i])) return false;
  }
  return true;
}

template <class T>
bool row_less(const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    KeyOf<T> x = to_key(a[i]), y = to_key(b[i]);
    if (x != y) return x < y;
  }
  return false;
}

// Numbers the runs of n things. starts(i) says whether a run begins at i; order(i) is the original place of
// the i-th thing; first(group, i) is told where each run begins. Returns the number of runs.
template <class Starts, class Order, class First>
int64_t number_runs(int64_t n, int64_t* inverse, int64_t* counts, Starts starts, Order order, First first) {
  if (n == 0) return 0;
  int lanes = lane_count(n, kLaneMin, 2);
  std::vector<int64_t> groups(lanes + 1);
  for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += starts(i);
    groups[lane + 1] = count;
  });
  std::partial_sum(groups.begin(), groups.end(), groups.begin());
  int64_t total = groups[lanes];
  // A run's beginning goes into counts first; differences make them lengths.
  for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
    int64_t group = groups[lane] - 1;
    for (int64_t i = begin; i < end; ++i) {
      if (starts(i)) {
        first(++group, i);
        if (counts) counts[group] = i;
      }
      if (inverse) inverse[order(i)] = group;
    }
  });
  if (counts) {
    for (int64_t g = 0; g + 1 < total; ++g) counts[g] = counts[g + 1] - counts[g];
    counts[total - 1] = n - counts[total - 1];
  }
  return total;
}

template <class T>
int64_t unique_values(const T* in, int64_t n, T* values, int64_t* inverse, int64_t* counts) {
  auto sorted = std::make_unique_for_overwrite<T[]>(n);
  auto order = std::make_unique_for_overwrite<int64_t[]>(n);
  sort(DTypeOf<T>::value, in, sorted.get(), order.get(), 1, n, false);
  return number_runs(
      n, inverse, counts, [&](int64_t i) { return i == 0 || !same_value(sorted[i], sorted[i - 1]); },
      [&](int64_t i) { return order[i]; }, [&](int64_t group, int64_t i) { values[group] = sorted[i]; });
}

template <class T>
int64_t unique_runs(const T* in, int64_t n, T* values, int64_t* inverse, int64_t* counts) {
  return number_runs(
      n, inverse, counts, [&](int64_t i) { return i == 0 || !same_value(in[i], in[i - 1]); },
      [](int64_t i) { return i; }, [&](int64_t group, int64_t i) { values[group] = in[i]; });
}

// Rows in lexicographic order: by their first element, then each run of equal first elements by the rest.
template <class T>
void order_rows(const T* in, int64_t rows, int64_t n, int64_t* order) {
  std::iota(order, order + rows, int64_t{0});
  if (n == 0) return;
  auto column = std::make_unique_for_overwrite<T[]>(rows);
  auto sorted = std::make_unique_for_overwrite<T[]>(rows);
  for (int64_t r = 0; r < rows; ++r) column[r] = in[r * n];
  sort(DTypeOf<T>::value, column.get(), sorted.get(), order, 1, rows, false);
  auto less = [&](int64_t a, int64_t b) {
    const T* x = in + a * n;
    const T* y = in + b * n;
    return row_less(x, y, n) || (a < b && !row_less(y, x, n));
  };
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < rows; ++i) {
    if (i == 0 || to_key(sorted[i]) != to_key(sorted[i - 1])) starts.push_back(i);
  }
  starts.push_back(rows);
  parallel_for(static_cast<int64_t>(starts.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      if (starts[g + 1] - starts[g] > 1) std::sort(order + starts[g], order + starts[g + 1], less);
    }
  });
}

template <class T>
int64_t unique_row_groups(const T* in, int64_t rows, int64_t n, int64_t* firsts, int64_t* inverse, int64_t* counts) {
  auto order = std::make_unique_for_overwrite<int64_t[]>(rows);
  order_rows(in, rows, n, order.get());
  return number_runs(
      rows, inverse, counts,
      [&](int64_t i) { return i == 0 || !same_row(in + order[i] * n, in + order[i - 1] * n, n); },
      [&](int64_t i) { return order[i]; }, [&](int64_t group, int64_t i) { firsts[group] = order[i]; });
}

template <class T>
int64_t consecutive_row_groups(const T* in, int64_t rows, int64_t n, int64_t* firsts, int64_t* inverse,
                               int64_t* counts) {
  return number_runs(
      rows, inverse, counts, [&](int64_t i) { return i == 0 || !same_row(in + i * n, in + (i - 1) * n, n); },
      [](int64_t i) { return i; }, [&](int64_t group, int64_t i) { firsts[group] = i; });
}

}  // namespace

int64_t unique(DType dtype, const void* in, int64_t n, void* values, int64_t* inverse, int64_t* counts) {
#define _(e, t)  \
  case DType::e: \
    return unique_values(static_cast<const t*>(in), n, static_cast<t*>(values), inverse, counts);
  TOCHA_SORTABLE_SWITCH("unique2", dtype, _)
#undef _
}

int64_t unique_consecutive(DType dtype, const void* in, int64_t n, void* values, int64_t* inverse, int64_t* counts) {
#define _(e, t)  \
  case DType::e: \
    return unique_runs(static_cast<const t*>(in), n, static_cast<t*>(values), inverse, counts);
  TOCHA_SORTABLE_SWITCH("unique_consecutive", dtype, _)
#undef _
}

int64_t unique_rows(DType dtype, const void* in, int64_t rows, int64_t n, int64_t* firsts, int64_t* inverse,
                    int64_t* counts) {
#define _(e, t)  \
  case DType::e: \
    return unique_row_groups(static_cast<const t*>(in), rows, n, firsts, inverse, counts);
  TOCHA_SORTABLE_SWITCH("unique_dim", dtype, _)
#undef _
}

int64_t unique_consecutive_rows(DType dtype, const void* in, int64_t rows, int64_t n, int64_t* firsts, int64_t* inverse,
                                int64_t* counts) {
#define _(e, t)  \
  case DType::e: \
    return consecutive_row_groups(static_cast<const t*>(in), rows, n, firsts, inverse, counts);
  TOCHA_SORTABLE_SWITCH("unique_dim", dtype, _)
#undef _
}

}  // namespace tocha::cpu
