// The layout of results: dims are ordered by the operands' strides, the first operand deciding before the next, and the
// result is dense in that order.
#pragma once

#include <algorithm>

#include "core/ints.h"

namespace tocha {

// Whether elements with these strides fill their memory without gaps, each in a place of its own.
bool is_non_overlapping_and_dense(IntsView sizes, IntsView strides);

// step(i, d): operand i's stride along dim d of the result, 0 where it is broadcast.
template <class Step>
Ints strides_by_operands(IntsView sizes, int operands, Step step) {
  const int64_t n = sizes.size();
  Ints order(n);
  for (int64_t i = 0; i < n; ++i) order[i] = n - 1 - i;  // innermost first
  auto compare = [&](int64_t a, int64_t b) {             // >0: a belongs outside b
    for (int i = 0; i < operands; ++i) {
      const int64_t sa = step(i, a), sb = step(i, b);
      if (sa == 0 || sb == 0) continue;
      if (sa != sb) return sa < sb ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  for (int64_t i = 1; i < n; ++i) {
    int64_t at = i;
    for (int64_t j = i - 1; j >= 0; --j) {
      const int c = compare(order[j], order[at]);
      if (c > 0) {
        std::swap(order[j], order[at]);
        at = j;
      } else if (c < 0) {
        break;
      }
    }
  }
  Ints strides(n);
  int64_t next = 1;
  bool rows = true;
  for (int64_t i = 0; i < n; ++i) rows = rows && order[i] == n - 1 - i;
  for (int64_t i = 0; i < n; ++i) {
    strides[order[i]] = next;
    // What lies outside of an empty dim has stride 0, unless the order is that of a new tensor.
    next *= rows ? std::max<int64_t>(sizes[order[i]], 1) : sizes[order[i]];
  }
  return strides;
}

}  // namespace tocha
