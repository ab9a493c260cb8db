// Resampling along one dim: which places of the input make each place of the output, and with what weights. Read by
// resampling.cpp and the kernels it calls; filled by taps.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tocha::cpu {

enum class Filter { nearest, nearest_exact, linear, cubic, linear_aa, cubic_aa, lanczos_aa };
Filter filter_of(const std::string& kind);

// Tap k of output place i is at k * out + i. Unused taps have weight 0.
template <class T>
struct Taps {
  int64_t in = 1, out = 1, count = 1;
  std::vector<int32_t> place{0};
  std::vector<T> weight{T(1)};
  bool plain() const { return count == 1; }  // a choice, nothing to weigh
};

// `scale` is output over input where the caller gave one; shortcuts: exact answers for equal and doubled sizes.
template <class T>
Taps<T> make_taps(Filter filter, int64_t in, int64_t out, bool align_corners, std::optional<double> scale,
                  bool shortcuts);

}  // namespace tocha::cpu
