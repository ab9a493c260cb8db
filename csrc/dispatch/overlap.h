// What generated operators refuse before they write: inputs that share memory with the tensor that is written to.
#pragma once

#include "dispatch/pointwise.h"

namespace tocha {

enum class Sharing { none, whole };  // no memory at all, or all of it in the same order

inline void check_sharing(const char* op, Sharing allowed, const Tensor& out, const Tensor& in) {
  if (in) check_no_overlap(out, in, op, allowed == Sharing::whole);
}
inline void check_sharing(const char* op, Sharing allowed, const Tensor& out, const Tensors& ins) {
  for (const Tensor& in : ins) check_sharing(op, allowed, out, in);
}

}  // namespace tocha
