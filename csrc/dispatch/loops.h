// The signatures of generated loops; included by the loops themselves and by what runs them.
#pragma once

#include <cstdint>

namespace tocha {

// Loops over contiguous elements of fixed dtypes: pointers to outputs, then to inputs. Returns nonzero
// when an integer was divided by zero.
using Loop = unsigned (*)(char* const* pointers, int64_t n, const void* params);

// The pieces of one reduction for one compute dtype, over arrays of m independent states.
struct ReduceLoops {
  // state[k][0..m) = initial
  void (*init)(char* const* states, int64_t m, const void* params);
  // Folds `rows` rows of m elements into m states. Row r, lane j carries position index + r * row_index + j *
  // lane_index.
  void (*fold)(char* const* states, const char* x, int64_t rows, int64_t row_stride, int64_t m, int64_t index,
               int64_t row_index, int64_t lane_index, const void* params);
  // Folds n contiguous elements, the first at position `index`, into states[0].
  void (*row)(char* const* states, const char* x, int64_t n, int64_t index, const void* params);
  // states[0..m) = merge(states, others)
  void (*merge)(char* const* states, char* const* others, int64_t m, const void* params);
  // outputs from states; count is the number of elements folded
  void (*finish)(char* const* outs, char* const* states, int64_t m, int64_t count, const void* params);
};

}  // namespace tocha
