// The parts of sorting that profit from wide vectors, compiled once per instruction set
// (isa/kernels.cpp). Called by sort.cpp and select.cpp; keys are those of keys.h.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

constexpr int kRankSortMax = 64;

struct SortKernels {
  // keys[i] = key of in[i], complemented when `flip`; 64-bit keys for 8-byte dtypes, 32-bit ones otherwise.
  void (*make_keys)(DType dtype, const void* in, int64_t n, bool flip, void* keys);
  // ranks[i] = place of keys[i] in a stable sort; n <= kRankSortMax.
  void (*rank32)(const uint32_t* keys, int n, uint32_t* ranks);
  void (*rank64)(const uint64_t* keys, int n, uint64_t* ranks);
  uint32_t (*min32)(const uint32_t* keys, int64_t n);
  uint64_t (*min64)(const uint64_t* keys, int64_t n);
  // The bits in which the keys differ from the first one.
  uint32_t (*varying32)(const uint32_t* keys, int64_t n);
  uint64_t (*varying64)(const uint64_t* keys, int64_t n);
  int64_t (*count_equal32)(const uint32_t* keys, int64_t n, uint32_t key);
  int64_t (*count_equal64)(const uint64_t* keys, int64_t n, uint64_t key);
};

TOCHA_ISA_TABLE(SortKernels, sort_kernels)

}  // namespace tocha::cpu
