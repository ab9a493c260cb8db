// Inputs in the layouts that raw-memory kernels read: contiguous, of one dtype, with a dim in the middle or last.
#pragma once

#include "core/tensor.h"
#include "cpu/engine/elementwise.h"

namespace tocha::cpu {

// A contiguous tensor of this dtype: t itself where it already is one.
inline Tensor dense(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype && t.is_contiguous() && !t.is_conj() && !t.is_neg()) return t;
  Tensor plain = empty(t.sizes(), dtype, t.device());
  copy(plain, t);
  return plain;
}
inline Tensor dense(const Tensor& t) { return dense(t, t.dtype()); }

// t as [rows, n]: dim is moved to the end, the others keep their order.
inline Tensor dense_rows(const Tensor& t, int64_t dim, DType dtype) {
  if (t.dim() == 0) return dense(t, dtype);
  Ints sizes, strides;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (d == dim) continue;
    sizes.push_back(t.size(d));
    strides.push_back(t.stride(d));
  }
  sizes.push_back(t.size(dim));
  strides.push_back(t.stride(dim));
  return dense(view_of(t, sizes, strides, t.offset()), dtype);
}

// What lies outside and inside of a dim of a contiguous tensor.
struct Split {
  int64_t outer = 1, n = 1, inner = 1;
};
inline Split split_at(IntsView sizes, int64_t dim) {
  Split s;
  for (int64_t d = 0; d < sizes.size(); ++d) (d < dim ? s.outer : d == dim ? s.n : s.inner) *= sizes[d];
  return s;
}

}  // namespace tocha::cpu
