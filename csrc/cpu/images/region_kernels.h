// The inner loops of regions of images, compiled once per instruction set (isa/region_kernels.cpp). Called by
// regions.cpp.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

struct RegionKernels {
  // Of n boxes in order, given as x1, y1, x2, y2 and area (five arrays of n, one behind the other): beaten[j] is set
  // where box j > i overlaps box i by more than bound. beaten has elements as wide as the dtype's, Float32 or Float64.
  void (*beat)(DType dtype, const void* boxes, int64_t n, int64_t i, double bound, void* beaten);
  // largest[c] = max of itself and row[c], where[c] = pixel where that changes it.
  void (*keep_largest)(DType dtype, const void* row, int64_t channels, int32_t pixel, void* largest, int32_t* where);
};

TOCHA_ISA_TABLE(RegionKernels, region_kernels)

}  // namespace tocha::cpu
