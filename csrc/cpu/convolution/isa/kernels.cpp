// Staging and gathering of patches for convolution, on whole vectors.
#include "cpu/convolution/kernels.h"

#include <array>

#include "cpu/engine/isa/convert.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::ChannelJob;
using cpu::GatherJob;
using cpu::Move;
using cpu::PatchJob;
using cpu::PatchKernels;
using cpu::RowsJob;
using cpu::StageJob;
using cpu::TapJob;
using cpu::TapSumJob;

template <class T>
inline void clear(T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = T(0);
}

// One row of a part: out[i] = in[i * in_step] for `count` columns.
template <class T, class S>
inline void stage_columns(const S* in, int64_t in_step, int64_t count, T* out) {
  constexpr int64_t n = kLanes<T>;
  int64_t i = 0;
  if (in_step == 1) {
    for (; i + n <= count; i += n) store(out + i, load_as<T>(in + i));
    if (i < count) {
      const Vec<T> rest = load_first_as<T>(in + i, count - i);
      store_first(out + i, rest, count - i);
    }
    return;
  }
  for (; i < count; ++i) out[i] = widen<T>(in[i * in_step]);
}

inline int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// Elements [begin, end) of p in the compute type, zeros in the other lanes. Halves too where loads have masks.
template <class T>
inline Vec<T> load_between_as(const T* p, int64_t begin, int64_t end) {
  return load_between(p, begin, end);
}
#if defined(__AVX512BW__) && defined(__AVX512VL__)
template <class T, class S>
constexpr bool kLoadsBetween = std::is_same_v<T, S> || (std::is_same_v<T, float> && sizeof(S) == 2);

template <class T, class S>
  requires(kLoadsBetween<T, S> && !std::is_same_v<T, S>)
inline Vec<T> load_between_as(const S* p, int64_t begin, int64_t end) {
  if (begin <= 0 && end >= 16) return load_as<T>(p);
  const uint32_t below = begin <= 0 ? 0u : begin >= 16 ? 0xffffu : (1u << begin) - 1;
  const uint32_t within = end <= 0 ? 0u : end >= 16 ? 0xffffu : (1u << end) - 1;
  S parts[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts),
                      _mm256_maskz_loadu_epi16(static_cast<__mmask16>(within & ~below), p));
  return load_as<T>(parts);
}
#else
template <class T, class S>
constexpr bool kLoadsBetween = std::is_same_v<T, S>;
#endif

// The usual rows, of elements side by side. Writes whole vectors: what is beyond the row belongs to a later one, or to
// the slack at the end.
template <class T, class S>
void stage_plain_row(const StageJob<T>& job, const S* row, T* out) {
  constexpr int64_t n = kLanes<T>;
  constexpr auto lanes = std::make_index_sequence<n>{};
  const int64_t part = job.part, size = job.size_x, first = job.first_x;
  if (job.step == 1) {
    for (int64_t i = 0; i < part; i += n)
      store(out + i, load_between_as<T>(row + first + i, -first - i, size - first - i));
    return;
  }
  for (int64_t i = 0; i < part; i += n) {
    const int64_t x = first + 2 * i;
    const Vec<T> a = load_between_as<T>(row + x, -x, size - x),
                 b = load_between_as<T>(row + x + n, -x - n, size - x - n);
    const Vec<T> even = every_other<T, false>(a, b, lanes);
    if (i + n <= part)
      store(out + i, even);
    else
      store_first(out + i, even, part - i);
    store(out + part + i, every_other<T, true>(a, b, lanes));
  }
}

template <class T, class S>
void stage_row(const StageJob<T>& job, const S* row, T* out) {
  if constexpr (kLoadsBetween<T, S>) {
    if (job.in_x == 1 && job.step <= 2) return stage_plain_row(job, row, out);
  }
  for (int64_t phase = 0; phase < job.step; ++phase, out += job.part) {
    const int64_t first = job.first_x + phase;  // the column of out[0]
    int64_t begin = first >= 0 ? 0 : ceil_div(-first, job.step);
    int64_t end = first >= job.size_x ? 0 : ceil_div(job.size_x - first, job.step);
    if (end > job.part) end = job.part;
    if (begin > end) begin = end;
    clear(out, begin);
    stage_columns(row + (first + begin * job.step) * job.in_x, job.in_x * job.step, end - begin, out + begin);
    clear(out + end, job.part - end);
  }
}

template <class T>
void stage(const StageJob<T>& job) {
  with_storage<T>(job.dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    const S* in = static_cast<const S*>(job.in);
    for (int64_t c = 0; c < job.channels; ++c) {
      for (int64_t i = 0; i < job.count_z; ++i) {
        const int64_t z = job.first_z + i;
        for (int64_t j = 0; j < job.count_y; ++j) {
          const int64_t y = job.first_y + j;
          T* out = job.out + c * job.out_channel + i * job.out_z + j * job.out_y;
          if (z < 0 || z >= job.size_z || y < 0 || y >= job.size_y) {
            clear(out, job.step * job.part);
          } else {
            stage_row(job, in + c * job.in_channel + z * job.in_z + y * job.in_y, out);
          }
        }
      }
    }
  });
}

