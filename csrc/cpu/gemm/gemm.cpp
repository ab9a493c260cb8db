// Entry points of matrix multiplication: degenerate cases, the choice of the engine, and batches.
#include "cpu/gemm/gemm.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "core/error.h"
#include "core/parallel.h"
#include "cpu/gemm/internal.h"
#include "cpu/gemm/kernels.h"
#include "cpu/units/matrix_unit.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kPlacedPerThread = 16384;  // elements
constexpr int64_t kWorkForUnit = 16 * 16 * 16;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

struct Buffer {
  std::unique_ptr<void, Free> memory;
  int64_t bytes = 0;
};

thread_local Buffer buffers[static_cast<int>(Purpose::count)];

}  // namespace

void* work_buffer(Purpose purpose, int64_t bytes) {
  Buffer& buffer = buffers[static_cast<int>(purpose)];
  if (buffer.bytes >= bytes) return buffer.memory.get();
  buffer.memory.reset();
  buffer.bytes = 0;
  const int64_t rounded = ceil_div(bytes, 4096) * 4096;
  buffer.memory.reset(std::aligned_alloc(64, static_cast<size_t>(rounded)));
  if (!buffer.memory) return nullptr;
  buffer.bytes = rounded;
  return buffer.memory.get();
}

Grid choose_grid(int64_t m, int64_t n, int64_t work, int64_t row_unit, int64_t col_unit, int64_t most_rows) {
  const int64_t threads = in_parallel_region() ? 1 : std::min<int64_t>(num_threads(), work / kWorkPerThread);
  int64_t rows = ceil_div(m, most_rows);
  if (threads <= 1) return {rows, 1};
  // Few large tasks while the whole is short; otherwise some to spare for threads that are late.
  const int64_t wanted = threads * std::clamp<int64_t>(work / kWorkPerThread / threads / 8, 1, 4);
  rows = std::max(rows, std::min(wanted, ceil_div(m, row_unit)));
  if (rows >= threads) rows = ceil_div(rows, threads) * threads;
  rows = std::min(rows, m);
  const int64_t cols = rows >= wanted ? 1 : std::min(ceil_div(wanted, rows), ceil_div(n, col_unit));
  return {rows, cols};
}

bool prefers_blas(DType dtype, int64_t m, int64_t n, int64_t k) {
  if (is_complex(dtype)) return true;
  const bool real = dtype == DType::Float32 || dtype == DType::Float64;
  return real && gemm_tiles().f32.vector_bytes < 32 && m * n * k > kSmallProduct;
}

namespace {

template <class T>
void scale(const Problem& p) {
  const T beta = p.beta.to<T>();
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      T& c = static_cast<T*>(p.c.data)[i * p.c.row_stride + j * p.c.col_stride];
      if constexpr (std::is_integral_v<T>) {
        c = static_cast<T>(uint64_t{beta} * c);  // modulo 2^n, never in a signed int
      } else {
        c = beta == T(0) ? T(0) : beta * c;
      }
    }
  }
}

template <class T>
void scale_half(const Problem& p) {
  const float beta = p.beta.to<float>();
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      T& c = static_cast<T*>(p.c.data)[i * p.c.row_stride + j * p.c.col_stride];
      c = T(beta == 0 ? 0.0f : beta * static_cast<float>(c));
    }
  }
}

// c = beta * c
void scale(const Problem& p) {
  switch (p.c_dtype) {
    case DType::UInt8:
    case DType::Int8:
      return scale<uint8_t>(p);
    case DType::UInt16:
    case DType::Int16:
      return scale<uint16_t>(p);
    case DType::UInt32:
    case DType::Int32:
      return scale<uint32_t>(p);
    case DType::UInt64:
    case DType::Int64:
      return scale<uint64_t>(p);
    case DType::Float16:
      return scale_half<Half>(p);
    case DType::BFloat16:
      return scale_half<BFloat16>(p);
    case DType::Float32:
      return scale<float>(p);
    case DType::Float64:
      return scale<double>(p);
    case DType::Complex64:
      return scale<Complex<float>>(p);
    default:
      return scale<Complex<double>>(p);
  }
}

bool is_zero(DType dtype, const Scalar& s) {
  return is_integral(dtype) ? s.to_int() == 0 : s.to_complex() == Complex<double>(0.0);
}

// OpenBLAS has complex kernels and knows every CPU; our own real kernels are faster where they have
// wide vectors, and on matrices too small to pay for its entry.
bool prefers_blas(const Problem& p) { return cpu::prefers_blas(p.dtype, p.m, p.n, p.k); }

// The stride of a dimension of size 1 is of no account: 1 lets every fast path see it.
Problem with_plain_strides(Problem p) {
  if (p.m == 1) p.a.row_stride = p.c.row_stride = 1;
  if (p.n == 1) p.b.col_stride = p.c.col_stride = 1;
  if (p.k == 1) p.a.col_stride = p.b.row_stride = 1;
  return p;
}

// Every row of c becomes the bias, to be added to with beta = 1.
void place_bias(Problem& p) {
  const int64_t size = itemsize(p.dtype);
  const char* bias = static_cast<const char*>(p.bias);
  parallel_for(p.m, std::max<int64_t>(1, kPlacedPerThread / p.n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (p.c.col_stride == 1) {
        std::memcpy(element(p.c, i, 0, size), bias, static_cast<size_t>(p.n * size));
      } else {
        for (int64_t j = 0; j < p.n; ++j) {
          std::memcpy(element(p.c, i, j, size), bias + j * size, static_cast<size_t>(size));
        }
      }
    }
  });
  p.beta = 1;
  p.bias = nullptr;
}

