// Inner loops of cummax and cummin, compiled once per instruction set (isa/extrema_kernels.cpp).
// Called by extrema.cpp.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

constexpr int64_t kExtremaTile = 64;

struct ExtremaPiece {
  DType dtype;
  bool max;
  const void* in;
  void* values;
  int64_t* indices;
};

struct ExtremaKernels {
  bool (*supports)(DType dtype);
  // Scans elements [begin, end) of one row; indices count from `row`.
  void (*scan)(const ExtremaPiece& piece, int64_t row, int64_t begin, int64_t end);
  // Lets the result at begin - 1 reach into [begin, end), which was scanned by itself, as far as it wins.
  void (*extend)(const ExtremaPiece& piece, int64_t begin, int64_t end);
  // Scans down `columns` <= kExtremaTile adjacent columns of n rows that are `pitch` apart.
  void (*columns)(const ExtremaPiece& piece, int64_t begin, int64_t n, int64_t pitch, int64_t columns);
};

TOCHA_ISA_TABLE(ExtremaKernels, extrema_kernels)

}  // namespace tocha::cpu
