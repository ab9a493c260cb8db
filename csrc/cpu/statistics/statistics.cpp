// Medians, modes and counts: kernels of tocha/operators/statistics.py, on top of the raw kernels of sort/sort.h and
// search/search.h.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "core/dtype_messages.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/layout.h"
#include "cpu/search/search.h"
#include "cpu/sort/sort.h"
#include "dispatch/native.h"
#include "ops/copies.h"
#include "ops/reductions.h"

namespace tocha::native {
namespace {

using Select = void (*)(DType, const void*, void*, int64_t*, int64_t, int64_t);

// Rows of self along dim; values and indices have one element per row, in the same order.
void select_rows(Select kernel, const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim) {
  if (values.numel() == 0) return;
  Tensor rows = cpu::dense_rows(self, wrap_dim(dim, self.dim()), self.dtype());
  int64_t count = values.numel();
  ReleaseGil unlocked(self.numel());
  kernel(self.dtype(), rows.bytes(), values.bytes(), indices.data<int64_t>(), count, self.numel() / count);
}

template <bool skip_nan>
void median_kernel(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n) {
  cpu::median(d, in, values, indices, rows, n, skip_nan);
}

// The most frequent key of a row, the smallest of several; of its places, the one that an unstable sort by key leaves
// last. PyTorch's choice is the same, and programs see it.
template <class K>
int64_t mode_of_row(const K* keys, int64_t n, std::vector<std::pair<K, int64_t>>& pairs) {
  pairs.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) pairs[static_cast<size_t>(i)] = {keys[i], i};
  // NaN is larger than everything; a row that has none is sorted by a shorter comparison.
  auto nan = [](K k) { return k != k; };
  if (std::none_of(keys, keys + n, nan)) {
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  } else {
    std::sort(pairs.begin(), pairs.end(),
              [&](const auto& a, const auto& b) { return a.first < b.first || (nan(b.first) && !nan(a.first)); });
  }
  int64_t best = 0, place = 0, length = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    ++length;
    if (i + 1 < pairs.size() && pairs[i].first == pairs[i + 1].first) continue;
    if (length > best) best = length, place = pairs[i].second;
    length = 0;
  }
  return place;
}

template <class K>
void find_modes(const Tensor& rows, int64_t* indices, int64_t count, int64_t n) {
  const K* keys = rows.data<K>();
  parallel_for(count, std::max<int64_t>(1, 4096 / n), [&](int64_t first, int64_t last) {
    std::vector<std::pair<K, int64_t>> pairs;
    for (int64_t r = first; r < last; ++r) indices[r] = mode_of_row(keys + r * n, n, pairs);
  });
}

void median_of_all(const Tensor& out, const Tensor& self, bool skip_nan) {
  if (self.numel() == 0) {
    Tensor nan = scalar_tensor(Scalar(std::numeric_limits<double>::quiet_NaN()), DType::Float64);
    ops::copy_(out, nan, false);  // what a NaN is as an integer, the processor says
    return;
  }
  Tensor flat = cpu::dense(self);
  int64_t index;
  ReleaseGil unlocked(self.numel());
  cpu::median(self.dtype(), flat.bytes(), out.bytes(), &index, 1, self.numel(), skip_nan);
}

}  // namespace

void median_all(const Tensor& out, const Tensor& self) { median_of_all(out, self, false); }
void nanmedian_all(const Tensor& out, const Tensor& self) { median_of_all(out, self, true); }
void median_dim(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim, bool) {
  select_rows(median_kernel<false>, values, indices, self, dim);
}
void nanmedian_dim(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim, bool) {
  select_rows(median_kernel<true>, values, indices, self, dim);
}
void mode(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim, bool) {
  if (values.numel() == 0) return;
  int64_t count = values.numel(), n = self.numel() / count;
  Tensor rows = cpu::dense_rows(self, wrap_dim(dim, self.dim()), self.dtype());
  // Keys of two types order all dtypes; only their order matters.
  Tensor keys = cpu::dense(rows, self.is_floating() ? DType::Float64 : DType::Int64);
  ReleaseGil unlocked(self.numel());
  if (self.is_floating())
    find_modes<double>(keys, indices.data<int64_t>(), count, n);
  else
    find_modes<int64_t>(keys, indices.data<int64_t>(), count, n);
  int64_t item = self.itemsize();
  for (int64_t r = 0; r < count; ++r) {
    std::memcpy(values.bytes() + r * item, rows.bytes() + (r * n + indices.data<int64_t>()[r]) * item,
                static_cast<size_t>(item));
  }
}

Tensor bincount(const Tensor& self, const Tensor& weights, int64_t minlength) {
  TOCHA_CHECK(self.dim() == 1, Runtime,
              "[bincount] bincount only supports 1-d non-negative integral inputs, but got shape ", self.sizes());
  if (!is_integral(self.dtype()) || self.dtype() == DType::UInt64) refuse_dtype("bincount", self.dtype());
  TOCHA_CHECK(minlength >= 0, Runtime, "[bincount] minlength should be >= 0, but got ", minlength);
  TOCHA_CHECK(!weights || weights.sizes() == self.sizes(), Runtime,
              "[bincount] weights should be 1-d and have the same length as input: got ",
              weights ? weights.sizes() : IntsView(), " for ", self.sizes());
  TOCHA_CHECK(!self.is_meta(), NotImplemented,
              "[bincount] the result's size depends on values, which meta tensors do not have");
  Tensor in = cpu::dense(self);
  int64_t n = self.numel(), bins = minlength;
  if (n > 0) {
    cpu::IntegerRange range = cpu::integer_range(in.dtype(), in.bytes(), n);
    TOCHA_CHECK(range.low >= 0, Runtime, "[bincount] bincount only supports 1-d non-negative integral inputs, but got ",
                range.low);
    bins = std::max(bins, range.high + 1);
  }
  DType d = !weights || n == 0 ? DType::Int64 : weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor out = empty(IntsView(&bins, 1), d, self.device());
  if (bins == 0) return out;
  backend(out.device().type).fill(out, Scalar(int64_t{0}));
  if (n == 0) return out;
  if (!weights) {
    cpu::bincount(in.dtype(), in.bytes(), n, out.data<int64_t>(), bins);
  } else {
    Tensor w = cpu::dense(weights, d);
    cpu::bincount_weighted(in.dtype(), in.bytes(), n, d, w.bytes(), out.bytes(), bins);
  }
  return out;
}

void histc(const Tensor& out, const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  double low = min.to_double(), high = max.to_double();
  backend(out.device().type).fill(out, Scalar(int64_t{0}));
  if (low == high && self.numel() > 0) {
    auto [least, most] = ops::aminmax(self, std::nullopt, false);
    low = Scalar::load(least.dtype(), least.bytes()).to_double();
    high = Scalar::load(most.dtype(), most.bytes()).to_double();
  }
  if (low == high) low -= 1, high += 1;
  TOCHA_CHECK(std::isfinite(low) && std::isfinite(high), Runtime, "[histc] torch.histc: range of [", low, ", ", high,
              "] is not finite");
  TOCHA_CHECK(low < high, Runtime, "[histc] torch.histc: max must be larger than min: got ", low, " and ", high);
  if (self.numel() == 0) return;
  Tensor in = cpu::dense(self);
  ReleaseGil unlocked(self.numel());
  cpu::histc(in.dtype(), in.bytes(), self.numel(), bins, low, high, out.bytes());
}

}  // namespace tocha::native
