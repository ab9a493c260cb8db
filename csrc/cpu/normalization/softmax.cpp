// softmax and log_softmax over any dim: the kernels of tocha/operators/softmax.py. Half types are computed in float,
// a row or a tile at a time.
#include <algorithm>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/layout.h"
#include "cpu/normalization/row_kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using cpu::Split;
constexpr int64_t kGrain = 1 << 13;  // elements a thread should have

template <class T>
const cpu::SoftmaxLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::softmax_kernels().f32;
  else
    return cpu::softmax_kernels().f64;
}

// Runs f(pointers, n, stride, width) over tiles of [outer, n, inner] tensors, all contiguous, as arrays of T. The first
// tensor is the result. Tensors of another dtype are converted through buffers.
template <class T, class F>
void for_tiles(const Tensor* const* tensors, int count, Split s, F f) {
  DType math = DTypeOf<T>::value;
  bool direct = true;
  for (int i = 0; i < count; ++i) direct &= tensors[i]->dtype() == math;
  // A converted tile should fit the cache; a direct one need not be touched twice in full.
  int64_t tile = std::min(s.inner, direct ? cpu::kSoftmaxTile : cpu::kSoftmaxTile / 4);
  int64_t tiles = (s.inner + tile - 1) / tile;
  parallel_for(s.outer * tiles, std::max<int64_t>(1, kGrain / (s.n * tile)), [&](int64_t first, int64_t last) {
    std::vector<T> buffer(direct ? 0 : static_cast<size_t>(s.n * tile));
    std::vector<T> more(direct || count < 3 ? 0 : static_cast<size_t>(s.n * tile));
    for (int64_t k = first; k < last; ++k) {
      int64_t column = k % tiles * tile, width = std::min(tile, s.inner - column);
      int64_t at = k / tiles * s.n * s.inner + column;
      T* p[3];
      if (direct) {
        for (int i = 0; i < count; ++i) p[i] = tensors[i]->template data<T>() + at;
        f(p, s.n, s.inner, width);
        continue;
      }
      // The result shares the first input's buffer.
      p[0] = p[1] = buffer.data();
      p[2] = more.data();
      auto rows = [&](int i, bool in) {
        const Tensor& t = *tensors[i];
        int64_t item = t.itemsize();
        cpu::CastLoop cast = in ? cpu::cast_loop(t.dtype(), math) : cpu::cast_loop(math, t.dtype());
        int64_t steps = width == s.inner ? 1 : s.n, run = width == s.inner ? s.n * width : width;
        for (int64_t r = 0; r < steps; ++r) {
          char* far = t.bytes() + (at + r * s.inner) * item;
          char* near = reinterpret_cast<char*>(p[i] + r * width);
          if (in)
            cast(near, sizeof(T), far, item, run);
          else
            cast(far, item, near, sizeof(T), run);
        }
      };
      for (int i = 1; i < count; ++i) rows(i, true);
      f(p, s.n, width, width);
      rows(0, false);
    }
  });
}

template <class T>
void forward(const Tensor& out, const Tensor& in, Split s, bool log) {
  const Tensor* tensors[] = {&out, &in};
  for_tiles<T>(tensors, 2, s, [log](T** p, int64_t n, int64_t stride, int64_t width) {
    if (stride == 1)
      loops<T>().row(p[1], p[0], n, log);
    else
      loops<T>().columns(p[1], p[0], n, stride, width, log);
  });
}

template <class T>
void backward(const Tensor& dx, const Tensor& g, const Tensor& y, Split s, bool log) {
  const Tensor* tensors[] = {&dx, &g, &y};
  for_tiles<T>(tensors, 3, s, [log](T** p, int64_t n, int64_t stride, int64_t width) {
    if (stride == 1)
      loops<T>().row_backward(p[1], p[2], p[0], n, log);
    else
      loops<T>().columns_backward(p[1], p[2], p[0], n, stride, width, log);
  });
}

// Dtypes a float kernel reads through its own conversion.
bool narrow(DType d) { return d == DType::Float32 || is_reduced_floating(d); }

void run(const Tensor& out, const Tensor& self, int64_t dim, bool log) {
  if (out.numel() == 0) return;
  bool wide = out.dtype() == DType::Float64;
  Tensor in = wide                   ? cpu::dense(self, DType::Float64)
              : narrow(self.dtype()) ? cpu::dense(self)
                                     : cpu::dense(self, out.dtype());
  Split s = cpu::split_at(self.sizes(), wrap_dim(dim, self.dim()));
  ReleaseGil unlocked(self.numel());
  if (wide)
    forward<double>(out, in, s, log);
  else
    forward<float>(out, in, s, log);
}

void run_backward(const Tensor& out, const Tensor& grad, const Tensor& output, int64_t dim, bool log) {
  if (out.numel() == 0) return;
  bool wide = output.dtype() == DType::Float64;
  Tensor g = wide ? cpu::dense(grad, DType::Float64) : cpu::dense(grad), y = cpu::dense(output);
  Split s = cpu::split_at(output.sizes(), wrap_dim(dim, output.dim()));
  ReleaseGil unlocked(output.numel());
  if (wide)
    backward<double>(out, g, y, s, log);
  else
    backward<float>(out, g, y, s, log);
}

}  // namespace

void softmax(const Tensor& out, const Tensor& self, int64_t dim, std::optional<DType>) { run(out, self, dim, false); }
void log_softmax(const Tensor& out, const Tensor& self, int64_t dim, std::optional<DType>) {
  run(out, self, dim, true);
}
void _softmax_backward_data(const Tensor& out, const Tensor& grad_output, const Tensor& output, int64_t dim, DType) {
  run_backward(out, grad_output, output, dim, false);
}
void _log_softmax_backward_data(const Tensor& out, const Tensor& grad_output, const Tensor& output, int64_t dim,
                                DType) {
  run_backward(out, grad_output, output, dim, true);
}

}  // namespace tocha::native
