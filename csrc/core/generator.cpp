#include "core/generator.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "core/error.h"
#include "core/fork.h"

namespace tocha {

namespace {

constexpr int kShift = 397;

// The state bytes, as eight-byte units: seed; words left and the seeded flag (four bytes each); next word;
// 624 words, one per unit; unused; cached normal; unused; its flag; cached float normal and its flag
// (four bytes each).
struct StateLayout {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t words[624];
  double unused0;
  double normal;
  double unused1;
  int32_t has_normal;
  int32_t padding;
  float float_normal;
  int32_t has_float_normal;
};
static_assert(sizeof(StateLayout) == Generator::kStateBytes);

inline uint32_t twist(uint32_t upper, uint32_t lower) {
  uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
  return (y >> 1) ^ ((0u - (lower & 1u)) & 0x9908b0dfu);
}

}  // namespace

void Generator::seed(uint64_t seed) {
  seed_ = seed;
  words_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i) words_[i] = 1812433253u * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
  remaining_ = 0;
  next_ = 0;
  next_normal.reset();
  next_float_normal.reset();
}

uint64_t Generator::seed_from_system() {
  std::random_device entropy;
  uint64_t high = entropy();
  seed(high << 32 | entropy());
  return seed_;
}

void Generator::refill() {
  // Every loop reads and writes at a distance of at least 227 words, so each of them vectorizes.
  for (int i = 0; i < kWords - kShift; ++i) words_[i] = words_[i + kShift] ^ twist(words_[i], words_[i + 1]);
  for (int i = kWords - kShift; i < kWords - 1; ++i) {
    words_[i] = words_[i + kShift - kWords] ^ twist(words_[i], words_[i + 1]);
  }
  words_[kWords - 1] = words_[kShift - 1] ^ twist(words_[kWords - 1], words_[0]);
  remaining_ = kWords;
  next_ = 0;
}

void Generator::take(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (remaining_ == 0) refill();
    int count = static_cast<int>(std::min<int64_t>(n, remaining_));
    const uint32_t* from = words_ + next_;
    for (int i = 0; i < count; ++i) out[i] = temper(from[i]);
    out += count;
    n -= count;
    next_ += count;
    remaining_ -= count;
  }
}

void Generator::skip(int64_t n) {
  while (n > 0) {
    if (remaining_ == 0) refill();
    int count = static_cast<int>(std::min<int64_t>(n, remaining_));
    n -= count;
    next_ += count;
    remaining_ -= count;
  }
}

Generator::State Generator::state() const {
  StateLayout layout{};
  layout.seed = seed_;
  layout.left = remaining_ + 1;
  layout.seeded = 1;
  layout.next = static_cast<uint64_t>(next_);
  std::copy(words_, words_ + kWords, layout.words);
  layout.normal = next_normal.value_or(0.0);
  layout.has_normal = next_normal.has_value();
  layout.float_normal = next_float_normal.value_or(0.0f);
  layout.has_float_normal = next_float_normal.has_value();
  State bytes;
  std::memcpy(bytes.data(), &layout, sizeof layout);
  return bytes;
}

void Generator::set_state(std::span<const uint8_t> bytes) {
  TOCHA_CHECK(bytes.size() == kStateBytes, Runtime, "[set_state] expected a state of ", kStateBytes, " bytes, got ",
              bytes.size());
  StateLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  bool valid = layout.seeded != 0 && layout.left >= 1 && layout.left <= kWords &&
               layout.next + static_cast<uint64_t>(layout.left - 1) <= kWords && layout.next <= kWords;
  TOCHA_CHECK(valid, Runtime, "[set_state] invalid mt19937 state");
  seed_ = layout.seed;
  remaining_ = layout.left - 1;
  next_ = static_cast<int>(layout.next);
  for (int i = 0; i < kWords; ++i) words_[i] = static_cast<uint32_t>(layout.words[i]);
  next_normal.reset();
  next_float_normal.reset();
  if (layout.has_normal) next_normal = layout.normal;
  if (layout.has_float_normal) next_float_normal = layout.float_normal;
}

Generator& default_generator() {
  static Generator& generator = []() -> Generator& {
    static Generator made;
    hold_across_fork(made.mutex, ForkOrder::Generator);
    return made;
  }();
  return generator;
}

}  // namespace tocha
