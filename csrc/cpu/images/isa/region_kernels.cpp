// Loops over boxes and over channels, written so that the compiler vectorizes them for each instruction set. Reached
// through region_kernels() of region_kernels.h.
#include "cpu/images/region_kernels.h"

TOCHA_ISA_BEGIN
namespace regions {
namespace {

template <class T>
T larger(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T smaller(T a, T b) {
  return b < a ? b : a;
}

template <class T, class Flag>
void beat_by(const void* boxes, int64_t n, int64_t i, double bound, void* beaten) {
  const T* x1 = static_cast<const T*>(boxes);
  const T *y1 = x1 + n, *x2 = y1 + n, *y2 = x2 + n, *area = y2 + n;
  Flag* flags = static_cast<Flag*>(beaten);
  const T left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], own = area[i], limit = static_cast<T>(bound);
  for (int64_t j = i + 1; j < n; ++j) {
    const T width = larger(T(0), smaller(right, x2[j]) - larger(left, x1[j]));
    const T height = larger(T(0), smaller(bottom, y2[j]) - larger(top, y1[j]));
    const T shared = width * height;
    flags[j] |= static_cast<Flag>(shared / (own + area[j] - shared) > limit);
  }
}

void beat(DType dtype, const void* boxes, int64_t n, int64_t i, double bound, void* beaten) {
  if (dtype == DType::Float64) return beat_by<double, int64_t>(boxes, n, i, bound, beaten);
  beat_by<float, int32_t>(boxes, n, i, bound, beaten);
}

template <class T>
void keep_largest_of(const void* row, int64_t channels, int32_t pixel, void* largest, int32_t* where) {
  const T* values = static_cast<const T*>(row);
  T* best = static_cast<T*>(largest);
  for (int64_t c = 0; c < channels; ++c) {
    const bool more = values[c] > best[c];
    best[c] = more ? values[c] : best[c];
    where[c] = more ? pixel : where[c];
  }
}

void keep_largest(DType dtype, const void* row, int64_t channels, int32_t pixel, void* largest, int32_t* where) {
  if (dtype == DType::Float64) return keep_largest_of<double>(row, channels, pixel, largest, where);
  keep_largest_of<float>(row, channels, pixel, largest, where);
}

}  // namespace
}  // namespace regions
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {

extern const RegionKernels region_kernels;
const RegionKernels region_kernels = {regions::beat, regions::keep_largest};

}  // namespace tocha::cpu::TOCHA_ISA_TABLES
