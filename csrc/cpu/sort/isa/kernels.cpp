// Vector loops of sorting, written so that the compiler vectorizes them for each instruction set.
// Reached through sort_kernels() of kernels.h.
#include "cpu/sort/kernels.h"

#include "core/dtype.h"
#include "cpu/sort/keys.h"

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
#define _(e, t)  \
  case DType::e: \
    return keys_of<t>(in, n, flip, keys);
    TOCHA_FORALL_SORTABLE(_)
#undef _
    default:
      __builtin_unreachable();
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
};

}  // namespace tocha::cpu::TOCHA_ISA_TABLES
