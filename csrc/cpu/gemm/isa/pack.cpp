// Packing of operands into panels of the compute type, and the write-out of accumulated results to
// any dtype and strides. Called by gemm.cpp.
#include "cpu/engine/isa/convert.h"
#include "cpu/gemm/kernels.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::PackKernels;

constexpr uintptr_t kBytesAhead = 256;

// dst[k * dst_k + i] = src[i * src_row + k] for i < height <= lanes. Writes whole vectors, each over
// the excess of the one before: dst_k >= height, and room for one vector past the end.
template <class T, class S>
void transpose_strip(const S* src, int64_t src_row, int64_t height, int64_t k, T* dst, int64_t dst_k) {
  constexpr int n = kLanes<T>;
  Vec<T> v[n];
  for (int64_t k0 = 0; k0 < k; k0 += n) {
    const int64_t width = k - k0 < n ? k - k0 : n;
    if (width == n && height == n) {
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) {
        const S* row = src + i * src_row + k0;
        __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(row) + kBytesAhead));
        v[i] = load_as<T>(row);
      }
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) {
        if (i >= height)
          v[i] = Vec<T>{};
        else if (width == n)
          v[i] = load_as<T>(src + i * src_row + k0);
        else
          v[i] = load_first_as<T>(src + i * src_row + k0, width);
      }
    }
    transpose<T>(v);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      if (i < width) store(dst + (k0 + i) * dst_k, v[i]);
    }
  }
}

template <class T, class S>
void pack_a_panel(const S* a, int64_t a_row, int64_t a_k, int64_t height, int64_t k, T* dst) {
  constexpr int64_t n = kLanes<T>;
  if (height == 1 && a_k == 1) {
    for (int64_t p = 0; p < k; p += n) store(dst + p, k - p < n ? load_first_as<T>(a + p, k - p) : load_as<T>(a + p));
  } else if (a_k == 1) {
    // The topmost strip first: its excess runs into the strips of the next column.
    for (int64_t i = (height - 1) / n * n; i >= 0; i -= n) {
      transpose_strip(a + i * a_row, a_row, height - i < n ? height - i : n, k, dst + i, height);
    }
  } else {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < height; ++i) dst[p * height + i] = widen<T>(a[i * a_row + p * a_k]);
    }
  }
}

constexpr int64_t kPanelsAtOnce = 16;

constexpr uintptr_t kColumnsAhead = 8;

// Panels of rows that lie side by side: every column is read from end to end, and asked for some columns before. A
// store of whole vectors runs into the next columns of its panel, which are written after it; at the panel's end it
// would run into the next panel.
template <class T, class S>
void pack_a_columns(const S* a, int64_t a_k, int64_t rows, int64_t panels, int64_t k, T* dst) {
  constexpr int64_t n = kLanes<T>;
  for (int64_t begin = 0; begin < panels; begin += kPanelsAtOnce) {
    const int64_t count = panels - begin < kPanelsAtOnce ? panels - begin : kPanelsAtOnce;
    int64_t first[kPanelsAtOnce + 1];
    for (int64_t i = 0; i <= count; ++i) first[i] = (begin + i) * rows / panels;
    for (int64_t p = 0; p < k; ++p) {
      const S* column = a + p * a_k;
      for (int64_t i = 0; i < count; ++i) {
        const S* src = column + first[i];
        const uintptr_t ahead = kColumnsAhead * static_cast<uintptr_t>(a_k) * sizeof(S);
        __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(src) + ahead));
        const int64_t height = first[i + 1] - first[i];
        T* out = dst + first[i] * k + p * height;
        int64_t j = 0;
        for (; j + n <= height; j += n) store(out + j, load_as<T>(src + j));
        if (j == height) continue;
        const Vec<T> rest = load_first_as<T>(src + j, height - j);
        (k - p) * height - j >= n ? store(out + j, rest) : store_first(out + j, rest, height - j);
      }
    }
  }
}

template <class T>
void pack_a(DType dtype, const void* a, int64_t a_row, int64_t a_k, int64_t rows, int64_t panels, int64_t k, T* dst) {
  with_storage<T>(dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    const S* src = static_cast<const S*>(a);
    if (a_row == 1 && a_k != 1) return pack_a_columns(src, a_k, rows, panels, k, dst);
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t first = panel * rows / panels;
      const int64_t height = (panel + 1) * rows / panels - first;
      pack_a_panel(src + first * a_row, a_row, a_k, height, k, dst + first * k);
    }
  });
}

