// Matrix products on Intel's AMX: eight registers that are tiles of 16 rows of 64 bytes. Four of them sum up 32 x 32
// results, two hold rows of a, two columns of b. The tiles themselves are a parameter: the processor's (amx.cpp), or an
// emulation (emulated.cpp) that lets every machine test the loops.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/isa.h"
#include "cpu/units/matrix_unit.h"

TOCHA_ISA_BEGIN
namespace units {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileBytes = 64;

// As LDTILECFG reads it.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Sums are tiles 0 to 3 (row by row), rows of a 4 and 5, columns of b 6 and 7. A product takes as long as a has rows,
// and reads no others: so the last panel has tiles of its own height.
inline TileConfig tile_config(int64_t height) {
  TileConfig config;
  const int64_t top = height < kTileRows ? height : kTileRows, bottom = height > kTileRows ? height - kTileRows : 1;
  const int64_t rows[8] = {top, top, bottom, bottom, top, bottom, kTileRows, kTileRows};
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kTileBytes;
    config.rows[t] = static_cast<uint8_t>(rows[t]);
  }
  return config;
}

// One block of sums of kHigh x kWide tiles.
template <class Tiles, int kHigh, int kWide>
inline __attribute__((always_inline)) void sum_block(const cpu::UnitJob& job, const char* a, const char* b,
                                                     char* sums) {
  const char* a_low = a + kTileRows * job.a_row;
  char* sums_low = sums + kTileRows * job.sums_row;
  if (job.add) {
    Tiles::template load<0>(sums, job.sums_row);
    if (kWide > 1) Tiles::template load<1>(sums + kTileBytes, job.sums_row);
    if (kHigh > 1) Tiles::template load<2>(sums_low, job.sums_row);
    if (kHigh > 1 && kWide > 1) Tiles::template load<3>(sums_low + kTileBytes, job.sums_row);
  } else {
    Tiles::template zero<0>();
    if (kWide > 1) Tiles::template zero<1>();
    if (kHigh > 1) Tiles::template zero<2>();
    if (kHigh > 1 && kWide > 1) Tiles::template zero<3>();
  }
  auto step = [&](int64_t a_at, int64_t b_at) __attribute__((always_inline)) {
    Tiles::template load<6>(b + b_at, job.b_row);
    Tiles::template load<4>(a + a_at, job.a_row);
    Tiles::template dot<0, 4, 6>();
    if (kHigh > 1) Tiles::template load<5>(a_low + a_at, job.a_row);
    if (kHigh > 1) Tiles::template dot<2, 5, 6>();
    if (kWide > 1) Tiles::template load<7>(b + b_at + kTileBytes, job.b_row);
    if (kWide > 1) Tiles::template dot<1, 4, 7>();
    if (kHigh > 1 && kWide > 1) Tiles::template dot<3, 5, 7>();
  };
  if (job.b_at) {
    for (int64_t i = 0; i < job.blocks; ++i) step(job.a_at[i], job.b_at[i]);
  } else {
    for (int64_t i = 0; i < job.blocks; ++i) step(i * job.a_block, i * job.b_block);
  }
  Tiles::template store<0>(sums, job.sums_row);
  if (kWide > 1) Tiles::template store<1>(sums + kTileBytes, job.sums_row);
  if (kHigh > 1) Tiles::template store<2>(sums_low, job.sums_row);
  if (kHigh > 1 && kWide > 1) Tiles::template store<3>(sums_low + kTileBytes, job.sums_row);
}

template <class Tiles, int kHigh>
void sum_panel(const cpu::UnitJob& job, const char* a, char* sums) {
  constexpr int64_t wide = 2 * kTileBytes, columns = 2 * kTileBytes / 4;
  for (int64_t column = 0; column < job.columns; column += columns, sums += wide) {
    const char* b = cpu::panel_of(job, column / columns);
    if (job.columns - column > columns / 2)
      sum_block<Tiles, kHigh, 2>(job, a, b, sums);
    else
      sum_block<Tiles, kHigh, 1>(job, a, b, sums);
  }
}

// Tiles are state of the thread: what is configured here is released here, so that nothing outlives the call.
template <class Tiles>
void multiply_tiles(const cpu::UnitJob& job) {
  int64_t configured = 0;
  const char* a = job.a;
  for (int64_t row = 0; row < job.rows; row += 2 * kTileRows, a += job.a_panel) {
    const int64_t height = job.rows - row < 2 * kTileRows ? job.rows - row : 2 * kTileRows;
    if (height != configured) Tiles::configure(tile_config(height));
    configured = height;
    char* sums = job.sums + row * job.sums_row;
    height > kTileRows ? sum_panel<Tiles, 2>(job, a, sums) : sum_panel<Tiles, 1>(job, a, sums);
  }
  if (configured) Tiles::release();
}

}  // namespace units
TOCHA_ISA_END
