// The table of dtype conversions; one copy per instruction set.
#pragma once

#include "core/dtype.h"

namespace tocha::cpu {

using CastLoop = void (*)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n);
constexpr int kMostBlockBytes = 32;
struct CastTable {
  CastLoop loops[kNumDTypes][kNumDTypes];  // [from][to]
  void (*conj)(DType, char* data, int64_t n);
  void (*negate)(DType, char* data, int64_t n);
  // Moves n bytes past the cache; for results too large to be read again soon.
  void (*stream)(char* dst, const char* src, int64_t bytes);
  // dst[j][i] = src[i][j] for a tile, elements of 1, 2, 4, 8 or 16 bytes; row strides in bytes.
  void (*transpose)(int itemsize, char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows,
                    int64_t cols);
  // [bytes of a block - 1]: rows of n blocks in the opposite order; dst and src are where the first rows begin.
  void (*reverse_rows[kMostBlockBytes])(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows,
                                        int64_t n);
  void (*copy_rows)(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t bytes);
};
TOCHA_ISA_TABLE(CastTable, cast_table)

}  // namespace tocha::cpu
