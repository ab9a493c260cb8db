// Batches of matrices as LAPACK reads them: column-major, one after the other. Copies in and out, loops over the
// batch on several threads, workspace. Used by the kernels of this folder.
#pragma once

#include <atomic>
#include <climits>
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/lapack/lapack.h"
#include "dispatch/native.h"

namespace tocha::lapack {

// OpenBLAS on one thread: ours run over the batch. Called before any routine.
void prepare();

// Calls f(T{}) with the type of d.
template <class F>
void with_type(DType d, F&& f) {
  switch (d) {
    case DType::Float32:
      return f(float{});
    case DType::Float64:
      return f(double{});
    case DType::Complex64:
      return f(Complex<float>{});
    case DType::Complex128:
      return f(Complex<double>{});
    default:
      fail(ErrorKind::NotImplemented, "[linalg] \"linalg_cpu\" not implemented for '", info(d).name, "'");
  }
}

// The two last sizes as LAPACK counts, and how many matrices there are.
struct Shape {
  int rows, cols;
  int64_t batch;

  explicit Shape(const Tensor& t);
  int least() const { return rows < cols ? rows : cols; }
  int ld() const { return rows > 1 ? rows : 1; }
  int64_t step() const { return static_cast<int64_t>(rows) * cols; }
};

inline IntsView batch_of(const Tensor& t) { return {t.sizes().begin(), t.dim() - 2}; }
Ints column_major_strides(IntsView sizes);
bool is_column_major(const Tensor& t);
// The matrices with rows and columns exchanged (a view).
Tensor transposed(const Tensor& t);
// t over a larger batch (a view).
Tensor expanded(const Tensor& t, IntsView sizes);
// A fresh column-major copy, and one that is t itself where it is laid out so already.
Tensor column_major_copy(const Tensor& t);
Tensor column_major(const Tensor& t);

// Where a kernel writes an output: its own memory if that is column-major, else a copy that finish() brings over.
class ColumnMajorOut {
 public:
  explicit ColumnMajorOut(const Tensor& out);
  const Tensor& tensor() const { return work_; }
  template <class T>
  T* data() const {
    return work_.data<T>();
  }
  void finish() const;

 private:
  Tensor out_, work_;
};

// For every matrix of a broadcast batch, the place of the one it comes from in `own`, which broadcasts to `full`.
std::vector<int64_t> batch_map(IntsView own, IntsView full);

// Memory that LAPACK overwrites.
template <class T>
std::unique_ptr<T[]> workspace(int64_t n) {
  return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n > 1 ? n : 1));
}

inline float real_part(float x) { return x; }
inline double real_part(double x) { return x; }
template <class R>
R real_part(Complex<R> x) {
  return x.re;
}

// How much workspace a routine asks for: f(work, -1) is the question, the answer comes back as a rounded number.
template <class T, class F>
int workspace_size(F&& ask) {
  T answer(0);
  ask(&answer, -1);
  const Real<T> n = std::nextafter(real_part(answer), std::numeric_limits<Real<T>>::infinity());
  return n < 1 ? 1 : static_cast<int>(std::ceil(n));
}

// parallel_for over work that may run out of memory.
template <class F>
void share_out(int64_t n, int64_t grain, F&& f) {
  std::atomic<bool> out_of_memory{false};
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    try {
      f(begin, end);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  });
  if (out_of_memory) throw std::bad_alloc();
}

// f(begin, end) over the batch, on as many threads as the work (multiplications per matrix) is worth.
template <class F>
void for_batch(int64_t batch, double work, F&& f) {
  prepare();
  constexpr double kWorkPerTask = 1 << 15;
  const auto grain = static_cast<int64_t>(std::max(1.0, kWorkPerTask / std::max(work, 1.0)));
  ReleaseGil released(static_cast<int64_t>(std::min(work * static_cast<double>(batch), 1e15)));
  share_out(batch, grain, f);
}

// f(i) for one matrix after the other: for kernels that share each matrix among the threads.
template <class F>
void one_by_one(int64_t batch, F&& f) {
  prepare();
  ReleaseGil released(int64_t{1} << 30);
  for (int64_t i = 0; i < batch; ++i) f(i);
}

// f(i, first, count) over blocks of columns of every matrix: few matrices with many columns keep all threads busy.
template <class F>
void for_columns(int64_t batch, int columns, double work_per_column, F&& f) {
  constexpr double kWorkPerBlock = 1 << 17;
  const int64_t wanted = batch >= num_threads() ? 1 : (num_threads() + batch - 1) / std::max<int64_t>(batch, 1);
  const auto worth = static_cast<int64_t>(work_per_column * columns / kWorkPerBlock);
  const int64_t blocks = std::max<int64_t>(1, std::min({wanted, worth, static_cast<int64_t>(columns)}));
  for_batch(batch * blocks, work_per_column * columns / static_cast<double>(blocks), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t % blocks * columns / blocks, last = (t % blocks + 1) * columns / blocks;
      f(t / blocks, static_cast<int>(first), static_cast<int>(last - first));
    }
  });
}

template <class T>
bool is_finite(T x) {
  if constexpr (is_complex_type<T>)
    return std::isfinite(x.re) && std::isfinite(x.im);
  else
    return std::isfinite(x);
}
template <class T>
bool all_finite(const T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!is_finite(a[i])) return false;
  return true;
}

template <class T>
T conjugate(T x) {
  if constexpr (is_complex_type<T>)
    return T(x.re, -x.im);
  else
    return x;
}

template <class T>
void set_identity(T* a, int rows, int cols) {
  std::fill(a, a + static_cast<int64_t>(rows) * cols, T(0));
  for (int64_t i = 0; i < std::min(rows, cols); ++i) a[i * rows + i] = T(1);
}

}  // namespace tocha::lapack
