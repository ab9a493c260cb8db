// torch.sort along contiguous rows. Rows of up to 64 elements are ranked with vector compares, longer ones go
// through a radix sort of (key, index) entries; 8-byte elements are sorted by the 32 highest bits that vary and
// the (usually few, short) runs that agree in those are sorted by the rest.
#include "cpu/sort/sort.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "cpu/engine/lanes.h"
#include "cpu/sort/kernels.h"
#include "cpu/sort/keys.h"
#include "cpu/sort/radix.h"

namespace tocha::cpu {
namespace {

using namespace sorting;

constexpr int64_t kKeyBlock = 512;
constexpr int64_t kMaxEntries = int64_t{1} << 32;
constexpr int64_t kShortRun = 24;
constexpr int kMaxLanes = 256;

template <class T>
void rank_sort_row(const T* in, T* values, int64_t* indices, int64_t n, bool descending) {
  using K = KeyOf<T>;
  K keys[kRankSortMax], ranks[kRankSortMax];
  const SortKernels& kernels = sort_kernels();
  kernels.make_keys(DTypeOf<T>::value, in, n, descending, keys);
  if constexpr (sizeof(K) == 4) {
    kernels.rank32(keys, static_cast<int>(n), ranks);
  } else {
    kernels.rank64(keys, static_cast<int>(n), ranks);
  }
  for (int64_t i = 0; i < n; ++i) {
    values[ranks[i]] = in[i];
    indices[ranks[i]] = i;
  }
}

// One row as entries: how it is sorted depends on whether the threads share it.
template <class T>
class EntrySort {
 public:
  using K = KeyOf<T>;

  // `indices` doubles as one of the two entry buffers.
  EntrySort(const T* in, T* values, int64_t* indices, uint64_t* spare, int64_t n, bool descending, bool parallel)
      : in_(in),
        values_(values),
        indices_(indices),
        spare_(spare),
        n_(n),
        descending_(descending),
        lanes_(parallel ? std::min(kMaxLanes, lane_count(n, kParallelSortMin / 2)) : 1) {}

  void run() {
    uint64_t* entries = reinterpret_cast<uint64_t*>(indices_);
    K varying = varying_bits();
    int bits = std::bit_width(varying);
    int dropped = std::max(0, bits - 32);
    fill_entries(entries, dropped);
    uint64_t* sorted = radix(entries, spare_, n_, std::min(bits, 32));
    if (dropped) settle_runs(sorted, sorted == entries ? spare_ : entries, dropped);
    write(sorted);
  }

 private:
  K key_at(int64_t i) const {
    K key = to_key(in_[i]);
    return descending_ ? static_cast<K>(~key) : key;
  }

  template <class F>
  void lanes(F&& f) {
    if (lanes_ == 1) {
      f(0, int64_t{0}, n_);
    } else {
      for_lanes(n_, lanes_, f);
    }
  }

  uint64_t* radix(uint64_t* entries, uint64_t* spare, int64_t n, int bits) {
    return lanes_ == 1 ? radix_sort(entries, spare, n, bits) : parallel_radix_sort(entries, spare, n, bits);
  }

  // f(block of keys, first, count) over [begin, end)
  template <class F>
  void key_blocks(int64_t begin, int64_t end, F&& f) {
    K keys[kKeyBlock];
    for (int64_t b = begin; b < end; b += kKeyBlock) {
      int64_t count = std::min(kKeyBlock, end - b);
      sort_kernels().make_keys(DTypeOf<T>::value, in_ + b, count, descending_, keys);
      f(keys, b, count);
    }
  }

  K varying_bits() {
    if constexpr (sizeof(T) <= 2) return static_cast<K>((K(1) << (std::is_same_v<T, bool> ? 1 : sizeof(T) * 8)) - 1);
    K first = key_at(0);
    K found[kMaxLanes];
    lanes([&](int lane, int64_t begin, int64_t end) {
      K varying = 0;
      key_blocks(begin, end, [&](const K* keys, int64_t, int64_t count) {
        varying |= keys[0] ^ first;
        if constexpr (sizeof(K) == 4) {
          varying |= sort_kernels().varying32(keys, count);
        } else {
          varying |= sort_kernels().varying64(keys, count);
        }
      });
      found[lane] = varying;
    });
    return std::accumulate(found, found + lanes_, K(0), [](K a, K b) { return a | b; });
  }

  void fill_entries(uint64_t* entries, int dropped) {
    lanes([&](int, int64_t begin, int64_t end) {
      key_blocks(begin, end, [&](const K* keys, int64_t b, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          entries[b + i] = static_cast<uint64_t>(keys[i] >> dropped) << 32 | static_cast<uint64_t>(b + i);
        }
      });
    });
  }

  static bool same_window(uint64_t a, uint64_t b) { return (a >> 32) == (b >> 32); }

