// Matrix multiplication on a matrix unit: blocks for the caches, packing, and threads.
//
// Tasks are blocks of columns (and of rows, where there are few columns). Each packs its part of b for itself, so that
// it lies in its core's cache, and meets all rows of a with it. Rows of a are read where they lie if their depth is
// side by side and fills blocks; otherwise they are packed beforehand, once for all.
#include <atomic>

#include "core/parallel.h"
#include "cpu/gemm/internal.h"
#include "cpu/gemm/kernels.h"
#include "cpu/units/matrix_unit.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kPackedBytes = 768 * 1024;  // of b, for one task: stays in the second-level cache
constexpr int64_t kSlabBytes = 16 << 20;      // of packed rows of a
constexpr int64_t kMostBlocks = 128;          // of the depth, at a time
constexpr int64_t kFewestPanels = 2;          // of columns, for a task
constexpr int64_t kFewestRows = 64;
constexpr int64_t kManyRows = 4;  // times the columns
constexpr int64_t kTasksPerThread = 2;

bool fills_blocks(const MatrixUnit& unit, MatrixRef a, int64_t k) {
  return a.col_stride == 1 && k % unit.block_depth() == 0;
}

// What it takes to bring operands into the unit's form, in copies of an element: turning words around costs more than
// interleaving rows, and turning elements around more still.
int64_t packing_cost(const MatrixUnit& unit, const Problem& p) {
  const int64_t b = p.k * p.n * (p.b.col_stride == 1 ? 1 : p.b.row_stride == 1 ? 3 : 16);
  const int64_t a = fills_blocks(unit, p.a, p.k) ? 0
                                                 : p.m * p.k *
                                                       (p.a.col_stride == 1   ? 1
                                                        : p.a.row_stride == 1 ? 4
                                                                              : 16);
  const int64_t c = p.m * p.n * (p.c.col_stride == 1 ? 0 : p.c.row_stride == 1 ? 4 : 16);
  return a + b + c;
}

class UnitMultiplication {
 public:
  UnitMultiplication(const MatrixUnit& unit, const Problem& p, bool flipped)
      : unit_(unit), p_(p), flipped_(flipped), a_direct_(fills_blocks(unit, p.a, p.k)) {}

  bool run() {
    const int64_t row_bytes = unit_.blocks(p_.k) * kBlockBytes;
    const int64_t slab =
        a_direct_ ? p_.m : std::max<int64_t>(unit_.rows * 16, kSlabBytes / row_bytes / unit_.rows * unit_.rows);
    for (int64_t m0 = 0; m0 < p_.m; m0 += slab) {
      if (!run_slab(m0, std::min(slab, p_.m - m0))) return false;
    }
    return true;
  }

 private:
  // Rows of a, as the unit reads them.
  struct Left {
    const char* data;
    int64_t row, panel, block;
  };

  char* at(MatrixRef r, int64_t row, int64_t col) const { return element(r, row, col, unit_.item); }

