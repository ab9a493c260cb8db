// The loops around units that sum up a few rows at a time in vector registers. Kernel::sum<height> does that for up to
// Kernel::kRows rows and Kernel::kColumns columns.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "core/isa.h"
#include "cpu/units/matrix_unit.h"

TOCHA_ISA_BEGIN
namespace units {

// f(block of a, block of b) for the whole depth.
template <class F>
inline __attribute__((always_inline)) void for_blocks(const cpu::UnitJob& job, const char* a, const char* b, F f) {
  for (int64_t i = 0; i < job.blocks; ++i) {
    if (job.b_at)
      f(a + job.a_at[i], b + job.b_at[i]);
    else
      f(a + i * job.a_block, b + i * job.b_block);
  }
}

template <class Kernel, int... kHeight>
constexpr auto heights(std::integer_sequence<int, kHeight...>) {
  using Function = void (*)(const cpu::UnitJob&, const char*, const char*, char*);
  return std::array<Function, sizeof...(kHeight)>{Kernel::template sum<kHeight + 1>...};
}

template <class Kernel>
void multiply_rows(const cpu::UnitJob& job) {
  static constexpr auto by_height = heights<Kernel>(std::make_integer_sequence<int, Kernel::kRows>{});
  constexpr int64_t panel_rows = 32;  // of all units that these loops serve
  const char* panel = job.a;
  for (int64_t first = 0; first < job.rows; first += panel_rows, panel += job.a_panel) {
    const int64_t last = job.rows - first < panel_rows ? job.rows - first : panel_rows;
    for (int64_t column = 0; column < job.columns; column += Kernel::kColumns) {
      const char* b = cpu::panel_of(job, column / Kernel::kColumns);
      for (int64_t r = 0; r < last; r += Kernel::kRows) {
        const int64_t height = last - r < Kernel::kRows ? last - r : Kernel::kRows;
        by_height[static_cast<size_t>(height - 1)](job, panel + r * job.a_row, b,
                                                   job.sums + (first + r) * job.sums_row + column * 4);
      }
    }
  }
}

}  // namespace units
TOCHA_ISA_END
