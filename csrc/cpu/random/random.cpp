// Fills from one formula per element; rejection.cpp has the distributions that draw until they accept.
#include "cpu/random/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <numbers>
#include <type_traits>
#include <utility>

#include "core/parallel.h"
#include "cpu/random/dispatch.h"
#include "cpu/random/kernels.h"

namespace tocha::cpu {

namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr int kBlock = 16;
constexpr int64_t kCheapChunk = 1 << 11;   // words that stay in the first cache
constexpr int64_t kCostlyChunk = 1 << 16;  // elements per round of threads
constexpr int64_t kCostlyGrain = 1 << 10;
constexpr uint64_t kNarrowRanges = uint64_t{1} << 28;  // below it one word makes a number
constexpr uint64_t kMask53 = (uint64_t{1} << 53) - 1;

inline uint64_t word64(const uint32_t* words, int64_t i) {
  return static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1];
}
inline double uniform53(const uint32_t* words, int64_t i) {
  return static_cast<double>(static_cast<int64_t>(word64(words, i) & kMask53)) * 0x1p-53;
}

// Draws `per` words for each of n elements and hands them over as fn(words, first element, count).
// Cheap transforms run where the words are still in the cache, costly ones on all threads.
template <class F>
void transform_words(Generator& generator, int64_t n, int64_t per, bool costly, F&& fn) {
  if (n <= 0) return;
  int64_t chunk = std::min(n, costly ? kCostlyChunk : kCheapChunk / per);
  uint32_t near[kCheapChunk];
  std::unique_ptr<uint32_t[]> far;
  if (chunk * per > kCheapChunk) far = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(chunk * per));
  uint32_t* words = far ? far.get() : near;
  for (int64_t start = 0; start < n; start += chunk) {
    int64_t count = std::min(chunk, n - start);
    generator.take(words, count * per);
    if (costly) {
      parallel_for(count, kCostlyGrain,
                   [&](int64_t begin, int64_t end) { fn(words + begin * per, start + begin, end - begin); });
    } else {
      fn(words, start, count);
    }
  }
}

// out[i] = formula(u53), computed in double and rounded once.
template <class Formula>
void fill_from_uniform53(Generator& generator, const char* name, DType dtype, void* out, int64_t n, Formula formula) {
  visit_floating(name, dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    transform_words(generator, n, 2, true, [&](const uint32_t* words, int64_t first, int64_t count) {
      T* to = static_cast<T*>(out) + first;
      for (int64_t i = 0; i < count; ++i) to[i] = to_number<T>(formula(uniform53(words, i)));
    });
  });
}

struct Pair {
  double first, second;
};

// Box-Muller from the numbers that give the angle and the radius.
inline Pair normal_pair(double angle_u, double radius_log) {
  double radius = std::sqrt(-2.0 * radius_log);
  double angle = 2.0 * std::numbers::pi * angle_u;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}
inline Pair draw_pair(const uint32_t* words) {
  return normal_pair(uniform53(words, 0), std::log1p(-uniform53(words, 1)));
}

// out[i] = finish(standard normal), drawn in pairs as a single call for each element would draw them.
template <class T, class Finish>
void fill_normals_one_by_one(Generator& generator, T* out, int64_t n, Finish finish) {
  if (n > 0 && generator.next_normal) {
    *out++ = to_number<T>(finish(*generator.next_normal));
    generator.next_normal.reset();
    --n;
  }
  transform_words(generator, n / 2, 4, true, [&](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Pair pair = draw_pair(words + 4 * i);
      out[2 * (first + i)] = to_number<T>(finish(pair.first));
      out[2 * (first + i) + 1] = to_number<T>(finish(pair.second));
    }
  });
  if (n % 2 != 0) {
    uint32_t words[4];
    generator.take(words, 4);
    Pair pair = draw_pair(words);
    out[n - 1] = to_number<T>(finish(pair.first));
    generator.next_normal = pair.second;
  }
}

