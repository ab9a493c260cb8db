#include "cpu/indexing/kernels.h"

#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

TOCHA_ISA_BEGIN
namespace {

using cpu::Merge;
using cpu::MergeLoops;
using cpu::PickLoops;
using cpu::TakeLoops;

struct Bytes16 {
  uint64_t a, b;
};

template <class T>
T& element(char* p) {
  return *reinterpret_cast<T*>(p);
}
template <class T>
const T& element(const char* p) {
  return *reinterpret_cast<const T*>(p);
}

// ---- merges

// What arithmetic happens in: integers wrap around, small floats go through float.
template <class T>
auto widen(T x) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return static_cast<uint64_t>(x);
  else if constexpr (is_small_float<T>)
    return static_cast<float>(x);
  else if constexpr (std::is_same_v<T, Complex<Half>>)
    return Complex<float>(x);
  else
    return x;
}

template <Merge M, class T>
T merged(T old, T x) {
  if constexpr (M == Merge::assign) {
    return x;
  } else if constexpr (M == Merge::add) {
    if constexpr (std::is_same_v<T, bool>)
      return old || x;
    else
      return static_cast<T>(widen(old) + widen(x));
  } else if constexpr (M == Merge::multiply) {
    if constexpr (std::is_same_v<T, bool>)
      return old && x;
    else
      return static_cast<T>(widen(old) * widen(x));
  } else if constexpr (is_small_float<T>) {
    return static_cast<T>(merged<M, float>(old, x));
  } else {  // a NaN on either side stays
    const bool better = M == Merge::minimum ? !(x >= old) : !(x <= old);
    return better & (old == old) ? x : old;  // without jumps, which nobody could foresee
  }
}

template <Merge M, class T>
void run(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {
  constexpr int64_t size = sizeof(T);
  if (ds == size && ss == size) {
    if constexpr (M == Merge::assign) {
      std::memcpy(dst, src, static_cast<size_t>(n * size));
    } else {
      T* __restrict d = reinterpret_cast<T*>(dst);
      const T* __restrict s = reinterpret_cast<const T*>(src);
      for (int64_t i = 0; i < n; ++i) d[i] = merged<M, T>(d[i], s[i]);
    }
    return;
  }
  if (ds == size && ss == 0) {
    T* d = reinterpret_cast<T*>(dst);
    const T x = element<T>(src);
    for (int64_t i = 0; i < n; ++i) d[i] = merged<M, T>(d[i], x);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    T& d = element<T>(dst + i * ds);
    d = merged<M, T>(d, element<T>(src + i * ss));
  }
}

template <Merge M, class T>
void at(char* dst, const int64_t* offsets, const char* src, int64_t ss, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T& d = element<T>(dst + offsets[i]);
    d = merged<M, T>(d, element<T>(src + i * ss));
  }
}

