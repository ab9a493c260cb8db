// Packing for matrix units, on vectors of whatever instruction set the including file is compiled for. Included once by
// each file of this folder.
#pragma once

#include <cstring>

#include "cpu/engine/isa/convert.h"
#include "cpu/units/matrix_unit.h"

TOCHA_ISA_BEGIN
namespace units {

using gemm::interleave_half;
using gemm::kLanes;
using gemm::load;
using gemm::store;
using gemm::Vec;

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The first `count` lanes, fewer than there are; the others are zero.
template <class T>
inline Vec<T> load_first(const T* p, int64_t count) {
#if defined(__AVX512BW__)
  const uint64_t lanes = (uint64_t{1} << count * static_cast<int64_t>(sizeof(T))) - 1;
  return (Vec<T>)_mm512_maskz_loadu_epi8(lanes, p);
#else
  return gemm::load_first<T>(p, count);
#endif
}
template <class T>
inline void store_first(T* p, Vec<T> v, int64_t count) {
#if defined(__AVX512BW__)
  const uint64_t lanes = (uint64_t{1} << count * static_cast<int64_t>(sizeof(T))) - 1;
  _mm512_mask_storeu_epi8(p, lanes, (__m512i)v);
#else
  gemm::store_first<T>(p, v, count);
#endif
}

template <class P>
constexpr cpu::MatrixUnit unit_of(const char* name, int64_t rows, int64_t speed, void (*multiply)(const cpu::UnitJob&),
                                  void (*finish)(const cpu::UnitFinish&)) {
  return {name,
          rows,
          P::kWidth,
          sizeof(typename P::Word),
          sizeof(typename P::Element),
          speed,
          multiply,
          P::pack_rows,
          P::pack_words,
          P::zip,
          P::copy_rows,
          P::unzip,
          finish};
}

// Words of type W that hold elements of type E, in panels of kColumns columns.
template <class E, class W, int kColumns>
struct Packing {
  using Element = E;
  using Word = W;
  static constexpr int64_t kWidth = kColumns;
  static constexpr int kDepth = sizeof(W) / sizeof(E);
  static constexpr int kWords = kLanes<W>;
  static constexpr int64_t kBlockWords = cpu::kBlockBytes / sizeof(W);
  static constexpr int64_t kBlockDepth = cpu::kBlockBytes / sizeof(E);
  static_assert(kColumns % kWords == 0);