  bool run_slab(int64_t m0, int64_t rows) {
    Left a{at(p_.a, m0, 0), p_.a.row_stride * unit_.item, unit_.rows * p_.a.row_stride * unit_.item, kBlockBytes};
    if (!a_direct_ && !pack_rows(m0, rows, a)) return false;
    const Grid grid = choose(rows);
    std::atomic<bool> ok{true};
    parallel_for(grid.tasks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        if (!run_task(a, m0, rows, grid, t)) ok.store(false, std::memory_order_relaxed);
      }
    });
    return ok.load(std::memory_order_relaxed);
  }

  int64_t threads(int64_t rows) const {
    return in_parallel_region()
               ? 1
               : std::clamp<int64_t>(rows * p_.n * p_.k / (kWorkPerThread * unit_.speed), 1, num_threads());
  }

  // Panels [block][row], one behind the other.
  bool pack_rows(int64_t m0, int64_t rows, Left& a) const {
    const int64_t panels = ceil_div(rows, unit_.rows), blocks = unit_.blocks(p_.k);
    a.row = kBlockBytes;
    a.block = unit_.rows * kBlockBytes;
    a.panel = blocks * a.block;
    char* packed = static_cast<char*>(work_buffer(Purpose::packed_a, panels * a.panel));
    if (!packed) return false;
    a.data = packed;
    parallel_for(panels, ceil_div(panels, threads(rows) * kTasksPerThread), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i * unit_.rows;
        unit_.pack_rows(at(p_.a, m0 + first, 0), p_.a.row_stride, p_.a.col_stride, std::min(unit_.rows, rows - first),
                        p_.k, packed + i * a.panel, a.row, a.block);
      }
    });
    return true;
  }

  Grid choose(int64_t rows) const {
    const int64_t panels = ceil_div(p_.n, unit_.columns);
    const int64_t depth = std::min(kMostBlocks, unit_.blocks(p_.k));
    const int64_t most = std::max<int64_t>(1, kPackedBytes / (depth * kBlockBytes * unit_.columns));
    int64_t cols = ceil_div(panels, most);
    const int64_t wanted = threads(rows);
    if (wanted == 1) return {1, cols};
    // Threads that share out the columns read all rows each. Where rows are most of the operands, they are shared out.
    if (rows >= kManyRows * p_.n) return {std::clamp<int64_t>(rows / kFewestRows, 1, wanted), cols};
    if (cols < wanted * kTasksPerThread) {
      cols = std::max(cols, std::min(wanted * kTasksPerThread, panels / kFewestPanels));
      if (cols < wanted) return {std::clamp<int64_t>(ceil_div(rows, kFewestRows), 1, ceil_div(wanted, cols)), cols};
    }
    cols = ceil_div(cols, wanted) * wanted;  // as many for each thread
    return {1, std::min(cols, panels)};
  }

  bool run_task(const Left& a, int64_t m0, int64_t all_rows, Grid grid, int64_t task) const {
    const int64_t row_block = task / grid.col_blocks, col_block = task % grid.col_blocks;
    const int64_t row_panels = ceil_div(all_rows, unit_.rows), col_panels = ceil_div(p_.n, unit_.columns);
    const int64_t row = row_block * row_panels / grid.row_blocks * unit_.rows;
    const int64_t rows = std::min(all_rows, (row_block + 1) * row_panels / grid.row_blocks * unit_.rows) - row;
    const int64_t col = col_block * col_panels / grid.col_blocks * unit_.columns;
    const int64_t cols = std::min(p_.n, (col_block + 1) * col_panels / grid.col_blocks * unit_.columns) - col;
    if (rows <= 0 || cols <= 0) return true;

    const int64_t blocks = unit_.blocks(p_.k), steps = ceil_div(blocks, kMostBlocks);
    const int64_t width = ceil_div(cols, unit_.columns) * unit_.columns;
    const int64_t step_depth = ceil_div(blocks, steps) * unit_.block_depth();
    char* b = static_cast<char*>(
        work_buffer(Purpose::packed_b, width / unit_.columns * packed_panel_bytes(unit_, step_depth)));
    // Sums of one panel of rows, or, where the depth is cut, of all.
    char* sums = static_cast<char*>(
        work_buffer(Purpose::accumulator, (steps > 1 ? rows : std::min(rows, unit_.rows)) * width * 4));
    if (!b || !sums) return false;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t first = step * blocks / steps, last = (step + 1) * blocks / steps, k0 = first * unit_.block_depth();
      pack_panels(unit_, at(p_.b, k0, col), p_.b.row_stride, p_.b.col_stride,
                  std::min(p_.k, last * unit_.block_depth()) - k0, cols, b);
      for (int64_t i = 0; i < rows; i += unit_.rows) {
        UnitJob job{};
        job.rows = std::min(unit_.rows, rows - i);
        job.columns = cols;
        job.a = a.data + (row + i) / unit_.rows * a.panel + first * a.block;
        job.a_row = a.row;
        job.a_panel = a.panel;
        job.a_block = a.block;
        job.b = b;
        job.b_row = unit_.panel_row();
        job.b_block = unit_.block_words() * job.b_row;
        job.b_panel = (last - first) * job.b_block;
        job.sums = sums + (steps > 1 ? i * width * 4 : 0);
        job.sums_row = width * 4;
        job.blocks = last - first;
        job.add = step > 0;
        multiply_in_pieces(unit_, job);
        if (step == steps - 1) finish(job, m0 + row + i, col);
      }
    }
    return true;
  }

  void finish(const UnitJob& done, int64_t row, int64_t col) const {
    if (!unit_.finish) return finish_integers(done, row, col);
    UnitFinish job{};
    job.rows = done.rows;
    job.columns = done.columns;
    job.sums = reinterpret_cast<const float*>(done.sums);
    job.sums_row = done.sums_row / 4;
    job.c = at(p_.c, row, col);
    job.c_row = p_.c.row_stride;
    job.c_col = p_.c.col_stride;
    job.alpha = p_.alpha.to<float>();
    job.beta = p_.beta.to<float>();
    if (p_.bias) {
      job.bias = static_cast<const char*>(p_.bias) + (flipped_ ? row : col) * unit_.item;
      job.bias_by_row = flipped_;
    }
    unit_.finish(job);
  }

  void finish_integers(const UnitJob& done, int64_t row, int64_t col) const {
    gemm_packing().u32.finish(p_.c_dtype, done.rows, done.columns, reinterpret_cast<const uint32_t*>(done.sums),
                              done.sums_row / 4, 1, element(p_.c, row, col, itemsize(p_.c_dtype)), p_.c.row_stride,
                              p_.c.col_stride, p_.alpha.to<uint32_t>(), p_.beta.to<uint32_t>());
  }

  const MatrixUnit& unit_;
  const Problem p_;
  const bool flipped_;  // the product of transposed matrices
  const bool a_direct_;
};

}  // namespace

bool multiply_unit(const MatrixUnit& unit, const Problem& p) {
  Problem q = transposed(p);
  const bool flipped = packing_cost(unit, q) < packing_cost(unit, p);
  q.bias = p.bias;
  return UnitMultiplication(unit, flipped ? q : p, flipped).run();
}

}  // namespace tocha::cpu
