// Pooling over windows: the kernels of tocha/operators/pooling.py. Planes go to the threads one by one, or pixels with
// all their channels where the channels are last in memory.
#include <algorithm>
#include <atomic>
#include <memory>

#include "cpu/images/threads.h"
#include "cpu/pooling/kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using cpu::Arranged;
using cpu::PictureSizes;
using cpu::PlaceIn;
using cpu::Pool;
using cpu::Windows;

constexpr int64_t kMostPlaces = 1LL << 31;  // places are 32 bits wide where channels are last

template <class T>
const cpu::PoolLoops<T>& loops() {
  if constexpr (std::is_same_v<T, float>)
    return cpu::pool_kernels().f32;
  else if constexpr (std::is_same_v<T, double>)
    return cpu::pool_kernels().f64;
  else
    return cpu::pool_kernels().i64;
}

// Calls f(T()) with the type that a dtype is computed in.
template <class F>
void with_math(DType d, F f) {
  switch (cpu::math_dtype(d)) {
    case DType::Float32:
      return f(float());
    case DType::Float64:
      return f(double());
    default:
      return f(int64_t());
  }
}

// Windows of `kernel` places that follow a stride, cut at the edges.
Windows regular(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t step,
                bool count_padding) {
  Windows w;
  w.in = in, w.out = out, w.step = step, w.stride = stride, w.padding = padding, w.width = kernel;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * stride - padding;
    const int64_t cut = begin < 0 ? (-begin + step - 1) / step : 0;
    const int64_t first = begin + cut * step;
    const int64_t fit = first < in ? (in - first + step - 1) / step : 0;
    w.first.push_back(first);
    w.count.push_back(std::max<int64_t>(0, std::min(kernel - cut, fit)));
    w.divisor.push_back(count_padding ? std::min(begin + kernel, in + padding) - begin : w.count.back());
  }
  return w;
}

// Windows that divide `in` places among `out`, as evenly as can be; they may share places.
Windows adaptive(int64_t in, int64_t out) {
  Windows w;
  w.in = in, w.out = out;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t first = i * in / out, last = ((i + 1) * in + out - 1) / out;
    w.first.push_back(first);
    w.count.push_back(last - first);
    w.divisor.push_back(last - first);
  }
  return w;
}

// The windows of a pooling; without a kernel they are adaptive.
Pool windows(const PictureSizes& in, const PictureSizes& out, IntsView kernel, IntsView stride, IntsView padding,
             IntsView dilation, bool count_padding, int64_t divisor) {
  const int64_t ins[] = {in.d, in.h, in.w}, outs[] = {out.d, out.h, out.w};
  Pool p;
  Windows* dims[] = {&p.d, &p.h, &p.w};
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t k = i - 3 + kernel.size();
    if (kernel.empty())
      *dims[i] = adaptive(ins[i], outs[i]);
    else if (k < 0)
      *dims[i] = regular(1, 1, 1, 1, 0, 1, false);
    else
      *dims[i] =
          regular(ins[i], outs[i], kernel[k], stride[k], padding[k], dilation.empty() ? 1 : dilation[k], count_padding);
  }
  p.divisor = divisor;
  return p;
}

// How much work an output place is, in elements read.
int64_t window_work(const Pool& p) { return std::max<int64_t>(1, p.plane() / std::max<int64_t>(1, p.places())); }

template <class T>
void max_as(const Tensor& out, const Tensor& indices, const Tensor& self, const Pool& p, const PictureSizes& s,
            bool last) {
  const DType math = DTypeOf<T>::value;
  Tensor in = cpu::arranged(self, math, last);
  Arranged values(out, math, last), places(indices, DType::Int64, last);
  const T* x = in.data<T>();
  T* y = values.data<T>();
  int64_t* where = places.data<int64_t>();
  const int64_t from = p.plane(), to = p.places(), row = p.w.max_row();
  if (last) {
    PictureSizes sizes{s.n, s.c, p.d.out, p.h.out, p.w.out};
    cpu::for_pixels(sizes, s.c * window_work(p), [&] {
      return [&, scratch = std::make_unique<int32_t[]>(static_cast<size_t>(s.c))](int64_t n, int64_t pixel,
                                                                                  const int64_t* at) {
        loops<T>().max_pixel(x + n * from * s.c, y + pixel * s.c, where + pixel * s.c, p, at, s.c, scratch.get());
      };
    });
  } else {
    cpu::for_planes(s.n * s.c, from, [&] {
      return [&, best = std::make_unique<T[]>(static_cast<size_t>(row)),
              at = std::make_unique<PlaceIn<T>[]>(static_cast<size_t>(row))](int64_t i) {
        loops<T>().max_plane(x + i * from, y + i * to, where + i * to, p, best.get(), at.get());
      };
    });
  }
  values.finish();
  places.finish();
}

