// The CPU's random engine: mt19937 with PyTorch's seeding, state bytes and cached normals, so that a seed
// or a saved state means the same numbers in both. cpu/random draws from it; Python's Generator holds one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

namespace tocha {

class Generator {
 public:
  static constexpr uint64_t kDefaultSeed = 67280421310721;
  static constexpr size_t kStateBytes = 5056;
  using State = std::array<uint8_t, kStateBytes>;

  explicit Generator(uint64_t seed = kDefaultSeed) { this->seed(seed); }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // The engine sees the low 32 bits of the seed; cached normals are forgotten.
  void seed(uint64_t seed);
  // Seeds from the system's entropy and returns that seed.
  uint64_t seed_from_system();
  uint64_t initial_seed() const { return seed_; }

  uint32_t next32() {
    if (remaining_ == 0) refill();
    --remaining_;
    return temper(words_[next_++]);
  }
  // The first of the two words is the upper half.
  uint64_t next64() {
    uint64_t high = next32();
    return high << 32 | next32();
  }
  // 53 bits in [0, 1).
  double next_uniform() { return static_cast<double>(next64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53; }
  // The next n words, as n calls of next32 would give them.
  void take(uint32_t* out, int64_t n);
  void skip(int64_t n);

  // PyTorch's get_state() / set_state() bytes. set_state throws on bytes that are no state, and then changes nothing.
  State state() const;
  void set_state(std::span<const uint8_t> bytes);

  // The second value of the last pair of normals, when it has not been given out yet. The float one belongs
  // to the state bytes; no distribution reads it.
  std::optional<double> next_normal;
  std::optional<float> next_float_normal;

  // Held by whoever draws, for as long as the drawn numbers must be consecutive.
  std::mutex mutex;

 private:
  static constexpr int kWords = 624;

  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }
  void refill();

  uint64_t seed_;
  int remaining_;  // words that can be read before the next refill
  int next_;
  uint32_t words_[kWords];
};

// What `torch.manual_seed` seeds and every random function draws from when it is given no generator.
Generator& default_generator();

}  // namespace tocha
