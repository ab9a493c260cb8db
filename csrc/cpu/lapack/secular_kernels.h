// The inner loops of joining two halves of a symmetric tridiagonal eigenproblem, one table per instruction set:
// isa/secular_kernels.cpp. tridiagonal.h drives them.
//
// The eigenvalues of diag(poles) + rho z z' are the roots of the secular equation 1 / rho + sum z[j]^2 / (poles[j] - x)
// = 0: one right of every pole. Poles ascend and differ, no z is zero, rho > 0 and z has length 1.
#pragma once

#include <cstdint>

#include "core/isa.h"

namespace tocha::cpu {

template <class T>
struct SecularKernels {
  // The root right of poles[i], of at least three, and distances[j] = poles[j] - root without cancellation.
  T (*root)(int64_t n, int64_t i, const T* poles, const T* z, T rho, T* distances);
  // z[i] for i in [first, last): those for which the roots are exact, up to sign. Column j of `distances` are root j's.
  void (*exact_z)(int64_t n, const T* poles, const T* distances, int64_t ld, int64_t first, int64_t last, T* z);
  // From a root's distances its vector of length 1, whose element i is that of places[i] - 1. scratch: n elements.
  void (*vector)(int64_t n, const T* z, const int* places, T* distances, T* scratch);
};

struct SecularTable {
  SecularKernels<float> f32;
  SecularKernels<double> f64;
};
TOCHA_ISA_TABLE(SecularTable, secular_kernels)

}  // namespace tocha::cpu
