// Random numbers for CPU tensors, number for number PyTorch's. The operators' native kernels call these with
// raw memory; every call locks the generator, draws, and writes n contiguous elements. Parameters that are
// scalars have been checked by then; tensors of parameters are checked here, before anything is drawn.
//
// How PyTorch turns engine words (32 bits each) into numbers; "u24" is the low 24 bits of one word over 2^24,
// "u53" the low 53 bits of two words (first word on top) over 2^53:
//   uniform        from + (to - from) * u24, fused and in float (u53 for float64); what rounds to `to` is `from`
//   normal, n < 16 pairs from two u53 (angle first): r cos(a), then r sin(a), which the generator keeps for the
//                  next call, whatever its dtype; value * std + mean is fused, in double, and rounded once
//   normal, n >= 16 blocks of 16 u24 in float (u53 and double for float64): j is radius, j + 8 angle of the pair
//                  (j, j + 8). If n % 16 != 0, the last 16 elements are made again from 16 new numbers; float32
//                  and float64 drop the n % 16 numbers before those, float16 and bfloat16 never draw them
//   random         word % range, two words where range >= 2^28; without bounds see random_any
//   bernoulli      u53 < p; with a tensor of p: u24 < p (u53 where p is float64)
//   exponential, cauchy, geometric, log_normal, poisson, binomial, gamma, multinomial: double arithmetic on u53
//                  (log_normal and gamma draw normals one by one), rounded once
//   randperm       Fisher-Yates from the front, word % (n - i)
//
// Tensors that are not contiguous. Elements are filled in the order of their addresses (dimensions sorted by
// stride, largest first): fill a contiguous buffer and copy it over in that order. `normal` then takes the
// one-by-one rule at every size: normal_one_by_one. bernoulli_from reads its probabilities in the same order
// as the output. Complex tensors are filled as real ones of twice the size; for normal, std is divided by sqrt(2).
//
// What is made of these: rand, randn, randint (random_range), normal with tensors (normal(0, 1) * std + mean,
// two roundings), dropout (mask = bernoulli(1 - p); x * (mask / (1 - p)), p == 0 and 1 draw nothing; feature
// dropout draws one per channel), multinomial without replacement and with one sample (exponential(1) in the
// dtype of the probabilities, then the largest p / q), dirichlet (gamma of alpha in float64, divided by the sum
// along the last dimension, rounded, clamped to [smallest normal, largest below 1]).
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/generator.h"

namespace tocha::cpu {

// float16, bfloat16, float32, float64; another dtype throws NotImplemented (so do all functions here).
void uniform(Generator& generator, DType dtype, void* out, int64_t n, double from, double to);
void normal(Generator& generator, DType dtype, void* out, int64_t n, double mean, double std);
void normal_one_by_one(Generator& generator, DType dtype, void* out, int64_t n, double mean, double std);
void exponential(Generator& generator, DType dtype, void* out, int64_t n, double lambd);
void cauchy(Generator& generator, DType dtype, void* out, int64_t n, double median, double sigma);
void log_normal(Generator& generator, DType dtype, void* out, int64_t n, double mean, double std);

// Real dtypes but bool and uint16, uint32, uint64.
void geometric(Generator& generator, DType dtype, void* out, int64_t n, double p);

// `random_()` without bounds: [0, max] for integers, [0, 2^digits] for floats; two words for 8-byte dtypes.
// Real dtypes but uint16, uint32, uint64.
void random_any(Generator& generator, DType dtype, void* out, int64_t n);
// `random_(from, to)` with range = to - from, all real dtypes. range == 0 stands for 2^64: the bare words.
void random_range(Generator& generator, DType dtype, void* out, int64_t n, int64_t from, uint64_t range);
// The range of `random_(from, None)`: up to and with the largest number random_any gives (2^64 as 0).
uint64_t range_up_from(DType dtype, int64_t from);
// Moves bounds that a floating dtype cannot hold to ones such that every number lies in [from, to).
void fit_bounds(DType dtype, int64_t& from, int64_t& to);

// Real dtypes but uint16, uint32, uint64.
void bernoulli(Generator& generator, DType dtype, void* out, int64_t n, double p);
// One probability per element, in one of the four floating dtypes.
void bernoulli_from(Generator& generator, DType dtype, void* out, int64_t n, DType p_dtype, const void* p);

// A permutation of 0..n-1; every real dtype that can hold n - 1.
void randperm(Generator& generator, DType dtype, void* out, int64_t n);

// probabilities [rows, columns] -> out [rows, samples]: rows in turn, one u53 a sample, looked up in the
// running sum (float64 rows in double, others in float). Throws on a row that is no distribution.
void multinomial_with_replacement(Generator& generator, DType dtype, const void* probabilities, int64_t rows,
                                  int64_t columns, int64_t samples, int64_t* out);

// out[i] ~ Poisson(rate[i]); floating dtypes. Products of uniforms below 10, transformed rejection from there.
void poisson(Generator& generator, DType dtype, const void* rate, void* out, int64_t n);
// out[i] ~ Binomial(count[i], probability[i]); float32 and float64.
void binomial(Generator& generator, DType dtype, const void* count, const void* probability, void* out, int64_t n);
// out[i] ~ Gamma(alpha[i], 1), never below the smallest normal number; float32 and float64.
void standard_gamma(Generator& generator, DType dtype, const void* alpha, void* out, int64_t n);

// rrelu's slopes: uniform in [lower, upper) from one u53 where input[i] <= 0, else 1 and nothing is drawn;
// float32 and float64.
void rrelu_noise(Generator& generator, DType dtype, const void* input, void* noise, int64_t n, double lower,
                 double upper);

}  // namespace tocha::cpu
