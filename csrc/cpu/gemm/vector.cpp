// Matrix-vector products and dot products: threads and strides around the kernels of isa/gemv.cpp.
#include "core/parallel.h"
#include "cpu/gemm/internal.h"
#include "cpu/gemm/kernels.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kWorkPerTask = 32 * 1024;  // elements of the matrix, which is read once
constexpr int64_t kFewResults = 256;
constexpr int64_t kMostParts = 64;
constexpr int64_t kColumnsAtOnce = 2048;  // their sums stay in the first-level cache

template <class T>
struct Kernels {
  const PackKernels<T>& packing;
  const VectorKernels<T>& vector;
};

// y[m] = alpha * a[m, k] @ x[k] + beta * y, where one stride of a is 1.
template <class T>
class VectorProduct {
 public:
  VectorProduct(const Problem& p, Kernels<T> kernels) : p_(p), kernels_(kernels) {
    stored_as_computed_ = itemsize(p.dtype) == sizeof(T);
    plain_ =
        itemsize(p.c_dtype) == sizeof(T) && p.c.row_stride == 1 && p.alpha.to<T>() == T(1) && p.beta.to<T>() == T(0);
  }

  bool run() {
    if (!prepare_x()) return false;
    return p_.m < kFewResults && p_.m * p_.k > 4 * kWorkPerTask ? run_deep() : run_wide();
  }

 private:
  char* at(MatrixRef r, int64_t row, int64_t col) const { return element(r, row, col, itemsize(p_.dtype)); }

  bool prepare_x() {
    x_ = static_cast<const T*>(p_.b.data);
    if (stored_as_computed_ && p_.b.row_stride == 1) return true;
    T* x = static_cast<T*>(work_buffer(Purpose::vector, (p_.k + kPackSlack) * static_cast<int64_t>(sizeof(T))));
    if (!x) return false;
    kernels_.packing.pack_a(p_.dtype, p_.b.data, 1, p_.b.row_stride, 1, 1, p_.k, x);
    x_ = x;
    return true;
  }

  // out[i] = a[row + i, k0 : k0 + k] @ x[k0 : k0 + k]
  void products(int64_t row, int64_t rows, int64_t k0, int64_t k, T* out) const {
    if (p_.a.col_stride == 1) {
      kernels_.vector.row_dots(p_.dtype, rows, k, at(p_.a, row, k0), p_.a.row_stride, x_ + k0, out);
      return;
    }
    for (int64_t i = 0; i < rows; i += kColumnsAtOnce) {
      kernels_.vector.column_sums(p_.dtype, k, std::min(kColumnsAtOnce, rows - i), at(p_.a, row + i, k0),
                                  p_.a.col_stride, x_ + k0, out + i);
    }
  }

  void finish(int64_t row, int64_t rows, const T* out) const {
    kernels_.packing.finish(p_.c_dtype, 1, rows, out, rows, 1, element(p_.c, row, 0, itemsize(p_.c_dtype)), rows,
                            p_.c.row_stride, p_.alpha.to<T>(), p_.beta.to<T>());
  }

  // Many results: every task computes some of them.
  bool run_wide() const {
    T* out = static_cast<T*>(p_.c.data);
    if (!plain_) out = static_cast<T*>(work_buffer(Purpose::accumulator, p_.m * static_cast<int64_t>(sizeof(T))));
    if (!out) return false;
    const int64_t least = p_.a.col_stride == 1 ? 4 : kFewResults;
    parallel_for(p_.m, std::max(least, kWorkPerTask / p_.k), [&](int64_t begin, int64_t end) {
      products(begin, end - begin, 0, p_.k, out + begin);
      if (!plain_) finish(begin, end - begin, out + begin);
    });
    return true;
  }

  // Few results of long sums: every task computes a part of each sum. The parts depend on the shape
  // alone, so that the result does not change with the number of threads.
  bool run_deep() const {
    const int64_t parts = std::min(kMostParts, ceil_div(p_.m * p_.k, kWorkPerTask));
    T* out = static_cast<T*>(work_buffer(Purpose::accumulator, parts * p_.m * static_cast<int64_t>(sizeof(T))));
    if (!out) return false;
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t k0 = part * p_.k / parts;
        products(0, p_.m, k0, (part + 1) * p_.k / parts - k0, out + part * p_.m);
      }
    });
    for (int64_t part = 1; part < parts; ++part) {
      for (int64_t i = 0; i < p_.m; ++i) out[i] += out[part * p_.m + i];
    }
    finish(0, p_.m, out);
    return true;
  }

  const Problem p_;
  const Kernels<T> kernels_;
  const T* x_ = nullptr;
  bool stored_as_computed_, plain_;
};

}  // namespace

bool multiply_vector(const Problem& p) {
  const Problem q = p.n == 1 ? p : transposed(p);
  if (q.a.col_stride != 1 && q.a.row_stride != 1) return multiply_tiles(p);
  const GemmPacking& packing = gemm_packing();
  const GemvKernels& vector = gemv_kernels();
  switch (p.dtype) {
    case DType::Float32:
    case DType::BFloat16:
    case DType::Float16:
      return VectorProduct<float>(q, {packing.f32, vector.f32}).run();
    case DType::Float64:
      return VectorProduct<double>(q, {packing.f64, vector.f64}).run();
    case DType::Int64:
    case DType::UInt64:
      return VectorProduct<uint64_t>(q, {packing.u64, vector.u64}).run();
    default:
      return VectorProduct<uint32_t>(q, {packing.u32, vector.u32}).run();
  }
}

}  // namespace tocha::cpu
