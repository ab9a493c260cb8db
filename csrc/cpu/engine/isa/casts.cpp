// Conversions between all dtypes over strided runs, and the small movers the copy engine uses.
#include "cpu/engine/casts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cpu/engine/isa/simd.h"

namespace tocha::cpu {
namespace {

// The low byte of v as an int64. Floats that an int32 cannot hold are multiples of 256, but where int64 saturates.
inline uint8_t low_byte(double v) { return static_cast<uint8_t>(static_cast<int64_t>(v)); }
[[gnu::always_inline]] inline uint8_t low_byte(float v) {
#if defined(__aarch64__)
  const uint8_t beyond = v >= 0x1p63f ? 255 : 0;
#else
  const uint8_t beyond = 0;
#endif
  const bool held = v > -0x1p31f && v < 0x1p31f;
  const auto low = static_cast<uint8_t>(static_cast<int32_t>(held ? v : 0.0f));
  return held ? low : beyond;
}

template <class To, class From>
[[gnu::always_inline]] inline To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (is_complex_type<From>) {
    if constexpr (is_complex_type<To>) {
      return To(v);
    } else if constexpr (std::is_same_v<To, bool>) {
      return v.re != 0 || v.im != 0;
    } else {
      return convert<To>(v.re);
    }
  } else if constexpr (is_small_float<From>) {
    return convert<To>(static_cast<float>(v));
  } else if constexpr (is_complex_type<To>) {
    return To(convert<typename To::value_type>(v));
  } else if constexpr (is_small_float<To>) {
    return To(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Out-of-range values take the low bits of a wider conversion, as PyTorch's do.
    if constexpr (std::is_same_v<To, uint8_t>)
      return low_byte(v);
    else if constexpr (sizeof(To) < 4)
      return static_cast<To>(static_cast<int32_t>(v));
    else if constexpr (std::is_same_v<To, uint32_t>)
      return static_cast<To>(static_cast<int64_t>(v));
    else
      return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

// Bytes that are moved in one register. With 64 half of the stores of rows that begin in the middle of a line of the
// cache go to two lines.
#if defined(__AVX2__)
constexpr int kMoved = 32;
#else
constexpr int kMoved = 16;
#endif

// Blocks of so many bytes in the opposite order, as many as a register holds; they stand at its upper end.
template <int kBlock>
struct Turn {
  static constexpr int kWord = kBlock % 8 == 0 ? 8 : kBlock % 4 == 0 ? 4 : kBlock % 2 == 0 ? 2 : 1;
  // Words of less than four bytes do not cross the halves of a register in one instruction.
  static constexpr int kBytes = std::has_single_bit(unsigned{kBlock}) || kBlock % 4 == 0 ? kMoved : 16;
  static constexpr int kUsed = kBytes / kBlock * kBlock;
  using Word =
      std::conditional_t<kWord == 8, uint64_t,
                         std::conditional_t<kWord == 4, uint32_t, std::conditional_t<kWord == 2, uint16_t, uint8_t>>>;

  static constexpr int source(int lane) {
    const int at = lane * kWord - (kBytes - kUsed);
    return at < 0 ? 0 : (kUsed - kBlock - at / kBlock * kBlock + at % kBlock) / kWord;
  }
  template <size_t... lane>
  [[gnu::always_inline]] static void move(char* dst, const char* src, std::index_sequence<lane...>) {
    typedef Word Vector __attribute__((vector_size(kBytes)));
    Vector v;
    std::memcpy(&v, src, sizeof(v));
    v = __builtin_shufflevector(v, v, source(static_cast<int>(lane))...);
    std::memcpy(dst, &v, sizeof(v));
  }
  [[gnu::always_inline]] static void move(char* dst, const char* src) {
    move(dst, src, std::make_index_sequence<kBytes / kWord>{});
  }
};

// Rows this many further on are fetched: those that are written jump back and forth, which the hardware cannot foresee.
constexpr int64_t kRowsAhead = 2;

// Blocks of one row in the opposite order; dst and src are where the rows begin. They are read forward: prefetching of
// reads that go backward is poor.
template <int kBlock>
[[gnu::always_inline]] inline void reverse_row(char* dst, int64_t dst_row, const char* src, int64_t src_row,
                                               int64_t bytes) {
  using Turned = Turn<kBlock>;
  int64_t i = 0;
  if constexpr (Turned::kUsed > 0) {
    for (; i + Turned::kBytes <= bytes; i += Turned::kUsed) {
      __builtin_prefetch(src + kRowsAhead * src_row + i);
      __builtin_prefetch(dst + kRowsAhead * dst_row + i, 1);
      Turned::move(dst + bytes - i - Turned::kBytes, src + i);
    }
    if (Turned::kUsed == Turned::kBytes && bytes >= Turned::kBytes) {
      if (i < bytes) Turned::move(dst, src + bytes - Turned::kBytes);  // the rest and some of what is done already
      return;
    }
  }
  for (; i < bytes; i += kBlock) std::memcpy(dst + bytes - kBlock - i, src + i, kBlock);
}

template <int kBlock>
void reverse_rows(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    reverse_row<kBlock>(dst + r * dst_row, dst_row, src + r * src_row, src_row, n * kBlock);
}

void copy_rows(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t bytes) {
  using Vector = Turn<kMoved>;  // a block as wide as the register stays as it is
  for (int64_t r = 0; r < rows; ++r, dst += dst_row, src += src_row) {
    if (bytes < kMoved) {
      std::memcpy(dst, src, static_cast<size_t>(bytes));
      continue;
    }
    for (int64_t i = 0; i + kMoved <= bytes; i += kMoved) {
      __builtin_prefetch(src + kRowsAhead * src_row + i);
      __builtin_prefetch(dst + kRowsAhead * dst_row + i, 1);
      Vector::move(dst + i, src + i);
    }
    if (bytes % kMoved) Vector::move(dst + bytes - kMoved, src + bytes - kMoved);
  }
}

template <class To, class From>
void cast(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {
  if (ss == 0) {
    if (n <= 0) return;
    To v = convert<To>(*reinterpret_cast<const From*>(src));
    if (ds == static_cast<int64_t>(sizeof(To))) {
      To* d = reinterpret_cast<To*>(dst);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) d[i] = v;
    } else {
      for (int64_t i = 0; i < n; ++i) *reinterpret_cast<To*>(dst + i * ds) = v;
    }
    return;
  }
  if (ds == static_cast<int64_t>(sizeof(To)) && ss == static_cast<int64_t>(sizeof(From))) {
    if constexpr (std::is_same_v<To, From>) {
      std::memmove(dst, src, static_cast<size_t>(n) * sizeof(To));
    } else {
      To* d = reinterpret_cast<To*>(dst);
      const From* s = reinterpret_cast<const From*>(src);
      int64_t i = 0;
#if defined(__F16C__)
      if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
        for (; i + 8 <= n; i += 8)
          _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
      } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) {
        for (; i + 8 <= n; i += 8)
          _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), 0));
      }
#endif
#pragma GCC ivdep
      for (; i < n; ++i) d[i] = convert<To>(s[i]);
    }
    return;
  }
  if constexpr (std::is_same_v<To, From>) {
    constexpr int64_t size = sizeof(To);
    if (ds == size && ss == -size) return reverse_row<size>(dst, 0, src - (n - 1) * size, 0, n * size);
  }
  for (int64_t i = 0; i < n; ++i)
    *reinterpret_cast<To*>(dst + i * ds) = convert<To>(*reinterpret_cast<const From*>(src + i * ss));
}

