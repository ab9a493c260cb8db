// The matrix exponential: kernel of tocha/operators/products.py.
//
// Scaling and squaring: exp(A) = exp(A / 2^s)^(2^s), with s so large that the Taylor polynomial of
// degree 18 is exact to working precision (Bader, Blanes, Casas 2019). The polynomial is evaluated
// in blocks of four powers (Paterson, Stockmeyer), which takes seven products.
#include <cmath>
#include <memory>
#include <type_traits>

#include "core/gil.h"
#include "cpu/gemm/gemm.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int kDegree = 18;
constexpr int kBlock = 4;

template <class T>
struct Exponential {
  using Real = decltype([] {
    if constexpr (std::is_floating_point_v<T>)
      return T{};
    else
      return typename T::value_type{};
  }());

  DType dtype;
  int64_t n;
  std::unique_ptr<T[]> memory;
  T* powers[kBlock + 1];  // powers[i] = A^i, from 1
  T* sum;
  T* next;

  Exponential(DType d, int64_t size)
      : dtype(d), n(size), memory(new T[static_cast<size_t>((kBlock + 2) * size * size)]) {
    T* at = memory.get();
    for (int i = 1; i <= kBlock; ++i, at += n * n) powers[i] = at;
    sum = at;
    next = at + n * n;
  }

  static Real magnitude(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else
      return std::hypot(x.re, x.im);
  }

  // The largest sum of a column's magnitudes.
  Real norm(const T* a) const {
    Real largest = 0;
    for (int64_t j = 0; j < n; ++j) {
      Real total = 0;
      for (int64_t i = 0; i < n; ++i) total += magnitude(a[i * n + j]);
      if (!(total <= largest)) largest = total;
    }
    return largest;
  }

  static int squarings(Real norm) {
    const Real enough = sizeof(Real) == 8 ? Real(1.09) : Real(3.01);
    if (!(norm > enough) || !std::isfinite(norm)) return 0;
    return static_cast<int>(std::ceil(std::log2(norm / enough)));
  }

  void multiply(T* out, T* a, T* b) const { cpu::gemm(dtype, n, n, n, 1, {a, n, 1}, {b, n, 1}, 0, {out, n, 1}); }

  // sum += the terms of the Taylor series from `first` to `last`, divided by A^first
  void add_block(int first, int last) {
    for (int power = 0; power <= last - first; ++power) {
      Real factorial = 1;
      for (int i = 2; i <= first + power; ++i) factorial *= static_cast<Real>(i);
      const T factor(1 / factorial);
      if (power == 0) {
        for (int64_t i = 0; i < n; ++i) sum[i * (n + 1)] = sum[i * (n + 1)] + factor;
      } else {
        for (int64_t i = 0; i < n * n; ++i) sum[i] = sum[i] + factor * powers[power][i];
      }
    }
  }

  void run(T* out, const T* a) {
    const int s = squarings(norm(a));
    const T scale(std::ldexp(Real(1), -s));
    for (int64_t i = 0; i < n * n; ++i) powers[1][i] = a[i] * scale;
    for (int i = 2; i <= kBlock; ++i) multiply(powers[i], powers[i - 1], powers[1]);
    std::fill(sum, sum + n * n, T(0));
    for (int first = kDegree / kBlock * kBlock; first >= 0; first -= kBlock) {
      if (first + kBlock <= kDegree) {
        multiply(next, sum, powers[kBlock]);
        std::swap(sum, next);
      }
      add_block(first, std::min(first + kBlock - 1, kDegree));
    }
    for (int i = 0; i < s; ++i) {
      multiply(next, sum, sum);
      std::swap(sum, next);
    }
    std::copy(sum, sum + n * n, out);
  }
};

template <class T>
void exponentials(const Tensor& out, const Tensor& self) {
  const int64_t n = out.size(out.dim() - 1);
  ReleaseGil released(out.numel() * n);
  Exponential<T> work(out.dtype(), n);
  for (int64_t at = 0; at < out.numel(); at += n * n) work.run(out.data<T>() + at, self.data<const T>() + at);
}

}  // namespace

void linalg_matrix_exp(const Tensor& out, const Tensor& self) {
  if (out.numel() == 0) return;
  const Backend& b = backend(out.device().type);
  const DType compute = is_reduced_floating(out.dtype()) ? DType::Float32 : out.dtype();
  Tensor in = empty(out.sizes(), compute, out.device());
  b.copy(in, self);
  Tensor result = compute == out.dtype() ? out : empty(out.sizes(), compute, out.device());
  switch (compute) {
    case DType::Float32:
      exponentials<float>(result, in);
      break;
    case DType::Float64:
      exponentials<double>(result, in);
      break;
    case DType::Complex64:
      exponentials<Complex<float>>(result, in);
      break;
    default:
      exponentials<Complex<double>>(result, in);
  }
  if (!result.is(out)) b.copy(out, result);
}

}  // namespace tocha::native