template <Merge M, class T>
void along(char* dst, int64_t ds, int64_t step, const char* index, int64_t is, const char* src, int64_t ss, int64_t n) {
  constexpr int64_t size = sizeof(T);
  if (ds == 0 && step == size && is == sizeof(int64_t) && (ss == size || ss == 0)) {  // a row to places of a row
    T* d = reinterpret_cast<T*>(dst);
    const T* s = reinterpret_cast<const T*>(src);
    const int64_t* at = reinterpret_cast<const int64_t*>(index);
    const int64_t by = ss / size;
    for (int64_t i = 0; i < n; ++i) d[at[i]] = merged<M, T>(d[at[i]], s[i * by]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    T& d = element<T>(dst + i * ds + element<int64_t>(index + i * is) * step);
    d = merged<M, T>(d, element<T>(src + i * ss));
  }
}

template <Merge M, class T>
constexpr MergeLoops merge_loops() {
  constexpr bool ordered = M == Merge::minimum || M == Merge::maximum;
  if constexpr (ordered && is_complex_type<T>)
    return {nullptr, nullptr, nullptr};
  else
    return {run<M, T>, at<M, T>, along<M, T>};
}

// ---- moves

template <class T>
void take_at(char* dst, int64_t ds, const char* src, const int64_t* offsets, int64_t n) {
  for (int64_t i = 0; i < n; ++i) element<T>(dst + i * ds) = element<T>(src + offsets[i]);
}

int64_t first_outside(const char* index, int64_t stride, int64_t low, int64_t high, int64_t n) {
  const uint64_t least = static_cast<uint64_t>(low), most = static_cast<uint64_t>(high - 1);
  // The sign bit is set where x is below or above.
  auto beyond = [=](int64_t x) { return (static_cast<uint64_t>(x) - least) | (most - static_cast<uint64_t>(x)); };
  constexpr int64_t kBlock = 1024;  // found wrong as a whole, then searched
  for (int64_t b = 0; b < n; b += kBlock) {
    int64_t e = b + kBlock < n ? b + kBlock : n;
    uint64_t bad = 0;
    if (stride == sizeof(int64_t)) {
      const int64_t* p = reinterpret_cast<const int64_t*>(index);
      for (int64_t i = b; i < e; ++i) bad |= beyond(p[i]);
    } else {
      for (int64_t i = b; i < e; ++i) bad |= beyond(element<int64_t>(index + i * stride));
    }
    if (bad >> 63 == 0) continue;
    for (int64_t i = b; i < e; ++i)
      if (beyond(element<int64_t>(index + i * stride)) >> 63) return i;
  }
  return n;
}

// Elements of a row to a row, as long as the indices are in order: some are checked, then used.
template <class T>
int64_t take_from_row(T* dst, const T* src, int64_t size, const int64_t* at, int64_t n) {
  constexpr int64_t kAtOnce = 256;
  for (int64_t b = 0; b < n; b += kAtOnce) {
    const int64_t count = n - b < kAtOnce ? n - b : kAtOnce;
    const int64_t good = first_outside(reinterpret_cast<const char*>(at + b), sizeof(int64_t), 0, size, count);
    if (good < count) return b + good;
    for (int64_t i = b; i < b + count; ++i) dst[i] = src[at[i]];
  }
  return n;
}

template <class T>
int64_t take_along(char* dst, int64_t ds, const char* src, int64_t ss, int64_t step, int64_t size, const char* index,
                   int64_t is, int64_t n) {
  constexpr int64_t width = sizeof(T);
  if (ds == width && ss == 0 && step == width && is == sizeof(int64_t)) {
    return take_from_row(reinterpret_cast<T*>(dst), reinterpret_cast<const T*>(src), size,
                         reinterpret_cast<const int64_t*>(index), n);
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t k = element<int64_t>(index + i * is);
    if (static_cast<uint64_t>(k) >= static_cast<uint64_t>(size)) [[unlikely]]
      return i;
    element<T>(dst + i * ds) = element<T>(src + i * ss + k * step);
  }
  return n;
}

// Without jumps, which nobody could foresee: what is not selected is written over by what comes next.
template <class T>
int64_t select_of(const int64_t* index, const char* src, int64_t ss, int64_t low, int64_t high, int64_t step, int64_t n,
                  int64_t* offsets, T* selected) {
  const uint64_t count = static_cast<uint64_t>(high - low);
  int64_t i = 0, k = 0;
#if defined(__AVX512VL__)
  if constexpr (sizeof(T) == 4) {
    for (; ss == sizeof(T) && i + 8 <= n; i += 8) {
      const __m512i at = _mm512_loadu_si512(index + i);
      const __mmask8 in = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(at, _mm512_set1_epi64(low)),
                                                  _mm512_set1_epi64(static_cast<int64_t>(count)));
      const __m256i elements = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i * ss));
      _mm512_storeu_si512(offsets + k,
                          _mm512_maskz_compress_epi64(in, _mm512_mullo_epi64(at, _mm512_set1_epi64(step))));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(selected + k), _mm256_maskz_compress_epi32(in, elements));
      k += __builtin_popcount(in);
    }
  }
#endif
  for (; i < n; ++i) {
    offsets[k] = index[i] * step;
    selected[k] = element<T>(src + i * ss);
    k += static_cast<uint64_t>(index[i] - low) < count;
  }
  return k;
}

int64_t select(const int64_t* index, const char* src, int64_t ss, int64_t itemsize, int64_t low, int64_t high,
               int64_t step, int64_t n, int64_t* offsets, char* selected) {
  auto of = [&](auto t) {
    return select_of(index, src, ss, low, high, step, n, offsets, reinterpret_cast<decltype(t)*>(selected));
  };
  switch (itemsize) {
    case 1:
      return of(uint8_t{});
    case 2:
      return of(uint16_t{});
    case 4:
      return of(uint32_t{});
    case 8:
      return of(uint64_t{});
    default:
      return of(Bytes16{});
  }
}

