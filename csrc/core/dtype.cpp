#include "core/dtype.h"

#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace tocha {

namespace {

template <class T>
constexpr Kind kind_of() {
  if (std::is_same_v<T, bool>) return Kind::boolean;
  if (std::is_integral_v<T>) return Kind::integer;
  if (std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>) return Kind::complex;
  return Kind::floating;
}

template <class T>
constexpr bool signed_of() {
  return !(std::is_same_v<T, bool> || std::is_unsigned_v<T>);
}

}  // namespace

// PyTorch's word for a dtype, which messages use.
constexpr const char* scalar_name(DType d) {
  constexpr const char* names[kNumDTypes] = {
      "Bool", "Byte",     "Char",  "Short",  "Int",          "Long",          "UInt16",        "UInt32",      "UInt64",
      "Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble", "Float8_e4m3fn", "Float8_e5m2",
  };
  return names[static_cast<int>(d)];
}

const DTypeInfo kDTypes[kNumDTypes] = {
#define _(e, t, n, c) {scalar_name(DType::e), sizeof(t), kind_of<t>(), signed_of<t>()},
    TOCHA_FORALL_DTYPES(_)
#undef _
};

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
