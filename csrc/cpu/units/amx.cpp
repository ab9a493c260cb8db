// The unit of Intel's Sapphire Rapids and later: AMX tiles.
// flags: x86_64 -march=x86-64-v4 -mprefer-vector-width=512 -mavx512bf16 -mavx512vnni -mavx512vbmi
#define TOCHA_ISA amx
#if defined(__x86_64__)
#include "cpu/units/packing.h"
#include "cpu/units/tiles.h"
#include "cpu/units/units.h"

TOCHA_ISA_BEGIN
namespace units {
namespace {

// Written out rather than by the compiler's intrinsics, which take no template parameters for registers.
struct AmxTiles {
  static void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
  static void release() { asm volatile("tilerelease" ::: "memory"); }
  template <int t>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(t));
  }
  template <int t>
  static void load(const void* from, int64_t row) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row), "i"(t) : "memory");
  }
  template <int t>
  static void store(void* to, int64_t row) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row), "i"(t) : "memory");
  }
};

struct BFloat16Tiles : AmxTiles {
  template <int sum, int a, int b>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(a), "i"(b));
  }
};

struct Int8Tiles : AmxTiles {
  template <int sum, int a, int b>
  static void dot() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(a), "i"(b));
  }
};

using HalfPacking = Packing<uint16_t, uint32_t, 32>;
using BytePacking = Packing<uint8_t, uint32_t, 32>;

}  // namespace
}  // namespace units
TOCHA_ISA_END

namespace tocha::cpu {
using namespace units;
extern const MatrixUnit kAmxBFloat16 = unit_of<HalfPacking>("amx", 32, 16, multiply_tiles<BFloat16Tiles>, finish);
extern const MatrixUnit kAmxInt8 = unit_of<BytePacking>("amx", 32, 32, multiply_tiles<Int8Tiles>, nullptr);
}  // namespace tocha::cpu
#endif
