// The row loops of attention, one table per instruction set; csrc/cpu/attention/attention.cpp calls them on tiles of
// scores.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

// Rows of scores, of which each has columns that count: `seen` of the first row's, `step` more in every row after it.
template <class T>
struct ScoreTile {
  T* scores;
  int64_t stride;  // from row to row, with room for a vector beyond the last column
  int64_t rows, width;
  int64_t cleared;  // columns that are written: those that do not count become zeros
  int64_t seen, step;

  T* row(int64_t r) const { return scores + r * stride; }
  int64_t counted(int64_t r) const {
    const int64_t n = seen + r * step;
    return n < 0 ? 0 : n < width ? n : width;
  }
};

template <class T>
struct AttentionLoops {
  // s = scale * s + bias, where bias may be null.
  void (*biased)(T* s, int64_t n, T scale, const T* bias);
  // Scores become exp(scale * score - max), where a row's max is raised to the greatest seen so far and their sum is
  // added to `sum`, which is brought to the new max. Earlier results of a row are to be multiplied by its factor; where
  // none are, in a row's first tile, max, sum and factor are only written. The scale is positive.
  void (*exponentials)(const ScoreTile<T>& tile, T scale, bool first, T* max, T* sum, T* factor);
  // Scores become probabilities exp(scale * score - lse), and the gradients of these, rows of the same stride, those of
  // the scores. Without delta, the sum of a row's gradients times probabilities, the tile has all of the row.
  void (*slopes)(const ScoreTile<T>& tile, T* gradients, T scale, const T* lse, const T* delta);
  // Sums of weighted values become means, lse the logarithm of the sum of a row's exponentials. Rows that saw nothing
  // are zeros.
  void (*finish)(T* out, int64_t stride, int64_t rows, int64_t n, const T* max, const T* sum, T* lse);
  void (*scale)(T* x, int64_t n, T factor);
  // Of every row of x with that of y.
  void (*dots)(const T* x, int64_t x_stride, const T* y, int64_t y_stride, int64_t rows, int64_t n, T* out);
};

struct AttentionKernels {
  AttentionLoops<float> f32;
  AttentionLoops<double> f64;
};
TOCHA_ISA_TABLE(AttentionKernels, attention_kernels)

}  // namespace tocha::cpu
