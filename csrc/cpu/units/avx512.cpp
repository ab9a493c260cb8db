// The unit of processors with AVX-512 and its dot products but without tiles (Cooper Lake, Zen 4 and later).
// flags: x86_64 -march=x86-64-v4 -mprefer-vector-width=512 -mavx512bf16 -mavx512vnni -mavx512vbmi
#define TOCHA_ISA avx512_dot
#if defined(__x86_64__)
#include "cpu/units/dot_rows.h"
#include "cpu/units/packing.h"
#include "cpu/units/units.h"

TOCHA_ISA_BEGIN
namespace units {
namespace {

struct BFloat16Dots {
  using Sum = __m512;
  static constexpr bool kOffset = false;
  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum load(const char* p) { return _mm512_loadu_ps(p); }
  static void store(char* p, Sum v) { _mm512_storeu_ps(p, v); }
  static Sum add(Sum a, Sum b) { return a + b; }
  static Sum dot(Sum sum, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
};

// The instruction multiplies unsigned by signed bytes: a is made unsigned by adding 128, and 128 times the sum of b's
// column is taken off again.
struct Int8Dots {
  using Sum = __m512i;
  static constexpr bool kOffset = true;
  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum load(const char* p) { return _mm512_loadu_si512(p); }
  static void store(char* p, Sum v) { _mm512_storeu_si512(p, v); }
  static Sum add(Sum a, Sum b) { return _mm512_add_epi32(a, b); }
  static Sum subtract(Sum a, Sum b) { return _mm512_sub_epi32(a, b); }
  static __m512i offset() { return _mm512_set1_epi8(static_cast<char>(0x80)); }
  static Sum dot(Sum sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
};

template <class Dots>
struct Rows512 {
  static constexpr int kRows = 8, kColumns = 32;

  // `height` rows of a times 32 columns of b.
  template <int height>
  static void sum(const cpu::UnitJob& job, const char* a, const char* b, char* sums) {
    typename Dots::Sum acc[height][2], offset[2] = {Dots::zero(), Dots::zero()};
#pragma GCC unroll 8
    for (int r = 0; r < height; ++r) acc[r][0] = acc[r][1] = Dots::zero();
    for_blocks(job, a, b, [&](const char* x, const char* y) __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int w = 0; w < 16; ++w, x += 4, y += job.b_row) {
        const __m512i b0 = _mm512_loadu_si512(y), b1 = _mm512_loadu_si512(y + 64);
        if constexpr (Dots::kOffset) {
          offset[0] = Dots::dot(offset[0], Dots::offset(), b0);
          offset[1] = Dots::dot(offset[1], Dots::offset(), b1);
        }
#pragma GCC unroll 8
        for (int r = 0; r < height; ++r) {
          int32_t word;
          std::memcpy(&word, x + r * job.a_row, 4);
          __m512i all = _mm512_set1_epi32(word);
          if constexpr (Dots::kOffset) all = _mm512_xor_si512(all, Dots::offset());
          acc[r][0] = Dots::dot(acc[r][0], all, b0);
          acc[r][1] = Dots::dot(acc[r][1], all, b1);
        }
      }
    });
#pragma GCC unroll 8
    for (int r = 0; r < height; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        char* to = sums + r * job.sums_row + j * 64;
        typename Dots::Sum v = acc[r][j];
        if constexpr (Dots::kOffset) v = Dots::subtract(v, offset[j]);
        Dots::store(to, job.add ? Dots::add(Dots::load(to), v) : v);
      }
    }
  }
};

using HalfPacking = Packing<uint16_t, uint32_t, 32>;
using BytePacking = Packing<uint8_t, uint32_t, 32>;

}  // namespace
}  // namespace units
TOCHA_ISA_END

namespace tocha::cpu {
using namespace units;
extern const MatrixUnit kAvx512BFloat16 =
    unit_of<HalfPacking>("avx512", 32, 2, multiply_rows<Rows512<BFloat16Dots>>, finish);
extern const MatrixUnit kAvx512Int8 = unit_of<BytePacking>("avx512", 32, 4, multiply_rows<Rows512<Int8Dots>>, nullptr);
}  // namespace tocha::cpu
#endif
