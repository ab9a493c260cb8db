// Matrix multiplication on our own kernels: blocks for the caches, packing, and threads.
//
// The product is cut into slabs that bound the memory for packing. Within a slab each thread packs
// the part of b that it multiplies with, or b is packed once for all threads; every task multiplies
// a block of rows, packing its part of a as it goes.
// Operands that lie well in memory are read in place.
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <type_traits>

#include "core/parallel.h"
#include "cpu/gemm/internal.h"
#include "cpu/gemm/kernels.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kBlockK = 512;
constexpr int64_t kBlockRows = 112;     // a block of a, this high and kBlockK deep, stays in the second-level cache
constexpr int64_t kColumnsBlock = 256;  // both for an a whose columns lie apart: its rows are read in long pieces
constexpr int64_t kSlabK = 2048;
constexpr int64_t kSlabColumns = 1024;
constexpr int64_t kSlabRows = 2048;            // only where results pass through an accumulator
constexpr int64_t kRowsApart = 128;            // with so many, packing b is a small part of the work
constexpr int64_t kManyRows = 256;             // with so many, packing it once more is
constexpr int64_t kSmallBytes = 300 * 1024;    // of b: leaves room in the second-level cache
constexpr int64_t kPackedPerThread = 8192;     // elements: packing one takes as long as many multiplications
constexpr int64_t kDirectBytes = 768 * 1024;   // a larger b is packed even if its rows are contiguous
constexpr int64_t kDirectColumns = 64 * 1024;  // bytes: a larger a is packed if its columns are contiguous ...
constexpr int64_t kLinesAhead = 24;            // of an operand in place: two for each of the rows asked for ahead
constexpr int64_t kPanelsApart = 16;           // ... and it meets more panels of b than these

// The first-level cache: how many lines an address can lie in, and bytes until addresses share these again.
struct FirstCache {
  int64_t ways = 12, way = 4096;
};
const FirstCache& first_cache() {
  static const FirstCache cache = [] {
    FirstCache found;
#if defined(_SC_LEVEL1_DCACHE_ASSOC)
    const int64_t ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC), bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (ways > 0 && bytes >= ways * 64) found = {ways, bytes / ways};
#endif
    return found;
  }();
  return cache;
}

template <class T>
struct Kernels;
template <>
struct Kernels<float> {
  static const TileKernels<float>& tiles() { return gemm_tiles().f32; }
  static const PackKernels<float>& packing() { return gemm_packing().f32; }
};
template <>
struct Kernels<double> {
  static const TileKernels<double>& tiles() { return gemm_tiles().f64; }
  static const PackKernels<double>& packing() { return gemm_packing().f64; }
};
template <>
struct Kernels<uint32_t> {
  static const TileKernels<uint32_t>& tiles() { return gemm_tiles().u32; }
  static const PackKernels<uint32_t>& packing() { return gemm_packing().u32; }
};
template <>
struct Kernels<uint64_t> {
  static const TileKernels<uint64_t>& tiles() { return gemm_tiles().u64; }
  static const PackKernels<uint64_t>& packing() { return gemm_packing().u64; }
};

template <class T>
class Multiplication {
 public:
  explicit Multiplication(const Problem& p) : p_(p), tiles_(Kernels<T>::tiles()), packing_(Kernels<T>::packing()) {
    const bool stored_as_computed = itemsize(p.dtype) == sizeof(T);
    a_direct_ = stored_as_computed && a_reads_well();
    b_direct_ = stored_as_computed && !p.options.packed_b && b_reads_well();
    c_direct_ = itemsize(p.c_dtype) == sizeof(T) && p.c.col_stride == 1;
    if (!a_direct_ && p.a.row_stride == 1 && p.a.col_stride != 1) block_rows_ = block_k_ = kColumnsBlock;
    if (p.options.blocks.rows > 0) block_rows_ = p.options.blocks.rows;
    if (p.options.blocks.depth > 0) block_k_ = p.options.blocks.depth;
  }

