#include "core/dtype_messages.h"

#include <cstring>
#include <vector>

#include "core/error.h"

namespace tocha {

namespace {

std::vector<Refusal>& refusals() {
  static auto& all = *new std::vector<Refusal>();
  return all;
}

}  // namespace

const char* c_name(DType d) {
  static constexpr const char* names[kNumDTypes + 1] = {
      "bool",
      "unsigned char",
      "signed char",
      "short int",
      "int",
      "long int",
      "short unsigned int",
      "unsigned int",
      "long unsigned int",
      "c10::Half",
      "c10::BFloat16",
      "float",
      "double",
      "c10::complex<float>",
      "c10::complex<double>",
      "c10::Float8_e4m3fn",
      "c10::Float8_e5m2",
      "c10::complex<c10::Half>",
      "c10::Float8_e4m3fnuz",
      "c10::Float8_e5m2fnuz",
      "c10::Float8_e8m0fnu",
      "undefined",
  };
  return names[static_cast<int>(d)];
}

const char* python_name(DType d) {
  static constexpr const char* names[kNumDTypes] = {
#define _(e, t, n, c) n,
      TOCHA_FORALL_DTYPES(_)
#undef _
  };
  return names[static_cast<int>(d)];
}

const char* overflow_name(DType d) {
  switch (d) {
    case DType::UInt8:
      return "uint8_t";
    case DType::Int8:
      return "int8_t";
    case DType::Int16:
      return "int16_t";
    case DType::Int64:
      return "int64_t";
    case DType::UInt16:
      return "uint16_t";
    case DType::UInt32:
      return "uint32_t";
    case DType::UInt64:
      return "uint64_t";
    default:
      return c_name(d);
  }
}

namespace {

const KernelWord* words = nullptr;
size_t word_count = 0;

}  // namespace

KernelWords::KernelWords(const KernelWord* given, size_t count) { words = given, word_count = count; }

std::string kernel_word(const std::string& op) {
  for (size_t i = 0; i < word_count; ++i)
    if (op == words[i].op) return words[i].word;
  return op.substr(0, op.find_last_not_of('_') + 1) + "_cpu";
}

RefusalEntry::RefusalEntry(const Refusal& r) { refusals().push_back(r); }

namespace {

void replace(std::string& text, const char* part, const char* by) {
  size_t at = text.find(part);
  if (at != std::string::npos) text.replace(at, std::strlen(part), by);
}

const Refusal* find_refusal(const char* op, DType d) {
  for (const Refusal& r : refusals())
    if (std::string(op) == r.op && r.dtypes >> static_cast<int>(d) & 1) return &r;
  return nullptr;
}

}  // namespace

bool refuses_first(const char* op, DType d) {
  const Refusal* r = find_refusal(op, d);
  return r && r->first;
}

void refuse_dtype(const char* op, DType d, bool asked) {
  if (const Refusal* r = find_refusal(op, d)) {
    std::string text = r->text;
    replace(text, "{}", info(d).name);
    if (asked) replace(text, "Input dtype", "Optional dtype");
    fail(r->not_implemented ? ErrorKind::NotImplemented : ErrorKind::Runtime, "[", op, "] ", text);
  }
  fail(ErrorKind::NotImplemented, "[", op, "] \"", kernel_word(op), "\" not implemented for '", info(d).name, "'");
}

}  // namespace tocha
