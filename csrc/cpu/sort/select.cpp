// Selection along contiguous rows: topk, kthvalue, median, mode.
// topk streams a row past a buffer of candidates; the others narrow the row down digit by digit.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "cpu/engine/lanes.h"
#include "cpu/sort/kernels.h"
#include "cpu/sort/keys.h"
#include "cpu/sort/sort.h"

namespace tocha::cpu {
namespace {

using namespace sorting;

constexpr int64_t kKeyBlock = 256;
constexpr int64_t kParallelSelectMin = 1 << 15;

template <class K>
K min_key(const K* keys, int64_t n) {
  if constexpr (sizeof(K) == 4)
    return sort_kernels().min32(keys, n);
  else
    return sort_kernels().min64(keys, n);
}

template <class K>
K varying_bits(const K* keys, int64_t n) {
  if constexpr (sizeof(K) == 4)
    return sort_kernels().varying32(keys, n);
  else
    return sort_kernels().varying64(keys, n);
}

template <class K>
int64_t count_equal(const K* keys, int64_t n, K key) {
  if constexpr (sizeof(K) == 4)
    return sort_kernels().count_equal32(keys, n, key);
  else
    return sort_kernels().count_equal64(keys, n, key);
}

// ---- topk

template <class K>
struct Candidate {
  K key;
  int64_t index;
  bool operator<(const Candidate& other) const { return key < other.key || (key == other.key && index < other.index); }
};

// Keeps the k smallest keys of a stream, in buffer[0, size) of room 2k + kKeyBlock. Indices arrive in
// ascending order, so an element that equals the k-th best so far never displaces it.
template <class K>
class Best {
 public:
  Best(Candidate<K>* buffer, int64_t k) : buffer_(buffer), k_(k) {}

  static int64_t room(int64_t k) { return 2 * k + kKeyBlock; }

  void offer(const K* keys, int64_t n, int64_t first) {
    if (limited_ && min_key(keys, n) >= limit_) return;
    if (limited_) {
      for (int64_t i = 0; i < n; ++i) {
        buffer_[size_] = {keys[i], first + i};
        size_ += keys[i] < limit_;
      }
    } else {
      for (int64_t i = 0; i < n; ++i) buffer_[size_++] = {keys[i], first + i};
    }
    if (size_ + kKeyBlock > room(k_) - 1 || !limited_) shrink();
  }

  int64_t finish() {
    shrink();
    return size_;
  }

 private:
  void shrink() {
    if (size_ < k_) return;
    std::nth_element(buffer_, buffer_ + (k_ - 1), buffer_ + size_);
    limit_ = buffer_[k_ - 1].key;
    limited_ = true;
    size_ = k_;
  }

