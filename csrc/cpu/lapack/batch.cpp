#include "cpu/lapack/batch.h"

#include <mutex>

namespace tocha::lapack {

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] { scipy_openblas_set_num_threads(1); });
}

Shape::Shape(const Tensor& t) : batch(1) {
  const int64_t m = t.size(t.dim() - 2), n = t.size(t.dim() - 1);
  TOCHA_CHECK(m <= INT_MAX && n <= INT_MAX, Runtime, "[linalg] a matrix of ", m, " by ", n, " is too large for LAPACK");
  rows = static_cast<int>(m);
  cols = static_cast<int>(n);
  for (int64_t s : batch_of(t)) batch *= s;
}

Ints column_major_strides(IntsView sizes) {
  Ints turned(sizes);
  const int64_t n = sizes.size();
  std::swap(turned[n - 2], turned[n - 1]);
  Ints strides = contiguous_strides(turned);
  std::swap(strides[n - 2], strides[n - 1]);
  return strides;
}

Tensor transposed(const Tensor& t) {
  Ints sizes(t.sizes()), strides(t.strides());
  const int64_t n = t.dim();
  std::swap(sizes[n - 2], sizes[n - 1]);
  std::swap(strides[n - 2], strides[n - 1]);
  return view_of(t, sizes, strides, t.offset());
}

Tensor expanded(const Tensor& t, IntsView sizes) {
  Ints strides(sizes.size(), 0);
  const int64_t fresh = sizes.size() - t.dim();
  for (int64_t d = 0; d < t.dim(); ++d) strides[fresh + d] = t.size(d) == 1 ? 0 : t.stride(d);
  return view_of(t, sizes, strides, t.offset());
}

bool is_column_major(const Tensor& t) { return !t.is_conj() && !t.is_neg() && transposed(t).is_contiguous(); }

Tensor column_major_copy(const Tensor& t) {
  Tensor copy = empty_strided(t.sizes(), column_major_strides(t.sizes()), t.dtype(), t.device());
  if (t.numel()) backend(t.device().type).copy(copy, t);
  return copy;
}

Tensor column_major(const Tensor& t) { return is_column_major(t) ? t : column_major_copy(t); }

ColumnMajorOut::ColumnMajorOut(const Tensor& out)
    : out_(out),
      work_(is_column_major(out)
                ? out
                : empty_strided(out.sizes(), column_major_strides(out.sizes()), out.dtype(), out.device())) {}

void ColumnMajorOut::finish() const {
  if (!work_.is(out_) && out_.numel()) backend(out_.device().type).copy(out_, work_);
}

std::vector<int64_t> batch_map(IntsView own, IntsView full) {
  int64_t n = 1;
  for (int64_t s : full) n *= s;
  std::vector<int64_t> places(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, step = 1, place = 0;
    for (int64_t d = 1; d <= full.size(); ++d) {
      const int64_t index = rest % full[full.size() - d];
      rest /= full[full.size() - d];
      if (d > own.size()) continue;
      const int64_t size = own[own.size() - d];
      if (size != 1) place += index * step;
      step *= size;
    }
    places[static_cast<size_t>(i)] = place;
  }
  return places;
}

}  // namespace tocha::lapack
