// Register-tiled matrix multiplication on one thread: the inner loops of gemm.cpp.
#include "cpu/engine/isa/simd.h"
#include "cpu/gemm/kernels.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::TileJob;
using cpu::TileKernels;

// The first tiles on a packed panel of b fetch the next panel, two cache lines for every four k; an
// unpacked panel is fetched a few rows ahead, because its rows are too far apart for the hardware. Beside a packed
// panel a tile also fetches what the next tile writes, a row for every four k, and, where it is the first to read its
// rows of a, those of the next tile: all at once they would keep the multiplications waiting.
constexpr int64_t kAheadInPanel = 32;
constexpr int64_t kRowsAhead = 12;

template <class T>
struct Tile {
  int64_t k;
  const T* a;
  int64_t a_row, a_k;
  const T* b;
  int64_t b_k;
  T* c;
  int64_t c_row;
  const T* addend;
  int64_t addend_row;
  int64_t last_lanes;  // columns in the last vector
  uintptr_t ahead;     // two cache lines to fetch ...
  int64_t ahead_k;     // ... how far they move for every k ...
  bool each_k;         // ... and whether they are fetched for every k, or every four
  uintptr_t next_c;    // the next tile of c, as many rows as this one
  uintptr_t next_a;    // its rows of a
  T alpha, beta;
};

// Writes a tile. What it needs to know is read before: any store may change what a reference shows.
template <bool kPartial, bool kAdds, class T, int kRows, int kVectors>
inline __attribute__((always_inline)) void write_rows(const Tile<T>& t, const Vec<T> (&acc)[kRows][kVectors]) {
  T* c = t.c;
  const T* addend = t.addend;
  const int64_t c_row = t.c_row, addend_row = t.addend_row, last_lanes = t.last_lanes;
  const Vec<T> alpha = broadcast(t.alpha), beta = broadcast(t.beta);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i, c += c_row, addend += addend_row) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      const bool partial = kPartial && j == kVectors - 1;
      const T* added = addend + j * kLanes<T>;
      Vec<T> value = acc[i][j] * alpha;
      if constexpr (kAdds) value = multiply_add<T>(partial ? load_first(added, last_lanes) : load(added), beta, value);
      if (partial)
        store_first(c + j * kLanes<T>, value, last_lanes);
      else
        store(c + j * kLanes<T>, value);
    }
  }
}

template <class T, int kRows, int kVectors>
inline __attribute__((always_inline)) void write_tile(const Tile<T>& t, const Vec<T> (&acc)[kRows][kVectors]) {
  const bool whole = t.last_lanes == kLanes<T>;
  if (t.beta == 0)
    whole ? write_rows<false, false>(t, acc) : write_rows<true, false>(t, acc);
  else
    whole ? write_rows<false, true>(t, acc) : write_rows<true, true>(t, acc);
}

// Reads one column of a tile after the other: element i of column k is `at(i)` after k calls of
// `advance`. Packed panels have the rows side by side ...
template <class T, int kRows>
struct PackedReader {
  const T* p;
  int64_t step;

  explicit PackedReader(const Tile<T>& t) : p(t.a), step(t.a_k) {}
  T at(int i) const { return p[i]; }
  void advance() { p += step; }
};

// ... as transposed matrices have, whose columns are too far apart for the hardware to fetch them ...
template <class T, int kRows>
struct UnitRowReader : PackedReader<T, kRows> {
  using PackedReader<T, kRows>::PackedReader;
  void advance() {
    const uintptr_t ahead =
        reinterpret_cast<uintptr_t>(this->p) + static_cast<uintptr_t>(kRowsAhead * this->step) * sizeof(T);
    __builtin_prefetch(reinterpret_cast<const void*>(ahead));
    __builtin_prefetch(reinterpret_cast<const void*>(ahead + (kRows - 1) * sizeof(T)));
    this->p += this->step;
  }
};

// ... and unpacked row-major matrices the columns. One pointer serves three rows, because an x86
// address is base + {0, 1, 2} * index; the empty asm keeps the compiler from merging the pointers.
template <class T, int kRows>
struct UnitColumnReader {
  static constexpr int kGroups = (kRows + 2) / 3;
  const T* p[kGroups];
  int64_t row;

  explicit UnitColumnReader(const Tile<T>& t) : row(t.a_row) {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      p[g] = t.a + 3 * g * row;
      asm("" : "+r"(p[g]));
    }
  }
  T at(int i) const { return p[i / 3][i % 3 * row]; }
  void advance() {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) ++p[g];
  }
};

