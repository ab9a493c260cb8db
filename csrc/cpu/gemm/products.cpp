// Products of matrices, vectors and batches of them: the kernels of tocha/operators/products.py.
// They find the strides and hand the work to gemm.h; nothing is copied to be multiplied.
#include <atomic>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/gemm/gemm.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using cpu::MatrixRef;

constexpr int64_t kMultipliesPerElement = 16;  // how much cheaper one is than an elementwise step

bool is_zero(DType dtype, const Scalar& s) {
  return is_integral(dtype) ? s.to_int() == 0 : s.to_complex() == Complex<double>(0.0);
}

// out = alpha * a @ b + beta * out, for every matrix of a batch.
struct Product {
  DType dtype;
  int64_t m = 1, n = 1, k = 1;
  MatrixRef a, b, c;
  bool conj_a = false, conj_b = false;
  Scalar alpha = 1, beta = 0;
  const void* bias = nullptr;  // of every row, instead of beta; not with scattered batches
  int ndim = 0;                // of the batch, outermost first
  int64_t sizes[64];
  int64_t a_strides[64], b_strides[64], c_strides[64];

  int64_t batch() const {
    int64_t count = 1;
    for (int i = 0; i < ndim; ++i) count *= sizes[i];
    return count;
  }

  // Adds a batch dim inside those there are; one that continues its neighbour's strides is merged with it.
  void add_dim(int64_t size, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    if (size == 1) return;
    if (ndim > 0) {
      const int o = ndim - 1;
      if (a_strides[o] == size * a_stride && b_strides[o] == size * b_stride && c_strides[o] == size * c_stride) {
        sizes[o] *= size;
        a_strides[o] = a_stride;
        b_strides[o] = b_stride;
        c_strides[o] = c_stride;
        return;
      }
    }
    sizes[ndim] = size;
    a_strides[ndim] = a_stride;
    b_strides[ndim] = b_stride;
    c_strides[ndim] = c_stride;
    ++ndim;
  }

  // Vectors that all meet the same matrix are the rows (or columns) of one matrix.
  void gather_vectors() {
    if (ndim != 1) return;
    if (m == 1 && b_strides[0] == 0) {
      m = sizes[0];
      a.row_stride = a_strides[0];
      c.row_stride = c_strides[0];
      ndim = 0;
    } else if (n == 1 && a_strides[0] == 0) {
      n = sizes[0];
      b.col_stride = b_strides[0];
      c.col_stride = c_strides[0];
      ndim = 0;
    }
  }

  void run() {
    gather_vectors();
    const int64_t count = batch();
    ReleaseGil released(count * m * n * std::max<int64_t>(k, 1) / kMultipliesPerElement);
    if (ndim == 0) {
      cpu::gemm(dtype, m, n, k, alpha, a, b, beta, c, conj_a, conj_b, bias);
    } else if (ndim == 1) {
      cpu::gemm_batched(dtype, count, m, n, k, alpha, a, a_strides[0], b, b_strides[0], beta, c, c_strides[0], conj_a,
                        conj_b, bias);
    } else {
      run_scattered(count);
    }
  }

 private:
  // Batches whose matrices do not lie at one distance from each other.
  void run_scattered(int64_t count) const {
    std::atomic<bool> ok{true};
    auto matrices = [&](int64_t begin, int64_t end) {
      try {
        for (int64_t i = begin; i < end; ++i) multiply(i);
      } catch (...) {
        ok.store(false, std::memory_order_relaxed);
      }
    };
    // Few large matrices: each of them is work for all threads.
    const int64_t work = std::max<int64_t>(1, m * n * k);
    if (count < num_threads() && work > kWorkPerTask) {
      matrices(0, count);
    } else {
      parallel_for(count, std::max<int64_t>(1, kWorkPerTask / work), matrices);
    }
    if (!ok.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

  void multiply(int64_t index) const {
    const int64_t size = itemsize(dtype);
    MatrixRef x = a, y = b, z = c;
    int64_t at_a = 0, at_b = 0, at_c = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t i = index % sizes[d];
      index /= sizes[d];
      at_a += i * a_strides[d];
      at_b += i * b_strides[d];
      at_c += i * c_strides[d];
    }
    x.data = static_cast<char*>(a.data) + at_a * size;
    y.data = static_cast<char*>(b.data) + at_b * size;
    z.data = static_cast<char*>(c.data) + at_c * size;
    cpu::gemm(dtype, m, n, k, alpha, x, y, beta, z, conj_a, conj_b);
  }

  static constexpr int64_t kWorkPerTask = 64 * 64 * 32;
};

// A tensor's last two dims as a matrix. A vector is a row on the left and a column on the right.
MatrixRef left_matrix(const Tensor& t) {
  const int64_t d = t.dim();
  return {t.bytes(), d > 1 ? t.stride(d - 2) : 1, t.stride(d - 1)};
}
MatrixRef right_matrix(const Tensor& t) {
  const int64_t d = t.dim();
  return d > 1 ? MatrixRef{t.bytes(), t.stride(d - 2), t.stride(d - 1)} : MatrixRef{t.bytes(), t.stride(0), 1};
}

// The product of a and b into out, all of any layout; out has matmul's shape.
Product product_of(const Tensor& out, const Tensor& a, const Tensor& b) {
  Product p;
  const int64_t da = a.dim(), db = b.dim(), dc = out.dim();
  p.dtype = out.dtype();
  p.k = a.size(da - 1);
  if (da > 1) p.m = a.size(da - 2);
  if (db > 1) p.n = b.size(db - 1);
  p.a = left_matrix(a);
  p.b = right_matrix(b);
  const int64_t columns = db > 1 ? 1 : 0, rows = da > 1 ? 1 : 0;
  p.c = {out.bytes(), rows ? out.stride(dc - 1 - columns) : 1, columns ? out.stride(dc - 1) : 1};
  p.conj_a = a.is_conj();
  p.conj_b = b.is_conj();
  if (a.is_neg() != b.is_neg()) p.alpha = -1;
  const int64_t batch_dims = dc - rows - columns;
  auto stride = [&](const Tensor& t, int64_t d) {  // along the batch's dim d; 0 where t is broadcast
    const int64_t own = d - batch_dims + std::max<int64_t>(t.dim() - 2, 0);
    return own < 0 || t.size(own) == 1 ? 0 : t.stride(own);
  };
  for (int64_t d = 0; d < batch_dims; ++d) p.add_dim(out.size(d), stride(a, d), stride(b, d), out.stride(d));
  return p;
}

Scalar scaled(const Scalar& alpha, const Product& p) { return p.alpha.to_int() < 0 ? -alpha : alpha; }

// out holds what is added, unless beta is 0.
Scalar place_addend(const Tensor& out, const Tensor& addend, const Scalar& beta) {
  if (is_zero(out.dtype(), beta)) return 0;
  backend(out.device().type).copy(out, addend);
  return beta;
}

}  // namespace