  bool run() {
    if (is_one_block()) return run_as_block();
    p_.takes_on_telling();
    const int64_t slab_rows = c_direct_ ? p_.m : kSlabRows;
    for (int64_t m0 = 0; m0 < p_.m; m0 += slab_rows) {
      for (int64_t n0 = 0; n0 < p_.n; n0 += kSlabColumns) {
        for (int64_t k0 = 0; k0 < p_.k; k0 += kSlabK) {
          Slab s{m0, std::min(slab_rows, p_.m - m0), n0, std::min(kSlabColumns, p_.n - n0),
                 k0, std::min(kSlabK, p_.k - k0)};
          if (!run_slab(s)) return false;
        }
      }
    }
    return true;
  }

  // The same for matrices that follow each other in a batch.
  bool run_all(const BatchSteps& batch) {
    const bool blocks = is_one_block();
    for (int64_t i = 0; i < batch.count; ++i, batch.move(p_, 1)) {
      if (!(blocks ? run_as_block() : run())) return false;
    }
    return true;
  }

 private:
  struct Slab {
    int64_t m0, m, n0, n, k0, k;
    const T* b = nullptr;  // full panels, packed or in place
    int64_t b_k = 0, b_panel = 0;
    const T* b_edge = nullptr;
    T* acc = nullptr;
    int64_t acc_row = 0;
  };

  static constexpr int64_t size() { return sizeof(T); }

  // One task on one thread, as most matrices of a batch are: what deals out work would take longer than the work.
  bool is_one_block() const {
    if (p_.m > block_rows_ || p_.n > kSlabColumns || p_.k > block_k_ || p_.options.done) return false;
    return p_.m * p_.n * p_.k <= kWorkPerThread || in_parallel_region() || num_threads() == 1;
  }
  bool run_as_block() {
    Slab all{0, p_.m, 0, p_.n, 0, p_.k};
    return prepare_c(all) && prepare_b(all) && run_block(all, 0, p_.m, 0, p_.n);
  }

  // Packing pays where an element is used again often enough: a once for every panel of b, b once
  // for every panel of a.
  bool a_reads_well() const {
    if (p_.a.col_stride != 1 && p_.a.row_stride != 1) return false;
    if (p_.n <= 2 * tiles_.nr) return true;
    // Lanes of packed columns multiply faster than single elements do.
    if (std::is_same_v<T, float> && tiles_.vector_bytes < 32 && p_.m * p_.n * p_.k > kSmallProduct) return false;
    // Every k begins other lines of the cache, which do not stay there until the next panel of b. Asking for them ahead
    // costs less than packing, unless there are many panels or the lines evict each other.
    if (p_.a.col_stride != 1) {
      const bool seldom = p_.n <= kPanelsApart * tiles_.nr && !collides(p_.a.col_stride, kLinesAhead);
      return seldom || p_.m * p_.k * size() <= kDirectColumns;
    }
    const bool evicts = collides(p_.a.row_stride, tiles_.mr) && p_.n >= kRowsApart;
    return p_.k <= kBlockK && !evicts;
  }
  bool b_reads_well() const {
    if (p_.b.col_stride != 1) return false;
    if (p_.m <= 4 * tiles_.mr) return true;
    return !collides(p_.b.row_stride, kLinesAhead) && (p_.m <= 384 || p_.k * p_.n * size() <= kDirectBytes);
  }
  // Whether so many lines, each a stride behind the one before, do not stay in the first-level cache together.
  static bool collides(int64_t stride, int64_t lines) {
    const FirstCache& cache = first_cache();
    const int64_t apart = std::gcd(stride * size(), cache.way);
    return lines > cache.ways * std::max<int64_t>(1, cache.way / std::max<int64_t>(apart, 64));
  }
  char* at(MatrixRef r, int64_t row, int64_t col) const { return element(r, row, col, itemsize(p_.dtype)); }
  char* result_at(int64_t row, int64_t col) const { return element(p_.c, row, col, itemsize(p_.c_dtype)); }

