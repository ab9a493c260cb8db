// Radix sort of (key, index) entries, the engine under sort, unique and mode.
// An entry holds a 32-bit key in its upper half and a 32-bit index in its lower half.
#pragma once

#include <cstdint>

namespace tocha::cpu {

// Sorts n < 2^32 entries by bits [0, bits) of their keys, stably, on this thread. Either buffer may end up with
// the result: it is returned.
uint64_t* radix_sort(uint64_t* entries, uint64_t* spare, int64_t n, int bits);

// The same with every thread of the pool.
uint64_t* parallel_radix_sort(uint64_t* entries, uint64_t* spare, int64_t n, int bits);

// Rows at least this long are worth sorting with several threads.
constexpr int64_t kParallelSortMin = 1 << 15;

}  // namespace tocha::cpu
