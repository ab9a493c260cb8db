// Tiles of a matrix, transposed: what compiled graphs read along one dim and write along another.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/isa.h"

TOCHA_ISA_BEGIN

constexpr int64_t kTileRows = 256, kTileColumns = 16;

// Four by four elements of four bytes: row r of `to` is column r of `from`.
inline void transpose_square(uint32_t* to, const char* from, int64_t step) {
  typedef uint32_t Four __attribute__((vector_size(16)));
  Four a, b, c, d;
  std::memcpy(&a, from, 16);
  std::memcpy(&b, from + step, 16);
  std::memcpy(&c, from + 2 * step, 16);
  std::memcpy(&d, from + 3 * step, 16);
  Four p = __builtin_shufflevector(a, b, 0, 4, 1, 5), q = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  Four r = __builtin_shufflevector(c, d, 0, 4, 1, 5), s = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  Four rows[] = {__builtin_shufflevector(p, r, 0, 1, 4, 5), __builtin_shufflevector(p, r, 2, 3, 6, 7),
                 __builtin_shufflevector(q, s, 0, 1, 4, 5), __builtin_shufflevector(q, s, 2, 3, 6, 7)};
  for (int k = 0; k < 4; ++k) std::memcpy(to + k * kTileColumns, &rows[k], 16);
}

// tile[r][c] = from[r + c * step] for r < rows, c < columns. A few columns at a time: lines that lie a power of two
// apart share a few places in the cache.
template <class T>
inline void transpose_tile(T* tile, const T* from, int64_t step, int64_t rows, int64_t columns) {
  int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(T) == 4) {
    whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (int64_t c = 0; c < whole_columns; c += 4)
      for (int64_t r = 0; r < whole_rows; r += 4)
        transpose_square(reinterpret_cast<uint32_t*>(tile) + r * kTileColumns + c,
                         reinterpret_cast<const char*>(from + r + c * step), step * 4);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      tile[r * kTileColumns + c] = from[r + c * step];
}

TOCHA_ISA_END
