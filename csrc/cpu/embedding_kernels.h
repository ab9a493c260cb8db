// Row loops of embeddings, one table per instruction set; csrc/cpu/embedding.cpp calls them.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

template <class T>
struct EmbeddingLoops {
  // y += factor * x
  void (*add_scaled)(T* y, const T* x, T factor, int64_t n);
};

struct EmbeddingKernels {
  EmbeddingLoops<float> f32;
  EmbeddingLoops<double> f64;
};
TOCHA_ISA_TABLE(EmbeddingKernels, embedding_kernels)

}  // namespace tocha::cpu