  Candidate<K>* buffer_;
  int64_t k_;
  int64_t size_ = 0;
  K limit_ = 0;
  bool limited_ = false;
};

template <class T>
int64_t best_of_range(const T* in, int64_t begin, int64_t end, int64_t k, bool largest, Candidate<KeyOf<T>>* buffer) {
  using K = KeyOf<T>;
  K keys[kKeyBlock];
  Best<K> best(buffer, k);
  // Small blocks first: the sooner there is a limit, the fewer elements become candidates.
  int64_t block = std::min(kKeyBlock, std::max<int64_t>(32, 2 * k));
  for (int64_t b = begin; b < end;) {
    int64_t count = std::min(block, end - b);
    sort_kernels().make_keys(DTypeOf<T>::value, in + b, count, largest, keys);
    best.offer(keys, count, b);
    b += count;
    block = std::min(kKeyBlock, 2 * block);
  }
  return best.finish();
}

template <class T>
void write_best(const T* in, Candidate<KeyOf<T>>* found, int64_t k, T* values, int64_t* indices) {
  std::sort(found, found + k);
  for (int64_t i = 0; i < k; ++i) {
    values[i] = in[found[i].index];
    indices[i] = found[i].index;
  }
}

template <class T>
void topk_streamed(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, int64_t k, bool largest) {
  using K = KeyOf<T>;
  const int64_t room = Best<K>::room(k) + 1;
  bool share_rows = rows < num_threads() && n >= kParallelSelectMin;
  int lanes = share_rows ? lane_count(n, std::max(kParallelSelectMin / 2, 4 * k), 2)
                         : std::min<int64_t>(rows, lane_count(rows * n, 4096, 4));
  auto buffer = std::make_unique_for_overwrite<Candidate<K>[]>(static_cast<size_t>(lanes) * room);
  if (!share_rows) {
    for_lanes(rows, lanes, [&](int lane, int64_t begin, int64_t end) {
      Candidate<K>* mine = buffer.get() + lane * room;
      for (int64_t r = begin; r < end; ++r) {
        best_of_range(in + r * n, 0, n, k, largest, mine);
        write_best(in + r * n, mine, k, values + r * k, indices + r * k);
      }
    });
    return;
  }
  std::vector<int64_t> sizes(lanes);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = in + r * n;
    for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
      sizes[lane] = best_of_range(row, begin, end, k, largest, buffer.get() + lane * room);
    });
    int64_t total = sizes[0];
    for (int lane = 1; lane < lanes; ++lane) {
      std::copy_n(buffer.get() + lane * room, sizes[lane], buffer.get() + total);
      total += sizes[lane];
    }
    std::nth_element(buffer.get(), buffer.get() + (k - 1), buffer.get() + total);
    write_best(row, buffer.get(), k, values + r * k, indices + r * k);
  }
}

// A k that is a good part of n: sort the rows and keep their beginnings.
template <class T>
void topk_sorted(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, int64_t k, bool largest) {
  auto sorted = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(rows) * n);
  auto order = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(rows) * n);
  sort(DTypeOf<T>::value, in, sorted.get(), order.get(), rows, n, largest);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(sorted.get() + r * n, k, values + r * k);
    std::copy_n(order.get() + r * n, k, indices + r * k);
  }
}

template <class T>
void topk_rows(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, int64_t k, bool largest) {
  if (k * 8 > n) {
    topk_sorted(in, values, indices, rows, n, k, largest);
  } else {
    topk_streamed(in, values, indices, rows, n, k, largest);
  }
}

// ---- kthvalue and median

template <class K>
struct Selected {
  K key;
  int64_t rank;  // how many equal keys come before the wanted one
};

struct DigitWindow {
  int shift;
  uint32_t mask;

  template <class K>
  static DigitWindow top(K varying, int64_t n) {
    int width = n >= 4096 ? 11 : 8;
    return {std::max(0, static_cast<int>(std::bit_width(varying)) - width), (1u << width) - 1};
  }
  template <class K>
  uint32_t of(K key) const {
    return static_cast<uint32_t>(key >> shift) & mask;
  }
};

constexpr int kMaxDigits = 1 << 11;

// Finds the digit under which element k falls; makes k relative to it.
uint32_t find_digit(const uint32_t* counts, int64_t& k) {
  uint32_t d = 0;
  while (k >= counts[d]) k -= counts[d++];
  return d;
}

// The k-th smallest of keys[0, n), which are overwritten.
template <class K>
Selected<K> select(K* keys, int64_t n, int64_t k) {
  for (;;) {
    K varying = varying_bits(keys, n);
    if (varying == 0) return {keys[0], k};
    DigitWindow window = DigitWindow::top(varying, n);
    uint32_t counts[kMaxDigits];
    std::memset(counts, 0, sizeof(uint32_t) * (window.mask + 1));
    for (int64_t i = 0; i < n; ++i) ++counts[window.of(keys[i])];
    uint32_t wanted = find_digit(counts, k);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      K key = keys[i];
      keys[kept] = key;
      kept += window.of(key) == wanted;
    }
    n = kept;
  }
}

