// What a profiler writes down of a call: its name as PyTorch's profiler has it, and its arguments.
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "dispatch/taken_over.h"

namespace tocha::dispatch {
namespace {

const char* shown_name(Call& call) {
  if (!call.shown) {
    static const char* const ends[] = {"", "", "_", ""};
    std::string_view name = call.record;
    if (name.starts_with("nn_")) name.remove_prefix(3);
    call.shown = profile::keep_name(std::string("aten::").append(name) + ends[call.form]);
  }
  return call.shown;
}

// How many nodes there are: operators are joined to those that they record by it.
int64_t sequence_now() { return profile::next_sequence ? static_cast<int64_t>(profile::next_sequence()) : -1; }

// Traces name dtypes by C++'s types.
std::string type_name(DType d) {
  static constexpr std::pair<DType, const char*> plain[] = {
      {DType::Bool, "bool"},
      {DType::UInt8, "unsigned char"},
      {DType::Int8, "signed char"},
      {DType::Int16, "short"},
      {DType::Int32, "int"},
      {DType::Int64, "long int"},
      {DType::Float32, "float"},
      {DType::Float64, "double"},
      {DType::Complex64, "c10::complex<float>"},
      {DType::Complex128, "c10::complex<double>"},
  };
  for (auto [dtype, name] : plain)
    if (dtype == d) return name;
  return std::string("c10::") + info(d).name;
}

std::string text_of(bool v) { return v ? "True" : "False"; }
std::string text_of(int64_t v) { return std::to_string(v); }
std::string text_of(double v) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  std::string text(buffer, end);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + "." : text;
}
std::string text_of(const Scalar& v) {
  if (v.is_boolean()) return text_of(v.to_bool());
  if (v.is_integral()) return text_of(v.to_int());
  if (v.is_floating()) return text_of(v.to_double());
  const Complex<double> z = v.to_complex();
  return "(" + text_of(z.re) + "," + text_of(z.im) + ")";
}
std::string text_of(const std::string& v) { return v; }
std::string text_of(DType d) { return info(d).name; }
std::string text_of(Device d) { return to_string(d); }

template <class List>
std::string text_of_list(const List& list) {
  std::string text = "[";
  for (const auto& item : list) text += (text.size() > 1 ? ", " : "") + text_of(item);
  return text + "]";
}

profile::Input scalar(std::string text) { return {.type = "Scalar", .text = std::move(text)}; }
profile::Input scalars(std::string text) { return {.type = "ScalarList", .text = std::move(text)}; }

template <class T>
profile::Input unless_empty(const Value& v) {
  const auto& given = v.as<std::optional<T>>();
  return given ? scalar(text_of(*given)) : profile::Input();
}

void add(profile::Input& input, const Tensor& t) {
  if (!t) return;
  input.type = type_name(t.dtype());
  input.sizes.emplace_back(t.sizes().begin(), t.sizes().end());
  input.strides.emplace_back(t.strides().begin(), t.strides().end());
}

profile::Input input_of(const Value& v) {
  profile::Input made;
  switch (v.kind) {
    case Value::tensor:
      add(made, v.as<Tensor>());
      return made;
    case Value::tensors:
      for (const Tensor& t : v.as<Tensors>()) add(made, t);
      made.type = "TensorList";
      made.list = true;
      return made;
    case Value::scalar:
      return scalar(text_of(v.as<Scalar>()));
    case Value::opt_scalar:
      return unless_empty<Scalar>(v);
    case Value::scalars:
      return scalars(text_of_list(v.as<std::vector<Scalar>>()));
    case Value::integer:
      return scalar(text_of(v.as<int64_t>()));
    case Value::opt_integer:
      return unless_empty<int64_t>(v);
    case Value::ints:
      return scalars(text_of_list(v.as<IntsView>()));
    case Value::own_ints:
      return scalars(text_of_list(v.as<Ints>()));
    case Value::opt_ints:
      return v.as<std::optional<Ints>>() ? scalars(text_of_list(*v.as<std::optional<Ints>>())) : made;
    case Value::real:
      return scalar(text_of(v.as<double>()));
    case Value::opt_real:
      return unless_empty<double>(v);
    case Value::opt_reals:
      return v.as<std::optional<std::vector<double>>>()
                 ? scalars(text_of_list(*v.as<std::optional<std::vector<double>>>()))
                 : made;
    case Value::boolean:
      return scalar(text_of(v.as<bool>()));
    case Value::opt_boolean:
      return unless_empty<bool>(v);
    case Value::booleans:
      return scalars(text_of_list(v.as<std::vector<bool>>()));
    case Value::text:
      return scalar(v.as<std::string>());
    case Value::opt_text:
      return unless_empty<std::string>(v);
    case Value::dtype:
      return scalar(text_of(v.as<DType>()));
    case Value::opt_dtype:
      return unless_empty<DType>(v);
    case Value::device:
      return scalar(text_of(v.as<Device>()));
    case Value::opt_device:
      return unless_empty<Device>(v);
    case Value::opt_format:
    case Value::generator:
    case Value::storage:
      return made;
  }
  return made;
}

}  // namespace

ProfiledCall::ProfiledCall(Call& call, const Value* given)
    : Range(profile::Kind::op, shown_name(call), &call, sequence_now()) {
  if (!profile::recording || !profile::options.sizes) return;
  for (int i = 0; i < call.count; ++i) add_input(input_of(given[i]));
}

}  // namespace tocha::dispatch
