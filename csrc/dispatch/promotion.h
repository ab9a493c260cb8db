// Type promotion: what dtype comes out when tensors, 0-d tensors and Python numbers meet.
#pragma once

#include <initializer_list>

#include "core/tensor.h"

namespace tocha {

DType promote_types(DType a, DType b);
bool can_cast(DType from, DType to);

// Collects operands one by one; tensors with dimensions outrank 0-d tensors, which outrank numbers.
class ResultType {
 public:
  void add(const Tensor& t);
  void add(const Scalar& s);
  DType get() const;

 private:
  DType dimensioned_ = DType::Undefined;
  DType zero_dim_ = DType::Undefined;
  DType number_ = DType::Undefined;
};

DType result_type(const Tensor& a, const Tensor& b);
DType result_type(const Tensors& tensors);

}  // namespace tocha