// step() for every k, four of them to a jump, and what the tile is to fetch: for kRows rows of the next one, and for
// their rows of a where it kFetchesRows.
template <int kRows, bool kFetchesRows, class T, class Step>
[[gnu::always_inline]] inline void repeat(const Tile<T>& t, Step& step) {
  uintptr_t ahead = t.ahead;
  const auto ahead_k = static_cast<uintptr_t>(t.ahead_k);
  auto fetch = [&]() __attribute__((always_inline)) {
    __builtin_prefetch(reinterpret_cast<const void*>(ahead));
    __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64));
  };
  int64_t times = t.k;
  if (t.each_k) {
    for (; times > 0; --times, ahead += ahead_k) {
      fetch();
      step();
    }
    return;
  }
  uintptr_t next_c = t.next_c, next_a = t.next_a;
  const auto c_row = static_cast<uintptr_t>(t.c_row) * sizeof(T), a_row = static_cast<uintptr_t>(t.a_row) * sizeof(T);
  int rows = kRows;
  auto fetch_next = [&]() __attribute__((always_inline)) {
    __builtin_prefetch(reinterpret_cast<const void*>(next_c), 1);
    __builtin_prefetch(reinterpret_cast<const void*>(next_c + 64), 1);
    next_c += --rows > 0 ? c_row : 0;
    if constexpr (kFetchesRows) {  // a line of each of sixteen rows while the tile goes through sixteen k
#pragma GCC unroll 4
      for (uintptr_t i = 0; i < 4; ++i) __builtin_prefetch(reinterpret_cast<const void*>(next_a + i * a_row));
      next_a += times & 12 ? 4 * a_row : 64 - 12 * a_row;
    }
  };
  for (; times >= 4; times -= 4, ahead += 4 * ahead_k) {
    fetch();
    fetch_next();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      step();
      asm volatile("" ::: "memory");  // loads of another step would need registers of their own
    }
  }
  for (; times > 0; --times) step();
}

// One tile of kRows x (kVectors vectors).
template <class T, template <class, int> class Reader, bool kFetchesRows, int kRows, int kVectors>
void multiply_tile(const Tile<T>& t) {
  Vec<T> acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      acc[i][j] = Vec<T>{};
      if (t.each_k) __builtin_prefetch(t.c + i * t.c_row + j * kLanes<T>, 1);
    }
  }
  Reader<T, kRows> a(t);
  const T* b = t.b;
  const int64_t b_k = t.b_k;
  auto step = [&]() __attribute__((always_inline)) {
    Vec<T> row[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) row[j] = load(b + j * kLanes<T>);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      Vec<T> x = broadcast(a.at(i));
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) acc[i][j] = multiply_add<T>(x, row[j], acc[i][j]);
    }
    a.advance();
    b += b_k;
  };
  repeat<kRows, kFetchesRows>(t, step);
  write_tile(t, acc);
}

#if defined(__aarch64__)
template <int kLane>
inline float32x4_t multiply_lane(float32x4_t acc, float32x4_t b, float32x4_t a) {
  return vfmaq_laneq_f32(acc, b, a, kLane);
}

// A packed panel has room behind it: its columns are read as whole vectors, whose lanes multiply. Loading each
// element for itself takes the units that multiply as long as multiplying does.
template <int kRows, int kVectors>
void multiply_packed_tile(const Tile<float>& t) {
  constexpr int kGroups = (kRows + 3) / 4;
  float32x4_t acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      acc[i][j] = float32x4_t{};
      if (t.each_k) __builtin_prefetch(t.c + i * t.c_row + j * 4, 1);
    }
  }
  const float *a = t.a, *b = t.b;
  const int64_t a_k = t.a_k, b_k = t.b_k;
  auto step = [&]() __attribute__((always_inline)) {
    float32x4_t column[kGroups], row[kVectors];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) column[g] = vld1q_f32(a + 4 * g);
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) row[j] = vld1q_f32(b + 4 * j);
    auto lane = [&]<int i>(std::integral_constant<int, i>) __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) acc[i][j] = multiply_lane<i % 4>(acc[i][j], row[j], column[i / 4]);
    };
    [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
      (lane(std::integral_constant<int, i>{}), ...);
    }(std::make_integer_sequence<int, kRows>{});
    a += a_k;
    b += b_k;
  };
  repeat<kRows, false>(t, step);
  Vec<float> sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) sums[i][j] = (Vec<float>)acc[i][j];
  }
  write_tile(t, sums);
}
#endif

template <class T>
struct TileFunctions {
  void (*by_height[kTileRows<T>])(const Tile<T>&);  // height - 1
};

template <class T, template <class, int> class Reader, bool kFetchesRows, int kVectors, int... kHeight>
constexpr TileFunctions<T> tile_functions(std::integer_sequence<int, kHeight...>) {
  return {{multiply_tile<T, Reader, kFetchesRows, kHeight + 1, kVectors>...}};
}
template <class T, template <class, int> class Reader, int kVectors, bool kFetchesRows = false>
constexpr auto kTileFunctions =
    tile_functions<T, Reader, kFetchesRows, kVectors>(std::make_integer_sequence<int, kTileRows<T>>{});

