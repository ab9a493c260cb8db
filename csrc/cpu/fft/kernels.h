// The transforms of a few lines side by side, once per instruction set; fft.cpp cuts tensors into such blocks.
// Each lane of a vector is a line of its own: the lines are gathered into a buffer [points][re: lanes, im: lanes],
// transformed there and scattered, so any layout of the tensor costs no more than its memory does.
#pragma once

#include <cstdint>

#include "core/isa.h"
#include "cpu/fft/plan.h"

namespace tocha::cpu {

enum class FftKind : uint8_t { complex, real_in, real_out };

// What is done to every line. Offsets and steps count real numbers.
template <class T>
struct FftJob {
  FftKind kind;
  const FftPlan<T>* plan;  // of n points, or of n / 2 for real lines of even length
  int64_t n;
  int64_t made;   // real_in: how many frequencies are wanted, n or n / 2 + 1
  const T* real;  // fft_real_factors of even n
  const T* in;
  int64_t in_step;   // from point to point
  int64_t in_other;  // complex: from a real to its imaginary part, or 0 where there is none
  T* out;
  int64_t out_step, out_other;
  bool inverse;    // the exponents have a positive sign; real_in never, real_out always
  bool conjugate;  // complex inputs are read as their conjugates
  T scale;
  const T* factors;  // FftSplit's, or null: results are multiplied by them
};

constexpr int64_t kFftWidest = 4;
constexpr int64_t kFftMostLanes = 16;

// Lines of a block: where each begins in `in` and in `out`.
struct FftBlock {
  const int64_t* in_at;
  const int64_t* out_at;
  int64_t count;  // lines, at most lanes * width
  int64_t width;  // vectors side by side, at most kFftWidest
  int64_t first;  // the number of the first line, for the factors
};

template <class T>
struct FftKernels {
  int64_t lanes;
  void (*run)(const FftJob<T>& job, const FftBlock& block, T* work);
};
// Buffers hold as many points as there are anywhere; real lines of odd length take three of them, others two.
template <class T>
inline int64_t fft_buffer_size(const FftJob<T>& job, int64_t lanes, int64_t width) {
  const int64_t room = job.plan->room(), least = job.n + 1;
  return 2 * lanes * width * (room > least ? room : least);
}
// How many numbers `work` has.
template <class T>
inline int64_t fft_work_size(const FftJob<T>& job, int64_t lanes, int64_t width) {
  const bool odd = job.kind != FftKind::complex && job.plan->rest;
  return (odd ? 3 : 2) * fft_buffer_size(job, lanes, width);
}

using FloatFftKernels = FftKernels<float>;
using DoubleFftKernels = FftKernels<double>;
TOCHA_ISA_TABLE(FloatFftKernels, float_fft_kernels)
TOCHA_ISA_TABLE(DoubleFftKernels, double_fft_kernels)

}  // namespace tocha::cpu