  // Rows of E become rows of words: each round moves one bit of the row's number into the lane's.
  static inline __attribute__((always_inline)) void interleave(Vec<E> (&v)[kDepth]) {
    constexpr auto lanes = std::make_index_sequence<kLanes<E>>{};
#pragma GCC unroll 4
    for (int round = 1; round < kDepth; round *= 2) {
      Vec<E> w[kDepth];
#pragma GCC unroll 8
      for (int i = 0; i < kDepth / 2; ++i) {
        w[2 * i] = interleave_half<E, false>(v[i], v[i + kDepth / 2], lanes);
        w[2 * i + 1] = interleave_half<E, true>(v[i], v[i + kDepth / 2], lanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kDepth; ++i) v[i] = w[i];
    }
  }

  // The word of one column.
  static W word(const E* b, int64_t b_k, int64_t k) {
    E parts[kDepth] = {};
    for (int64_t i = 0; i < k; ++i) parts[i] = b[i * b_k];
    W w;
    std::memcpy(&w, parts, sizeof(w));
    return w;
  }

  // One row of words from at most kDepth rows with the columns side by side.
  static void zip(const void* const* rows, int64_t k, int64_t n, char* out, int64_t out_panel) {
    for (int64_t panel = 0; panel < n; panel += kColumns, out += out_panel) {
      const int64_t width = least(kColumns, n - panel);
      for (int64_t j = 0; j < width; j += kLanes<E>) {
        const int64_t count = least(kLanes<E>, width - j);
        Vec<E> v[kDepth];
#pragma GCC unroll 8
        for (int i = 0; i < kDepth; ++i) {
          if (i >= k) {
            v[i] = Vec<E>{};
          } else {
            const E* row = static_cast<const E*>(rows[i]) + panel + j;
            v[i] = count == kLanes<E> ? load<E>(row) : load_first<E>(row, count);
          }
        }
        interleave(v);
        W* to = reinterpret_cast<W*>(out) + j;
#pragma GCC unroll 8
        for (int i = 0; i < kDepth; ++i) {
          const int64_t left = count - i * kWords;
          if (left >= kWords)
            std::memcpy(to + i * kWords, &v[i], sizeof(v[i]));
          else if (left > 0)
            store_first<W>(to + i * kWords, (Vec<W>)v[i], left);
        }
      }
    }
  }
  static void zip_rows(const E* b, int64_t b_k, int64_t k, int64_t n, char* out, int64_t out_panel) {
    const void* rows[kDepth];
    for (int64_t i = 0; i < k; ++i) rows[i] = b + i * b_k;
    zip(rows, k, n, out, out_panel);
  }

  // A vector of every step-th element, `left` of them or as many as it holds; the others are zero.
  static inline __attribute__((always_inline)) Vec<E> gather(const E* in, int64_t step, int64_t left) {
    auto first = [&](const E* p, int64_t count) {
      return count >= kLanes<E> ? load<E>(p) : count > 0 ? load_first<E>(p, count) : Vec<E>{};
    };
    if (step == 1) return first(in, left);
    if (step == 2) {  // nothing behind the last element is read
      constexpr auto lanes = std::make_index_sequence<kLanes<E>>{};
      return gemm::every_other<E, false>(first(in, 2 * left - 1), first(in + kLanes<E>, 2 * left - 1 - kLanes<E>),
                                         lanes);
    }
    E parts[kLanes<E>] = {};
    for (int64_t i = 0; i < least(kLanes<E>, left); ++i) parts[i] = in[i * step];
    return load<E>(parts);
  }

  // Rows of n elements become rows of `pitch`: zeros, the elements, zeros. Vectors are written whole, row after row.
  static void copy_rows(const cpu::UnitCopy& job) {
    const E* in = static_cast<const E*>(job.from);
    E* out = static_cast<E*>(job.to);
    for (int64_t r = 0; r < job.rows; ++r, in += job.from_row, out += job.pitch) {
      for (int64_t i = 0; i < job.zeros; i += kLanes<E>) store<E>(out + i, Vec<E>{});
      int64_t i = 0;
      for (; i < job.n; i += kLanes<E>) store<E>(out + job.zeros + i, gather(in + i * job.step, job.step, job.n - i));
      for (i += job.zeros; i < job.pitch; i += kLanes<E>) store<E>(out + i, Vec<E>{});
    }
  }

  // out[place][row] = a block of n elements, each step apart, from the place on; filled up with zeros.
  static void unzip(const cpu::UnitUnzip& job) {
    const E* in = static_cast<const E*>(job.from);
    for (int64_t p = 0; p < job.places; ++p) {
      char* out = job.out + p * job.out_place;
#if defined(__AVX512BW__)
      if constexpr (sizeof(E) == 2) {
        if (job.step <= kMostUnzipped) {
          unzip_place(in, job.place[p], job, out);
          continue;
        }
      }
#endif
      for (int64_t r = 0; r < job.rows; ++r) {
        E block[kBlockDepth] = {};
        for (int64_t i = 0; i < job.n; ++i) block[i] = in[r * job.from_row + i * job.step + job.place[p]];
        std::memcpy(out + r * cpu::kBlockBytes, block, sizeof(block));
      }
    }
  }

#if defined(__AVX512BW__)
  static constexpr int64_t kMostUnzipped = 16;

  // Element i lies in vector (i * step + place) / 32 of the row: each vector gives the lanes that it has.
  static void unzip_place(const E* in, int64_t place, const cpu::UnitUnzip& job, char* out) {
    alignas(64) uint16_t lane[32];
    __mmask32 from[kMostUnzipped] = {};
    for (int64_t i = 0; i < 32; ++i) {
      const int64_t at = i * job.step + place;
      lane[i] = static_cast<uint16_t>(at % 32);
      if (i < job.n) from[at / 32] |= __mmask32{1} << i;
    }
    const __m512i lanes = _mm512_load_si512(lane);
    const int64_t all = job.n * job.step, full = all / 32;
    const __mmask32 rest = (__mmask32{1} << all % 32) - 1;
    for (int64_t r = 0; r < job.rows; ++r, in += job.from_row) {
      __m512i block = _mm512_setzero_si512();
      for (int64_t v = 0; v < full; ++v) {
        block = _mm512_mask_permutexvar_epi16(block, from[v], lanes, _mm512_loadu_si512(in + 32 * v));
      }
      if (rest)
        block = _mm512_mask_permutexvar_epi16(block, from[full], lanes, _mm512_maskz_loadu_epi16(rest, in + 32 * full));
      _mm512_storeu_si512(out + r * cpu::kBlockBytes, block);
    }
  }
#endif

  // Columns with the depth side by side: words are turned around in squares. At most kWords columns.
  static void turn_columns(const E* b, int64_t b_col, int64_t k, int64_t n, char* out, int64_t out_row) {
    constexpr int64_t depth = kWords * kDepth;
    for (int64_t k0 = 0; k0 < k; k0 += depth, out += kWords * out_row) {
      const int64_t count = least(depth, k - k0);
      Vec<W> v[kWords];
#pragma GCC unroll 16
      for (int j = 0; j < kWords; ++j) {
        const E* column = b + j * b_col + k0;
        v[j] = j >= n ? Vec<W>{} : (Vec<W>)(count == depth ? load<E>(column) : load_first<E>(column, count));
      }
      gemm::transpose<W>(v);
      const int64_t rows = (count + kDepth - 1) / kDepth;
#pragma GCC unroll 16
      for (int i = 0; i < kWords; ++i) {
        if (i >= rows) continue;
        W* to = reinterpret_cast<W*>(out + i * out_row);
        n == kWords ? store<W>(to, v[i]) : store_first<W>(to, v[i], n);
      }
    }
  }

  static void pack_words(const void* from, int64_t b_k, int64_t b_col, int64_t k, int64_t n, char* out, int64_t out_row,
                         int64_t out_panel) {
    const E* b = static_cast<const E*>(from);
    if (b_k == 1 && b_col != 1) {
      for (int64_t j = 0; j < n; j += kWords) {
        char* to = out + j / kColumns * out_panel + j % kColumns * static_cast<int64_t>(sizeof(W));
        turn_columns(b + j * b_col, b_col, k, least(kWords, n - j), to, out_row);
      }
      return;
    }
    for (int64_t k0 = 0; k0 < k; k0 += kDepth, b += kDepth * b_k, out += out_row) {
      const int64_t depth = least(kDepth, k - k0);
      if (b_col == 1) {
        zip_rows(b, b_k, depth, n, out, out_panel);
      } else {
        for (int64_t j = 0; j < n; ++j) {
          const W w = word(b + j * b_col, b_k, depth);
          std::memcpy(out + j / kColumns * out_panel + j % kColumns * static_cast<int64_t>(sizeof(W)), &w, sizeof(w));
        }
      }
    }
  }

  // Rows of one block from rows that lie side by side: words of the rows, turned around.
  static void turn_rows(const E* a, int64_t a_k, int64_t rows, int64_t k, char* out, int64_t out_row) {
    alignas(64) W words[kBlockWords * kColumns];
    constexpr int64_t width = kColumns * sizeof(W);
    for (int64_t r = 0; r < rows; r += kColumns, out += kColumns * out_row) {
      const int64_t count = least(kColumns, rows - r);
      if (k < kBlockDepth || count < kColumns) std::memset(words, 0, sizeof(words));
      for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
        zip_rows(a + r + k0 * a_k, a_k, least(kDepth, k - k0), count,
                 reinterpret_cast<char*>(words) + k0 / kDepth * width, 0);
      }
      for (int64_t i = 0; i < count; i += kWords) {
        const int64_t height = least(kWords, count - i);
        for (int64_t w0 = 0; w0 < kBlockWords; w0 += kWords) {
          Vec<W> v[kWords];
#pragma GCC unroll 16
          for (int w = 0; w < kWords; ++w) v[w] = load<W>(words + (w0 + w) * kColumns + i);
          gemm::transpose<W>(v);
#pragma GCC unroll 16
          for (int j = 0; j < kWords; ++j) {
            if (j < height) store<W>(reinterpret_cast<W*>(out + (i + j) * out_row) + w0, v[j]);
          }
        }
      }
    }
  }

