// Tiles of a matrix, transposed: what compiled graphs read along one dim and write along another.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/isa.h"

TOCHA_ISA_BEGIN

constexpr int64_t kTileRows = 256, kTileColumns = 16;

// A square of elements of four bytes: row r of `to` is column r of `from`.
template <int kSide>
inline void transpose_square(uint32_t* to, int64_t to_step, const char* from, int64_t step);

template <>
inline void transpose_square<4>(uint32_t* to, int64_t to_step, const char* from, int64_t step) {
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
  for (int k = 0; k < 4; ++k) std::memcpy(to + k * to_step, &rows[k], 16);
}

#if defined(__AVX__)
// Pairs, then fours within each half of a register, then the halves.
template <>
inline void transpose_square<8>(uint32_t* to, int64_t to_step, const char* from, int64_t step) {
  typedef uint32_t Eight __attribute__((vector_size(32)));
  Eight x[8], pairs[8], fours[8];
  for (int k = 0; k < 8; ++k) std::memcpy(&x[k], from + k * step, 32);
  for (int k = 0; k < 8; k += 2) {
    pairs[k] = __builtin_shufflevector(x[k], x[k + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[k + 1] = __builtin_shufflevector(x[k], x[k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int k = 0; k < 8; k += 4) {
    for (int h = 0; h < 2; ++h) {
      fours[k + 2 * h] = __builtin_shufflevector(pairs[k + h], pairs[k + h + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      fours[k + 2 * h + 1] = __builtin_shufflevector(pairs[k + h], pairs[k + h + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int k = 0; k < 4; ++k) {
    Eight low = __builtin_shufflevector(fours[k], fours[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    Eight high = __builtin_shufflevector(fours[k], fours[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    std::memcpy(to + k * to_step, &low, 32);
    std::memcpy(to + (k + 4) * to_step, &high, 32);
  }
}
constexpr int kSquare = 8;  // with squares of four the processor takes loads for reads of what was just stored
#else
constexpr int kSquare = 4;
#endif

// tile[r][c] = from[r + c * step] for r < rows, c < columns. A few columns at a time: lines that lie a power of two
// apart share a few places in the cache.
template <class T>
inline void transpose_tile(T* tile, const T* from, int64_t step, int64_t rows, int64_t columns) {
  int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(T) == 4) {
    whole_rows = rows / kSquare * kSquare, whole_columns = columns / 4 * 4;
    auto square = [&]<int kSide>(int64_t c) {
      for (int64_t r = 0; r < whole_rows; r += kSide)
        transpose_square<kSide>(reinterpret_cast<uint32_t*>(tile) + r * kTileColumns + c, kTileColumns,
                                reinterpret_cast<const char*>(from + r + c * step), step * 4);
    };
    int64_t c = 0;
    for (; c + kSquare <= columns; c += kSquare) square.template operator()<kSquare>(c);
    if (c < whole_columns) square.template operator()<4>(c);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      tile[r * kTileColumns + c] = from[r + c * step];
}

// A square of elements by rounds of interleaving: each moves one bit of the row's number into the lane's.
template <class V, bool kHigh, int... I>
inline __attribute__((always_inline)) V interleaved(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (I / 2 + I % 2 * n + (kHigh ? n / 2 : 0))...);
}
template <class T, int kSide>
inline void transpose_square(T* to, int64_t to_step, const T* from, int64_t step) {
  using Unsigned = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  typedef Unsigned V __attribute__((vector_size(kSide * sizeof(Unsigned))));
  constexpr auto lanes = std::make_integer_sequence<int, kSide>();
  V v[kSide], w[kSide];
#pragma GCC unroll 16
  for (int k = 0; k < kSide; ++k) std::memcpy(&v[k], from + k * step, sizeof(V));
#pragma GCC unroll 4
  for (int round = 1; round < kSide; round *= 2) {
#pragma GCC unroll 8
    for (int k = 0; k < kSide / 2; ++k) {
      w[2 * k] = interleaved<V, false>(v[k], v[k + kSide / 2], lanes);
      w[2 * k + 1] = interleaved<V, true>(v[k], v[k + kSide / 2], lanes);
    }
#pragma GCC unroll 16
    for (int k = 0; k < kSide; ++k) v[k] = w[k];
  }
#pragma GCC unroll 16
  for (int k = 0; k < kSide; ++k) std::memcpy(static_cast<void*>(to + k * to_step), &v[k], sizeof(V));
}

// to[r * to_step + c] = from[r + c * step] for r < rows, c < columns. Columns go by first: lines of `to` are written
// whole.
template <class T>
inline void transpose_copy(T* to, int64_t to_step, const T* from, int64_t step, int64_t rows, int64_t columns) {
  int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(T) <= 8) {
#if defined(__AVX512F__)
    constexpr int kWords = 16;
#else
    constexpr int kWords = kSquare;
#endif
    constexpr int kSide = sizeof(T) == 4 ? kWords : 16 / static_cast<int>(sizeof(T));
    whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
    for (int64_t r = 0; r < whole_rows; r += kSide) {
#pragma GCC unroll 8
      for (int64_t c = 0; c < whole_columns; c += kSide) {
        T* place = to + r * to_step + c;
        const T* square = from + r + c * step;
        if constexpr (sizeof(T) == 4 && kSide == 8) {  // by halves of registers, within which AVX moves elements
          transpose_square<kSide>(reinterpret_cast<uint32_t*>(place), to_step, reinterpret_cast<const char*>(square),
                                  step * 4);
        } else {
          transpose_square<T, kSide>(place, to_step, square, step);
        }
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to[r * to_step + c] = from[r + c * step];
}

TOCHA_ISA_END
