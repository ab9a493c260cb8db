// For every element the product of all others along a dim: the gradient of prod. The products before it on the way
// there, those after it on the way back; no division, so zeros are fine.
#include <algorithm>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/layout.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kColumns = 64;  // side by side: their products stay in registers or the nearest cache
constexpr int64_t kRows = 4;  // rows that are multiplied along together, so that none waits for its own last product

// `width` runs of n elements: element i of run j is at i * step + j * apart.
template <class T, class Step, class Apart>
void multiply_others(const T* x, T* out, int64_t n, int64_t width, Step step, Apart apart) {
  T product[kColumns];
  std::fill_n(product, width, T(1));
  for (int64_t i = 0; i < n; ++i) {
    const T* from = x + i * step();
    T* to = out + i * step();
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) {
      to[j * apart()] = product[j];
      product[j] *= from[j * apart()];
    }
  }
  std::fill_n(product, width, T(1));
  for (int64_t i = n - 1; i >= 0; --i) {
    const T* from = x + i * step();
    T* to = out + i * step();
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) {
      to[j * apart()] *= product[j];
      product[j] *= from[j * apart()];
    }
  }
}

template <class T>
void run(const T* x, T* out, const cpu::Split& s) {
  const auto one = [] { return int64_t{1}; };
  const int64_t at_once = s.inner == 1 ? kRows : kColumns, runs = s.inner == 1 ? s.outer : s.inner;
  const int64_t tiles = (runs + at_once - 1) / at_once, planes = s.inner == 1 ? 1 : s.outer;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, at_once * s.n));
  parallel_for(planes * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t first = job % tiles * at_once, width = std::min(at_once, runs - first);
      if (s.inner == 1) {
        const int64_t at = first * s.n;
        multiply_others(x + at, out + at, s.n, width, one, [&] { return s.n; });
      } else {
        const int64_t at = job / tiles * s.n * s.inner + first;
        multiply_others(x + at, out + at, s.n, width, [&] { return s.inner; }, one);
      }
    }
  });
}

}  // namespace

void _products_of_others(const Tensor& out, const Tensor& self, int64_t dim) {
  const Tensor in = cpu::dense(self);
  const cpu::Split s = cpu::split_at(self.sizes(), wrap_dim(dim, self.dim()));
  ReleaseGil unlocked(self.numel());
  if (self.dtype() == DType::Float32)
    run(in.data<const float>(), out.data<float>(), s);
  else
    run(in.data<const double>(), out.data<double>(), s);
}

}  // namespace tocha::native