void normal_blocks64(const uint32_t* words, int64_t blocks, double mean, double std, double* out) {
  for (int64_t b = 0; b < blocks; ++b, words += 2 * kBlock, out += kBlock) {
    for (int j = 0; j < kBlock / 2; ++j) {
      Pair pair = normal_pair(uniform53(words, j + kBlock / 2), std::log(1.0 - uniform53(words, j)));
      out[j] = std::fma(pair.first, std, mean);
      out[j + kBlock / 2] = std::fma(pair.second, std, mean);
    }
  }
}

// n >= 16 normals; transform(words, blocks, where in out) makes whole blocks.
template <class Transform>
void fill_normal_blocks(Generator& generator, int64_t n, int64_t words_per_number, bool drops_tail,
                        Transform transform) {
  int64_t per_block = kBlock * words_per_number;
  transform_words(
      generator, n / kBlock, per_block, n >= kCostlyGrain * kBlock,
      [&](const uint32_t* words, int64_t first, int64_t count) { transform(words, count, first * kBlock); });
  if (n % kBlock == 0) return;
  if (drops_tail) generator.skip(n % kBlock * words_per_number);
  uint32_t tail[2 * kBlock];
  generator.take(tail, per_block);
  transform(tail, 1, n - kBlock);
}

// w % range for 32-bit words by two multiplications (Lemire, Kaser, Kurz: Faster remainder by direct computation).
class Remainder32 {
 public:
  explicit Remainder32(uint32_t range) : range_(range), inverse_(~uint64_t{0} / range + 1) {}
  uint32_t operator()(uint32_t word) const {
    uint64_t fraction = inverse_ * word;
    return static_cast<uint32_t>((static_cast<unsigned __int128>(fraction) * range_) >> 64);
  }

 private:
  uint64_t range_, inverse_;
};

// 1 or 0 without a branch, which would be mispredicted half of the time.
template <class T>
T one_if(bool yes) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(yes);
  } else {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    Bits one = std::bit_cast<Bits>(to_number<T>(int64_t{1}));
    return std::bit_cast<T>(static_cast<Bits>(one & (Bits{0} - static_cast<Bits>(yes))));
  }
}

// The largest number random_any gives.
uint64_t largest(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return 1;
    case DType::Float16:
      return 1u << 11;
    case DType::BFloat16:
      return 1u << 8;
    case DType::Float32:
      return 1u << 24;
    case DType::Float64:
      return uint64_t{1} << 53;
    default: {
      int bits = static_cast<int>(8 * itemsize(dtype)) - info(dtype).is_signed;
      return ~uint64_t{0} >> (64 - bits);
    }
  }
}

// How many bits of significand a floating dtype has, 0 for the others.
int digits(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return 11;
    case DType::BFloat16:
      return 8;
    case DType::Float32:
      return 24;
    case DType::Float64:
      return 53;
    default:
      return 0;
  }
}

// x rounded to nearest even at `bits` bits of significand; `unit` is the distance of its neighbours.
int64_t round_to(int64_t x, int bits, int64_t& unit) {
  uint64_t magnitude = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  int shift = std::max(0, static_cast<int>(std::bit_width(magnitude)) - bits);
  unit = int64_t{1} << shift;
  if (shift == 0) return x;
  uint64_t low = magnitude & (static_cast<uint64_t>(unit) - 1), half = static_cast<uint64_t>(unit) / 2;
  magnitude -= low;
  if (low > half || (low == half && (magnitude & static_cast<uint64_t>(unit))))
    magnitude += static_cast<uint64_t>(unit);
  return static_cast<int64_t>(x < 0 ? 0 - magnitude : magnitude);
}

// out[i] = from + two words % range; range == 0 stands for 2^64, where PyTorch gives the bare words.
template <class T>
void random_wide(Generator& generator, T* out, int64_t n, int64_t from, uint64_t range) {
  auto fill = [&](auto reduce) {
    transform_words(generator, n, 2, false, [=](const uint32_t* words, int64_t first, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[first + i] = to_number<T>(static_cast<int64_t>(reduce(word64(words, i))));
    });
  };
  uint64_t base = range == 0 ? 0 : static_cast<uint64_t>(from), mask = range - 1;
  if ((range & mask) == 0) return fill([=](uint64_t word) { return base + (word & mask); });
  fill([=](uint64_t word) { return base + word % range; });
}

