// The inner loops of sequences and windows, one table per instruction set: isa/kernels.cpp. They multiply and add in
// one rounding, which without the instruction is a call for every element.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

// n >= 2 numbers from first to last, both of which the dtype holds.
struct Spacing {
  int64_t n;
  double first, last;
};

// a[0] - a[1] cos(x) + a[2] cos(2 x) - ... over a period of `last` samples.
struct CosineSum {
  double last;
  const double* a;
  int64_t terms;
};

// Elements [begin, end) of the whole sequence that starts at out.
struct SequenceKernels {
  void (*space)(DType dtype, void* out, int64_t begin, int64_t end, const Spacing& s);            // real dtypes
  void (*sum_cosines)(DType dtype, void* out, int64_t begin, int64_t end, const CosineSum& sum);  // float dtypes
  void (*triangle)(DType dtype, void* out, int64_t begin, int64_t end, int64_t last);
};
TOCHA_ISA_TABLE(SequenceKernels, sequence_kernels)

}  // namespace tocha::cpu
