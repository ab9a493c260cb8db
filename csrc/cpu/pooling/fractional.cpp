// Maxima over windows at random distances (fractional max pooling): a kernel of tocha/operators/pooling.py.
#include <array>
#include <limits>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/images/images.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using Starts = std::vector<int64_t>;

// Where the windows of one dim begin. The steps are rounded as S holds them, so that a seed means the same windows in
// every implementation; the last window ends where the dim does.
template <class S>
Starts window_starts(double sample, int64_t in, int64_t out, int64_t kernel) {
  using Wide = std::conditional_t<std::is_same_v<S, double>, double, float>;
  auto rounded = [](Wide x) { return static_cast<Wide>(static_cast<S>(x)); };
  Starts starts(static_cast<size_t>(out), in - kernel);
  if (out < 2) return starts;
  const Wide u = static_cast<Wide>(sample);
  const Wide alpha = rounded(rounded(static_cast<Wide>(in - kernel)) / rounded(static_cast<Wide>(out - 1)));
  const int64_t shift = static_cast<int64_t>(rounded(u * alpha));
  for (int64_t i = 0; i + 1 < out; ++i) {
    const Wide at = rounded(rounded(rounded(static_cast<Wide>(i)) + u) * alpha);
    starts[static_cast<size_t>(i)] = static_cast<int64_t>(at) - shift;
  }
  return starts;
}

Starts window_starts_in(DType d, double sample, int64_t in, int64_t out, int64_t kernel) {
  switch (d) {
    case DType::Float64:
      return window_starts<double>(sample, in, out, kernel);
    case DType::BFloat16:
      return window_starts<BFloat16>(sample, in, out, kernel);
    case DType::Float16:
      return window_starts<Half>(sample, in, out, kernel);
    default:
      return window_starts<float>(sample, in, out, kernel);
  }
}

// The first of the largest in a window, or the last NaN.
template <class T>
int64_t largest_in(const T* x, const cpu::PictureSizes& s, const std::array<int64_t, 3>& first,
                   const std::array<int64_t, 3>& kernel) {
  int64_t best = -1;
  for (int64_t d = first[0]; d < first[0] + kernel[0]; ++d) {
    for (int64_t h = first[1]; h < first[1] + kernel[1]; ++h) {
      for (int64_t w = first[2]; w < first[2] + kernel[2]; ++w) {
        const int64_t at = (d * s.h + h) * s.w + w;
        if (best < 0 || x[at] > x[best] || x[at] != x[at]) best = at;
      }
    }
  }
  return best;
}

template <class T>
void fractional_max_as(const Tensor& out, const Tensor& indices, const Tensor& self, IntsView kernel,
                       const Tensor& samples) {
  const int64_t spatial = kernel.size();
  const cpu::PictureSizes s = cpu::picture_sizes(self.sizes(), spatial), o = cpu::picture_sizes(out.sizes(), spatial);
  const std::array<int64_t, 3> k = {spatial == 3 ? kernel[0] : 1, kernel[spatial - 2], kernel[spatial - 1]};
  Tensor in = cpu::arranged(self, DTypeOf<T>::value, false), random = cpu::dense(samples, DType::Float64);
  cpu::Arranged values(out, DTypeOf<T>::value, false), places(indices, DType::Int64, false);
  const T* x = in.data<T>();
  T* y = values.data<T>();
  int64_t* where = places.data<int64_t>();
  const int64_t row = samples.size(1);
  ReleaseGil unlocked(self.numel());
  parallel_for(s.n * s.c, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double* u = random.data<double>() + (i / s.c * row + i % s.c) * spatial;
      // Flat pictures take their numbers for the width first, volumes from depth to width.
      const double ud = spatial == 3 ? u[0] : 0, uh = u[1], uw = u[spatial == 3 ? 2 : 0];
      const Starts ds = window_starts_in(self.dtype(), ud, s.d, o.d, k[0]);
      const Starts hs = window_starts_in(self.dtype(), uh, s.h, o.h, k[1]);
      const Starts ws = window_starts_in(self.dtype(), uw, s.w, o.w, k[2]);
      int64_t at = i * o.plane();
      for (int64_t d : ds) {
        for (int64_t h : hs) {
          for (int64_t w : ws) {
            where[at] = largest_in(x + i * s.plane(), s, {d, h, w}, k);
            y[at] = x[i * s.plane() + where[at]];
            ++at;
          }
        }
      }
    }
  });
  values.finish();
  places.finish();
}

}  // namespace

void _fractional_max(const Tensor& out, const Tensor& indices, const Tensor& self, IntsView kernel, IntsView,
                     const Tensor& samples) {
  if (self.dtype() == DType::Float64)
    fractional_max_as<double>(out, indices, self, kernel, samples);
  else
    fractional_max_as<float>(out, indices, self, kernel, samples);
}

}  // namespace tocha::native