// The first step of select with several threads; what is left after it is small as a rule.
template <class T>
Selected<KeyOf<T>> select_shared(const T* in, KeyOf<T>* keys, int64_t n, int64_t k, int lanes) {
  using K = KeyOf<T>;
  std::vector<K> varying(lanes);
  K first = to_key(in[0]);
  for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
    sort_kernels().make_keys(DTypeOf<T>::value, in + begin, end - begin, false, keys + begin);
    varying[lane] = varying_bits(keys + begin, end - begin) | (keys[begin] ^ first);
  });
  K all = 0;
  for (K v : varying) all |= v;
  if (all == 0) return {first, k};
  DigitWindow window = DigitWindow::top(all, n);
  std::vector<uint32_t> counts(static_cast<size_t>(lanes) * kMaxDigits);
  for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
    uint32_t* mine = counts.data() + static_cast<size_t>(lane) * kMaxDigits;
    for (int64_t i = begin; i < end; ++i) ++mine[window.of(keys[i])];
  });
  uint32_t totals[kMaxDigits] = {};
  for (size_t i = 0; i < counts.size(); ++i) totals[i % kMaxDigits] += counts[i];
  uint32_t wanted = find_digit(totals, k);
  for_lanes(n, lanes, [&](int, int64_t begin, int64_t end) {
    int64_t kept = begin;
    for (int64_t i = begin; i < end; ++i) {
      K key = keys[i];
      keys[kept] = key;
      kept += window.of(key) == wanted;
    }
  });
  int64_t kept = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    int64_t begin = lane_begin(n, lanes, lane);
    int64_t count = counts[static_cast<size_t>(lane) * kMaxDigits + wanted];
    std::copy(keys + begin, keys + begin + count, keys + kept);
    kept += count;
  }
  return select(keys, kept, k);
}

// Where the element with `rank` equals before it stands.
template <class T>
int64_t find_equal(const T* in, int64_t n, KeyOf<T> key, int64_t rank) {
  using K = KeyOf<T>;
  K keys[kKeyBlock];
  for (int64_t b = 0;; b += kKeyBlock) {
    int64_t count = std::min(kKeyBlock, n - b);
    sort_kernels().make_keys(DTypeOf<T>::value, in + b, count, false, keys);
    int64_t here = count_equal(keys, count, key);
    if (rank >= here) {
      rank -= here;
      continue;
    }
    for (int64_t i = 0;; ++i) {
      if (keys[i] == key && rank-- == 0) return b + i;
    }
  }
}

template <class T>
int64_t count_nans(const T* in, int64_t n) {
  using K = KeyOf<T>;
  if constexpr (!kIsFloat<T>) return 0;
  K keys[kKeyBlock];
  int64_t total = 0;
  for (int64_t b = 0; b < n; b += kKeyBlock) {
    int64_t count = std::min(kKeyBlock, n - b);
    sort_kernels().make_keys(DTypeOf<T>::value, in + b, count, false, keys);
    total += count_equal(keys, count, kNanKey<T>);
  }
  return total;
}

template <class T>
int64_t select_index(const T* row, KeyOf<T>* keys, int64_t n, int64_t k, int lanes) {
  using K = KeyOf<T>;
  Selected<K> found;
  if (lanes > 1) {
    found = select_shared(row, keys, n, k, lanes);
  } else {
    sort_kernels().make_keys(DTypeOf<T>::value, row, n, false, keys);
    found = select(keys, n, k);
  }
  return find_equal(row, n, found.key, found.rank);
}

