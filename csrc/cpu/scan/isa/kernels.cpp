// Inner loops of cumsum and cumprod. A scan is a chain of dependent operations: sums break it by adding shifted
// copies of a vector, products (which must not be regrouped: they would overflow elsewhere) by advancing
// several rows in step.
#include "cpu/scan/kernels.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "core/complex.h"
#include "core/dtype.h"
#include "cpu/engine/isa/vectors.h"

TOCHA_ISA_BEGIN
namespace scans {
namespace {

using cpu::ScanCarry;
using cpu::ScanOp;
using cpu::ScanPiece;

// What sums and products are kept in.
template <class T, bool Integer = std::is_integral_v<T>>
struct AccOf {
  using type = T;
};
template <class T>
struct AccOf<T, true> {
  using type = std::make_unsigned_t<T>;
};
template <>
struct AccOf<Half> {
  using type = float;
};
template <>
struct AccOf<BFloat16> {
  using type = float;
};
template <>
struct AccOf<float> {
  using type = double;
};
template <>
struct AccOf<Complex<float>> {
  using type = Complex<double>;
};

template <class Acc, class T>
inline Acc widen(T x) {
  return static_cast<Acc>(x);
}

template <class T, class Acc>
inline T narrow(Acc a) {
  if constexpr (std::is_same_v<T, bool>)
    return a != 0;
  else
    return static_cast<T>(a);
}

struct Sum {
  template <class A>
  static A identity() {
    return A(0);
  }
  template <class A>
  static A apply(A a, A b) {
    return static_cast<A>(a + b);
  }
};

struct Product {
  template <class A>
  static A identity() {
    return A(1);
  }
  template <class A>
  static A apply(A a, A b) {
    // Narrow unsigned types multiply as int, which would overflow; 64 bits wrap as they should.
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(uint64_t{a} * uint64_t{b});
    else
      return a * b;
  }
};

template <class Acc>
Acc load(const ScanCarry& carry) {
  Acc a;
  std::memcpy(&a, carry.bytes, sizeof(Acc));
  return a;
}

template <class Acc>
void save(ScanCarry& carry, Acc a) {
  std::memcpy(carry.bytes, &a, sizeof(Acc));
}

using vectors::kVectorBytes;

// A register's worth of accumulators, added up from the left in log2(kWidth) steps.
template <class Acc>
struct SumVector {
  static constexpr int kWidth = kVectorBytes / sizeof(Acc) < 16 ? kVectorBytes / sizeof(Acc) : 16;
  typedef Acc Vec __attribute__((vector_size(kWidth * sizeof(Acc))));

  template <int K, size_t... I>
  static inline __attribute__((always_inline)) void add_shifted(Vec& v, std::index_sequence<I...>) {
    Vec zero = {};
    v += __builtin_shufflevector(zero, v, (I < K ? I : kWidth + I - K)...);
  }

  static inline __attribute__((always_inline)) void prefix(Vec& v) {
    constexpr auto lanes = std::make_index_sequence<kWidth>();
    add_shifted<1>(v, lanes);
    if constexpr (kWidth > 2) add_shifted<2>(v, lanes);
    if constexpr (kWidth > 4) add_shifted<4>(v, lanes);
    if constexpr (kWidth > 8) add_shifted<8>(v, lanes);
  }
};

// Two accumulators to a register are added up no faster than one after the other.
template <class Acc>
constexpr bool adds_vectors() {
  if constexpr (std::is_arithmetic_v<Acc>)
    return SumVector<Acc>::kWidth > 2;
  else
    return false;
}

template <class Op, class In, class Out>
struct Loops {
  using Acc = typename AccOf<Out>::type;

  static void identity(ScanCarry* carry) { save(*carry, Op::template identity<Acc>()); }

  static void combine(ScanCarry* a, const ScanCarry* b) { save(*a, Op::apply(load<Acc>(*a), load<Acc>(*b))); }

  static void reduce(const In* in, int64_t n, ScanCarry* carry) {
    constexpr int kParts = 16;
    Acc part[kParts];
    for (int p = 0; p < kParts; ++p) part[p] = Op::template identity<Acc>();
    int64_t i = 0;
    for (; i + kParts <= n; i += kParts) {
      for (int p = 0; p < kParts; ++p) part[p] = Op::apply(part[p], widen<Acc>(in[i + p]));
    }
    for (; i < n; ++i) part[0] = Op::apply(part[0], widen<Acc>(in[i]));
    Acc total = load<Acc>(*carry);
    for (int p = 0; p < kParts; ++p) total = Op::apply(total, part[p]);
    save(*carry, total);
  }

  template <int Streams>
  static void scan_fixed(const In* in, Out* out, int64_t stride, int64_t n, const ScanCarry* carries) {
    Acc acc[Streams];
    for (int s = 0; s < Streams; ++s) acc[s] = load<Acc>(carries[s]);
    for (int64_t i = 0; i < n; ++i) {
      for (int s = 0; s < Streams; ++s) {
        acc[s] = Op::apply(acc[s], widen<Acc>(in[s * stride + i]));
        out[s * stride + i] = narrow<Out>(acc[s]);
      }
    }
  }