bool uses_blas(const Problem& p) {
  const bool has_tiles = !is_complex(p.dtype),
             has_blas = !has_tiles || p.dtype == DType::Float32 || p.dtype == DType::Float64;
  if (p.options.engine == Engine::tiles && has_tiles) return false;
  return (p.options.engine == Engine::blas && has_blas) || prefers_blas(p);
}

bool has_product(const Problem& p) { return p.k > 0 && !is_zero(p.dtype, p.alpha); }

bool is_tiled(const Problem& p) { return p.m > 1 && p.n > 1 && has_product(p) && !uses_blas(p); }

// The processor's own unit for tiled products, or null.
const MatrixUnit* unit_for(const Problem& p) {
  const bool worth = p.m * p.n * p.k >= kWorkForUnit && p.options.engine != Engine::tiles;
  return worth ? matrix_unit(p.dtype) : nullptr;
}

bool multiply_by_engine(const Problem& given) {
  Problem p = with_plain_strides(given);
  if (p.m == 0 || p.n == 0) return true;
  const bool tiled = is_tiled(p);
  if (const MatrixUnit* unit = tiled ? unit_for(p) : nullptr) return multiply_unit(*unit, p);
  if (p.bias && !(tiled && tiles_add_bias(p))) place_bias(p);
  if (tiled) return multiply_tiles(p);
  if (!has_product(p)) {
    scale(p);
    return true;
  }
  return uses_blas(p) ? multiply_blas(p) : multiply_vector(p);
}

bool multiply(const Problem& given) {
  if (!given.options.done) return multiply_by_engine(given);
  Problem p = given;
  bool told = false;
  p.told = &told;
  if (!multiply_by_engine(p)) return false;
  if (!told) RowTracker::tell_in_parallel(p, 0, p.m);
  return true;
}

// Many matrices one after the other: where our own kernels take them as they are, what to do is found out once.
bool multiply_all(const Problem& given, const BatchSteps& batch) {
  const Problem first = with_plain_strides(given);
  const bool as_they_are = !first.options.done && (!first.bias || tiles_add_bias(first));
  if (as_they_are && is_tiled(first) && !unit_for(first)) return multiply_tiles(first, batch);
  Problem p = given;
  for (int64_t i = 0; i < batch.count; ++i, batch.move(p, 1)) {
    if (!multiply(p)) return false;
  }
  return true;
}

void check_dtype(DType dtype) {
  TOCHA_CHECK(dtype != DType::Bool && dtype != DType::Complex32 && !is_float8(dtype), NotImplemented,
              "[gemm] \"gemm_cpu\" not implemented for '", info(dtype).name, "'");
}

// Truths have no product, but sums of nothing.
bool is_settled(DType dtype, int64_t m, int64_t n, int64_t k, const Scalar& beta, MatrixRef c) {
  if (m == 0 || n == 0) return true;
  if (dtype != DType::Bool || k > 0) return false;
  TOCHA_CHECK(is_zero(dtype, beta), Runtime,
              "[gemm] result type Long can't be cast to the desired output type Bool: got a beta that is not 0");
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) *element(c, i, j, 1) = 0;
  }
  return true;
}

}  // namespace

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, Scalar alpha, MatrixRef a, MatrixRef b, Scalar beta,
          MatrixRef c, bool conj_a, bool conj_b, const void* bias, const GemmOptions& options) {
  if (is_settled(dtype, m, n, k, beta, c)) return;
  check_dtype(dtype);
  if (!multiply({dtype, m, n, k, alpha, a, b, beta, c, conj_a, conj_b, bias, dtype, options})) throw std::bad_alloc();
}

void gemm_int32(DType dtype, int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b, MatrixRef c) {
  if (!multiply({dtype, m, n, k, 1, a, b, 0, c, false, false, nullptr, DType::Int32})) throw std::bad_alloc();
}

void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, Scalar alpha, MatrixRef a,
                  int64_t a_batch, MatrixRef b, int64_t b_batch, Scalar beta, MatrixRef c, int64_t c_batch, bool conj_a,
                  bool conj_b, const void* bias, const GemmOptions& options) {
  if (batch == 0 || m == 0 || n == 0) return;
  check_dtype(dtype);
  const Problem p{dtype, m, n, k, alpha, a, b, beta, c, conj_a, conj_b, bias, dtype, options};
  // One b for all, and rows that continue from matrix to matrix: a single tall product.
  if (b_batch == 0 && a_batch == m * a.row_stride && c_batch == m * c.row_stride) {
    Problem tall = p;
    tall.m = batch * m;
    if (!multiply(tall)) throw std::bad_alloc();
    return;
  }
  std::atomic<bool> ok{true};
  auto run = [&](int64_t begin, int64_t end) {
    const BatchSteps some{end - begin, a_batch, b_batch, c_batch};
    Problem first = p;
    some.move(first, begin);
    if (!multiply_all(first, some)) ok.store(false, std::memory_order_relaxed);
  };
  // Whole matrices are the better share of work where there are enough of them.
  const int64_t threads = num_threads();
  if (batch >= 4 * threads || (batch >= threads && batch % threads == 0) || m * n * k < kWorkPerThread) {
    parallel_for(batch, std::max<int64_t>(1, kWorkPerThread / std::max<int64_t>(1, m * n * k)), run);
  } else {
    run(0, batch);
  }
  if (!ok.load(std::memory_order_relaxed)) throw std::bad_alloc();
}

}  // namespace tocha::cpu
