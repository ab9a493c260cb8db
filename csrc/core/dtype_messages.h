// How messages speak of dtypes (info(d).name is PyTorch's word, "Long"; others are here), and what is said to dtypes
// that an operator does not take.
#pragma once

#include <cstddef>
#include <string>

#include "core/dtype.h"

namespace tocha {

const char* python_name(DType d);    // int64
const char* c_name(DType d);         // long int
const char* overflow_name(DType d);  // int64_t: where a value does not fit
inline std::string c_name_of(DType d) { return c_name(d); }

// An operator's own words for some dtypes that it does not take; "{}" is the dtype. Looked up when a call fails.
struct Refusal {
  const char* op;
  uint32_t dtypes;  // bit d: said of dtype d
  bool not_implemented;
  bool first;  // said before anything of dims
  const char* text;
};
struct RefusalEntry {
  explicit RefusalEntry(const Refusal& r);
};

// PyTorch's name for an operator's kernel, from its record (tocha/operators/record.py). Looked up when a call fails.
struct KernelWord {
  const char* op;
  const char* word;
};
struct KernelWords {
  KernelWords(const KernelWord* words, size_t count);
};
std::string kernel_word(const std::string& op);  // exp: exp_vml_cpu; abs, whose record gives none: abs_cpu

// "abs_cpu" not implemented for 'Bool'. `asked`: the dtype is not an input's but was asked for by dtype=.
[[noreturn]] void refuse_dtype(const char* op, DType d, bool asked = false);
// Whether that is said before a dim is found wrong.
bool refuses_first(const char* op, DType d);

}  // namespace tocha
