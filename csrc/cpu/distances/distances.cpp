// Cross products and distances between points: kernels of tocha/operators/distances.py.
#include <cmath>
#include <memory>
#include <type_traits>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/distances/kernels.h"
#include "cpu/gemm/gemm.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

// t with these sizes in contiguous memory, conjugations and negations carried out.
Tensor dense(const Tensor& t, IntsView sizes) {
  if (t.is_contiguous() && t.sizes() == sizes && !t.is_conj() && !t.is_neg()) return t;
  Tensor copy = empty(sizes, t.dtype(), t.device());
  backend(t.device().type).copy(copy, t);
  return copy;
}

template <class T>
T cross_term(T a, T b, T c, T d) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) -
                          static_cast<uint64_t>(c) * static_cast<uint64_t>(d));
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(T(static_cast<float>(a) * static_cast<float>(b))) -
             static_cast<float>(T(static_cast<float>(c) * static_cast<float>(d))));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a, b, -(c * d));  // PyTorch rounds the second product alone
  } else {
    return a * b - c * d;
  }
}

// The vectors lie [outer][3][inner].
template <class T>
void cross_vectors(T* out, const T* a, const T* b, int64_t outer, int64_t inner) {
  parallel_for(outer, std::max<int64_t>(1, 8192 / std::max<int64_t>(inner, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      for (int i = 0; i < 3; ++i) {
        const int64_t base = o * 3 * inner, x = base + (i + 1) % 3 * inner, y = base + (i + 2) % 3 * inner;
        for (int64_t j = 0; j < inner; ++j)
          out[base + i * inner + j] = cross_term(a[x + j], b[y + j], a[y + j], b[x + j]);
      }
    }
  });
}

using cpu::Norm;

Norm norm_of(double p) {
  if (p == 0) return Norm::count;
  if (p == 1) return Norm::sum;
  if (p == 2) return Norm::euclid;
  return std::isinf(p) ? Norm::largest : Norm::power;
}

template <class T>
const cpu::DistanceLoops<T>& loops() {
  if constexpr (std::is_same_v<T, float>)
    return cpu::distance_kernels().f32;
  else
    return cpu::distance_kernels().f64;
}

template <class T>
std::unique_ptr<T[]> room(int64_t n) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(std::max<int64_t>(1, n))]);
}

template <class T>
void transpose(T* out, const T* in, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) out[j * rows + i] = in[i * cols + j];
  }
}

// Pairs of matrices of points that a batch of distances compares.
struct Pairs {
  int64_t batch, rows1, rows2, coordinates;
  Ints sizes;               // of the batch
  Ints strides1, strides2;  // of dense x1, x2 along the batch's dims, 0 where broadcast

  Pairs(const Tensor& out, const Tensor& x1, const Tensor& x2)
      : batch(1), rows1(x1.size(x1.dim() - 2)), rows2(x2.size(x2.dim() - 2)), coordinates(x1.size(x1.dim() - 1)) {
    const int64_t n = out.dim() - 2;
    for (int64_t d = 0; d < n; ++d) {
      sizes.push_back(out.size(d));
      batch *= out.size(d);
      strides1.push_back(stride(x1, d - n));
      strides2.push_back(stride(x2, d - n));
    }
  }

  static int64_t stride(const Tensor& t, int64_t from_end) {
    const int64_t d = t.dim() - 2 + from_end;
    return d < 0 || t.size(d) == 1 ? 0 : t.stride(d);
  }

  std::pair<int64_t, int64_t> offsets(int64_t index) const {
    int64_t a = 0, b = 0;
    for (int64_t d = sizes.size() - 1; d >= 0; --d) {
      a += index % sizes[d] * strides1[d];
      b += index % sizes[d] * strides2[d];
      index /= sizes[d];
    }
    return {a, b};
  }
};

template <class T>
void compare_pairs(T* out, const T* x1, const T* x2, int64_t x2_matrices, const Pairs& pairs, double p) {
  const int64_t r1 = pairs.rows1, r2 = pairs.rows2, k = pairs.coordinates;
  auto columns = room<T>(x2_matrices * r2 * k);
  parallel_for(x2_matrices, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, r2 * k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin * r2 * k; i < end * r2 * k; i += r2 * k)
                   transpose(columns.get() + i, x2 + i, r2, k);
               });
  const Norm norm = norm_of(p);
  parallel_for(pairs.batch * r1, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, r2 * k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const auto [a, b] = pairs.offsets(i / r1);
                   loops<T>().from_point(norm, static_cast<T>(p), out + i * r2, x1 + a + i % r1 * k, columns.get() + b,
                                         k, r2, r2);
                 }
               });
}

// |x - y|^2 = |x|^2 - 2 x.y + |y|^2, with a matrix product for every pair of matrices.
template <class T>
void euclid_by_product(DType dtype, T* out, T* x1, T* x2, int64_t x2_matrices, const Pairs& pairs) {
  const int64_t r1 = pairs.rows1, r2 = pairs.rows2, k = pairs.coordinates;
  auto lengths = room<T>(x2_matrices * r2);
  for (int64_t i = 0; i < x2_matrices * r2; ++i)
    lengths[static_cast<size_t>(i)] = loops<T>().squared_length(x2 + i * k, k);
  for (int64_t i = 0; i < pairs.batch; ++i) {
    const auto [a, b] = pairs.offsets(i);
    T* matrix = out + i * r1 * r2;
    cpu::gemm(dtype, r1, r2, k, -2, {x1 + a, k, 1}, {x2 + b, 1, k}, 0, {matrix, r2, 1});
    const T* points = x1 + a;
    const T* others = lengths.get() + b / k;
    parallel_for(r1, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, r2)), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        loops<T>().finish_euclid(matrix + row * r2, loops<T>().squared_length(points + row * k, k), others, r2);
      }
    });
  }
}

