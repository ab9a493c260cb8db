// The transforms from engine words to numbers that profit from wide vectors, compiled once per instruction
// set (isa/kernels.cpp). Called by random.cpp, which draws the words and says what PyTorch's rules are.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

struct RandomKernels {
  // out[i] = from + (to - from) * u, u = the low 24 bits of words[i]; what rounds to `to` becomes `from`.
  // float16, bfloat16, float32.
  void (*uniform24)(DType dtype, const uint32_t* words, int64_t n, float from, float to, void* out);
  // The same with 53 bits of two words, the first word being the upper half.
  void (*uniform53)(const uint32_t* words, int64_t n, double from, double to, double* out);
  // 16 words make 16 normals by Box-Muller: word j gives the radius and word j + 8 the angle of elements j
  // (cosine) and j + 8 (sine). float16, bfloat16, float32.
  void (*normal_blocks)(DType dtype, const uint32_t* words, int64_t blocks, float mean, float std, void* out);
};

TOCHA_ISA_TABLE(RandomKernels, random_kernels)

}  // namespace tocha::cpu
