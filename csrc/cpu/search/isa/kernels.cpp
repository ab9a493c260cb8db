// Vector loops of searching and counting, written so that the compiler vectorizes them for each instruction
// set. Reached through search_kernels() of kernels.h.
#include "cpu/search/kernels.h"

#include <type_traits>

#include "cpu/search/nonzero_tests.h"

TOCHA_ISA_BEGIN
namespace searching {
namespace {

// Several bisections in step, so that their loads overlap. The probes are those of the plain bisection with
// mid = lo + (hi - lo) / 2: with NaNs in the sequence the answer depends on them.
template <class T, class I, bool Right>
void search_block(const T* sequence, I length, const T* values, int64_t* out, int sure_steps) {
  constexpr int kWidth = 32;
  I lo[kWidth], hi[kWidth];
  T value[kWidth];
  for (int q = 0; q < kWidth; ++q) lo[q] = 0, hi[q] = length, value[q] = values[q];
  for (int step = 0; step < sure_steps; ++step) {
    for (int q = 0; q < kWidth; ++q) {
      I mid = lo[q] + ((hi[q] - lo[q]) >> 1);
      T probe = sequence[mid];
      // Masks, because a branch here is taken at random.
      I stay = -static_cast<I>(Right ? probe > value[q] : probe >= value[q]);
      lo[q] += (mid + 1 - lo[q]) & ~stay;
      hi[q] -= (hi[q] - mid) & stay;
    }
  }
  for (int q = 0; q < kWidth; ++q) {
    while (lo[q] < hi[q]) {
      I mid = lo[q] + ((hi[q] - lo[q]) >> 1);
      bool below = Right ? !(sequence[mid] > values[q]) : !(sequence[mid] >= values[q]);
      (below ? lo[q] : hi[q]) = below ? mid + 1 : mid;
    }
    out[q] = lo[q];
  }
}

template <class T, class I, bool Right>
void search_all(const T* sequence, int64_t length, const T* values, int64_t n, int64_t* out) {
  constexpr int kWidth = 32;
  // An interval of m probes leaves at least (m - 1) / 2: so many steps find every interval non-empty.
  int sure_steps = 0;
  for (int64_t m = length; m > 0; m = (m - 1) / 2) ++sure_steps;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    search_block<T, I, Right>(sequence, static_cast<I>(length), values + i, out + i, sure_steps);
  }
  if (i == n) return;
  T rest[kWidth] = {};
  int64_t found[kWidth];
  for (int64_t q = i; q < n; ++q) rest[q - i] = values[q];
  search_block<T, I, Right>(sequence, static_cast<I>(length), rest, found, sure_steps);
  for (int64_t q = i; q < n; ++q) out[q] = found[q - i];
}

template <class T>
void search_typed(const void* sequence, int64_t length, const void* values, int64_t n, bool right, int64_t* out) {
  using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const T* s = static_cast<const T*>(sequence);
  const T* v = static_cast<const T*>(values);
  right ? search_all<T, I, true>(s, length, v, n, out) : search_all<T, I, false>(s, length, v, n, out);
}

void search(DType dtype, const void* sequence, int64_t length, const void* values, int64_t n, bool right,
            int64_t* out) {
  switch (dtype) {
    case DType::Int32:
      return search_typed<int32_t>(sequence, length, values, n, right, out);
    case DType::Int64:
      return search_typed<int64_t>(sequence, length, values, n, right, out);
    case DType::Float32:
      return search_typed<float>(sequence, length, values, n, right, out);
    case DType::Float64:
      return search_typed<double>(sequence, length, values, n, right, out);
    default:
      __builtin_unreachable();
  }
}

int64_t count_nonzero(DType dtype, const void* in, int64_t n) {
  uint32_t count = 0;
  with_zero_test(dtype, [&](auto test) {
    using Test = decltype(test);
    const auto* x = static_cast<const typename Test::type*>(in);
    for (int64_t i = 0; i < n; ++i) count += Test::nonzero(x[i]);
  });
  return count;
}

template <class T>
void extremes_of(const void* in, int64_t n, int64_t* low, int64_t* high) {
  const T* x = static_cast<const T*>(in);
  T least = x[0], most = x[0];
  for (int64_t i = 1; i < n; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  *low = static_cast<int64_t>(least);
  *high = static_cast<int64_t>(most);
}

void extremes(DType dtype, const void* in, int64_t n, int64_t* low, int64_t* high) {
  switch (dtype) {
    case DType::UInt8:
      return extremes_of<uint8_t>(in, n, low, high);
    case DType::Int8:
      return extremes_of<int8_t>(in, n, low, high);
    case DType::Int16:
      return extremes_of<int16_t>(in, n, low, high);
    case DType::Int32:
      return extremes_of<int32_t>(in, n, low, high);
    case DType::Int64:
      return extremes_of<int64_t>(in, n, low, high);
    case DType::UInt16:
      return extremes_of<uint16_t>(in, n, low, high);
    case DType::UInt32:
      return extremes_of<uint32_t>(in, n, low, high);
    case DType::UInt64:
      return extremes_of<uint64_t>(in, n, low, high);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace searching
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {

extern const SearchKernels search_kernels;
const SearchKernels search_kernels = {searching::search, searching::count_nonzero, searching::extremes};

}  // namespace tocha::cpu::TOCHA_ISA_TABLES
