// One source, several instruction sets. Files under csrc/cpu/*/isa (and the generated kernels) are
// compiled once per instruction set with TOCHA_ISA naming the copy; their code lives in an inline
// namespace of that name, so that no copy's instructions leak into another. Ordinary files are
// compiled for the architecture's baseline.
#pragma once

#ifndef TOCHA_ISA
#define TOCHA_ISA base
#define TOCHA_ISA_IS_BASE 1
#endif

#define TOCHA_ISA_BEGIN \
  namespace tocha {     \
  inline namespace TOCHA_ISA {
#define TOCHA_ISA_END \
  }                   \
  }

namespace tocha {

enum class Isa { base, avx2, avx512 };

// The best instruction set this CPU has that this build carries; TOCHA_CPU_ISA lowers it.
Isa cpu_isa();

}  // namespace tocha

// A function pointer table `TYPE NAME` is defined once per instruction set; this declares the
// copies and `const TYPE& NAME()` which returns the one for this CPU.
#if defined(__x86_64__) && !defined(TOCHA_SINGLE_ISA)
#define TOCHA_ISA_TABLE(TYPE, NAME) \
  namespace isa_base {              \
  extern const TYPE NAME;           \
  }                                 \
  namespace isa_avx2 {              \
  extern const TYPE NAME;           \
  }                                 \
  namespace isa_avx512 {            \
  extern const TYPE NAME;           \
  }                                 \
  inline const TYPE& NAME() {       \
    switch (::tocha::cpu_isa()) {   \
      case ::tocha::Isa::avx512:    \
        return isa_avx512::NAME;    \
      case ::tocha::Isa::avx2:      \
        return isa_avx2::NAME;      \
      default:                      \
        return isa_base::NAME;      \
    }                               \
  }
#else
#define TOCHA_ISA_TABLE(TYPE, NAME) \
  namespace isa_base {              \
  extern const TYPE NAME;           \
  }                                 \
  inline const TYPE& NAME() { return isa_base::NAME; }
#endif
#define TOCHA_ISA_CAT2(a, b) a##b
#define TOCHA_ISA_CAT(a, b) TOCHA_ISA_CAT2(a, b)
#define TOCHA_ISA_TABLES TOCHA_ISA_CAT(isa_, TOCHA_ISA)