  static void pack_rows(const void* from, int64_t a_row, int64_t a_k, int64_t rows, int64_t k, char* out,
                        int64_t out_row, int64_t out_block) {
    const E* a = static_cast<const E*>(from);
    for (int64_t k0 = 0; k0 < k; k0 += kBlockDepth, a += kBlockDepth * a_k, out += out_block) {
      const int64_t depth = least(kBlockDepth, k - k0);
      if (a_row == 1 && a_k != 1) {
        turn_rows(a, a_k, rows, depth, out, out_row);
        continue;
      }
      for (int64_t r = 0; r < rows; ++r) {
        if (a_k == 1 && depth == kBlockDepth) {
          std::memcpy(out + r * out_row, a + r * a_row, cpu::kBlockBytes);
          continue;
        }
        E block[kBlockDepth] = {};
        if (a_k == 1) {
          std::memcpy(block, a + r * a_row, static_cast<size_t>(depth) * sizeof(E));
        } else {
          for (int64_t i = 0; i < depth; ++i) block[i] = a[r * a_row + i * a_k];
        }
        std::memcpy(out + r * out_row, block, sizeof(block));
      }
    }
  }
};

// ---- results in bfloat16

constexpr int64_t kFloats = kLanes<float>;

inline void store_rounded(BFloat16* p, Vec<float> v, int64_t count) {
#if defined(__AVX512BF16__)
  const __m256i rounded = (__m256i)_mm512_cvtneps_pbh((__m512)v);
  if (count == kFloats)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
  else
    _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << count) - 1), rounded);