  // Blocks that stay in the first cache are widened, summed and rounded in three vector loops. The total of a
  // vector is known before its carry arrives, so only one addition per vector is serial.
  static void scan_sum(const In* in, Out* out, int64_t n, Acc carry) {
    using V = SumVector<Acc>;
    constexpr int kBlock = 128;
    alignas(64) Acc block[kBlock];
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
      for (int p = 0; p < kBlock; ++p) block[p] = widen<Acc>(in[i + p]);
      for (int p = 0; p < kBlock; p += V::kWidth) {
        typename V::Vec v;
        std::memcpy(&v, block + p, sizeof(v));
        V::prefix(v);
        Acc total = v[V::kWidth - 1];
        v += carry;
        carry = static_cast<Acc>(carry + total);
        std::memcpy(block + p, &v, sizeof(v));
      }
      for (int p = 0; p < kBlock; ++p) out[i + p] = narrow<Out>(block[p]);
    }
    for (; i < n; ++i) {
      carry = Op::apply(carry, widen<Acc>(in[i]));
      out[i] = narrow<Out>(carry);
    }
  }

  static void scan(const In* in, Out* out, int64_t stride, int64_t streams, int64_t n, const ScanCarry* carries) {
    int64_t s = 0;
    if constexpr (std::is_same_v<Op, Sum> && adds_vectors<Acc>()) {
      for (; s < streams; ++s) scan_sum(in + s * stride, out + s * stride, n, load<Acc>(carries[s]));
    } else {
      // More rows in step than these would compete for the cache where they are a power of two apart.
      for (; s + 4 <= streams; s += 4) scan_fixed<4>(in + s * stride, out + s * stride, stride, n, carries + s);
      for (; s < streams; ++s) scan_fixed<1>(in + s * stride, out + s * stride, stride, n, carries + s);
    }
  }

  static void columns(const In* in, Out* out, int64_t n, int64_t pitch, int64_t width) {
    Acc acc[cpu::kScanTile];
    for (int64_t j = 0; j < width; ++j) acc[j] = Op::template identity<Acc>();
    for (int64_t i = 0; i < n; ++i) {
      const In* from = in + i * pitch;
      Out* to = out + i * pitch;
      for (int64_t j = 0; j < width; ++j) {
        acc[j] = Op::apply(acc[j], widen<Acc>(from[j]));
        to[j] = narrow<Out>(acc[j]);
      }
    }
  }
};

template <class In, class Out>
struct Types {
  using in = In;
  using out = Out;
};

// Calls f(Types<In, Out>) for a supported pair; false for another.
template <class F>
bool with_types(DType in, DType out, F&& f) {
  if (in == out) {
    switch (in) {
#define _(e, t)       \
  case DType::e:      \
    f(Types<t, t>()); \
    return true;
      _(UInt8, uint8_t)
      _(Int8, int8_t)
      _(Int16, int16_t)
      _(Int32, int32_t)
      _(Int64, int64_t)
      _(UInt16, uint16_t)
      _(UInt32, uint32_t)
      _(UInt64, uint64_t)
      _(Float16, Half)
      _(BFloat16, BFloat16)
      _(Float32, float)
      _(Float64, double)
      _(Complex64, Complex<float>)
      _(Complex128, Complex<double>)
#undef _
      default:
        return false;
    }
  }
  if (out != DType::Int64) return false;
  switch (in) {
#define _(e, t)             \
  case DType::e:            \
    f(Types<t, int64_t>()); \
    return true;
    _(Bool, bool)
    _(UInt8, uint8_t)
    _(Int8, int8_t)
    _(Int16, int16_t)
    _(Int32, int32_t)
    _(UInt16, uint16_t)
    _(UInt32, uint32_t)
    _(UInt64, uint64_t)
#undef _
    default:
      return false;
  }
}

// f(Loops, in, out)
template <class F>
void with_loops(const ScanPiece& piece, F&& f) {
  with_types(piece.in_dtype, piece.out_dtype, [&](auto types) {
    using In = typename decltype(types)::in;
    using Out = typename decltype(types)::out;
    const In* in = static_cast<const In*>(piece.in);
    Out* out = static_cast<Out*>(piece.out);
    if (piece.op == ScanOp::sum)
      f(Loops<Sum, In, Out>(), in, out);
    else
      f(Loops<Product, In, Out>(), in, out);
  });
}

bool supports(DType in, DType out) {
  return with_types(in, out, [](auto) {});
}

void identity(const ScanPiece& piece, ScanCarry* carry) {
  with_loops(piece, [&](auto loops, auto*, auto*) { loops.identity(carry); });
}

void combine(const ScanPiece& piece, ScanCarry* a, const ScanCarry* b) {
  with_loops(piece, [&](auto loops, auto*, auto*) { loops.combine(a, b); });
}

void reduce(const ScanPiece& piece, int64_t begin, int64_t end, ScanCarry* carry) {
  with_loops(piece, [&](auto loops, auto* in, auto*) { loops.reduce(in + begin, end - begin, carry); });
}

void scan(const ScanPiece& piece, int64_t begin, int64_t stride, int64_t streams, int64_t n, const ScanCarry* carries) {
  with_loops(piece, [&](auto loops, auto* in, auto* out) {
    loops.scan(in + begin, out + begin, stride, streams, n, carries);
  });
}

void columns(const ScanPiece& piece, int64_t begin, int64_t n, int64_t pitch, int64_t width) {
  with_loops(piece, [&](auto loops, auto* in, auto* out) { loops.columns(in + begin, out + begin, n, pitch, width); });
}

}  // namespace
}  // namespace scans
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {

extern const ScanKernels scan_kernels;
const ScanKernels scan_kernels = {
    scans::supports, scans::identity, scans::reduce, scans::combine, scans::scan, scans::columns,
};

}  // namespace tocha::cpu::TOCHA_ISA_TABLES
