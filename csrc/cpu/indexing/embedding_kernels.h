// Row loops of embeddings, one table per instruction set; csrc/cpu/indexing/embedding.cpp calls them.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

// The rows of a table that belong to one bag.
template <class T>
struct BagJob {
  const T* table;
  int64_t row;  // elements from row to row
  const int64_t* index;
  const T* factors;  // of each index, or null for ones; rows with a factor of zero are not read
  int64_t count;
  int64_t n;      // elements of a row
  int64_t known;  // indices that may be looked at: those of the bags after this one too
};

template <class T>
struct EmbeddingLoops {
  // y += factor * x
  void (*add_scaled)(T* y, const T* x, T factor, int64_t n);
  // y = the sum of the bag's rows
  void (*sum_bag)(const BagJob<T>& job, T* y);
  // y = the greatest of the bag's rows, element by element, and `at` the row that it comes from; without rows 0 and -1.
  // A NaN is greater than anything.
  void (*max_bag)(const BagJob<T>& job, T* y, int64_t* at);
};

struct EmbeddingKernels {
  EmbeddingLoops<float> f32;
  EmbeddingLoops<double> f64;
};
TOCHA_ISA_TABLE(EmbeddingKernels, embedding_kernels)

}  // namespace tocha::cpu
