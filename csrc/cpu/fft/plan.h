// What a transform of n points needs besides the points: its factors, the roots of unity between them, and for lengths
// with a great prime factor the chirp that makes a convolution of it. Plans are made once and kept (plan.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tocha::cpu {

// Lengths whose prime factors are all below this are transformed factor by factor: up to here a sum by definition takes
// less than a convolution.
constexpr int kFftLargestRadix = 128;

// One factor of the length. The points before it are [radix][rest][done], those after it [rest][radix][done]; point j
// of butterfly p is multiplied by exp(-2 pi i p j / (radix rest)).
template <class T>
struct FftPass {
  int64_t radix, rest, done;
  const T* factors;  // [rest][radix - 1] complex
  const T* roots;    // cos and sin of 2 pi k / radix for k < radix, where the radix is odd
};

template <class T>
struct FftPlan {
  int64_t n;
  std::vector<FftPass<T>> passes;
  std::vector<std::vector<T>> tables;  // what the passes point to

  // Of odd lengths with passes: what is left of the length after the first of them.
  std::shared_ptr<const FftPlan<T>> rest;

  // A convolution of another length instead of passes: exp(-pi i k^2 / n), and the transform of its inverse.
  std::shared_ptr<const FftPlan<T>> convolution;
  std::vector<T> chirp, filter;

  // How many points the buffers of a transform hold.
  int64_t room() const { return convolution ? convolution->n : n; }
};

// A long line as a matrix [rows][columns]: transforms of its columns, a factor for each element, transforms of its
// rows.
template <class T>
struct FftSplit {
  std::shared_ptr<const FftPlan<T>> columns, rows;  // of length `rows` and `columns`
  std::vector<T> factors;                           // [groups of lanes][rows][re: lanes, im: lanes]
};

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n);
// exp(-2 pi i k / n) for k <= n / 4, with which n real points are transformed as n / 2 complex ones.
template <class T>
std::shared_ptr<const std::vector<T>> fft_real_factors(int64_t n);
// Null where n has no two factors that are worth it.
template <class T>
std::shared_ptr<const FftSplit<T>> fft_split(int64_t n, int64_t lanes);

}  // namespace tocha::cpu