#else
  if (count == kFloats) return gemm::store_as<BFloat16, float>(p, v);
  BFloat16 rounded[kFloats];
  gemm::store_as<BFloat16, float>(rounded, v);
  std::memcpy(p, rounded, static_cast<size_t>(count) * sizeof(BFloat16));
#endif
}

inline Vec<float> load_widened(const BFloat16* p, int64_t count) {
  return count == kFloats ? gemm::load_as<float>(p) : gemm::load_first_as<float>(p, count);
}

// alpha * sums, plus what is to be added to it.
inline Vec<float> finished(const cpu::UnitFinish& job, Vec<float> v, const BFloat16* c, const BFloat16* bias,
                           int64_t count) {
  if (job.alpha != 1) v = v * gemm::broadcast(job.alpha);
  if (bias) return v + load_widened(bias, count);
  if (job.beta != 0) v = gemm::multiply_add<float>(load_widened(c, count), gemm::broadcast(job.beta), v);
  return v;
}

template <class Start>
inline __attribute__((always_inline)) void finish_rows(const cpu::UnitFinish& job, Start add_start) {
  for (int64_t i = 0; i < job.rows; ++i) {
    BFloat16* c = static_cast<BFloat16*>(job.c) + i * job.c_row;
    const float* sums = job.sums + i * job.sums_row;
    int64_t j = 0;
    for (; j + kFloats <= job.columns; j += kFloats) {
      store_rounded(c + j, add_start(load<float>(sums + j), c + j, i, j, kFloats), kFloats);
    }
    if (j < job.columns) {
      const int64_t count = job.columns - j;
      store_rounded(c + j, add_start(load<float>(sums + j), c + j, i, j, count), count);
    }
  }
}

