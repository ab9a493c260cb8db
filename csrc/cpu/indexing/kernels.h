// The inner loops of indexing, gather and scatter, one table per instruction set (csrc/cpu/indexing/isa/kernels.cpp).
// Strides, steps and offsets are in bytes. Moves depend on the element size alone, merges on the dtype.
#pragma once

#include "core/dtype.h"

namespace tocha::cpu {

// How an element that is written meets the one that is there.
enum class Merge : uint8_t { assign, add, multiply, minimum, maximum };
constexpr int kNumMerges = 5;

struct MergeLoops {
  // dst[i] (merge)= src[i]
  void (*run)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n);
  // dst[offsets[i]] (merge)= src[i]
  void (*at)(char* dst, const int64_t* offsets, const char* src, int64_t src_stride, int64_t n);
  // dst[index[i] * step + i * dst_stride] (merge)= src[i]; the indices were checked.
  void (*along)(char* dst, int64_t dst_stride, int64_t step, const char* index, int64_t index_stride, const char* src,
                int64_t src_stride, int64_t n);
};

struct TakeLoops {
  // dst[i] = src[offsets[i]]
  void (*at)(char* dst, int64_t dst_stride, const char* src, const int64_t* offsets, int64_t n);
  // dst[i] = src[index[i] * step + i * src_stride]; stops and returns i at an index outside [0, size), else returns n.
  int64_t (*along)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t step, int64_t size,
                   const char* index, int64_t index_stride, int64_t n);
};

constexpr int64_t kSelectSlack = 8;

struct PickLoops {
  MergeLoops merge[kNumMerges][kNumDTypes];  // a null entry: the dtype has no such merge
  TakeLoops take[kNumDTypes];
  // The first of n indices outside [low, high), or n.
  int64_t (*first_outside)(const char* index, int64_t stride, int64_t low, int64_t high, int64_t n);
  // offsets[i] (plus)= step * index[i], a negative index counting from size; stops and returns i at one that is out of
  // range.
  int64_t (*offsets)(int64_t* out, const char* index, int64_t stride, int64_t size, int64_t step, bool plus, int64_t n);
  // Those of n indices that are in [low, high), as offsets of `step` bytes each, and the elements of `itemsize` bytes
  // that belong to them, both of which need room for n + kSelectSlack; returns how many.
  int64_t (*select)(const int64_t* index, const char* src, int64_t src_stride, int64_t itemsize, int64_t low,
                    int64_t high, int64_t step, int64_t n, int64_t* offsets, char* selected);
  bool selects_vectors;  // elements of 4 bytes by vectors: that costs little beside merging them
  // dst[i] = value where mask[i], for elements of `itemsize` bytes
  void (*fill_where)(int64_t itemsize, char* dst, int64_t dst_stride, const char* mask, int64_t mask_stride,
                     const char* value, int64_t n);
  // sums[i] /= max(counts[i], 1); integers round down.
  void (*divide[kNumDTypes])(char* sums, int64_t sum_stride, const char* counts, int64_t count_stride, int64_t n);
};
TOCHA_ISA_TABLE(PickLoops, pick_loops)

}  // namespace tocha::cpu