// A few moves, with their places in registers.
template <class T, int kMoves>
void gather_some(const PatchJob<T>& job) {
  const T* from[kMoves];
  int64_t to[kMoves];
  for (int m = 0; m < kMoves; ++m) {
    from[m] = job.staged + job.moves[m].from;
    to[m] = job.moves[m].to;
  }
  const int64_t *tap = job.tap, taps = job.taps, channels = job.channels, channel = job.channel, row = job.out_row;
  T* out = job.out;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t, out += row) {
      const int64_t at = c * channel + tap[t];
#pragma GCC unroll 4
      for (int m = 0; m < kMoves; ++m) store(out + to[m], load(from[m] + at));
    }
  }
}

template <class T>
void gather(const PatchJob<T>& job) {
  switch (job.move_count) {
    case 1:
      return gather_some<T, 1>(job);
    case 2:
      return gather_some<T, 2>(job);
    case 3:
      return gather_some<T, 3>(job);
    case 4:
      return gather_some<T, 4>(job);
    default:
      break;
  }
  const Move* moves = job.moves;
  const int64_t *tap = job.tap, count = job.move_count, taps = job.taps, channels = job.channels, row = job.out_row;
  T* out = job.out;
  for (int64_t c = 0; c < channels; ++c) {
    const T* channel = job.staged + c * job.channel;
    for (int64_t t = 0; t < taps; ++t, out += row) {
      const T* from = channel + tap[t];
      for (int64_t m = 0; m < count; ++m) store(out + moves[m].to, load(from + moves[m].from));
    }
  }
}

template <class T>
void gather_columns(const GatherJob<T>& job) {
  with_storage<T>(job.dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    const S* in = static_cast<const S*>(job.in);
    const int32_t* sources = job.sources;
    const int64_t columns = job.columns;
    T* out = job.out;
    for (int64_t c = 0; c < job.channels; ++c, in += job.channel, out += columns) {
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) out[j] = widen<T>(in[sources[j]]);
    }
  });
}

// As many accumulators as the registers hold beside a vector of b and a weight.
#if defined(__AVX512F__)
constexpr int kSumRows = 6, kSumVectors = 5;
#elif defined(__aarch64__)
constexpr int kSumRows = 5, kSumVectors = 5;
#else
constexpr int kSumRows = 4, kSumVectors = 3;
#endif

template <class T, int kRows, int kVectors>
void sum_taps_of(const TapSumJob<T>& job) {
  Vec<T> acc[kRows][kVectors] = {};
  // A pointer for each tap; the empty asm keeps the compiler from making one for each tap and row.
  const T* p[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    p[v] = job.a + job.taps[v];
    asm("" : "+r"(p[v]));
  }
  const int64_t row = job.a_row, a_k = job.a_k;
  const T *b = job.b, *end = b + job.k * kVectors * kLanes<T>;
#pragma GCC unroll 1
  for (; b != end; b += kVectors * kLanes<T>) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Vec<T> x = load(b + v * kLanes<T>);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) acc[i][v] = multiply_add<T>(broadcast(p[v][i * row]), x, acc[i][v]);
      p[v] += a_k;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      T* c = job.c + i * job.c_row + v * kLanes<T>;
      store(c, job.first ? acc[i][v] : load(c) + acc[i][v]);
    }
  }
}

template <class T, int... kIndex>
constexpr auto sum_functions(std::integer_sequence<int, kIndex...>) {
  using Function = void (*)(const TapSumJob<T>&);
  return std::array<Function, sizeof...(kIndex)>{sum_taps_of<T, kIndex / kSumVectors + 1, kIndex % kSumVectors + 1>...};
}

template <class T>
void sum_taps(const TapSumJob<T>& job) {
  static constexpr auto functions = sum_functions<T>(std::make_integer_sequence<int, kSumRows * kSumVectors>{});
  functions[static_cast<size_t>((job.rows - 1) * kSumVectors + job.vectors - 1)](job);
}

template <class T>
void pack_taps(const TapJob<T>& job) {
  with_storage<T>(job.dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    T* out = job.out;
    for (int64_t c = 0; c < job.channels; ++c) {
      for (int64_t t = 0; t < job.taps; ++t, out += job.height) {
        const S* from = static_cast<const S*>(job.weight) + c * job.channel + job.tap[t];
        for (int64_t i = 0; i < job.height; ++i) out[i] = widen<T>(from[i * job.row]);
      }
    }
  });
}

