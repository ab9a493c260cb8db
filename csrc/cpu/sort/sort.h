// Sorting, selection and uniqueness on raw memory. A call works on `rows` contiguous rows of n elements; the
// operators make their dimension the last one first. Every dtype with an order is served (bool, integers,
// float16, bfloat16, float32, float64); another one fails with NotImplemented.
//
// The order is PyTorch's: NaN is larger than everything, -0.0 equals 0.0. All orders here are stable, the
// descending one too: equal elements keep their places.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace tocha::cpu {

// in [rows, n] -> values [rows, n], indices [rows, n]. `in` must not overlap the outputs.
void sort(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, bool descending);

// The k largest (or smallest) of every row, best first; among equals the lower index is better.
// in [rows, n] -> values [rows, k], indices [rows, k]; 0 <= k <= n.
void topk(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, int64_t k,
          bool largest);

// The k-th smallest of every row (k counts from 0) and the place it has in a stable sort; 0 <= k < n.
void kthvalue(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, int64_t k);

// The lower median of every row, n > 0. With skip_nan the NaNs do not count (a row of NaNs gives NaN, 0);
// without it a row that has a NaN gives its first one.
void median(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n, bool skip_nan);

// The most frequent value of every row, the smallest of several, with the index of its last occurrence; n > 0.
// Every NaN counts as a value of its own.
void mode(DType dtype, const void* in, void* values, int64_t* indices, int64_t rows, int64_t n);

// The distinct values of in[0..n), ascending (every NaN is distinct). Returns how many there are; `values`
// and `counts` have room for n. inverse[i] says which one in[i] is. `inverse` and `counts` may be null.
int64_t unique(DType dtype, const void* in, int64_t n, void* values, int64_t* inverse, int64_t* counts);

// The same over runs of equal neighbours.
int64_t unique_consecutive(DType dtype, const void* in, int64_t n, void* values, int64_t* inverse, int64_t* counts);

// The distinct rows of in [rows, n], in lexicographic order. firsts[g] is the first row that equals the g-th
// distinct one: gathering those rows is the caller's part. Room for `rows` in each; the last two may be null.
int64_t unique_rows(DType dtype, const void* in, int64_t rows, int64_t n, int64_t* firsts, int64_t* inverse,
                    int64_t* counts);
int64_t unique_consecutive_rows(DType dtype, const void* in, int64_t rows, int64_t n, int64_t* firsts, int64_t* inverse,
                                int64_t* counts);

}  // namespace tocha::cpu