template <class T>
void max_lines_as(const Tensor& out, const Tensor& self, const Windows& w) {
  Tensor in = cpu::arranged(self, DTypeOf<T>::value, false);
  Arranged values(out, DTypeOf<T>::value, false);
  const T* x = in.data<T>();
  T* y = values.data<T>();
  cpu::for_planes(out.numel() / w.out, w.in, [&] {
    auto row = std::make_unique<T[]>(static_cast<size_t>(w.max_row()));
    std::fill_n(row.get(), w.max_row(), cpu::kLeast<T>);
    return [&, row = std::move(row)](int64_t i) { loops<T>().max_line(x + i * w.in, y + i * w.out, w, row.get()); };
  });
  values.finish();
}

// f(first plane, how many) for all planes, in parallel.
template <class F>
void for_whole_planes(const PictureSizes& s, F f) {
  ReleaseGil unlocked(s.n * s.c * s.plane());
  parallel_for(s.n * s.c, std::max<int64_t>(1, cpu::kPictureGrain / std::max<int64_t>(s.plane(), 1)),
               [&](int64_t first, int64_t last) { f(first, last - first); });
}

template <class T>
void average_as(const Tensor& out, const Tensor& self, const Pool& p, const PictureSizes& s, bool last) {
  Tensor in = cpu::arranged(self, DTypeOf<T>::value, last);
  Arranged values(out, DTypeOf<T>::value, last);
  const T* x = in.data<T>();
  T* y = values.data<T>();
  const int64_t from = p.plane(), to = p.places();
  if (p.whole() && !last) {
    for_whole_planes(s, [&](int64_t first, int64_t count) {
      loops<T>().means(x + first * from, y + first, count, from, static_cast<T>(from));
    });
  } else if (last) {
    PictureSizes sizes{s.n, s.c, p.d.out, p.h.out, p.w.out};
    cpu::for_pixels(sizes, s.c * window_work(p), [&] {
      return [&](int64_t n, int64_t pixel, const int64_t* at) {
        loops<T>().average_pixel(x + n * from * s.c, y + pixel * s.c, p, at, s.c);
      };
    });
  } else {
    cpu::for_planes(s.n * s.c, from, [&] {
      return [&, row = std::make_unique<T[]>(static_cast<size_t>(p.w.row()))](int64_t i) {
        loops<T>().average_plane(x + i * from, y + i * to, p, row.get());
      };
    });
  }
  values.finish();
}

template <class T>
void average_backward_as(const Tensor& out, const Tensor& grad, const Pool& p, const PictureSizes& s, bool last) {
  Tensor in = cpu::arranged(grad, DTypeOf<T>::value, last);
  Arranged values(out, DTypeOf<T>::value, last);
  const T* g = in.data<T>();
  T* dx = values.data<T>();
  const int64_t from = p.places(), to = p.plane();
  if (p.whole() && !last) {
    for_whole_planes(s, [&](int64_t first, int64_t count) {
      loops<T>().means_backward(g + first, dx + first * to, count, to, static_cast<T>(to));
    });
  } else if (last) {
    cpu::for_channel_blocks(s.n, s.c, to, [&](int64_t n, int64_t begin, int64_t end) {
      for (int64_t i = n * to; i < (n + 1) * to; ++i) std::fill_n(dx + i * s.c + begin, end - begin, T(0));
      for (int64_t i = 0; i < from; ++i) {
        const int64_t at[] = {i / (p.h.out * p.w.out), i / p.w.out % p.h.out, i % p.w.out};
        loops<T>().average_pixel_backward(g + (n * from + i) * s.c, dx + n * to * s.c, p, at, s.c, begin, end);
      }
    });
  } else {
    cpu::for_planes(s.n * s.c, to, [&] {
      return [&, row = std::make_unique<T[]>(static_cast<size_t>(p.w.row() + p.w.out))](int64_t i) {
        std::fill_n(dx + i * to, to, T(0));
        loops<T>().average_plane_backward(g + i * from, dx + i * to, p, row.get());
      };
    });
  }
  values.finish();
}

// Takes note of an index that is outside of its plane; threads cannot throw.
class PlaceCheck {
 public:
  explicit PlaceCheck(int64_t plane) : plane_(plane) {}
  bool refuses(int64_t place) {
    if (static_cast<uint64_t>(place) < static_cast<uint64_t>(plane_)) return false;
    wrong_.store(place, std::memory_order_relaxed);
    failed_.store(true, std::memory_order_relaxed);
    return true;
  }
  void finish() const {
    TOCHA_CHECK(!failed_, Runtime, "found an invalid max index: ", wrong_.load(), " (a plane has ", plane_, " places)");
  }