constexpr int64_t kFewPoints = 25;  // as documented for compute_mode

template <class T>
void cdist_of(const Tensor& out, const Tensor& x1, const Tensor& x2, double p, int64_t mode) {
  Tensor a = dense(x1, x1.sizes()), b = dense(x2, x2.sizes());
  const Pairs pairs(out, a, b);
  const bool many = pairs.rows1 > kFewPoints || pairs.rows2 > kFewPoints;
  const bool by_product = p == 2 && (mode == 1 || (mode == 0 && many));
  if (pairs.coordinates == 0) return backend(out.device().type).fill(out, 0);
  const int64_t x2_matrices = b.numel() / (pairs.rows2 * pairs.coordinates);
  ReleaseGil released(out.numel() * std::max<int64_t>(1, pairs.coordinates));
  if (by_product) return euclid_by_product(out.dtype(), out.data<T>(), a.data<T>(), b.data<T>(), x2_matrices, pairs);
  compare_pairs(out.data<T>(), a.data<const T>(), b.data<const T>(), x2_matrices, pairs, p);
}

template <class T>
void cdist_backward_of(const Tensor& out, const Tensor& grad, const Tensor& x1, const Tensor& x2, double p,
                       const Tensor& distances) {
  Tensor a = dense(x1, x1.sizes()), b = dense(x2, x2.sizes());
  Tensor g = dense(grad, grad.sizes()), far = dense(distances, distances.sizes());
  const Pairs pairs(distances, a, b);
  const int64_t r1 = pairs.rows1, r2 = pairs.rows2, k = pairs.coordinates;
  const Norm norm = norm_of(p);
  ReleaseGil released(out.numel() * std::max<int64_t>(1, r2));
  parallel_for(pairs.batch * r1, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, r2 * k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const auto [at1, at2] = pairs.offsets(i / r1);
                   loops<T>().add_slopes(norm, static_cast<T>(p), out.data<T>() + i * k, a.data<T>() + at1 + i % r1 * k,
                                         b.data<T>() + at2, k, r2, g.data<T>() + i * r2, far.data<T>() + i * r2);
                 }
               });
}

template <class T>
void pdist_of(const Tensor& out, const Tensor& self, double p) {
  Tensor points = dense(self, self.sizes());
  const int64_t n = self.size(0), k = self.size(1);
  const T* x = points.data<const T>();
  T* distances = out.data<T>();
  const Norm norm = norm_of(p);
  ReleaseGil released(out.numel() * std::max<int64_t>(1, k));
  auto columns = room<T>(n * k);
  transpose(columns.get(), x, n, k);
  parallel_for(n - 1, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, n * k)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t before = i * n - i * (i + 1) / 2;  // pairs of earlier rows
      loops<T>().from_point(norm, static_cast<T>(p), distances + before, x + i * k, columns.get() + i + 1, k, n - i - 1,
                            n);
    }
  });
}

}  // namespace

void cdist_backward(const Tensor& out, const Tensor& grad_output, const Tensor& x1, const Tensor& x2, double p,
                    const Tensor& distances) {
  if (out.dtype() == DType::Float64)
    cdist_backward_of<double>(out, grad_output, x1, x2, p, distances);
  else
    cdist_backward_of<float>(out, grad_output, x1, x2, p, distances);
}

namespace {

template <class T>
constexpr bool has_cross =
    !std::is_same_v<T, bool> && !std::is_same_v<T, Complex<Half>> && (!is_small_float<T> || sizeof(T) == 2);

}  // namespace

void linalg_cross(const Tensor& out, const Tensor& self, const Tensor& other, int64_t dim) {
  if (out.numel() == 0) return;
  Tensor a = dense(self, out.sizes()), b = dense(other, out.sizes());
  const int64_t d = wrap_dim(dim, out.dim());
  int64_t inner = 1;
  for (int64_t i = d + 1; i < out.dim(); ++i) inner *= out.size(i);
  const int64_t outer = out.numel() / (3 * inner);
  switch (out.dtype()) {
#define _(e, t, n, c)                                                                                             \
  case DType::e:                                                                                                  \
    if constexpr (has_cross<t>) cross_vectors(out.data<t>(), a.data<const t>(), b.data<const t>(), outer, inner); \
    return;
    TOCHA_FORALL_DTYPES(_)
#undef _
    default:
      return;
  }
}

void cdist(const Tensor& out, const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  if (out.numel() == 0) return;
  if (out.dtype() == DType::Float64) return cdist_of<double>(out, x1, x2, p, compute_mode.value_or(0));
  cdist_of<float>(out, x1, x2, p, compute_mode.value_or(0));
}

void pdist(const Tensor& out, const Tensor& self, double p) {
  if (out.numel() == 0) return;
  if (out.dtype() == DType::Float64) return pdist_of<double>(out, self, p);
  pdist_of<float>(out, self, p);
}

}  // namespace tocha::native