void matmul(const Tensor& out, const Tensor& self, const Tensor& other) {
  // Sums of nothing are zeros, also of dtypes that have no products.
  if (self.numel() == 0 || other.numel() == 0) return backend(out.device().type).fill(out, 0);
  product_of(out, self, other).run();
}

void _int_mm(const Tensor& out, const Tensor& self, const Tensor& mat2) {
  // Bytes of both signs meet in the next wider type.
  auto widened = [&](const Tensor& t) {
    if (self.dtype() == mat2.dtype()) return t;
    const Tensor wide = empty(t.sizes(), DType::Int16, t.device());
    backend(t.device().type).copy(wide, t);
    return wide;
  };
  const Tensor a = widened(self), b = widened(mat2);
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  ReleaseGil released(m * n * std::max<int64_t>(k, 1) / kMultipliesPerElement);
  cpu::gemm_int32(a.dtype(), m, n, k, left_matrix(a), right_matrix(b), left_matrix(out));
}

void vdot(const Tensor& out, const Tensor& self, const Tensor& other) {
  Product p = product_of(out, self, other);
  p.conj_a = !p.conj_a;
  p.run();
}

void add_product(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                 const Scalar& alpha) {
  Product p = product_of(out, a, b);
  p.alpha = scaled(alpha, p);
  p.beta = place_addend(out, self, beta);
  p.run();
}

void addbmm(const Tensor& out, const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
            const Scalar& alpha) {
  Product p;
  p.dtype = out.dtype();
  p.m = batch1.size(1);
  p.k = batch1.size(2);
  p.n = batch2.size(2);
  p.a = left_matrix(batch1);
  p.b = right_matrix(batch2);
  p.c = left_matrix(out);
  p.conj_a = batch1.is_conj();
  p.conj_b = batch2.is_conj();
  p.alpha = batch1.is_neg() != batch2.is_neg() ? -alpha : alpha;
  p.beta = place_addend(out, self, beta);
  const int64_t batch = batch1.size(0);
  if (batch == 0) {
    p.k = 0;
    p.run();
  }
  for (int64_t i = 0; i < batch; ++i) {
    p.run();
    p.beta = 1;
    p.a.data = static_cast<char*>(p.a.data) + batch1.stride(0) * batch1.itemsize();
    p.b.data = static_cast<char*>(p.b.data) + batch2.stride(0) * batch2.itemsize();
  }
}

void nn_linear(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (!bias && (input.numel() == 0 || weight.numel() == 0)) return backend(out.device().type).fill(out, 0);
  Product p;
  const int64_t d = input.dim();
  p.dtype = out.dtype();
  p.k = input.size(d - 1);
  p.a = {input.bytes(), 1, input.stride(d - 1)};
  if (weight.dim() == 2) {
    p.n = weight.size(0);
    p.b = {weight.bytes(), weight.stride(1), weight.stride(0)};
  } else {
    p.b = {weight.bytes(), weight.stride(0), 1};
  }
  int64_t batch_dims = d - 1;
  if (d > 1) {
    p.m = input.size(d - 2);
    p.a.row_stride = input.stride(d - 2);
    --batch_dims;
  }
  p.c = {out.bytes(), p.n, 1};
  p.conj_a = input.is_conj();
  p.conj_b = weight.is_conj();
  if (input.is_neg() != weight.is_neg()) p.alpha = -1;
  for (int64_t i = 0; i < batch_dims; ++i) p.add_dim(input.size(i), input.stride(i), 0, out.stride(i));
  const bool row = bias && bias.dim() == 1 && bias.size(0) == p.n && bias.stride(0) == 1 && !bias.is_conj() &&
                   !bias.is_neg() && weight.dim() == 2 && p.ndim <= 1;
  if (row) {
    p.bias = bias.bytes();
  } else if (bias) {
    p.beta = place_addend(out, bias, 1);
  }
  p.run();
}

void _identities_like(const Tensor& out, const Tensor&) {
  backend(out.device().type).fill(out, 0);
  const int64_t n = out.size(out.dim() - 1), size = out.itemsize();
  if (n == 0) return;
  char one[16];
  Scalar(1).store(out.dtype(), one);
  for (int64_t matrix = 0; matrix < out.numel(); matrix += n * n) {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(out.bytes() + (matrix + i * (n + 1)) * size, one, static_cast<size_t>(size));
  }
}

}  // namespace tocha::native