// kMoves moves from `first` on; the last move of all must not write beyond the columns.
template <class T, int kMoves>
inline void combine_some(const ChannelJob<T>& job, const T* weight, T start, int64_t first, T* out) {
  const T* from[kMoves];
  Vec<T> sum[kMoves];
#pragma GCC unroll 8
  for (int m = 0; m < kMoves; ++m) {
    from[m] = job.staged + job.moves[first + m].from;
    sum[m] = broadcast(start);
  }
  const int64_t *tap = job.tap, taps = job.taps;
  for (int64_t t = 0; t < taps; ++t) {
    const Vec<T> w = broadcast(weight[t]);
    const int64_t at = tap[t];
#pragma GCC unroll 8
    for (int m = 0; m < kMoves; ++m) sum[m] = multiply_add<T>(w, load(from[m] + at), sum[m]);
  }
#pragma GCC unroll 8
  for (int m = 0; m < kMoves; ++m) {
    const int64_t to = job.moves[first + m].to, rest = job.columns - to;
    if (rest >= kLanes<T>)
      store(out + to, sum[m]);
    else
      store_first(out + to, sum[m], rest);
  }
}

template <class T>
void combine(const ChannelJob<T>& job, const T* weight, T start, T* out) {
  int64_t m = 0;
  for (; m + 8 <= job.move_count; m += 8) combine_some<T, 8>(job, weight, start, m, out);
  for (; m + 4 <= job.move_count; m += 4) combine_some<T, 4>(job, weight, start, m, out);
  for (; m < job.move_count; ++m) combine_some<T, 1>(job, weight, start, m, out);
}

// kVectors moves from `first` on, for all rows.
template <class T, int kRows, int kVectors>
void combine_rows_of(const RowsJob<T>& job, int64_t first) {
  const Move* moves = job.at.moves + first;
  const T* from[kVectors];
  Vec<T> acc[kRows][kVectors] = {};
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) from[v] = job.at.staged + moves[v].from;
  const int64_t *tap = job.at.tap, taps = job.at.taps;
  const T* weight = job.weight;
  for (int64_t c = 0; c < job.channels; ++c) {
    const int64_t base = c * job.channel;
#pragma GCC unroll 1
    for (int64_t t = 0; t < taps; ++t, weight += kRows) {
      const int64_t at = base + tap[t];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const Vec<T> x = load(from[v] + at);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) acc[i][v] = multiply_add<T>(broadcast(weight[i]), x, acc[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    T* out = job.out + i * job.out_row;
    const Vec<T> start = broadcast(job.start ? job.start[i] : T(0));
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const int64_t to = moves[v].to, rest = job.at.columns - to;
      const Vec<T> sum = start + acc[i][v];
      if (rest >= kLanes<T>)
        store(out + to, sum);
      else
        store_first(out + to, sum, rest);
    }
  }
}

template <class T, int... kIndex>
constexpr auto combine_functions(std::integer_sequence<int, kIndex...>) {
  using Function = void (*)(const RowsJob<T>&, int64_t);
  return std::array<Function, sizeof...(kIndex)>{
      combine_rows_of<T, kIndex / kSumVectors + 1, kIndex % kSumVectors + 1>...};
}

template <class T>
void combine_rows(const RowsJob<T>& job) {
  static constexpr auto functions = combine_functions<T>(std::make_integer_sequence<int, kSumRows * kSumVectors>{});
  const int64_t count = job.at.move_count, groups = (count + kSumVectors - 1) / kSumVectors;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * count / groups, vectors = (g + 1) * count / groups - first;
    functions[static_cast<size_t>((job.rows - 1) * kSumVectors + vectors - 1)](job, first);
  }
}

// Sums of some taps, in registers.
template <class T, int kTaps>
inline void correlate_some(const ChannelJob<T>& job, const T* grad, int64_t first, T* sums) {
  Vec<T> sum[kTaps];
  int64_t tap[kTaps];
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) {
    sum[t] = load(sums + (first + t) * kLanes<T>);
    tap[t] = job.tap[first + t];
  }
  for (int64_t m = 0; m < job.move_count; ++m) {
    const int64_t to = job.moves[m].to, next = m + 1 < job.move_count ? job.moves[m + 1].to : job.columns;
    const Vec<T> g = load_between(grad + to, 0, next - to);
    const T* from = job.staged + job.moves[m].from;
#pragma GCC unroll 9
    for (int t = 0; t < kTaps; ++t) sum[t] = multiply_add<T>(g, load(from + tap[t]), sum[t]);
  }
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) store(sums + (first + t) * kLanes<T>, sum[t]);
}

template <class T>
void correlate(const ChannelJob<T>& job, const T* grad, T* sums) {
  int64_t t = 0;
  for (; t + 9 <= job.taps; t += 9) correlate_some<T, 9>(job, grad, t, sums);
  for (; t + 3 <= job.taps; t += 3) correlate_some<T, 3>(job, grad, t, sums);
  for (; t < job.taps; ++t) correlate_some<T, 1>(job, grad, t, sums);
}

template <class T>
constexpr PatchKernels<T> patches() {
  static_assert(kLanes<T> <= cpu::kMoveSlack);
  return {kLanes<T>,   stage<T>,     gather<T>,  gather_columns<T>, kSumRows,    kSumVectors,
          sum_taps<T>, pack_taps<T>, combine<T>, combine_rows<T>,   correlate<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const ConvolutionKernels convolution_kernels;
const ConvolutionKernels convolution_kernels = {gemm::patches<float>(), gemm::patches<double>(),
                                                gemm::patches<uint32_t>(), gemm::patches<uint64_t>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
