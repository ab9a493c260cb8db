// Pictures in memory: N samples of C channels over two or three spatial dims, plane by plane or with the channels last.
// The kernels of pooling, batch_norm, resampling and patches bring their arguments into one of the two here.
#pragma once

#include "core/tensor.h"
#include "cpu/engine/elementwise.h"
#include "cpu/engine/layout.h"

namespace tocha::cpu {

// The dtype that elements are computed in: float for halves, int64 for integers.
inline DType math_dtype(DType d) {
  if (d == DType::Float64) return d;
  return is_floating(d) ? DType::Float32 : DType::Int64;
}

// Sizes of a batch; d is 1 for flat pictures, n is 1 where there is no batch dim.
struct PictureSizes {
  int64_t n = 1, c = 1, d = 1, h = 1, w = 1;
  int64_t plane() const { return d * h * w; }
};
inline PictureSizes picture_sizes(IntsView sizes, int64_t spatial) {
  const int64_t lead = sizes.size() - spatial;
  PictureSizes p;
  p.n = lead > 1 ? sizes[0] : 1;
  p.c = sizes[lead - 1];
  if (spatial == 3) p.d = sizes[lead];
  if (spatial >= 2) p.h = sizes[sizes.size() - 2];
  p.w = sizes[sizes.size() - 1];
  return p;
}

// Whether a batch with this many spatial dims has its channels last in memory.
inline bool channels_last(const Tensor& t, int64_t spatial) {
  return t.dim() == spatial + 2 && suggested_format(t) != MemoryFormat::Contiguous;
}

inline Ints picture_strides(IntsView sizes, bool last) {
  if (!last) return contiguous_strides(sizes);
  return format_strides(sizes, sizes.size() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d);
}

inline bool lies_as(const Tensor& t, DType dtype, bool last) {
  if (t.dtype() != dtype || t.is_conj() || t.is_neg()) return false;
  return last ? t.strides() == picture_strides(t.sizes(), true) : t.is_contiguous();
}

// t in this dtype and memory order: itself where it already is so.
inline Tensor arranged(const Tensor& t, DType dtype, bool last) {
  if (lies_as(t, dtype, last)) return t;
  Tensor plain = empty_strided(t.sizes(), picture_strides(t.sizes(), last), dtype, t.device());
  copy(plain, t);
  return plain;
}

// Where a kernel writes: out itself, or a tensor of the wanted dtype and order that `finish` copies into out.
class Arranged {
 public:
  Arranged(const Tensor& out, DType dtype, bool last)
      : out_(out),
        target_(lies_as(out, dtype, last)
                    ? out
                    : empty_strided(out.sizes(), picture_strides(out.sizes(), last), dtype, out.device())) {}
  template <class T>
  T* data() const {
    return target_.template data<T>();
  }
  const Tensor& tensor() const { return target_; }
  void finish() const {
    if (!target_.is(out_)) copy(out_, target_);
  }

 private:
  Tensor out_, target_;
};

}  // namespace tocha::cpu