template <class T>
void random_narrow(Generator& generator, T* out, int64_t n, int64_t from, uint32_t range) {
  Remainder32 remainder(range);
  transform_words(generator, n, 1, false, [=](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[first + i] = to_number<T>(from + static_cast<int64_t>(remainder(words[i])));
  });
}

template <class T>
void randperm_typed(Generator& generator, T* out, int64_t n) {
  // PyTorch leaves 32-bit draws where their bias would show: it then draws 64 bits, and builds the
  // permutation from the inside out.
  constexpr int64_t kLarge = std::numeric_limits<uint32_t>::max() / 20;
  if (n >= kLarge) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t j = static_cast<int64_t>(generator.next64() % static_cast<uint64_t>(i + 1));
      out[i] = out[j];
      out[j] = to_number<T>(i);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = to_number<T>(i);
  transform_words(generator, n - 1, 1, false, [&](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = first + i;
      std::swap(out[at], out[at + words[i] % static_cast<uint32_t>(n - at)]);
    }
  });
}

}  // namespace

void uniform(Generator& generator, DType dtype, void* out, int64_t n, double from, double to) {
  require_floating("uniform", dtype);
  Lock lock(generator.mutex);
  const RandomKernels& kernels = random_kernels();
  if (dtype == DType::Float64) {
    transform_words(generator, n, 2, false, [&](const uint32_t* words, int64_t first, int64_t count) {
      kernels.uniform53(words, count, from, to, static_cast<double*>(out) + first);
    });
    return;
  }
  int64_t size = itemsize(dtype);
  transform_words(generator, n, 1, false, [&](const uint32_t* words, int64_t first, int64_t count) {
    kernels.uniform24(dtype, words, count, static_cast<float>(from), static_cast<float>(to),
                      static_cast<char*>(out) + first * size);
  });
}

void normal(Generator& generator, DType dtype, void* out, int64_t n, double mean, double std) {
  if (n < kBlock) return normal_one_by_one(generator, dtype, out, n, mean, std);
  require_floating("normal", dtype);
  Lock lock(generator.mutex);
  if (dtype == DType::Float64) {
    fill_normal_blocks(generator, n, 2, true, [&](const uint32_t* words, int64_t blocks, int64_t first) {
      normal_blocks64(words, blocks, mean, std, static_cast<double*>(out) + first);
    });
    return;
  }
  const RandomKernels& kernels = random_kernels();
  int64_t size = itemsize(dtype);
  fill_normal_blocks(generator, n, 1, dtype == DType::Float32,
                     [&](const uint32_t* words, int64_t blocks, int64_t first) {
                       kernels.normal_blocks(dtype, words, blocks, static_cast<float>(mean), static_cast<float>(std),
                                             static_cast<char*>(out) + first * size);
                     });
}

void normal_one_by_one(Generator& generator, DType dtype, void* out, int64_t n, double mean, double std) {
  visit_floating("normal", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    fill_normals_one_by_one(generator, static_cast<T*>(out), n, [=](double z) { return std::fma(z, std, mean); });
  });
}

void log_normal(Generator& generator, DType dtype, void* out, int64_t n, double mean, double std) {
  visit_floating("log_normal", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    fill_normals_one_by_one(generator, static_cast<T*>(out), n,
                            [=](double z) { return std::exp(std::fma(z, std, mean)); });
  });
}

void exponential(Generator& generator, DType dtype, void* out, int64_t n, double lambd) {
  double scale = -1.0 / lambd;
  fill_from_uniform53(generator, "exponential", dtype, out, n, [=](double u) { return scale * std::log1p(-u); });
}

