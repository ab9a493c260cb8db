// Sparse tensors as native code sees them. They are written in Python (tocha/sparse): a subclass whose native part is
// a shape that reads as zeros, and which holds its indices and values as attributes. Whoever may meet one asks here.
#pragma once

#include "core/tensor.h"

namespace tocha {

// Whether a sparse tensor was ever made in this process; until then nobody has to look for one.
extern bool sparse_in_use;

inline bool is_sparse(const Tensor& t) { return sparse_in_use && t && t.get()->sparse; }

// a + b where one of them is sparse: sparse if both are.
Tensor sparse_sum(const Tensor& a, const Tensor& b);
// a + b, in a itself where its layout allows that; what a gradient that somebody may hold becomes.
Tensor sparse_accumulate(const Tensor& a, const Tensor& b);
Tensor sparse_to_dense(const Tensor& t);
// Another tensor with the same indices and copies of the values.
Tensor sparse_copy(const Tensor& t);
// The gradient of a matrix of `rows` rows of which those that indices name were taken: sparse, indices and grads side
// by side. Rows of number padding_idx are left out.
Tensor sparse_rows(const Tensor& grads, const Tensor& indices, int64_t rows, int64_t padding_idx);

// What has only a strided form, `what`, must not take a sparse tensor for the zeros that it reads as.
[[noreturn]] void refuse_sparse(const char* what);
inline void check_strided(const Tensor& t, const char* what) {
  if (is_sparse(t)) [[unlikely]]
    refuse_sparse(what);
}

}  // namespace tocha