  bool run_slab(Slab& s) {
    if (!prepare_c(s)) return false;
    if (!b_direct_ && !p_.options.packed_b) {
      if (const Grid grid = apart(s); grid.tasks() > 1) return run_apart(s, grid);
    }
    if (!prepare_b(s)) return false;
    const Grid grid = choose_grid(s.m, s.n, s.m * s.n * s.k, tiles_.mr, tiles_.nr, block_rows_);
    RowTracker rows(p_, is_last(s), grid.row_blocks, grid.col_blocks);
    std::atomic<bool> ok{true};
    parallel_for(grid.tasks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        if (!run_task(s, grid, t)) ok.store(false, std::memory_order_relaxed);
        const int64_t block = t / grid.col_blocks;
        rows.part_done(block, s.m0 + first_row(s, grid, block), s.m0 + first_row(s, grid, block + 1));
      }
    });
    if (ok.load(std::memory_order_relaxed)) rows.all_done(s.m0, s.m0 + s.m);
    return ok.load(std::memory_order_relaxed);
  }

  // A thread that packs for itself what it multiplies with needs no line of another core's cache. Threads have columns
  // of their own where these are many; those that share columns pack them both, so they get many rows each: rows that
  // the same thread mostly wrote before, and reads after. One task where the columns cannot be dealt out evenly.
  Grid apart(const Slab& s) const {
    const int64_t threads =
        in_parallel_region() ? 1 : std::min<int64_t>(num_threads(), s.m * s.n * s.k / kWorkPerThread);
    if (threads <= 1) return {1, 1};
    const bool by_rows =
        s.n < kRowsApart * threads || (s.m >= kManyRows * threads && s.k * s.n * size() <= kSmallBytes);
    int64_t row_parts = by_rows ? std::clamp<int64_t>(s.m / kRowsApart, 1, threads) : 1;
    while (threads % row_parts != 0) --row_parts;
    const int64_t col_parts = threads / row_parts, panels = ceil_div(s.n, tiles_.nr);
    const bool even = panels % col_parts == 0 || panels >= 4 * col_parts;
    if (!even || (!a_direct_ && s.n < kRowsApart * col_parts)) return {1, 1};
    return {row_parts, col_parts};
  }

  // The rows of the last slab of columns and depth are finished when it is.
  bool is_last(const Slab& s) const { return s.n0 + s.n == p_.n && s.k0 + s.k == p_.k; }
  static int64_t first_row(const Slab& s, const Grid& grid, int64_t block) { return block * s.m / grid.row_blocks; }

  bool run_apart(const Slab& s, Grid grid) {
    std::atomic<bool> ok{true};
    const int64_t most_blocks = ceil_div(ceil_div(s.m, grid.row_blocks), block_rows_);
    RowTracker rows(p_, is_last(s), grid.row_blocks * most_blocks, grid.col_blocks);
    const int64_t nr = tiles_.nr, panels = ceil_div(s.n, nr);
    parallel_for(grid.tasks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row_part = t / grid.col_blocks, col_part = t % grid.col_blocks;
        const int64_t row = row_part * s.m / grid.row_blocks, col = col_part * panels / grid.col_blocks * nr;
        Slab part = s;
        part.m0 += row;
        part.m = (row_part + 1) * s.m / grid.row_blocks - row;
        part.n0 += col;
        part.n = std::min(s.n, (col_part + 1) * panels / grid.col_blocks * nr) - col;
        part.acc += row * s.acc_row + col;
        const Grid blocks{ceil_div(part.m, block_rows_), 1};
        bool done = prepare_b(part);
        for (int64_t block = 0; done && block < blocks.row_blocks; ++block) {
          done = run_task(part, blocks, block);
          rows.part_done(row_part * most_blocks + block, part.m0 + first_row(part, blocks, block),
                         part.m0 + first_row(part, blocks, block + 1));
        }
        if (!done) ok.store(false, std::memory_order_relaxed);
      }
    });
    if (ok.load(std::memory_order_relaxed)) rows.all_done(s.m0, s.m0 + s.m);
    return ok.load(std::memory_order_relaxed);
  }

  bool prepare_b(Slab& s) {
    const int64_t nr = tiles_.nr;
    const int64_t panels = ceil_div(s.n, nr);
    const int64_t full = s.n / nr;
    if (p_.options.packed_b) {  // panels of the whole depth, one behind the other
      s.b = static_cast<const T*>(p_.options.packed_b) + s.n0 * p_.k + s.k0 * nr;
      s.b_k = nr;
      s.b_panel = nr * p_.k;
      s.b_edge = s.b + full * s.b_panel;
      return true;
    }
    if (b_direct_) {
      s.b = reinterpret_cast<const T*>(at(p_.b, s.k0, s.n0));
      s.b_k = p_.b.row_stride;
      s.b_panel = nr;
      if (full == panels) return true;
      T* edge = static_cast<T*>(work_buffer(Purpose::packed_b, s.k * nr * size()));
      if (!edge) return false;
      packing_.pack_b(p_.dtype, at(p_.b, s.k0, s.n0 + full * nr), p_.b.row_stride, 1, s.k, s.n - full * nr, edge);
      s.b_edge = edge;
      return true;
    }
    T* packed = static_cast<T*>(work_buffer(Purpose::packed_b, panels * nr * s.k * size()));
    if (!packed) return false;
    const int64_t grain = std::max<int64_t>(1, kPackedPerThread / (s.k * nr));
    parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
      packing_.pack_b(p_.dtype, at(p_.b, s.k0, s.n0 + begin * nr), p_.b.row_stride, p_.b.col_stride, s.k,
                      std::min(s.n, end * nr) - begin * nr, packed + begin * nr * s.k);
    });
    s.b = packed;
    s.b_k = nr;
    s.b_panel = nr * s.k;
    s.b_edge = packed + full * nr * s.k;
    return true;
  }

  bool prepare_c(Slab& s) {
    if (c_direct_) {
      s.acc = reinterpret_cast<T*>(result_at(s.m0, s.n0));
      s.acc_row = p_.c.row_stride;
      return true;
    }
    s.acc_row = ceil_div(s.n, tiles_.nr) * tiles_.nr;
    s.acc = static_cast<T*>(work_buffer(Purpose::accumulator, s.m * s.acc_row * size()));
    return s.acc != nullptr;
  }

  bool run_task(const Slab& s, Grid grid, int64_t task) const {
    const int64_t row_block = task / grid.col_blocks, col_block = task % grid.col_blocks;
    const int64_t row = first_row(s, grid, row_block), rows = first_row(s, grid, row_block + 1) - row;
    const int64_t panels = ceil_div(s.n, tiles_.nr);
    const int64_t panel = col_block * panels / grid.col_blocks, end = (col_block + 1) * panels / grid.col_blocks;
    return run_block(s, row, rows, panel, std::min(s.n, end * tiles_.nr) - panel * tiles_.nr);
  }

  // Some rows of a slab, and some columns from a panel of b on.
  bool run_block(const Slab& s, int64_t row, int64_t rows, int64_t panel, int64_t cols) const {
    const int64_t nr = tiles_.nr, col = panel * nr;
    TileJob<T> job{};
    job.rows = rows;
    job.panels = ceil_div(rows, tiles_.mr);
    job.n = cols;
    job.a_packed = !a_direct_;
    job.a_row = p_.a.row_stride;
    job.a_k = p_.a.col_stride;
    job.b_k = s.b_k;
    job.b_panel = s.b_panel;
    job.c = s.acc + row * s.acc_row + col;
    job.c_row = s.acc_row;

    const int64_t steps = s.k <= block_k_ ? 1 : ceil_div(s.k, block_k_);
    auto first_k = [&](int64_t step) { return step == 0 ? 0 : step == steps ? s.k : step * s.k / steps; };
    T* packed = nullptr;
    if (!a_direct_) {
      packed = static_cast<T*>(work_buffer(Purpose::packed_a, (rows * ceil_div(s.k, steps) + kPackSlack) * size()));
      if (!packed) return false;
    }
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t k = first_k(step);
      job.k = first_k(step + 1) - k;
      const char* a = at(p_.a, s.m0 + row, s.k0 + k);
      if (packed) packing_.pack_a(p_.dtype, a, p_.a.row_stride, p_.a.col_stride, rows, job.panels, job.k, packed);
      job.a = packed ? packed : reinterpret_cast<const T*>(a);
      job.b = s.b + panel * s.b_panel + k * s.b_k;
      job.b_edge = s.b_edge + k * nr;
      const bool first = s.k0 + k == 0, biased = first && p_.bias;
      job.alpha = c_direct_ ? p_.alpha.to<T>() : T(1);
      job.beta = !first || biased ? T(1) : c_direct_ ? p_.beta.to<T>() : T(0);
      job.addend = biased ? static_cast<const T*>(p_.bias) + s.n0 + col : nullptr;
      tiles_.multiply(job);
    }
    if (!c_direct_ && s.k0 + s.k == p_.k) {
      packing_.finish(p_.c_dtype, rows, cols, job.c, s.acc_row, 1, result_at(s.m0 + row, s.n0 + col), p_.c.row_stride,
                      p_.c.col_stride, p_.alpha.to<T>(), p_.beta.to<T>());
    }
    return true;
  }

  Problem p_;
  const TileKernels<T>& tiles_;
  const PackKernels<T>& packing_;
  bool a_direct_, b_direct_, c_direct_;
  int64_t block_rows_ = kBlockRows, block_k_ = kBlockK;
};

