// Which matrix unit this processor has, and what all of them share.
#include "cpu/units/matrix_unit.h"

#include <cstdlib>
#include <cstring>

#include "core/isa.h"
#include "cpu/units/units.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tocha::cpu {
namespace {

using Units = std::vector<const MatrixUnit*>;

constexpr int64_t kMostNear = 128;  // blocks of a panel of rows, in the second-level cache beside those of columns

#if defined(__x86_64__)
bool has_wide_vectors() {
#if defined(TOCHA_SINGLE_ISA)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return cpu_isa() == Isa::avx512;
#endif
}

// The tiles' state is large: Linux saves it for processes that ask for it.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

bool system_saves_tiles() {
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tiles = 1u << 17 | 1u << 18;
  return (low & tiles) == tiles;
}

Units units_for(DType dtype) {
  Units found;
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0, eax1 = 0, none = 0;
  if (!has_wide_vectors() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return found;
  if (eax >= 1) __get_cpuid_count(7, 1, &eax1, &none, &none, &none);
  const bool vectors = (ecx >> 1 & 1) && (ecx >> 11 & 1) && (eax1 >> 5 & 1);  // VBMI, VNNI, BF16
  const bool tiles = (edx >> 22 & 1) && (edx >> 24 & 1) && (edx >> 25 & 1);   // of bfloat16, at all, of int8
  if (!vectors) return found;
  if (tiles && system_saves_tiles() && may_use_tiles())
    found.push_back(dtype == DType::Int8 ? &kAmxInt8 : &kAmxBFloat16);
  found.push_back(dtype == DType::Int8 ? &kAvx512Int8 : &kAvx512BFloat16);
  return found;
}
#elif defined(__aarch64__) && defined(__linux__)
Units units_for(DType dtype) {
  Units found;
  const unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
  constexpr unsigned long dot = 1ul << 20, int8_products = 1ul << 13, bfloat16_products = 1ul << 14;
  if (dtype == DType::BFloat16 && (caps2 & bfloat16_products)) found.push_back(&kNeonBFloat16);
  if (dtype == DType::Int8 && (caps2 & int8_products)) found.push_back(&kNeonInt8);
  if (dtype == DType::Int8 && (caps & dot)) found.push_back(&kNeonDotInt8);
  return found;
}
#else
Units units_for(DType) { return {}; }
#endif

const MatrixUnit* choose(DType dtype) {
  if (const char* wanted = std::getenv("TOCHA_MATRIX_UNIT")) {
    for (const MatrixUnit* unit : matrix_units(dtype)) {
      if (std::strcmp(wanted, unit->name) == 0) return unit;
    }
    if (std::strcmp(wanted, "none") == 0) return nullptr;
  }
  const Units units = units_for(dtype);
  return units.empty() ? nullptr : units[0];
}

}  // namespace

Units matrix_units(DType dtype) {
  if (dtype != DType::BFloat16 && dtype != DType::Int8) return {};
  Units units = units_for(dtype);
  units.push_back(dtype == DType::Int8 ? &kEmulatedInt8 : &kEmulatedBFloat16);
  return units;
}

const MatrixUnit* matrix_unit(DType dtype) {
  static const MatrixUnit *bfloat16 = choose(DType::BFloat16), *int8 = choose(DType::Int8);
  return dtype == DType::BFloat16 ? bfloat16 : dtype == DType::Int8 ? int8 : nullptr;
}

void multiply_in_pieces(const MatrixUnit& unit, UnitJob job) {
  const int64_t blocks = job.blocks, pieces = job.columns > unit.columns ? (blocks + kMostNear - 1) / kMostNear : 1;
  const char *a = job.a, *b = job.b;
  const int64_t *a_at = job.a_at, *b_at = job.b_at;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t first = i * blocks / pieces;
    job.blocks = (i + 1) * blocks / pieces - first;
    if (a_at) {
      job.a_at = a_at + first;
      job.b_at = b_at + first;
    } else {
      job.a = a + first * job.a_block;
      job.b = b + first * job.b_block;
    }
    unit.multiply(job);
    job.add = true;
  }
}

void pack_panels(const MatrixUnit& unit, const void* b, int64_t b_k, int64_t b_col, int64_t k, int64_t n, char* out) {
  const int64_t panel = packed_panel_bytes(unit, k), row = unit.panel_row();
  const int64_t rows = (k + unit.depth() - 1) / unit.depth(), full = n / unit.columns;
  for (int64_t p = 0; p * unit.columns < n; ++p) {
    if (p == full) {
      std::memset(out + p * panel, 0, static_cast<size_t>(panel));  // the columns that are missing
    } else if (rows * row < panel) {
      std::memset(out + p * panel + rows * row, 0, static_cast<size_t>(panel - rows * row));
    }
  }
  unit.pack_words(b, b_k, b_col, k, n, out, row, panel);
}

}  // namespace tocha::cpu
