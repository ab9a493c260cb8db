// Vector loops of sorting and searching, written so that the compiler vectorizes them for each
// instruction set. Reached through sort_kernels() of cpu/sort_kernels.h.
#include "cpu/sort_kernels.h"

#include "core/dtype.h"
#include "cpu/sort_keys.h"

TOCHA_ISA_BEGIN
namespace sorting {
namespace {

template <class T>
void keys_of(const void* in, int64_t n, bool flip, void* out) {
  using K = KeyOf<T>;
  const T* x = static_cast<const T*>(in);
  K* keys = static_cast<K*>(out);
  K mask = flip ? ~K(0) : K(0);
  for (int64_t i = 0; i < n; ++i) keys[i] = to_key(x[i]) ^ mask;
}

void make_keys(DType dtype, const void* in, int64_t n, bool flip, void* keys) {
  switch (dtype) {
#define _(e, t) \
  case DType::e: return keys_of<t>(in, n, flip, keys);
    TOCHA_FORALL_SORTABLE(_)
#undef _
    default: __builtin_unreachable();
  }
}

// A fixed width keeps the keys and ranks of one row in registers; the padding sorts behind every element.
template <class K, int Width>
void rank_fixed(const K* keys, int n, K* ranks) {
  alignas(64) K key[Width];
  alignas(64) K rank[Width] = {};
  alignas(64) K place[Width];
  for (int i = 0; i < Width; ++i) place[i] = static_cast<K>(i);
  for (int i = 0; i < n; ++i) key[i] = keys[i];
  for (int i = n; i < Width; ++i) key[i] = ~K(0);
  for (int j = 0; j < n; ++j) {
    K other = key[j];
    for (int i = 0; i < Width; ++i) {
      rank[i] += static_cast<K>(other < key[i]) | (static_cast<K>(other == key[i]) & static_cast<K>(K(j) < place[i]));
    }
  }
  for (int i = 0; i < n; ++i) ranks[i] = rank[i];
}

template <class K>
void rank_row(const K* keys, int n, K* ranks) {
  if (n <= 8) return rank_fixed<K, 8>(keys, n, ranks);
  if (n <= 16) return rank_fixed<K, 16>(keys, n, ranks);
  if (n <= 32) return rank_fixed<K, 32>(keys, n, ranks);
  rank_fixed<K, 64>(keys, n, ranks);
}

template <class K>
K min_key(const K* keys, int64_t n) {
  K m = ~K(0);
  for (int64_t i = 0; i < n; ++i) m = keys[i] < m ? keys[i] : m;
  return m;
}

template <class K>
K varying_bits(const K* keys, int64_t n) {
  K bits = 0;
  for (int64_t i = 1; i < n; ++i) bits |= keys[i] ^ keys[0];
  return bits;
}

template <class K>
int64_t count_equal(const K* keys, int64_t n, K key) {
  K count = 0;
  for (int64_t i = 0; i < n; ++i) count += static_cast<K>(keys[i] == key);
  return static_cast<int64_t>(count);
}

// Several bisections in step, so that their loads overlap. The probes are those of the plain bisection with
// mid = lo + (hi - lo) / 2: with NaNs in the sequence the answer depends on them.
template <class T, class I, bool Right>
void search_block(const T* sequence, I length, const T* values, int64_t* out, int sure_steps) {
  constexpr int kWidth = 32;
  I lo[kWidth], hi[kWidth];
  for (int q = 0; q < kWidth; ++q) lo[q] = 0, hi[q] = length;
  for (int step = 0; step < sure_steps; ++step) {
    for (int q = 0; q < kWidth; ++q) {
      I mid = lo[q] + ((hi[q] - lo[q]) >> 1);
      T probe = sequence[mid];
      bool below = Right ? !(probe > values[q]) : !(probe >= values[q]);
      lo[q] = below ? mid + 1 : lo[q];
      hi[q] = below ? hi[q] : mid;
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
    case DType::Int32: return search_typed<int32_t>(sequence, length, values, n, right, out);
    case DType::Int64: return search_typed<int64_t>(sequence, length, values, n, right, out);
    case DType::Float32: return search_typed<float>(sequence, length, values, n, right, out);
    case DType::Float64: return search_typed<double>(sequence, length, values, n, right, out);
    default: __builtin_unreachable();
  }
}

}  // namespace
}  // namespace sorting
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {

extern const SortKernels sort_kernels;
const SortKernels sort_kernels = {
    sorting::make_keys,
    sorting::rank_row<uint32_t>,
    sorting::rank_row<uint64_t>,
    sorting::min_key<uint32_t>,
    sorting::min_key<uint64_t>,
    sorting::varying_bits<uint32_t>,
    sorting::varying_bits<uint64_t>,
    sorting::count_equal<uint32_t>,
    sorting::count_equal<uint64_t>,
    sorting::search,
};

}  // namespace tocha::cpu::TOCHA_ISA_TABLES
