// Patches of pictures as columns, and columns added up to pictures: the kernels of tocha/operators/patches.py.
#include <cstring>

#include "cpu/images/threads.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

// Where patches lie: kernel places at steps of dilation, patches at steps of stride, in a padded picture.
struct Patches {
  cpu::PictureSizes s;
  int64_t kh, kw, dh, dw, ph, pw, sh, sw, rows, columns;

  Patches(IntsView shape, IntsView kernel, IntsView dilation, IntsView padding, IntsView stride)
      : s(cpu::picture_sizes(shape, 2)),
        kh(kernel[0]),
        kw(kernel[1]),
        dh(dilation[0]),
        dw(dilation[1]),
        ph(padding[0]),
        pw(padding[1]),
        sh(stride[0]),
        sw(stride[1]),
        rows((s.h + 2 * ph - dh * (kh - 1) - 1) / sh + 1),
        columns((s.w + 2 * pw - dw * (kw - 1) - 1) / sw + 1) {}
  int64_t kernel() const { return kh * kw; }
  int64_t count() const { return rows * columns; }

  // f(row of patches' places in the picture (below 0: padding), the first column that is inside, the end of those) for
  // each row of patches seen through the kernel's place k.
  template <class F>
  void for_runs(int64_t k, F f) const {
    const int64_t y = k / kw * dh - ph, x = k % kw * dw - pw;
    const int64_t first = x < 0 ? (-x + sw - 1) / sw : 0;
    const int64_t end = s.w > x ? std::min(columns, (s.w - x + sw - 1) / sw) : 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = y + r * sh;
      const bool inside = at >= 0 && at < s.h && first < end;
      f(r * columns, inside ? at * s.w + x : 0, inside ? first : columns, inside ? end : columns);
    }
  }
};

// Elements are moved as what they are wide: copying needs no arithmetic.
template <class T>
void unfold_as(const Tensor& out, const Tensor& self, const Patches& p) {
  Tensor in = cpu::arranged(self, self.dtype(), false);
  const T* x = in.data<T>();
  T* y = out.data<T>();
  cpu::for_planes(p.s.n * p.s.c, p.kernel() * p.count(), [&] {
    return [&](int64_t i) {
      const T* plane = x + i * p.s.plane();
      for (int64_t k = 0; k < p.kernel(); ++k) {
        T* row = y + (i * p.kernel() + k) * p.count();
        p.for_runs(k, [&](int64_t to, int64_t from, int64_t first, int64_t end) {
          std::fill_n(row + to, first, T());
          for (int64_t c = first; c < end; ++c) row[to + c] = plane[from + c * p.sw];
          if (end < p.columns) std::fill_n(row + to + end, p.columns - end, T());
        });
      }
    };
  });
}

template <class T>
void fold_as(const Tensor& out, const Tensor& self, const Patches& p) {
  Tensor in = cpu::arranged(self, DTypeOf<T>::value, false);
  cpu::Arranged result(out, DTypeOf<T>::value, false);
  const T* x = in.data<T>();
  T* y = result.data<T>();
  cpu::for_planes(p.s.n * p.s.c, p.kernel() * p.count(), [&] {
    return [&](int64_t i) {
      T* plane = y + i * p.s.plane();
      std::fill_n(plane, p.s.plane(), T());
      for (int64_t k = 0; k < p.kernel(); ++k) {
        const T* row = x + (i * p.kernel() + k) * p.count();
        p.for_runs(k, [&](int64_t from, int64_t to, int64_t first, int64_t end) {
          for (int64_t c = first; c < end; ++c) plane[to + c * p.sw] = plane[to + c * p.sw] + row[from + c];
        });
      }
    };
  });
  result.finish();
}

struct Bytes16 {
  uint64_t low = 0, high = 0;
};

}  // namespace

void _unfold_patches(const Tensor& out, const Tensor& self, IntsView kernel, IntsView dilation, IntsView padding,
                     IntsView stride) {
  const Patches p(self.sizes(), kernel, dilation, padding, stride);
  switch (self.itemsize()) {
    case 1:
      return unfold_as<uint8_t>(out, self, p);
    case 2:
      return unfold_as<uint16_t>(out, self, p);
    case 4:
      return unfold_as<uint32_t>(out, self, p);
    case 8:
      return unfold_as<uint64_t>(out, self, p);
    default:
      return unfold_as<Bytes16>(out, self, p);
  }
}

void _fold_patches(const Tensor& out, const Tensor& self, IntsView, IntsView kernel, IntsView dilation,
                   IntsView padding, IntsView stride) {
  const Patches p(out.sizes(), kernel, dilation, padding, stride);
  switch (self.dtype()) {
    case DType::Float64:
      return fold_as<double>(out, self, p);
    case DType::Complex64:
      return fold_as<Complex<float>>(out, self, p);
    case DType::Complex128:
      return fold_as<Complex<double>>(out, self, p);
    case DType::Bool:
      return fold_as<int64_t>(out, self, p);  // written back as bool: whether any patch has it
    default:
      return fold_as<float>(out, self, p);
  }
}

}  // namespace tocha::native