int64_t offsets(int64_t* out, const char* index, int64_t stride, int64_t size, int64_t step, bool plus, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t k = element<int64_t>(index + i * stride);
    if (k < 0) k += size;
    if (static_cast<uint64_t>(k) >= static_cast<uint64_t>(size)) [[unlikely]]
      return i;
    out[i] = (plus ? out[i] : 0) + k * step;
  }
  return n;
}

template <class T>
void fill_where_of(char* dst, int64_t ds, const char* mask, int64_t ms, T x, int64_t n) {
  if (ds == sizeof(T) && ms == 1) {
    T* d = reinterpret_cast<T*>(dst);
    const uint8_t* m = reinterpret_cast<const uint8_t*>(mask);
    for (int64_t i = 0; i < n; ++i) d[i] = m[i] ? x : d[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    if (element<uint8_t>(mask + i * ms)) element<T>(dst + i * ds) = x;
}

void fill_where(int64_t itemsize, char* dst, int64_t ds, const char* mask, int64_t ms, const char* value, int64_t n) {
  switch (itemsize) {
    case 1:
      return fill_where_of(dst, ds, mask, ms, element<uint8_t>(value), n);
    case 2:
      return fill_where_of(dst, ds, mask, ms, element<uint16_t>(value), n);
    case 4:
      return fill_where_of(dst, ds, mask, ms, element<uint32_t>(value), n);
    case 8:
      return fill_where_of(dst, ds, mask, ms, element<uint64_t>(value), n);
    default:
      return fill_where_of(dst, ds, mask, ms, element<Bytes16>(value), n);
  }
}

template <class T>
T quotient(T sum, int64_t count) {
  if constexpr (is_complex_type<T>) {
    using R = typename T::value_type;
    const auto n = static_cast<R>(count);
    return {static_cast<R>(sum.re / n), static_cast<R>(sum.im / n)};
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(count));
  } else if constexpr (std::is_integral_v<T>) {
    int64_t s = sum, q = s / count;
    return static_cast<T>(s % count < 0 ? q - 1 : q);
  } else if constexpr (std::is_same_v<T, double>) {
    return sum / static_cast<double>(count);
  } else {
    return static_cast<T>(static_cast<float>(sum) / static_cast<float>(count));
  }
}

template <class T>
void divide(char* sums, int64_t ds, const char* counts, int64_t cs, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t c = element<int64_t>(counts + i * cs);
    if (c > 1) element<T>(sums + i * ds) = quotient(element<T>(sums + i * ds), c);
  }
}

// The type that moves elements of this size.
template <size_t N>
using Mover = std::conditional_t<
    N == 1, uint8_t,
    std::conditional_t<N == 2, uint16_t,
                       std::conditional_t<N == 4, uint32_t, std::conditional_t<N == 8, uint64_t, Bytes16>>>>;

template <class T>
constexpr auto divide_of() {
  using F = void (*)(char*, int64_t, const char*, int64_t, int64_t);
  if constexpr (std::is_same_v<T, bool>)
    return F(nullptr);
  else
    return F(divide<T>);
}

constexpr PickLoops make_table() {
  PickLoops t{};
#define _(e, T, n, c)                                                                  \
  {                                                                                    \
    constexpr int d = static_cast<int>(DType::e);                                      \
    using M = Mover<sizeof(T)>;                                                        \
    t.merge[static_cast<int>(Merge::assign)][d] = merge_loops<Merge::assign, M>();     \
    t.merge[static_cast<int>(Merge::add)][d] = merge_loops<Merge::add, T>();           \
    t.merge[static_cast<int>(Merge::multiply)][d] = merge_loops<Merge::multiply, T>(); \
    t.merge[static_cast<int>(Merge::minimum)][d] = merge_loops<Merge::minimum, T>();   \
    t.merge[static_cast<int>(Merge::maximum)][d] = merge_loops<Merge::maximum, T>();   \
    t.take[d] = {take_at<M>, take_along<M>};                                           \
    t.divide[d] = divide_of<T>();                                                      \
  }
  TOCHA_FORALL_DTYPES(_)
#undef _
  t.first_outside = first_outside;
  t.select = select;
#if defined(__AVX512VL__)
  t.selects_vectors = true;
#endif
  t.offsets = offsets;
  t.fill_where = fill_where;
  return t;
}

}  // namespace
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const PickLoops pick_loops;
const PickLoops pick_loops = make_table();
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
