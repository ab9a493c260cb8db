// Finding and counting on raw memory: searchsorted, bincount, histc, nonzero, masked_select and
// masked_scatter. Everything is contiguous; an unsupported dtype fails with NotImplemented.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"

namespace tocha::cpu {

struct SearchSorted {
  DType dtype;            // of the sequence and of the values: integers, float16, bfloat16, float32, float64
  const void* sequence;   // [rows, length], or [length] when shared
  const int64_t* sorter;  // null, or the order that sorts the sequence, shaped like it
  const void* values;     // [rows, n]
  int64_t rows, length, n;
  bool shared;  // one sequence for all rows (bucketize, or a 1-d sequence)
  bool right;   // insert after equal elements
};

// out[r, i] = where values[r, i] goes into its sequence; out is int32 when out_int32, else int64.
// NaN goes behind everything, as in PyTorch.
void searchsorted(const SearchSorted& job, void* out, bool out_int32);

struct IntegerRange {
  int64_t low, high;
};

// Smallest and largest of n > 0 integers (uint64 is not served).
IntegerRange integer_range(DType dtype, const void* in, int64_t n);

// counts[v] = how often v occurs; every v in [0, bins).
void bincount(DType dtype, const void* in, int64_t n, int64_t* counts, int64_t bins);

// sums[v] = sum of the weights where v occurs, added in order. Float32 or Float64 weights and sums.
void bincount_weighted(DType dtype, const void* in, int64_t n, DType weight_dtype, const void* weights, void* sums,
                       int64_t bins);

// counts[b] = elements in the b-th of `bins` equal parts of [low, high]; the last one includes high, what is
// outside and NaN counts nowhere. Floating dtypes; the counts have the same dtype. low < high, both finite.
void histc(DType dtype, const void* in, int64_t n, int64_t bins, double low, double high, void* counts);

// What nonzero and masked_select know after counting: offsets[c] elements were selected before chunk c.
struct Selection {
  static constexpr int64_t kChunk = 1 << 13;
  std::vector<int64_t> offsets;
  int64_t count() const { return offsets.back(); }
};

// Counts the elements that are not zero (any dtype).
Selection select_nonzero(DType dtype, const void* in, int64_t n);

// out [count, ndim] = coordinates of the non-zero elements of a contiguous tensor, in order.
// column_stride and row_stride (in elements) say where coordinate d of element j goes.
void nonzero(DType dtype, const void* in, const int64_t* sizes, int ndim, const Selection& selection, int64_t* out,
             int64_t row_stride, int64_t column_stride);

// out = the elements of in [n] where the mask is set; selection = select_nonzero(Bool, mask, n).
void masked_select(int64_t itemsize, const void* in, const bool* mask, int64_t n, const Selection& selection,
                   void* out);

// The masked elements of inout [n] become source[0], source[1], ...
void masked_scatter(int64_t itemsize, void* inout, const bool* mask, int64_t n, const Selection& selection,
                    const void* source);

}  // namespace tocha::cpu
