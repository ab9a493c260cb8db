// The gates of recurrent cells, one table per instruction set. A row is one sample at one step: `n` hidden units, whose
// gates lie in blocks of n. csrc/cpu/recurrent/layers.cpp does the products around them.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

template <class T>
struct RecurrentLoops {
  // gates: sums for input, forget, cell and output gate, to which the bias (or null) is added; their activations are
  // left there. state: the cell, which is replaced; cell gets a copy.
  void (*lstm)(T* gates, const T* bias, T* state, T* cell, T* h, int64_t n);
  // From the gradient dh of h and that of the cell in dstate: the gradients of the sums, and in dstate that of the
  // cell before.
  void (*lstm_backward)(const T* gates, const T* before, const T* cell, const T* dh, T* dstate, T* dgates, int64_t n);
  // gates: sums for reset and update gate, the new state's part from the input, and its part from the state.
  void (*gru)(T* gates, const T* bias, const T* before, T* h, int64_t n);
  // dbefore gets what reaches the state before directly, past the gates.
  void (*gru_backward)(const T* gates, const T* before, const T* dh, T* dgates, T* dbefore, int64_t n);
  void (*simple)(T* sums, const T* bias, T* h, int64_t n, bool relu);
  void (*simple_backward)(const T* h, const T* dh, T* dsums, int64_t n, bool relu);
  // y += x
  void (*add)(T* y, const T* x, int64_t n);
};

struct RecurrentKernels {
  RecurrentLoops<float> f32;
  RecurrentLoops<double> f64;
};
TOCHA_ISA_TABLE(RecurrentKernels, recurrent_kernels)

}  // namespace tocha::cpu
