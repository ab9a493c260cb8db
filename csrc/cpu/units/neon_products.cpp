// The unit of ARM processors with products of small matrices (Neoverse N2, V1 and later): BFMMLA and SMMLA multiply two
// rows by two columns of 8 bytes each. Words of 8 bytes are what they take.
// flags: aarch64 -march=armv8.2-a+bf16+i8mm
#define TOCHA_ISA neon_products
#if defined(__aarch64__)
#include <arm_neon.h>

#include "cpu/units/dot_rows.h"
#include "cpu/units/packing.h"
#include "cpu/units/units.h"

TOCHA_ISA_BEGIN
namespace units {
namespace {

struct BFloat16Products {
  using Sum = float32x4_t;
  static Sum add(uint64x2_t a, uint64x2_t b, Sum sum) {
    return vbfmmlaq_f32(sum, vreinterpretq_bf16_u64(a), vreinterpretq_bf16_u64(b));
  }
  static uint64x2_t bits(Sum sum) { return vreinterpretq_u64_f32(sum); }
  static void store(char* p, uint64x2_t v, bool add) {
    float* to = reinterpret_cast<float*>(p);
    const float32x4_t x = vreinterpretq_f32_u64(v);
    vst1q_f32(to, add ? vaddq_f32(vld1q_f32(to), x) : x);
  }
};

struct Int8Products {
  using Sum = int32x4_t;
  static Sum add(uint64x2_t a, uint64x2_t b, Sum sum) {
    return vmmlaq_s32(sum, vreinterpretq_s8_u64(a), vreinterpretq_s8_u64(b));
  }
  static uint64x2_t bits(Sum sum) { return vreinterpretq_u64_s32(sum); }
  static void store(char* p, uint64x2_t v, bool add) {
    int32_t* to = reinterpret_cast<int32_t*>(p);
    const int32x4_t x = vreinterpretq_s32_u64(v);
    vst1q_s32(to, add ? vaddq_s32(vld1q_s32(to), x) : x);
  }
};

inline uint64x2_t load_words(const char* p) {
  return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p)));
}

template <class Products>
struct NeonRows {
  static constexpr int kRows = 8, kColumns = 8;

  // Pairs of rows and pairs of columns, two words of the depth at a time. An odd last row is paired with itself.
  template <int height>
  static void sum(const cpu::UnitJob& job, const char* a, const char* b, char* sums) {
    constexpr int pairs = (height + 1) / 2;
    typename Products::Sum acc[pairs][4] = {};
    for_blocks(job, a, b, [&](const char* x, const char* y) __attribute__((always_inline)) {
      for (int w = 0; w < 4; ++w, x += 16) {
        uint64x2_t low[pairs], high[pairs];
#pragma GCC unroll 4
        for (int i = 0; i < pairs; ++i) {
          const int second = 2 * i + 1 < height ? 2 * i + 1 : 2 * i;
          const uint64x2_t r0 = load_words(x + 2 * i * job.a_row), r1 = load_words(x + second * job.a_row);
          low[i] = vzip1q_u64(r0, r1);
          high[i] = vzip2q_u64(r0, r1);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half, y += job.b_row) {
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) {
            const uint64x2_t columns = load_words(y + 16 * j);
#pragma GCC unroll 4
            for (int i = 0; i < pairs; ++i) acc[i][j] = Products::add(half ? high[i] : low[i], columns, acc[i][j]);
          }
        }
      }
    });
#pragma GCC unroll 4
    for (int i = 0; i < pairs; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < 4; j += 2) {
        const uint64x2_t left = Products::bits(acc[i][j]), right = Products::bits(acc[i][j + 1]);
        char* to = sums + 2 * i * job.sums_row + 8 * j;
        Products::store(to, vzip1q_u64(left, right), job.add);
        if (2 * i + 1 < height) Products::store(to + job.sums_row, vzip2q_u64(left, right), job.add);
      }
    }
  }
};

using HalfPacking = Packing<uint16_t, uint64_t, 8>;
using BytePacking = Packing<uint8_t, uint64_t, 8>;

}  // namespace
}  // namespace units
TOCHA_ISA_END

namespace tocha::cpu {
using namespace units;
extern const MatrixUnit kNeonBFloat16 =
    unit_of<HalfPacking>("neon_products", 32, 4, multiply_rows<NeonRows<BFloat16Products>>, finish);
extern const MatrixUnit kNeonInt8 =
    unit_of<BytePacking>("neon_products", 32, 8, multiply_rows<NeonRows<Int8Products>>, nullptr);
}  // namespace tocha::cpu
#endif
