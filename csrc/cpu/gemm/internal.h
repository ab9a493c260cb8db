// What the engines of matrix multiplication share: the problem, and the threads' work buffers.
// gemm.cpp holds the entry points and chooses; tiles.cpp drives our own kernels, unit.cpp the processor's
// matrix unit, blas.cpp calls OpenBLAS on tiles.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/parallel.h"
#include "cpu/gemm/gemm.h"

namespace tocha::cpu {

struct MatrixUnit;

struct Problem {
  DType dtype;
  int64_t m, n, k;  // all positive
  Scalar alpha;
  MatrixRef a, b;
  Scalar beta;
  MatrixRef c;
  bool conj_a, conj_b;
  const void* bias = nullptr;  // a row that every row of c starts from, instead of beta * c
  DType c_dtype = dtype;       // int32 for products of int8 that do not wrap around
  GemmOptions options{};
  int64_t first_row = 0;  // of this matrix, among those of a batch
  bool* told = nullptr;   // whether the engine tells of rows; set by it

  // Engines that finish rows one block after the other take it on to tell of them.
  void takes_on_telling() const {
    if (told) *told = true;
  }
  void tell(int64_t begin, int64_t end) const {
    options.done.run(options.done.context, first_row + begin, first_row + end);
  }
};

// Products of one shape in a row, whose matrices are so many elements apart.
struct BatchSteps {
  int64_t count = 1, a = 0, b = 0, c = 0;

  // p becomes the product `matrices` further on.
  void move(Problem& p, int64_t matrices) const {
    auto move = [&](void*& data, int64_t elements, DType dtype) {
      data = static_cast<char*>(data) + matrices * elements * itemsize(dtype);
    };
    move(p.a.data, a, p.dtype);
    move(p.b.data, b, p.dtype);
    move(p.c.data, c, p.c_dtype);
    p.first_row += matrices * p.m;
  }
};

// Tells of a block of rows when the last of its column blocks is done; where there are fewer blocks than threads, of
// all rows at the end, so that every thread has a share of what follows.
class RowTracker {
 public:
  RowTracker(const Problem& p, bool on, int64_t blocks, int64_t parts)
      : p_(p),
        on_(on && p.options.done),
        waits_(on_ && blocks < std::min<int64_t>(num_threads(), blocks * parts) && !in_parallel_region()),
        parts_(static_cast<int32_t>(parts)) {
    if (on_ && !waits_ && parts > 1) counts_.reset(new std::atomic<int32_t>[static_cast<size_t>(blocks)]());
  }
  void part_done(int64_t block, int64_t begin, int64_t end) {
    if (!on_ || waits_ || begin == end) return;
    if (counts_ && counts_[static_cast<size_t>(block)].fetch_add(1, std::memory_order_acq_rel) + 1 < parts_) return;
    p_.tell(begin, end);
  }
  void all_done(int64_t begin, int64_t end) const {
    if (waits_) tell_in_parallel(p_, begin, end);
  }

  static void tell_in_parallel(const Problem& p, int64_t begin, int64_t end) {
    const int64_t grain = std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(p.n, 1));
    parallel_for(end - begin, grain, [&](int64_t from, int64_t to) { p.tell(begin + from, begin + to); });
  }

 private:
  static constexpr int64_t kElementsPerThread = 16384;
  const Problem& p_;
  const bool on_, waits_;
  const int32_t parts_;
  std::unique_ptr<std::atomic<int32_t>[]> counts_;
};

constexpr int64_t kSmallProduct = 32 * 32 * 32;  // multiplications; not worth entering BLAS for, or packing rows

// What one thread should have at least to do before a second one helps, in multiplications.
constexpr int64_t kWorkPerThread = 64 * 64 * 32;

// The same product with every matrix transposed; without the bias.
inline Problem transposed(const Problem& p) {
  auto flip = [](MatrixRef r) { return MatrixRef{r.data, r.col_stride, r.row_stride}; };
  return {p.dtype, p.n,       p.m,      p.k,      p.alpha, flip(p.b), flip(p.a),
          p.beta,  flip(p.c), p.conj_b, p.conj_a, nullptr, p.c_dtype};
}

inline char* element(MatrixRef r, int64_t row, int64_t col, int64_t itemsize) {
  return static_cast<char*>(r.data) + (row * r.row_stride + col * r.col_stride) * itemsize;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Memory that a thread keeps between calls. The purposes nest: a caller's packed b and accumulators
// stay alive while the same thread packs its share of a.
enum class Purpose { packed_a, packed_b, accumulator, vector, staged, gathered, count };

// 64-byte aligned memory of this thread, or null when there is none; valid until the thread asks
// again for the same purpose.
void* work_buffer(Purpose purpose, int64_t bytes);

// A grid of tasks over c: rows and columns are cut into nearly equal blocks.
struct Grid {
  int64_t row_blocks, col_blocks;
  int64_t tasks() const { return row_blocks * col_blocks; }
};

// Enough tasks for the threads that `work` multiplications keep busy, of at most most_rows rows, and
// no smaller than row_unit x col_unit unless the matrix is.
Grid choose_grid(int64_t m, int64_t n, int64_t work, int64_t row_unit, int64_t col_unit, int64_t most_rows);

// False when memory ran out; c is then unspecified.
[[nodiscard]] bool multiply_tiles(const Problem& p, const BatchSteps& batch = {});
bool tiles_add_bias(const Problem& p);                 // the other engines, and some of these products, want it in c
[[nodiscard]] bool multiply_vector(const Problem& p);  // m == 1 or n == 1
[[nodiscard]] bool multiply_blas(const Problem& p);
[[nodiscard]] bool multiply_unit(const MatrixUnit& unit, const Problem& p);  // takes any bias

}  // namespace tocha::cpu
