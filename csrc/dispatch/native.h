// What generated operator functions call: engines, backends, kernels, and the handling of out= and in-place.
#pragma once

#include "dispatch/backend.h"
#include "dispatch/rules.h"

// Declares operator NAME's loop tables, one per instruction set, to be found under ALIAS.
#if defined(__x86_64__) && !defined(TOCHA_SINGLE_ISA)
#define TOCHA_LOOPS_AS(KIND, NAME, ALIAS)                                                                  \
  namespace cpu::isa_base {                                                                                \
  extern const KIND NAME##_loops[kNumDTypes];                                                              \
  }                                                                                                        \
  namespace cpu::isa_avx2 {                                                                                \
  extern const KIND NAME##_loops[kNumDTypes];                                                              \
  }                                                                                                        \
  namespace cpu::isa_avx512 {                                                                              \
  extern const KIND NAME##_loops[kNumDTypes];                                                              \
  }                                                                                                        \
  static const KIND* const loops_of_##ALIAS[] = {cpu::isa_base::NAME##_loops, cpu::isa_avx2::NAME##_loops, \
                                                 cpu::isa_avx512::NAME##_loops};
#else
#define TOCHA_LOOPS_AS(KIND, NAME, ALIAS)     \
  namespace cpu::isa_base {                   \
  extern const KIND NAME##_loops[kNumDTypes]; \
  }                                           \
  static const KIND* const loops_of_##ALIAS[] = {cpu::isa_base::NAME##_loops};
#endif
#define TOCHA_LOOPS(KIND, NAME) TOCHA_LOOPS_AS(KIND, NAME, NAME)
#define TOCHA_LOOPS_OF(NAME) loops_of_##NAME

namespace tocha {

// A copy with the same (dense) layout.
Tensor clone_dense(const Tensor& t);
// Copies as if the source were read completely before the first write.
void copy_across(const Tensor& to, const Tensor& from);

// t itself when its bytes can be read in order (contiguous, no conj or neg bit), else a contiguous copy.
Tensor readable(const Tensor& t);

// self[...] = result, for in-place forms: shape must match, dtype must be castable.
void check_inplace_result(const Tensor& self, const Tensor& result, const char* op);
void write_inplace(const Tensor& self, const Tensor& result, const char* op);

// Where a kernel writes when out= is given: into out itself when it fits and shares no memory with an
// input, else into a fresh tensor that is copied over at the end.
class OutScope {
 public:
  OutScope(const Tensor& out, OutSpec spec, const char* op);
  void avoid(const Tensor& input);
  void avoid(const Tensors& inputs) {
    for (const Tensor& t : inputs) avoid(t);
  }
  const Tensor& target();
  void finish();

 private:
  Tensor out_;
  Tensor target_;
  OutSpec spec_;
  const char* op_;
  bool direct_ = true;
};

}  // namespace tocha
