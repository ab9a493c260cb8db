// Pictures at other sizes: the kernels of tocha/operators/resampling.py. Half types are computed in float; bytes have
// an arithmetic of their own (bytes.cpp).
#include <memory>

#include "cpu/images/threads.h"
#include "cpu/resampling/bytes.h"
#include "cpu/resampling/kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using cpu::Arranged;
using cpu::PictureSizes;
using cpu::Resample;
using OptScale = std::optional<double>;

template <class T>
const cpu::ResampleLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::resample_kernels().f32;
  else
    return cpu::resample_kernels().f64;
}

template <class T>
Resample<T> taps(const PictureSizes& in, const PictureSizes& out, int64_t spatial, const std::string& kind,
                 bool align_corners, OptScale d, OptScale h, OptScale w) {
  const cpu::Filter f = cpu::filter_of(kind);
  const bool flat = spatial == 2;
  Resample<T> r;
  if (spatial == 3) r.d = cpu::make_taps<T>(f, in.d, out.d, align_corners, d, flat);
  if (spatial >= 2) r.h = cpu::make_taps<T>(f, in.h, out.h, align_corners, h, flat);
  r.w = cpu::make_taps<T>(f, in.w, out.w, align_corners, w, flat);
  return r;
}

template <class T>
void forward_as(const Tensor& out, const Tensor& self, int64_t spatial, const Resample<T>& r) {
  const bool last = cpu::channels_last(self, spatial);
  const PictureSizes s = cpu::picture_sizes(out.sizes(), spatial);
  Tensor in = cpu::arranged(self, DTypeOf<T>::value, last);
  Arranged values(out, DTypeOf<T>::value, last);
  const T* x = in.data<T>();
  T* y = values.data<T>();
  const int64_t from = r.plane(), to = r.places();
  if (last) {
    cpu::for_pixels(s, s.c, [&] {
      return [&](int64_t n, int64_t pixel, const int64_t* at) {
        loops<T>().pixel(x + n * from * s.c, y + pixel * s.c, r, at, s.c);
      };
    });
  } else {
    cpu::for_planes(s.n * s.c, std::max(from, to), [&] {
      return [&, row = std::make_unique<T[]>(static_cast<size_t>(r.w.in))](int64_t i) {
        loops<T>().plane(x + i * from, y + i * to, r, row.get());
      };
    });
  }
  values.finish();
}

template <class T>
void backward_as(const Tensor& out, const Tensor& grad, int64_t spatial, const Resample<T>& r) {
  const bool last = cpu::channels_last(grad, spatial);
  const PictureSizes s = cpu::picture_sizes(out.sizes(), spatial);
  Tensor in = cpu::arranged(grad, DTypeOf<T>::value, last);
  Arranged values(out, DTypeOf<T>::value, last);
  const T* g = in.data<T>();
  T* dx = values.data<T>();
  const int64_t from = r.places(), to = r.plane();
  if (last) {
    cpu::for_channel_blocks(s.n, s.c, std::max(from, to), [&](int64_t n, int64_t begin, int64_t end) {
      for (int64_t i = n * to; i < (n + 1) * to; ++i) std::fill_n(dx + i * s.c + begin, end - begin, T(0));
      for (int64_t i = 0; i < from; ++i) {
        const int64_t at[] = {i / (r.h.out * r.w.out), i / r.w.out % r.h.out, i % r.w.out};
        loops<T>().pixel_backward(g + (n * from + i) * s.c, dx + n * to * s.c, r, at, s.c, begin, end);
      }
    });
  } else {
    cpu::for_planes(s.n * s.c, std::max(from, to), [&] {
      return [&, row = std::make_unique<T[]>(static_cast<size_t>(r.w.in))](int64_t i) {
        std::fill_n(dx + i * to, to, T(0));
        loops<T>().plane_backward(g + i * from, dx + i * to, r, row.get());
      };
    });
  }
  values.finish();
}

}  // namespace

void _resample(const Tensor& out, const Tensor& self, IntsView sizes, const std::string& kind, bool align_corners,
               OptScale scale_d, OptScale scale_h, OptScale scale_w) {
  const int64_t spatial = sizes.size();
  const PictureSizes in = cpu::picture_sizes(self.sizes(), spatial), to = cpu::picture_sizes(out.sizes(), spatial);
  if (out.numel() == 0) return;
  if (self.dtype() == DType::UInt8 && kind.substr(0, 7) != "nearest") {
    cpu::resample_bytes(out, self, taps<double>(in, to, spatial, kind, align_corners, scale_d, scale_h, scale_w));
  } else if (self.dtype() == DType::Float64) {
    forward_as(out, self, spatial, taps<double>(in, to, spatial, kind, align_corners, scale_d, scale_h, scale_w));
  } else {
    forward_as(out, self, spatial, taps<float>(in, to, spatial, kind, align_corners, scale_d, scale_h, scale_w));
  }
}

void _resample_backward(const Tensor& out, const Tensor& grad, IntsView shape, const std::string& kind,
                        bool align_corners, OptScale scale_d, OptScale scale_h, OptScale scale_w) {
  const int64_t spatial = shape.size() - 2;
  const PictureSizes in = cpu::picture_sizes(shape, spatial), to = cpu::picture_sizes(grad.sizes(), spatial);
  if (grad.dtype() == DType::Float64)
    backward_as(out, grad, spatial, taps<double>(in, to, spatial, kind, align_corners, scale_d, scale_h, scale_w));
  else
    backward_as(out, grad, spatial, taps<float>(in, to, spatial, kind, align_corners, scale_d, scale_h, scale_w));
}

}  // namespace tocha::native
