// The parts of searching and counting that profit from wide vectors, compiled once per instruction set
// (isa/kernels.cpp). Called by search.cpp and nonzero.cpp.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

struct SearchKernels {
  // out[i] = insertion point of values[i] in sequence[0..length), which `right` puts after equals.
  // Int32, Int64, Float32, Float64 only; length < 2^31 for the 4-byte ones.
  void (*search)(DType dtype, const void* sequence, int64_t length, const void* values, int64_t n, bool right,
                 int64_t* out);
  // How many of n < 2^31 elements are not zero, any dtype.
  int64_t (*count_nonzero)(DType dtype, const void* in, int64_t n);
  // Smallest and largest of n > 0 integers; those of uint64 above 2^63 - 1 wrap.
  void (*extremes)(DType dtype, const void* in, int64_t n, int64_t* low, int64_t* high);
};

TOCHA_ISA_TABLE(SearchKernels, search_kernels)

}  // namespace tocha::cpu
