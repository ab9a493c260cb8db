// Runs elementwise operators: promotion, broadcasting, the output's layout, aliasing rules; then the
// backend's loop. Everything that differs between operators is in the generated PointwiseOp table.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "dispatch/loops.h"

namespace tocha {

constexpr int kMaxOperands = 12;
constexpr int kMaxParams = 12;
constexpr int kParamBytes = 16;

enum class Promote : uint8_t {
  common,        // the operands' common dtype
  int_to_float,  // and integers become the default float
};

// How an operand's or result's dtype follows from the compute dtype T.
struct TypeCode {
  enum Code : uint8_t {
    T,
    T_checked,  // a number must be one that T can hold, as in Scalar::store
    T_filled,   // the same once it is rounded, as in Scalar::rounded_to
    T_number,   // as T_checked, but numbers stay in the float32 in which half types are computed
    T_scalar,   // numbers and 0-d tensors are not rounded so
    T_rounded,  // a param that is rounded so; others are not
    real_of_T,
    complex_of_T,
    wide_T,
    fixed
  } code;
  DType dtype;  // for fixed

  bool is_T() const { return code <= T_rounded; }

  DType resolve(DType t) const {
    switch (code) {
      case real_of_T:
        return real_dtype(t);
      case complex_of_T:
        return is_complex(t) ? t : complex_dtype(t);
      case wide_T:
        return is_complex(t) ? DType::Complex128 : DType::Float64;
      case fixed:
        return dtype;
      default:
        return t;
    }
  }
  // Writes a param for a loop that computes in T.
  void store(const Scalar& value, DType t, void* out) const;
};

struct PointwiseOp {
  const char* name;
  const Loop* const* cpu_loops;  // per instruction set, then per compute dtype; a null entry has no loop
  uint8_t nout, nin, nparams;
  Promote promote;
  bool expensive;         // worth splitting over threads early
  bool checks_numbers;    // some operand is T_checked, T_filled or T_number
  uint32_t dtypes;        // bit d: compute dtype d is supported
  const TypeCode* types;  // outputs, inputs, params
};

// ins has op.nin tensors. Results are fresh.
void pointwise(const PointwiseOp& op, Tensor* outs, const Tensor* ins, const Scalar* params);
// Into given tensors. With in_place, outs[0] is ins[0] and keeps its shape; otherwise outs are resized as out= does.
void pointwise_out(const PointwiseOp& op, const Tensor* outs, const Tensor* ins, const Scalar* params, bool in_place);

DType compute_dtype(const PointwiseOp& op, const Tensor* ins);
// For operators whose out= must have the result's very dtype.
void check_out_dtype(const PointwiseOp& op, const Tensor& out, const Tensor* ins);

Ints broadcast_sizes(IntsView a, IntsView b, const char* op);
// PyTorch's out= rule: an empty tensor is resized silently, a wrong shape with a warning.
void resize_output(const Tensor& out, IntsView sizes, const char* op);
void resize_output(const Tensor& out, IntsView sizes, IntsView strides, const char* op);
void check_no_internal_overlap(const Tensor& out, const char* op);
void check_no_overlap(const Tensor& out, const Tensor& in, const char* op, bool full_is_fine);
void check_same_device(const char* op, const Tensor* tensors, int n);
void resize_(const Tensor& t, IntsView sizes, IntsView strides);

}  // namespace tocha