template <class T, int kVectors>
constexpr const TileFunctions<T>& packed_tile_functions() {
  return kTileFunctions<T, PackedReader, kVectors>;
}
#if defined(__aarch64__)
template <int kVectors, int... kHeight>
constexpr TileFunctions<float> lane_functions(std::integer_sequence<int, kHeight...>) {
  return {{multiply_packed_tile<kHeight + 1, kVectors>...}};
}
template <int kVectors>
constexpr auto kLaneFunctions = lane_functions<kVectors>(std::make_integer_sequence<int, kTileRows<float>>{});
template <>
constexpr const TileFunctions<float>& packed_tile_functions<float, 1>() {
  return kLaneFunctions<1>;
}
template <>
constexpr const TileFunctions<float>& packed_tile_functions<float, 2>() {
  return kLaneFunctions<2>;
}
#endif

template <class T>
const TileFunctions<T>& functions_for(const TileJob<T>& job, bool narrow, bool first) {
  if (job.a_packed) return narrow ? packed_tile_functions<T, 1>() : packed_tile_functions<T, 2>();
  if (job.a_row == 1) return narrow ? kTileFunctions<T, UnitRowReader, 1> : kTileFunctions<T, UnitRowReader, 2>;
  if (first && !narrow) return kTileFunctions<T, UnitColumnReader, 2, true>;
  return narrow ? kTileFunctions<T, UnitColumnReader, 1> : kTileFunctions<T, UnitColumnReader, 2>;
}

// The heights of panels: panel p of `panels` starts at row p * rows / panels.
class Heights {
 public:
  Heights(int64_t rows, int64_t panels) : panels_(panels), least_(rows / panels), over_(rows % panels) {}
  int64_t next() {
    sum_ += over_;
    if (sum_ < panels_) return least_;
    sum_ -= panels_;
    return least_ + 1;
  }

 private:
  int64_t panels_, least_, over_, sum_ = 0;
};

template <class T>
void multiply(const TileJob<T>& job) {
  constexpr int64_t nr = kTileColumns<T>;
  const Heights all_heights(job.rows, job.panels);
  for (int64_t column = 0; column < job.n; column += nr) {
    const int64_t width = job.n - column < nr ? job.n - column : nr;
    const int64_t vectors = (width + kLanes<T> - 1) / kLanes<T>;
    const auto& functions = functions_for(job, vectors == 1, column == 0);
    Tile<T> tile{.k = job.k,
                 .a = job.a,
                 .a_row = job.a_row,
                 .a_k = job.a_k,
                 .b = width == nr ? job.b + column / nr * job.b_panel : job.b_edge,
                 .b_k = width == nr ? job.b_k : nr,
                 .c = job.c + column,
                 .c_row = job.c_row,
                 .addend = nullptr,
                 .addend_row = job.addend ? job.addend_row : job.c_row,
                 .last_lanes = width - (vectors - 1) * kLanes<T>,
                 .ahead = 0,
                 .ahead_k = kAheadInPanel,
                 .each_k = false,
                 .next_c = 0,
                 .next_a = 0,
                 .alpha = job.alpha,
                 .beta = job.beta};
    tile.each_k = tile.b_k != nr;
    if (tile.each_k) tile.ahead_k = tile.b_k * static_cast<int64_t>(sizeof(T));
    const uintptr_t here = reinterpret_cast<uintptr_t>(tile.b);
    const uintptr_t next = here + static_cast<uintptr_t>(job.b_panel) * sizeof(T);
    // What is not the next panel's is not fetched: the lines of this one are there.
    constexpr int64_t tiles_that_fetch = nr * static_cast<int64_t>(sizeof(T)) / kAheadInPanel;
    Heights heights = all_heights;
    for (int64_t panel = 0, first = 0, height; panel < job.panels; ++panel, first += height) {
      height = heights.next();
      tile.a = job.a + first * (job.a_packed ? job.k : job.a_row);
      if (job.a_packed) tile.a_k = height;
      tile.c = job.c + column + first * job.c_row;
      tile.addend = (job.addend ? job.addend : job.c) + column + first * tile.addend_row;
      tile.ahead = tile.each_k                ? here + static_cast<uintptr_t>(kRowsAhead * tile.ahead_k)
                   : panel < tiles_that_fetch ? next + static_cast<uintptr_t>(panel * job.k * kAheadInPanel)
                                              : here;
      const bool last = panel + 1 == job.panels;
      tile.next_c = reinterpret_cast<uintptr_t>(last ? job.c + column + nr : tile.c + height * job.c_row);
      tile.next_a = reinterpret_cast<uintptr_t>(tile.a + height * job.a_row);
      functions.by_height[height - 1](tile);
    }
  }
}

template <class T>
constexpr TileKernels<T> tiles() {
  return {kTileRows<T>, kTileColumns<T>, kVectorBytes, multiply<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const GemmTiles gemm_tiles;
const GemmTiles gemm_tiles = {gemm::tiles<float>(), gemm::tiles<double>(), gemm::tiles<uint32_t>(),
                              gemm::tiles<uint64_t>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
