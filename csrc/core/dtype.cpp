#include "core/dtype.h"

#include <cstdlib>
#include <cstring>

namespace tocha {

Isa cpu_isa() {
  static const Isa chosen = [] {
#if defined(__x86_64__) && !defined(TOCHA_SINGLE_ISA)
    __builtin_cpu_init();
    Isa best = Isa::base;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
      best = Isa::avx2;
    if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      best = Isa::avx512;
    }
    if (const char* wanted = std::getenv("TOCHA_CPU_ISA")) {
      if (std::strcmp(wanted, "base") == 0) best = Isa::base;
      if (std::strcmp(wanted, "avx2") == 0 && best == Isa::avx512) best = Isa::avx2;
    }
    return best;
#else
    return Isa::base;
#endif
  }();
  return chosen;
}

}  // namespace tocha
