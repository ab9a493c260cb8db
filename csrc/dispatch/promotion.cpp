#include "dispatch/promotion.h"

#include <algorithm>

namespace tocha {
namespace {

bool is_extended_unsigned(DType d) { return d == DType::UInt16 || d == DType::UInt32 || d == DType::UInt64; }

int rank(DType d) {  // within one kind: the wider type wins
  switch (d) {
    case DType::Int8:
      return 1;
    case DType::Int16:
      return 2;
    case DType::Int32:
      return 3;
    case DType::Int64:
      return 4;
    case DType::Float16:
      return 1;
    case DType::BFloat16:
      return 1;
    case DType::Float32:
      return 2;
    case DType::Float64:
      return 3;
    case DType::Complex32:
      return 1;
    case DType::Complex64:
      return 2;
    case DType::Complex128:
      return 3;
    default:
      return 0;
  }
}

DType promote_defined(DType a, DType b) {
  if (a == DType::Undefined) return b;
  if (b == DType::Undefined) return a;
  return promote_types(a, b);
}

// A lower class of operand changes the result only when its kind (int, float, complex) is higher.
DType combine(DType higher, DType lower) {
  if (higher == DType::Undefined) return lower;
  if (lower == DType::Undefined || info(lower).kind <= info(higher).kind) return higher;
  if (is_floating(higher) && is_complex(lower)) {
    TOCHA_CHECK(!is_float8(higher), Runtime, "Unknown Complex ScalarType for ", higher);
    return complex_dtype(higher);
  }
  return promote_types(higher, lower);
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  TOCHA_CHECK(!is_float8(a) && !is_float8(b), Runtime,
              "Promotion for Float8 Types is not supported, attempted to promote ", a, " and ", b);
  TOCHA_CHECK(is_floating(a) || is_floating(b) || (!is_extended_unsigned(a) && !is_extended_unsigned(b)), Runtime,
              "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote ", a, " and ", b);
  Kind ka = info(a).kind, kb = info(b).kind;
  if (ka != kb) {
    if (ka < kb) {
      std::swap(a, b);
      std::swap(ka, kb);
    }
    if (ka == Kind::complex && is_floating(b)) return promote_types(a, complex_dtype(b));
    return a;
  }
  if (ka == Kind::integer) {
    if (a == DType::UInt8 || b == DType::UInt8) {
      DType other = a == DType::UInt8 ? b : a;
      return other == DType::Int8 ? DType::Int16 : other;
    }
  }
  if (ka == Kind::floating && rank(a) == 1 && rank(b) == 1) return DType::Float32;
  return rank(a) > rank(b) ? a : b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && !is_floating(to) && !is_complex(to)) return false;
  return !(from != DType::Bool && to == DType::Bool);
}

void ResultType::add(const Tensor& t) {
  DType d = t.dtype();
  if (t.is_wrapped_number()) {
    if (is_complex(d)) d = complex_dtype(default_dtype());
    if (is_floating(d)) d = default_dtype();
    // An int beyond int64 stays one beside another; the tensors decide whether that can be.
    const bool large = d == DType::UInt64 && number_ == DType::Int64;
    const bool stays = d == DType::Int64 && number_ == DType::UInt64;
    number_ = large ? d : stays ? number_ : promote_defined(number_, d);
  } else if (t.dim() == 0) {
    zero_dim_ = promote_defined(zero_dim_, d);
  } else {
    dimensioned_ = promote_defined(dimensioned_, d);
  }
}

void ResultType::add(const Scalar& s) { add(wrapped_number(s)); }

DType ResultType::get() const { return combine(dimensioned_, combine(zero_dim_, number_)); }

DType result_type(const Tensor& a, const Tensor& b) {
  ResultType r;
  r.add(a);
  r.add(b);
  return r.get();
}

DType result_type(const Tensors& tensors) {
  ResultType r;
  for (const Tensor& t : tensors) r.add(t);
  return r.get();
}

}  // namespace tocha
