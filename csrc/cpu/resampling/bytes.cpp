// Pictures of bytes are resampled as imaging libraries do it: weights of 16 bits, first along the width, then along the
// height, rounded to bytes after each.
#include "cpu/resampling/bytes.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "cpu/images/threads.h"

namespace tocha::cpu {
namespace {

constexpr int kMostBits = 22;

// Weights times 2^bits, with as many bits as let the largest fit 16.
struct FixedTaps {
  explicit FixedTaps(const Taps<double>& taps) : taps(taps) {
    const double most = *std::max_element(taps.weight.begin(), taps.weight.end());
    while (bits < kMostBits && static_cast<int64_t>(0.5 + most * static_cast<double>(1 << (bits + 1))) < (1 << 15))
      ++bits;
    for (double w : taps.weight) {
      weight.push_back(static_cast<int32_t>(w * static_cast<double>(1 << bits) + (w < 0 ? -0.5 : 0.5)));
    }
  }
  uint8_t rounded(int64_t sum) const {
    return static_cast<uint8_t>(std::clamp<int64_t>((sum + (int64_t{1} << bits >> 1)) >> bits, 0, 255));
  }
  const Taps<double>& taps;
  int bits = 0;
  std::vector<int32_t> weight;
};

// out[i] = the mix of x[place * stride], for all output places; elements of out are `step` apart.
void mix(const uint8_t* x, int64_t stride, uint8_t* out, int64_t step, const FixedTaps& t) {
  for (int64_t i = 0; i < t.taps.out; ++i) {
    int64_t sum = 0;
    for (int64_t k = 0; k < t.taps.count; ++k) {
      const size_t at = static_cast<size_t>(k * t.taps.out + i);
      sum += t.weight[at] * static_cast<int64_t>(x[t.taps.place[at] * stride]);
    }
    out[i * step] = t.rounded(sum);
  }
}

}  // namespace

void resample_bytes(const Tensor& out, const Tensor& self, const Resample<double>& r) {
  Tensor in = arranged(self, DType::UInt8, false);
  Arranged values(out, DType::UInt8, false);
  const FixedTaps across(r.w), down(r.h);
  const int64_t from = r.plane(), to = r.places();
  const size_t between = static_cast<size_t>(r.h.in * r.w.out);
  for_planes(in.size(0) * in.size(1), std::max(from, to), [&] {
    return [&, rows = std::make_unique<uint8_t[]>(between)](int64_t p) {
      const uint8_t* x = in.data<uint8_t>() + p * from;
      uint8_t* y = values.data<uint8_t>() + p * to;
      for (int64_t h = 0; h < r.h.in; ++h) mix(x + h * r.w.in, 1, rows.get() + h * r.w.out, 1, across);
      for (int64_t w = 0; w < r.w.out; ++w) mix(rows.get() + w, r.w.out, y + w, r.w.out, down);
    };
  });
  values.finish();
}

}  // namespace tocha::cpu