template <class T>
void conj_run(char* data, int64_t n) {
  T* p = reinterpret_cast<T*>(data);
  for (int64_t i = 0; i < n; ++i) p[i].im = static_cast<typename T::value_type>(-p[i].im);
}

void conj(DType d, char* data, int64_t n) {
  if (d == DType::Complex32) conj_run<Complex<Half>>(data, n);
  if (d == DType::Complex64) conj_run<Complex<float>>(data, n);
  if (d == DType::Complex128) conj_run<Complex<double>>(data, n);
}

template <class T>
void negate_run(char* data, int64_t n) {
  T* p = reinterpret_cast<T*>(data);
  if constexpr (is_small_float<T>) {
    for (int64_t i = 0; i < n; ++i) p[i] = T(-static_cast<float>(p[i]));
  } else if constexpr (is_complex_type<T>) {
    using Part = typename T::value_type;
    for (int64_t i = 0; i < n; ++i) p[i] = T(static_cast<Part>(-p[i].re), static_cast<Part>(-p[i].im));
  } else if constexpr (!std::is_same_v<T, bool>) {
    for (int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(-p[i]);
  }
}

void negate(DType d, char* data, int64_t n) {
  switch (d) {
#define _(e, t, name, code) \
  case DType::e:            \
    return negate_run<t>(data, n);
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      return;
  }
}

void stream(char* dst, const char* src, int64_t bytes) {
#if defined(__AVX512F__)
  int64_t head = std::min<int64_t>(bytes, (64 - (reinterpret_cast<uintptr_t>(dst) & 63)) & 63);
  std::memcpy(dst, src, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + 64 <= bytes; i += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + i), _mm512_loadu_si512(src + i));
  std::memcpy(dst + i, src + i, static_cast<size_t>(bytes - i));
#elif defined(__AVX2__)
  int64_t head = std::min<int64_t>(bytes, (32 - (reinterpret_cast<uintptr_t>(dst) & 31)) & 31);
  std::memcpy(dst, src, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + 32 <= bytes; i += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i)));
  std::memcpy(dst + i, src + i, static_cast<size_t>(bytes - i));
