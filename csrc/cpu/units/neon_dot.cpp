// The unit of ARM processors with dot products of int8 (Neoverse N1 and most since): SDOT.
// flags: aarch64 -march=armv8.2-a+dotprod
#define TOCHA_ISA neon_dot
#if defined(__aarch64__)
#include <arm_neon.h>

#include "cpu/units/dot_rows.h"
#include "cpu/units/packing.h"
#include "cpu/units/units.h"

TOCHA_ISA_BEGIN
namespace units {
namespace {

struct DotRows {
  static constexpr int kRows = 8, kColumns = 8;

  template <int height>
  static void sum(const cpu::UnitJob& job, const char* a, const char* b, char* sums) {
    int32x4_t acc[height][2] = {};
    for_blocks(job, a, b, [&](const char* x, const char* y) __attribute__((always_inline)) {
      for (int w = 0; w < 4; ++w, x += 16) {
        int8x16_t rows[height];
#pragma GCC unroll 8
        for (int r = 0; r < height; ++r) rows[r] = vld1q_s8(reinterpret_cast<const int8_t*>(x + r * job.a_row));
        add_word<0>(rows, y, acc);
        add_word<1>(rows, y + job.b_row, acc);
        add_word<2>(rows, y + 2 * job.b_row, acc);
        add_word<3>(rows, y + 3 * job.b_row, acc);
        y += 4 * job.b_row;
      }
    });
#pragma GCC unroll 8
    for (int r = 0; r < height; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        int32_t* to = reinterpret_cast<int32_t*>(sums + r * job.sums_row) + 4 * j;
        vst1q_s32(to, job.add ? vaddq_s32(vld1q_s32(to), acc[r][j]) : acc[r][j]);
      }
    }
  }

  template <int word, int height>
  static inline __attribute__((always_inline)) void add_word(const int8x16_t (&rows)[height], const char* y,
                                                             int32x4_t (&acc)[height][2]) {
    const int8_t* b = reinterpret_cast<const int8_t*>(y);
    const int8x16_t b0 = vld1q_s8(b), b1 = vld1q_s8(b + 16);
#pragma GCC unroll 8
    for (int r = 0; r < height; ++r) {
      acc[r][0] = vdotq_laneq_s32(acc[r][0], b0, rows[r], word);
      acc[r][1] = vdotq_laneq_s32(acc[r][1], b1, rows[r], word);
    }
  }
};

using BytePacking = Packing<uint8_t, uint32_t, 8>;

}  // namespace
}  // namespace units
TOCHA_ISA_END

namespace tocha::cpu {
using namespace units;
extern const MatrixUnit kNeonDotInt8 = unit_of<BytePacking>("neon_dot", 32, 4, multiply_rows<DotRows>, nullptr);
}  // namespace tocha::cpu
#endif