// Whether to compute the transposed product: c is written by columns, or b would have to be
// transposed for the sake of a few rows of a.
bool flips(const Problem& p) {
  if (p.options.packed_b) return false;
  if (p.c.col_stride != 1 && p.c.row_stride == 1) return true;
  return p.b.col_stride != 1 && p.b.row_stride == 1 && p.m <= 64 && p.n > 2 * p.m && p.k >= 128;
}

template <class T>
bool multiply(const Problem& p, const BatchSteps& batch) {
  if (flips(p)) return Multiplication<T>(transposed(p)).run_all({batch.count, batch.b, batch.a, batch.c});
  return Multiplication<T>(p).run_all(batch);
}

}  // namespace

bool tiles_add_bias(const Problem& p) {
  const bool stored_as_computed = p.dtype == DType::Float32 || p.dtype == DType::Float64;
  return stored_as_computed && p.c.col_stride == 1 && !flips(p);
}

int64_t packed_right_bytes(DType dtype, int64_t k, int64_t n) {
  const bool served = dtype == DType::Float32 || dtype == DType::BFloat16 || dtype == DType::Float16;
  const int64_t nr = gemm_tiles().f32.nr;
  return served ? (ceil_div(n, nr) * nr * k + kPackSlack) * static_cast<int64_t>(sizeof(float)) : 0;
}

void pack_right(DType dtype, int64_t k, int64_t n, MatrixRef b, void* out) {
  gemm_packing().f32.pack_b(dtype, b.data, b.row_stride, b.col_stride, k, n, static_cast<float*>(out));
}

bool multiply_tiles(const Problem& p, const BatchSteps& batch) {
  switch (p.dtype) {
    case DType::Float32:
    case DType::BFloat16:
    case DType::Float16:
      return multiply<float>(p, batch);
    case DType::Float64:
      return multiply<double>(p, batch);
    case DType::Int64:
    case DType::UInt64:
      return multiply<uint64_t>(p, batch);
    default:
      return multiply<uint32_t>(p, batch);
  }
}

}  // namespace tocha::cpu