  // Sorts entries[begin, end), which agree in the window, by the bits that were dropped.
  void settle_run(uint64_t* entries, uint64_t* spare, int64_t begin, int64_t end, int dropped, bool parallel) {
    int64_t length = end - begin;
    if (length <= kShortRun) {
      for (int64_t i = begin + 1; i < end; ++i) {
        uint64_t entry = entries[i];
        K key = key_at(static_cast<uint32_t>(entry));
        int64_t j = i;
        for (; j > begin && key_at(static_cast<uint32_t>(entries[j - 1])) > key; --j) entries[j] = entries[j - 1];
        entries[j] = entry;
      }
      return;
    }
    uint64_t window = entries[begin] >> 32 << 32;
    for (int64_t i = begin; i < end; ++i) {
      uint32_t index = static_cast<uint32_t>(entries[i]);
      entries[i] = static_cast<uint64_t>(key_at(index)) << 32 | index;
    }
    uint64_t* sorted = parallel ? radix(entries + begin, spare + begin, length, dropped)
                                : radix_sort(entries + begin, spare + begin, length, dropped);
    for (int64_t i = 0; i < length; ++i) entries[begin + i] = window | static_cast<uint32_t>(sorted[i]);
  }

  void settle_runs(uint64_t* entries, uint64_t* spare, int dropped) {
    const bool share_long = lanes_ > 1;
    bool has_long[kMaxLanes] = {};
    auto long_run = [&](int64_t length) { return share_long && length >= kParallelSortMin; };
    auto starts_at = [&](int64_t i) { return i == 0 || !same_window(entries[i - 1], entries[i]); };
    int64_t first[kMaxLanes + 1];
    for (int lane = 0; lane < lanes_; ++lane) {
      int64_t i = lane_begin(n_, lanes_, lane);
      while (i < n_ && !starts_at(i)) ++i;
      first[lane] = i;
    }
    first[lanes_] = n_;
    lanes([&](int lane, int64_t, int64_t) {
      for (int64_t i = first[lane]; i < first[lane + 1];) {
        int64_t end = i + 1;
        while (end < first[lane + 1] && same_window(entries[i], entries[end])) ++end;
        if (long_run(end - i)) {
          has_long[lane] = true;
        } else if (end - i > 1) {
          settle_run(entries, spare, i, end, dropped, false);
        }
        i = end;
      }
    });
    // A run that one lane should not sort alone: rare, so looked for again only where one was seen.
    for (int lane = 0; lane < lanes_; ++lane) {
      if (!has_long[lane]) continue;
      for (int64_t i = first[lane]; i < first[lane + 1];) {
        int64_t end = i + 1;
        while (end < first[lane + 1] && same_window(entries[i], entries[end])) ++end;
        if (long_run(end - i)) settle_run(entries, spare, i, end, dropped, true);
        i = end;
      }
    }
  }

  void write(const uint64_t* sorted) {
    lanes([&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        uint64_t entry = sorted[i];
        uint32_t index = static_cast<uint32_t>(entry);
        if constexpr (sizeof(T) == 8) {
          values_[i] = in_[index];
        } else {
          K key = static_cast<K>(entry >> 32);
          key = descending_ ? static_cast<K>(~key) : key;
          values_[i] = key_is_ambiguous<T>(key) ? in_[index] : from_key<T>(key);
        }
        indices_[i] = index;
      }
    });
  }

  const T* in_;
  T* values_;
  int64_t* indices_;
  uint64_t* spare_;
  int64_t n_;
  bool descending_;
  int lanes_;
};

// Rows whose indices do not fit an entry.
template <class T>
void merge_sort_row(const T* in, T* values, int64_t* indices, int64_t n, bool descending) {
  std::iota(indices, indices + n, int64_t{0});
  std::stable_sort(indices, indices + n, [&](int64_t a, int64_t b) {
    return descending ? to_key(in[a]) > to_key(in[b]) : to_key(in[a]) < to_key(in[b]);
  });
  for (int64_t i = 0; i < n; ++i) values[i] = in[indices[i]];
}

template <class T>
void sort_rows(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, bool descending) {
  if (n <= kRankSortMax) {
    parallel_for(rows, std::max<int64_t>(1, 4096 / (n + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) rank_sort_row(in + r * n, values + r * n, indices + r * n, n, descending);
    });
    return;
  }
  if (n >= kMaxEntries) {
    for (int64_t r = 0; r < rows; ++r) merge_sort_row(in + r * n, values + r * n, indices + r * n, n, descending);
    return;
  }
  bool share_rows = n >= kParallelSortMin && rows < num_threads();
  int lanes = share_rows ? 1 : std::min<int64_t>(rows, lane_count(rows * n, 4096, 4));
  auto spare = std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(lanes) * n);
  auto one = [&](int64_t r, uint64_t* row_spare) {
    EntrySort<T>(in + r * n, values + r * n, indices + r * n, row_spare, n, descending, share_rows).run();
  };
  if (share_rows) {
    for (int64_t r = 0; r < rows; ++r) one(r, spare.get());
    return;
  }
  for_lanes(rows, lanes, [&](int lane, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) one(r, spare.get() + static_cast<size_t>(lane) * n);
  });
}

}  // namespace

void sort(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, bool descending) {
  if (rows == 0 || n == 0) return;
#define _(e, t)  \
  case DType::e: \
    return sort_rows(static_cast<const t*>(in), static_cast<t*>(values), indices, rows, n, descending);
  TOCHA_SORTABLE_SWITCH("sort", dtype, _)
#undef _
}

}  // namespace tocha::cpu