void cauchy(Generator& generator, DType dtype, void* out, int64_t n, double median, double sigma) {
  fill_from_uniform53(generator, "cauchy", dtype, out, n,
                      [=](double u) { return std::fma(sigma, std::tan(std::numbers::pi * (u - 0.5)), median); });
}

void geometric(Generator& generator, DType dtype, void* out, int64_t n, double p) {
  double log_miss = std::log1p(-p);
  visit_numeric("geometric", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    transform_words(generator, n, 2, true, [&](const uint32_t* words, int64_t first, int64_t count) {
      T* to = static_cast<T*>(out) + first;
      for (int64_t i = 0; i < count; ++i) to[i] = to_number<T>(std::ceil(std::log(uniform53(words, i)) / log_miss));
    });
  });
}

void random_any(Generator& generator, DType dtype, void* out, int64_t n) {
  visit_classic("random", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    T* to = static_cast<T*>(out);
    uint64_t range = largest(dtype) + 1;
    if constexpr (sizeof(T) == 8) {
      random_wide(generator, to, n, 0, range);
    } else {
      random_narrow(generator, to, n, 0, static_cast<uint32_t>(range));
    }
  });
}

void random_range(Generator& generator, DType dtype, void* out, int64_t n, int64_t from, uint64_t range) {
  visit_real("random", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    T* to = static_cast<T*>(out);
    if (range != 0 && range < kNarrowRanges) {
      random_narrow(generator, to, n, from, static_cast<uint32_t>(range));
    } else {
      random_wide(generator, to, n, from, range);
    }
  });
}

uint64_t range_up_from(DType dtype, int64_t from) { return largest(dtype) - static_cast<uint64_t>(from) + 1; }

void fit_bounds(DType dtype, int64_t& from, int64_t& to) {
  int bits = digits(dtype);
  if (bits == 0) return;
  int64_t unit;
  int64_t low = round_to(from + 1, bits, unit);
  if (low < from) from = low + unit;
  int64_t high = round_to(to - 1, bits, unit);
  if (high >= to) to = high - unit;
}

void bernoulli(Generator& generator, DType dtype, void* out, int64_t n, double p) {
  // u53 < p, as integers.
  uint64_t threshold = static_cast<uint64_t>(std::ceil(p * 0x1p53));
  visit_classic("bernoulli", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    transform_words(generator, n, 2, false, [=](const uint32_t* words, int64_t first, int64_t count) {
      T* to = static_cast<T*>(out) + first;
      for (int64_t i = 0; i < count; ++i) to[i] = one_if<T>((word64(words, i) & kMask53) < threshold);
    });
  });
}

void bernoulli_from(Generator& generator, DType dtype, void* out, int64_t n, DType p_dtype, const void* p) {
  visit_classic("bernoulli", dtype, [&]<class T>(Type<T>) {
    visit_floating("bernoulli", p_dtype, [&]<class P>(Type<P>) {
      Lock lock(generator.mutex);
      constexpr bool wide = sizeof(P) == 8;
      const P* odds = static_cast<const P*>(p);
      for (int64_t i = 0; i < n; ++i) {
        TOCHA_CHECK(
            odds[i] >= 0 && odds[i] <= 1, Runtime,
            "[bernoulli] Expected p_in >= 0 && p_in <= 1 to be true, but got false: probabilities are in [0, 1], got ",
            static_cast<double>(odds[i]));
      }
      T* to = static_cast<T*>(out);
      transform_words(generator, n, wide ? 2 : 1, false, [&](const uint32_t* words, int64_t first, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          double u = wide ? uniform53(words, i) : static_cast<double>(words[i] & 0xffffffu) * 0x1p-24;
          to[first + i] = one_if<T>(u < static_cast<double>(odds[first + i]));
        }
      });
    });
  });
}

void randperm(Generator& generator, DType dtype, void* out, int64_t n) {
  visit_real("randperm", dtype, [&]<class T>(Type<T>) {
    Lock lock(generator.mutex);
    randperm_typed(generator, static_cast<T*>(out), n);
  });
}

}  // namespace tocha::cpu