#else
  std::memcpy(dst, src, static_cast<size_t>(bytes));
#endif
}

struct Bytes16 {
  uint64_t low, high;
};

// Squares of whole vectors, transposed in registers; the rest is left to transpose_tile. Only moves: any bits will do.
template <class T>
void transpose_squares(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t cols) {
  constexpr int64_t n = gemm::kLanes<T>, size = sizeof(T);
  for (int64_t j = 0; j < cols; j += n) {
    for (int64_t i = 0; i < rows; i += n) {
      gemm::Vec<T> v[n];
#pragma GCC unroll 16
      for (int64_t k = 0; k < n; ++k) std::memcpy(&v[k], src + (i + k) * src_row + j * size, sizeof(v[k]));
      gemm::transpose<T>(v);
#pragma GCC unroll 16
      for (int64_t k = 0; k < n; ++k) std::memcpy(dst + (j + k) * dst_row + i * size, &v[k], sizeof(v[k]));
    }
  }
}

template <class T>
void transpose_tile(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t cols) {
  constexpr int64_t kBlock = 16;
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    using Real = std::conditional_t<sizeof(T) == 4, float, double>;
    constexpr int64_t n = gemm::kLanes<Real>, size = sizeof(T);
    const int64_t whole_rows = rows / n * n, whole_cols = cols / n * n;
    if (whole_rows && whole_cols) {
      transpose_squares<Real>(dst, dst_row, src, src_row, whole_rows, whole_cols);
      if (whole_rows < rows) {
        transpose_tile<T>(dst + whole_rows * size, dst_row, src + whole_rows * src_row, src_row, rows - whole_rows,
                          whole_cols);
      }
      if (whole_cols < cols) {
        transpose_tile<T>(dst + whole_cols * dst_row, dst_row, src + whole_cols * size, src_row, rows,
                          cols - whole_cols);
      }
      return;
    }
  }
  for (int64_t i0 = 0; i0 < rows; i0 += kBlock) {
    int64_t i1 = i0 + kBlock < rows ? i0 + kBlock : rows;
    for (int64_t j0 = 0; j0 < cols; j0 += kBlock) {
      int64_t j1 = j0 + kBlock < cols ? j0 + kBlock : cols;
      if (i1 - i0 == kBlock && j1 - j0 == kBlock) {
        T tile[kBlock][kBlock];
        for (int64_t i = 0; i < kBlock; ++i) {
          const T* s = reinterpret_cast<const T*>(src + (i0 + i) * src_row) + j0;
          for (int64_t j = 0; j < kBlock; ++j) tile[j][i] = s[j];
        }
        for (int64_t j = 0; j < kBlock; ++j)
          std::memcpy(reinterpret_cast<T*>(dst + (j0 + j) * dst_row) + i0, tile[j], sizeof(tile[j]));
      } else {
        for (int64_t j = j0; j < j1; ++j)
          for (int64_t i = i0; i < i1; ++i)
            reinterpret_cast<T*>(dst + j * dst_row)[i] = reinterpret_cast<const T*>(src + i * src_row)[j];
      }
    }
  }
}

void transpose(int itemsize, char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t cols) {
  switch (itemsize) {
    case 1:
      return transpose_tile<uint8_t>(dst, dst_row, src, src_row, rows, cols);
    case 2:
      return transpose_tile<uint16_t>(dst, dst_row, src, src_row, rows, cols);
    case 4:
      return transpose_tile<uint32_t>(dst, dst_row, src, src_row, rows, cols);
    case 8:
      return transpose_tile<uint64_t>(dst, dst_row, src, src_row, rows, cols);
    default:
      return transpose_tile<Bytes16>(dst, dst_row, src, src_row, rows, cols);
  }
}

template <class From>
constexpr void fill_row(CastTable& t) {
  CastLoop* row = t.loops[static_cast<int>(DTypeOf<From>::value)];
#define _(e, type, name, code) row[static_cast<int>(DType::e)] = cast<type, From>;
  TOCHA_FORALL_DTYPES(_)
#undef _
}

template <size_t... i>
constexpr void fill_reversals(CastTable& t, std::index_sequence<i...>) {
  ((t.reverse_rows[i] = reverse_rows<static_cast<int>(i + 1)>), ...);
}

constexpr CastTable make_table() {
  CastTable t{};
#define _(e, type, name, code) fill_row<type>(t);
  TOCHA_FORALL_DTYPES(_)
#undef _
  t.conj = conj;
  t.negate = negate;
  t.stream = stream;
  t.transpose = transpose;
  fill_reversals(t, std::make_index_sequence<kMostBlockBytes>{});
  t.copy_rows = copy_rows;
  return t;
}

}  // namespace

namespace TOCHA_ISA_TABLES {
constexpr CastTable cast_table = make_table();
}

}  // namespace tocha::cpu