// Full panels of a row-major b, side by side: reads along the rows, which the hardware prefetches.
template <class T, class S>
void pack_b_rows(const S* b, int64_t b_k, int64_t k, int64_t panels, T* dst) {
  constexpr int64_t n = kLanes<T>;
  constexpr int64_t nr = kTileColumns<T>;
  for (int64_t p = 0; p < k; ++p, b += b_k, dst += nr) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      const S* src = b + panel * nr;
      T* out = dst + panel * nr * k;
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) store(out + j * n, load_as<T>(src + j * n));
    }
  }
}

template <class T, class S>
void pack_b_panel(const S* b, int64_t b_k, int64_t b_col, int64_t k, int64_t width, T* dst) {
  constexpr int64_t n = kLanes<T>;
  constexpr int64_t nr = kTileColumns<T>;
  if (b_col == 1) {
    for (int64_t p = 0; p < k; ++p, b += b_k, dst += nr) {
#pragma GCC unroll 2
      for (int64_t j = 0; j < nr; j += n) {
        const int64_t lanes = width - j < 0 ? 0 : width - j < n ? width - j : n;
        store(dst + j, load_first_as<T>(b + j, lanes));
      }
    }
  } else if (b_k == 1) {
    for (int64_t j = 0; j < nr; j += n) {
      const int64_t columns = width - j < 0 ? 0 : width - j < n ? width - j : n;
      transpose_strip(b + j * b_col, b_col, columns, k, dst + j, nr);
    }
  } else {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < nr; ++j) dst[p * nr + j] = j < width ? widen<T>(b[p * b_k + j * b_col]) : T(0);
    }
  }
}

template <class T>
void pack_b(DType dtype, const void* b, int64_t b_k, int64_t b_col, int64_t k, int64_t n, T* dst) {
  constexpr int64_t nr = kTileColumns<T>;
  with_storage<T>(dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    const S* src = static_cast<const S*>(b);
    int64_t j = 0;
    if (b_col == 1) {
      for (int64_t panels; (panels = (n - j) / nr) > 0; j += panels * nr) {
        panels = panels < kPanelsAtOnce ? panels : kPanelsAtOnce;
        pack_b_rows(src + j, b_k, k, panels, dst + j * k);
      }
    }
    for (; j < n; j += nr) {
      pack_b_panel(src + j * b_col, b_k, b_col, k, n - j < nr ? n - j : nr, dst + j * k);
    }
  });
}

template <class T, class S>
void finish_row(int64_t n, const T* acc, int64_t acc_col, S* c, int64_t c_col, T alpha, T beta) {
  constexpr int64_t lanes = kLanes<T>;
  int64_t j = 0;
  if (acc_col == 1 && c_col == 1) {
    for (; j + lanes <= n; j += lanes) {
      Vec<T> value = load(acc + j) * broadcast(alpha);
      if (beta != 0) value = multiply_add<T>(load_as<T>(c + j), broadcast(beta), value);
      store_as<S, T>(c + j, value);
    }
  }
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float> && std::is_same_v<S, float>) {
    if (acc_col == 1 && c_col == 2 && beta == 0) {
      for (; j < n; j += lanes) {
        store_every_other(c + 2 * j, load_first(acc + j, n - j < lanes ? n - j : lanes) * broadcast(alpha), n - j);
      }
      return;
    }
  }
#endif
  for (; j < n; ++j) {
    T value = alpha * acc[j * acc_col];
    if (beta != 0) value += beta * widen<T>(c[j * c_col]);
    c[j * c_col] = narrow<S>(value);
  }
}

template <class T>
void finish(DType dtype, int64_t rows, int64_t n, const T* acc, int64_t acc_row, int64_t acc_col, void* c,
            int64_t c_row, int64_t c_col, T alpha, T beta) {
  with_storage<T>(dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    S* out = static_cast<S*>(c);
    if (c_row == 1 && c_col != 1) {  // write along memory
      for (int64_t j = 0; j < n; ++j) {
        finish_row<T, S>(rows, acc + j * acc_col, acc_row, out + j * c_col, 1, alpha, beta);
      }
      return;
    }
    for (int64_t i = 0; i < rows; ++i) {
      finish_row<T, S>(n, acc + i * acc_row, acc_col, out + i * c_row, c_col, alpha, beta);
    }
  });
}

template <class T>
constexpr PackKernels<T> packing() {
  return {pack_a<T>, pack_b<T>, finish<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const GemmPacking gemm_packing;
const GemmPacking gemm_packing = {gemm::packing<float>(), gemm::packing<double>(), gemm::packing<uint32_t>(),
                                  gemm::packing<uint64_t>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