// index_of(row, keys, lanes) picks one element of every row.
template <class T, class F>
void pick_rows(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, F&& index_of) {
  bool share_rows = rows < num_threads() && n >= kParallelSelectMin;
  int lanes =
      share_rows ? lane_count(n, kParallelSelectMin / 2) : std::min<int64_t>(rows, lane_count(rows * n, 4096, 4));
  int64_t buffers = share_rows ? 1 : lanes;
  auto keys = std::make_unique_for_overwrite<KeyOf<T>[]>(static_cast<size_t>(buffers) * n);
  auto one = [&](int64_t r, KeyOf<T>* row_keys, int row_lanes) {
    int64_t index = index_of(in + r * n, row_keys, row_lanes);
    values[r] = in[r * n + index];
    indices[r] = index;
  };
  if (share_rows) {
    for (int64_t r = 0; r < rows; ++r) one(r, keys.get(), lanes);
    return;
  }
  for_lanes(rows, lanes, [&](int lane, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) one(r, keys.get() + lane * n, 1);
  });
}

template <class T>
void kthvalue_rows(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, int64_t k) {
  pick_rows(in, values, indices, rows, n,
            [&](const T* row, KeyOf<T>* keys, int lanes) { return select_index(row, keys, n, k, lanes); });
}

template <class T>
void median_rows(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, bool skip_nan) {
  pick_rows(in, values, indices, rows, n, [&](const T* row, KeyOf<T>* keys, int lanes) -> int64_t {
    int64_t nans = count_nans(row, n);
    if (nans == n) return 0;
    if (nans > 0 && !skip_nan) return find_equal(row, n, kNanKey<T>, 0);
    return select_index(row, keys, n, (n - nans - 1) / 2, lanes);
  });
}

// ---- mode

// The end of the first longest run of equal values in a sorted row.
template <class T>
int64_t longest_run_last(const T* sorted, int64_t n) {
  int64_t best_last = 0, best_length = 0;
  for (int64_t i = 0; i < n;) {
    int64_t end = i + 1;
    while (end < n && same_value(sorted[i], sorted[end])) ++end;
    if (end - i > best_length) {
      best_length = end - i;
      best_last = end - 1;
    }
    i = end;
  }
  return best_last;
}

template <class T>
void mode_rows(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n) {
  // A group of rows at a time bounds the memory for the sorted copies.
  int64_t group = std::clamp<int64_t>((int64_t{1} << 20) / n, 1, rows);
  auto sorted = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(group) * n);
  auto order = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(group) * n);
  for (int64_t first = 0; first < rows; first += group) {
    int64_t count = std::min(group, rows - first);
    sort(DTypeOf<T>::value, in + first * n, sorted.get(), order.get(), count, n, false);
    parallel_for(count, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t index = order[r * n + longest_run_last(sorted.get() + r * n, n)];
        indices[first + r] = index;
        values[first + r] = in[(first + r) * n + index];
      }
    });
  }
}

}  // namespace

void topk(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, int64_t k,
          bool largest) {
  if (rows == 0 || k == 0) return;
#define _(e, t)  \
  case DType::e: \
    return topk_rows(static_cast<const t*>(in), static_cast<t*>(values), indices, rows, n, k, largest);
  TOCHA_SORTABLE_SWITCH("topk", dtype, _)
#undef _
}

void kthvalue(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, int64_t k) {
  if (rows == 0) return;
#define _(e, t)  \
  case DType::e: \
    return kthvalue_rows(static_cast<const t*>(in), static_cast<t*>(values), indices, rows, n, k);
  TOCHA_SORTABLE_SWITCH("kthvalue", dtype, _)
#undef _
}

void median(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, bool skip_nan) {
  if (rows == 0) return;
#define _(e, t)  \
  case DType::e: \
    return median_rows(static_cast<const t*>(in), static_cast<t*>(values), indices, rows, n, skip_nan);
  TOCHA_SORTABLE_SWITCH("median", dtype, _)
#undef _
}

void mode(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n) {
  if (rows == 0) return;
#define _(e, t)  \
  case DType::e: \
    return mode_rows(static_cast<const t*>(in), static_cast<t*>(values), indices, rows, n);
  TOCHA_SORTABLE_SWITCH("mode", dtype, _)
#undef _
}

}  // namespace tocha::cpu
