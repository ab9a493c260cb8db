// Reading and writing slices that offsets point at: what index, index_select, index_add, take, embedding and their
// relatives have in common. The indexed dims of a tensor become one list of byte offsets; the other dims stay.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "core/tensor.h"
#include "cpu/indexing/kernels.h"

namespace tocha::cpu {

// Fails unless all (but null ones) are where the first is; a first one without memory takes the others as they come.
void check_together(const char* op, std::initializer_list<Tensor> tensors);
// t without conj and neg bits: itself or a copy.
Tensor plain(const Tensor& t);
// t contiguous, without conj and neg bits.
Tensor dense(const Tensor& t);
// t in int64.
Tensor to_int64(const Tensor& t);
// source, or a copy where it shares memory with the tensor that is written to.
Tensor apart_from(const Tensor& source, const Tensor& written);

// A tensor being written element by element: self, or a stand-in that finish() copies back when self has conj or neg
// bits, or is to be computed in another dtype.
class Target {
 public:
  explicit Target(const Tensor& self) : self_(self), tensor_(plain(self)) {}
  Target(const Tensor& self, DType dtype);
  const Tensor& tensor() const { return tensor_; }
  char* bytes() const { return tensor_.bytes(); }
  void finish() const;

 private:
  Tensor self_, tensor_;
};

// What a merge into elements of dtype is computed in: sums and products of half types in float32, to be rounded once.
DType merge_dtype(Merge merge, DType dtype);

// The first index outside [low, high) in walking order, if there is one. `index` is int64 of any layout.
std::optional<int64_t> outside(const Tensor& index, int64_t low, int64_t high);
// Fails for an index outside [low, high).
void check_range(const Tensor& index, int64_t low, int64_t high, int64_t dim, int64_t size, ErrorKind kind,
                 const char* op);
// The same for operators whose dims do not matter: "index out of range in self".
void check_range(const Tensor& index, int64_t size, const char* op);
// The error of the first of these.
[[noreturn]] void refuse_index(int64_t index, int64_t dim, int64_t size, ErrorKind kind, const char* op);

// The slices of a tensor that a list of offsets picks, beside the same slices in another tensor.
struct Picks {
  std::unique_ptr<int64_t[]> offsets;  // bytes into the indexed tensor
  int64_t count = 0;
  int64_t other_step = 0;                   // bytes from pick to pick in the other tensor
  Ints sizes, self_strides, other_strides;  // the dims that are not indexed; bytes
};

// The picks of self[..., index, ...] at dim, beside `other` which has the count in place of the size of dim (or is a
// single element, where broadcast). index is 1-d (or 0-d) int64, in range.
Picks picks_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& other);

// Writing to a tensor whose elements share memory is deprecated for this operator, and not refused yet.
void warn_expanded(const Tensor& self, const char* op, const char* more = "");

// other[picks] = self[...]
void read_picks(const Picks& picks, const char* self, char* other, DType dtype);
// self[...] (merge)= other[picks]
void write_picks(const Picks& picks, char* self, const char* other, DType dtype, Merge merge);

const MergeLoops& merge_loops(Merge merge, DType dtype, const char* op);

}  // namespace tocha::cpu
