// The row loops of attention, one table per instruction set; csrc/cpu/attention/attention.cpp calls them on tiles of
// scores.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

template <class T>
struct AttentionLoops {
  // Scores become exp(scale * score + bias - max), where max is raised to the greatest seen so far and their sum is
  // added to `sum`, which is brought to the new max; bias may be null. Returns what earlier results are to be
  // multiplied by.
  T (*exponentials)(T* scores, int64_t n, T scale, const T* bias, T* max, T* sum);
  // Scores become probabilities exp(scale * score + bias - lse), and the gradients of these become those of the scores.
  void (*slopes)(T* scores, T* gradients, int64_t n, T scale, const T* bias, T lse, T delta);
  // The same in one step where all of a row is there, when lse is known but delta is not: slopes with delta 0, then
  // this takes the sum of what came out, times the probabilities, off it.
  void (*settle)(const T* probabilities, T* gradients, int64_t n);
  void (*scale)(T* x, int64_t n, T factor);
  T (*dot)(const T* x, const T* y, int64_t n);
};

struct AttentionKernels {
  AttentionLoops<float> f32;
  AttentionLoops<double> f64;
};
TOCHA_ISA_TABLE(AttentionKernels, attention_kernels)

}  // namespace tocha::cpu