inline void finish_along_rows(const cpu::UnitFinish& job) {
  const BFloat16* bias = static_cast<const BFloat16*>(job.bias);
  if (!bias && job.alpha == 1 && job.beta == 0) {
    return finish_rows(job, [](Vec<float> v, const BFloat16*, int64_t, int64_t, int64_t) { return v; });
  }
  if (bias && job.bias_by_row) {
    const Vec<float> alpha = gemm::broadcast(job.alpha);
    return finish_rows(job, [&](Vec<float> v, const BFloat16*, int64_t i, int64_t, int64_t) {
      return v * alpha + gemm::broadcast(static_cast<float>(bias[i]));
    });
  }
  finish_rows(job, [&](Vec<float> v, const BFloat16* c, int64_t, int64_t j, int64_t count) {
    return finished(job, v, c, bias ? bias + j : nullptr, count);
  });
}

// Every other element of c, 16 of them to a vector; those between are left as they are.
#if defined(__AVX512BF16__)
inline void finish_every_other(const cpu::UnitFinish& job) {
  const BFloat16* bias = static_cast<const BFloat16*>(job.bias);
  for (int64_t i = 0; i < job.rows; ++i) {
    uint16_t* c = static_cast<uint16_t*>(job.c) + i * job.c_row;
    const float start = bias ? static_cast<float>(bias[i]) : 0.0f;
    for (int64_t j = 0; j < job.columns; j += kFloats) {
      const int64_t count = least(kFloats, job.columns - j);
      const Vec<float> v =
          load<float>(job.sums + i * job.sums_row + j) * gemm::broadcast(job.alpha) + gemm::broadcast(start);
      const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)_mm512_cvtneps_pbh((__m512)v));
      _mm512_mask_storeu_epi16(c + 2 * j, static_cast<__mmask32>(0x55555555u & ((uint64_t{1} << 2 * count) - 1)), wide);
    }
  }
}
#endif

// c with its columns side by side.
inline void finish_along_columns(const cpu::UnitFinish& job) {
  const BFloat16* bias = static_cast<const BFloat16*>(job.bias);
  for (int64_t i = 0; i < job.rows; i += kFloats) {
    const int64_t height = least(kFloats, job.rows - i);
    for (int64_t j = 0; j < job.columns; j += kFloats) {
      Vec<float> v[kFloats];
#pragma GCC unroll 16
      for (int r = 0; r < kFloats; ++r)
        v[r] = r < height ? load<float>(job.sums + (i + r) * job.sums_row + j) : Vec<float>{};
      gemm::transpose<float>(v);
      const int64_t width = least(kFloats, job.columns - j);
#pragma GCC unroll 16
      for (int s = 0; s < kFloats; ++s) {
        if (s >= width) continue;
        BFloat16* c = static_cast<BFloat16*>(job.c) + (j + s) * job.c_col + i;
        Vec<float> x = v[s];
        if (bias && !job.bias_by_row) {
          x = x * gemm::broadcast(job.alpha) + gemm::broadcast(static_cast<float>(bias[j + s]));
        } else {
          x = finished(job, x, c, bias ? bias + i : nullptr, height);
        }
        store_rounded(c, x, height);
      }
    }
  }
}

inline void finish(const cpu::UnitFinish& job) {
  if (job.c_col == 1) return finish_along_rows(job);
  if (job.c_row == 1) return finish_along_columns(job);
#if defined(__AVX512BF16__)
  if (job.c_col == 2 && job.beta == 0 && (!job.bias || job.bias_by_row)) return finish_every_other(job);
#endif
  const BFloat16* bias = static_cast<const BFloat16*>(job.bias);
  for (int64_t i = 0; i < job.rows; ++i) {
    for (int64_t j = 0; j < job.columns; ++j) {
      BFloat16& c = static_cast<BFloat16*>(job.c)[i * job.c_row + j * job.c_col];
      float v = job.alpha * job.sums[i * job.sums_row + j];
      if (bias)
        v += static_cast<float>(bias[job.bias_by_row ? i : j]);
      else if (job.beta != 0)
        v += job.beta * static_cast<float>(c);
      c = BFloat16(v);
    }
  }
}

}  // namespace units
TOCHA_ISA_END