 private:
  int64_t plane_;
  std::atomic<int64_t> wrong_{0};
  std::atomic<bool> failed_{false};
};

template <class T>
void scatter_as(const Tensor& out, const Tensor& values, const Tensor& indices, int64_t spatial, bool add, bool last) {
  const PictureSizes s = cpu::picture_sizes(out.sizes(), spatial);
  const int64_t to = s.plane(), from = indices.numel() / std::max<int64_t>(s.n * s.c, 1);
  Tensor v = cpu::arranged(values, DTypeOf<T>::value, last), at = cpu::arranged(indices, DType::Int64, last);
  Arranged result(out, DTypeOf<T>::value, last);
  const T* x = v.data<T>();
  const int64_t* places = at.data<int64_t>();
  T* y = result.data<T>();
  PlaceCheck check(to);
  auto put = [&](T* plane, int64_t stride, int64_t i) {
    if (check.refuses(places[i])) return;
    T& place = plane[places[i] * stride];
    place = add ? place + x[i] : x[i];
  };
  if (last) {
    cpu::for_channel_blocks(s.n, s.c, to, [&](int64_t n, int64_t begin, int64_t end) {
      T* sample = y + n * to * s.c;
      for (int64_t i = 0; i < to; ++i) std::fill_n(sample + i * s.c + begin, end - begin, T(0));
      for (int64_t i = n * from; i < (n + 1) * from; ++i) {
        for (int64_t c = begin; c < end; ++c) put(sample + c, s.c, i * s.c + c);
      }
    });
  } else {
    cpu::for_planes(s.n * s.c, to, [&] {
      return [&](int64_t p) {
        std::fill_n(y + p * to, to, T(0));
        for (int64_t i = p * from; i < (p + 1) * from; ++i) put(y + p * to, 1, i);
      };
    });
  }
  check.finish();
  result.finish();
}

}  // namespace

void _max_windows(const Tensor& out, const Tensor& indices, const Tensor& self, IntsView sizes, IntsView kernel,
                  IntsView stride, IntsView padding, IntsView dilation) {
  const PictureSizes s = cpu::picture_sizes(self.sizes(), sizes.size());
  const Pool p = windows(s, cpu::picture_sizes(out.sizes(), sizes.size()), kernel, stride, padding, dilation, false, 0);
  const bool last = cpu::channels_last(self, sizes.size()) && p.plane() < kMostPlaces;
  with_math(self.dtype(), [&](auto zero) { max_as<decltype(zero)>(out, indices, self, p, s, last); });
}

void _max_lines(const Tensor& out, const Tensor& self, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                int64_t dilation) {
  if (out.numel() == 0) return;
  Windows w;
  w.in = self.size(self.dim() - 1), w.out = size, w.step = dilation, w.stride = stride, w.padding = padding,
  w.width = kernel;
  with_math(self.dtype(), [&](auto zero) { max_lines_as<decltype(zero)>(out, self, w); });
}

void _average_windows(const Tensor& out, const Tensor& self, IntsView sizes, IntsView kernel, IntsView stride,
                      IntsView padding, bool count_include_pad, int64_t divisor) {
  const PictureSizes s = cpu::picture_sizes(self.sizes(), sizes.size());
  const Pool p = windows(s, cpu::picture_sizes(out.sizes(), sizes.size()), kernel, stride, padding, IntsView(),
                         count_include_pad, divisor);
  const bool last = cpu::channels_last(self, sizes.size());
  with_math(self.dtype(), [&](auto zero) { average_as<decltype(zero)>(out, self, p, s, last); });
}

void _average_windows_backward(const Tensor& out, const Tensor& grad, IntsView shape, IntsView sizes, IntsView kernel,
                               IntsView stride, IntsView padding, bool count_include_pad, int64_t divisor) {
  const PictureSizes s = cpu::picture_sizes(shape, sizes.size());
  const Pool p = windows(s, cpu::picture_sizes(grad.sizes(), sizes.size()), kernel, stride, padding, IntsView(),
                         count_include_pad, divisor);
  const bool last = cpu::channels_last(grad, sizes.size());
  with_math(grad.dtype(), [&](auto zero) { average_backward_as<decltype(zero)>(out, grad, p, s, last); });
}

void _scatter_places(const Tensor& out, const Tensor& self, const Tensor& indices, IntsView sizes, bool add) {
  if (out.numel() == 0) return;
  const bool last = cpu::channels_last(indices, sizes.size());
  with_math(self.dtype(), [&](auto zero) { scatter_as<decltype(zero)>(out, self, indices, sizes.size(), add, last); });
}

}  // namespace tocha::native
