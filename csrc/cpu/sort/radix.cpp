// Least-significant-digit radix sort: digits of up to 8 bits for short rows, 11 for long ones, equal widths,
// only over the bits that vary.
#include "cpu/sort/radix.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "cpu/engine/lanes.h"

namespace tocha::cpu {
namespace {

constexpr int kKeyShift = 32;
constexpr int kMaxDigitBits = 11;
constexpr int kMaxPasses = 4;
constexpr int64_t kWideDigitMin = 1 << 13;

struct Digits {
  int passes;
  int width;

  Digits(int64_t n, int bits) {
    int widest = n >= kWideDigitMin ? kMaxDigitBits : 8;
    passes = (bits + widest - 1) / widest;
    width = passes ? (bits + passes - 1) / passes : 0;
  }
  int shift(int pass) const { return kKeyShift + pass * width; }
  uint32_t size() const { return 1u << width; }
  uint32_t mask() const { return size() - 1; }
};

inline uint32_t digit_of(uint64_t entry, int shift, uint32_t mask) {
  return static_cast<uint32_t>(entry >> shift) & mask;
}

void scatter(const uint64_t* from, int64_t begin, int64_t end, uint64_t* to, uint32_t* next, int shift, uint32_t mask) {
  for (int64_t i = begin; i < end; ++i) to[next[digit_of(from[i], shift, mask)]++] = from[i];
}

// Turns counts into starting places; false when one digit holds everything and the pass would change nothing.
bool counts_to_places(uint32_t* counts, uint32_t size, int64_t n) {
  uint32_t place = 0;
  for (uint32_t d = 0; d < size; ++d) {
    uint32_t count = counts[d];
    if (count == n) return false;
    counts[d] = place;
    place += count;
  }
  return true;
}

template <int Passes>
void count_digits(const uint64_t* entries, int64_t n, uint32_t* counts, const Digits& digits) {
  uint32_t size = digits.size(), mask = digits.mask();
  for (int64_t i = 0; i < n; ++i) {
    for (int p = 0; p < Passes; ++p) ++counts[p * size + digit_of(entries[i], digits.shift(p), mask)];
  }
}

}  // namespace

uint64_t* radix_sort(uint64_t* entries, uint64_t* spare, int64_t n, int bits) {
  Digits digits(n, bits);
  uint32_t counts[std::max(kMaxPasses << 8, 3 << kMaxDigitBits)];
  std::memset(counts, 0, sizeof(uint32_t) * digits.passes * digits.size());
  switch (digits.passes) {
    case 0:
      return entries;
    case 1:
      count_digits<1>(entries, n, counts, digits);
      break;
    case 2:
      count_digits<2>(entries, n, counts, digits);
      break;
    case 3:
      count_digits<3>(entries, n, counts, digits);
      break;
    default:
      count_digits<4>(entries, n, counts, digits);
      break;
  }
  for (int p = 0; p < digits.passes; ++p) {
    uint32_t* places = counts + p * digits.size();
    if (!counts_to_places(places, digits.size(), n)) continue;
    scatter(entries, 0, n, spare, places, digits.shift(p), digits.mask());
    std::swap(entries, spare);
  }
  return entries;
}

uint64_t* parallel_radix_sort(uint64_t* entries, uint64_t* spare, int64_t n, int bits) {
  int lanes = lane_count(n, kParallelSortMin / 2);
  if (lanes == 1) return radix_sort(entries, spare, n, bits);
  Digits digits(n, bits);
  uint32_t size = digits.size(), mask = digits.mask();
  auto counts = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(lanes) * size);
  for (int p = 0; p < digits.passes; ++p) {
    int shift = digits.shift(p);
    for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
      uint32_t* mine = counts.get() + static_cast<size_t>(lane) * size;
      std::memset(mine, 0, sizeof(uint32_t) * size);
      for (int64_t i = begin; i < end; ++i) ++mine[digit_of(entries[i], shift, mask)];
    });
    // Places run over the digits, and within a digit over the lanes: that keeps the sort stable.
    uint32_t place = 0;
    for (uint32_t d = 0; d < size; ++d) {
      for (int lane = 0; lane < lanes; ++lane) {
        uint32_t& count = counts[static_cast<size_t>(lane) * size + d];
        uint32_t next = place + count;
        count = place;
        place = next;
      }
    }
    for_lanes(n, lanes, [&](int lane, int64_t begin, int64_t end) {
      scatter(entries, begin, end, spare, counts.get() + static_cast<size_t>(lane) * size, shift, mask);
    });
    std::swap(entries, spare);
  }
  return entries;
}

}  // namespace tocha::cpu
