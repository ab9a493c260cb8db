// What translated rules and composites are made of: Python's list operations on Ints and tensor lists,
// the results of shape rules, and small facts about tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/modes.h"
#include "core/sparse.h"
#include "core/switches.h"
#include "core/tensor.h"
#include "dispatch/devices.h"
#include "dispatch/pointwise.h"
#include "dispatch/promotion.h"

namespace tocha {

struct ViewSpec {
  Ints sizes, strides;
  int64_t offset;
  std::optional<DType> dtype = std::nullopt;
};

struct OutSpec {
  Ints sizes;
  DType dtype;
  std::optional<Device> device;
  std::optional<Ints> strides;
};

inline int64_t length(IntsView v) { return v.size(); }
inline int64_t length(const Ints& v) { return v.size(); }
template <class T>
int64_t length(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size());
}

[[noreturn]] inline void bad_index(int64_t i, int64_t n) {
  fail(ErrorKind::Index, "list index ", i, " out of range for length ", n);
}
inline int64_t list_index(int64_t i, int64_t n) {
  if (i < -n || i >= n) bad_index(i, n);
  return i < 0 ? i + n : i;
}
inline int64_t at(IntsView v, int64_t i) { return v[list_index(i, v.size())]; }
inline int64_t& at(Ints& v, int64_t i) { return v[list_index(i, v.size())]; }
inline int64_t at(const Ints& v, int64_t i) { return v[list_index(i, v.size())]; }
template <class T>
T& at(std::vector<T>& v, int64_t i) {
  return v[static_cast<size_t>(list_index(i, length(v)))];
}
template <class T>
const T& at(const std::vector<T>& v, int64_t i) {
  return v[static_cast<size_t>(list_index(i, length(v)))];
}
inline bool at(const std::vector<bool>& v, int64_t i) {
  return v[static_cast<size_t>(list_index(i, static_cast<int64_t>(v.size())))];
}

inline Ints concat(IntsView a, IntsView b) {
  Ints r(a);
  for (int64_t x : b) r.push_back(x);
  return r;
}
template <class T>
std::vector<T> concat(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Ints repeat_list(IntsView a, int64_t n) {
  Ints r;
  if (n <= 0) return r;
  int64_t size;  // memory for all at once: for absurdly many there is none
  if (__builtin_mul_overflow(a.size(), n, &size) || size > std::numeric_limits<int64_t>::max() / 8)
    throw std::bad_alloc();
  r.reserve(size);
  for (int64_t k = 0; k < n; ++k)
    for (int64_t x : a) r.push_back(x);
  return r;
}
inline std::pair<int64_t, int64_t> slice_bounds(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t n) {
  auto place = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  int64_t b = place(start.value_or(0)), e = place(stop.value_or(n));
  return {b, std::max(b, e)};
}
inline Ints slice_list(IntsView v, std::optional<int64_t> start, std::optional<int64_t> stop) {
  auto [b, e] = slice_bounds(start, stop, v.size());
  return Ints(IntsView(v.begin() + b, e - b));
}
template <class T>
std::vector<T> slice_list(const std::vector<T>& v, std::optional<int64_t> start, std::optional<int64_t> stop) {
  auto [b, e] = slice_bounds(start, stop, length(v));
  return {v.begin() + b, v.begin() + e};
}
inline Ints reversed_list(IntsView v) {
  Ints r(v);
  std::reverse(r.begin(), r.end());
  return r;
}
template <class T>
std::vector<T> reversed_list(std::vector<T> v) {
  std::reverse(v.begin(), v.end());
  return v;
}
inline Ints sorted_list(IntsView v) {
  Ints r(v);
  std::sort(r.begin(), r.end());
  return r;
}
inline Ints range_list(int64_t start, int64_t stop, int64_t step = 1) {
  Ints r;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) r.push_back(i);
  return r;
}
inline bool contains(IntsView v, int64_t x) { return std::find(v.begin(), v.end(), x) != v.end(); }
inline int64_t index_of(IntsView v, int64_t x) {
  const int64_t* found = std::find(v.begin(), v.end(), x);
  TOCHA_CHECK(found != v.end(), Value, x, " is not in the list ", v);
  return found - v.begin();
}
inline void insert_at(Ints& v, int64_t i, int64_t x) {
  v.insert(std::clamp<int64_t>(i < 0 ? i + v.size() : i, 0, v.size()), x);
}
template <class T>
void insert_at(std::vector<T>& v, int64_t i, T x) {
  v.insert(v.begin() + std::clamp<int64_t>(i < 0 ? i + length(v) : i, 0, length(v)), std::move(x));
}
inline int64_t pop_at(Ints& v, int64_t i) {
  i = list_index(i, v.size());
  int64_t x = v[i];
  v.erase(i);
  return x;
}
inline int64_t sum_of(IntsView v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); }
inline int64_t max_of(IntsView v) {
  TOCHA_CHECK(!v.empty(), Value, "max() of an empty list");
  return *std::max_element(v.begin(), v.end());
}
inline int64_t min_of(IntsView v) {
  TOCHA_CHECK(!v.empty(), Value, "min() of an empty list");
  return *std::min_element(v.begin(), v.end());
}

inline int64_t floor_div(int64_t a, int64_t b) {
  TOCHA_CHECK(b != 0, ZeroDivision, "integer division or modulo by zero");
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  TOCHA_CHECK(b != 0, ZeroDivision, "integer division or modulo by zero");
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

inline bool is_none(const Tensor& t) { return !t; }
template <class T>
bool is_none(const std::optional<T>& v) {
  return !v.has_value();
}
template <class T>
const T& value_of(const std::optional<T>& v) {
  TOCHA_CHECK(v.has_value(), Type, "None where a value is needed");
  return *v;
}

inline int64_t size_at(const Tensor& t, int64_t dim) {
  TOCHA_CHECK(t.dim() > 0, Index, "Dimension specified as ", dim, " but tensor has no dimensions");
  return t.size(wrap_dim(dim, t.dim()));
}
inline int64_t stride_at(const Tensor& t, int64_t dim) {
  TOCHA_CHECK(t.dim() > 0, Index, "Dimension specified as ", dim, " but tensor has no dimensions");
  return t.stride(wrap_dim(dim, t.dim()));
}

// How values appear in messages.
template <class T>
const T& shown(const T& v) {
  return v;
}
inline const char* shown(bool v) { return v ? "True" : "False"; }
template <class T>
std::string shown(const std::optional<T>& v) {
  return v ? str(*v) : "None";
}
inline std::string shown(const Tensors& ts) {
  std::string r = "[";
  for (size_t i = 0; i < ts.size(); ++i) r += (i ? ", " : "") + str(ts[i]);
  return r + "]";
}

inline std::string str_replace(std::string s, const std::string& a, const std::string& b) {
  for (size_t at = 0; (at = s.find(a, at)) != std::string::npos; at += b.size()) s.replace(at, a.size(), b);
  return s;
}

// Rules' intrinsics (tocha/operators/rules.py).
inline Ints format_strides_for(IntsView sizes, std::optional<MemoryFormat> format) {
  return format_strides(sizes, format.value_or(MemoryFormat::Contiguous));
}
inline Ints like_strides_for(const Tensor& t, std::optional<MemoryFormat> format) {
  return like_strides(t, format.value_or(MemoryFormat::Preserve));
}
Device default_device_for(std::optional<Device> given);
inline bool is_integral_dtype(DType d) { return is_integral(d) || is_boolean(d); }
inline DType scalar_dtype(const Scalar& s) {
  switch (s.kind()) {
    case Kind::boolean:
      return DType::Bool;
    case Kind::integer:
      return DType::Int64;
    case Kind::floating:
      return default_dtype();
    default:
      return complex_dtype(default_dtype());
  }
}
inline bool is_wrapped(const Tensor& t) { return t.is_wrapped_number(); }
inline Scalar number_of(const Tensor& t) { return Scalar::load(t.dtype(), t.bytes()); }
// A number in double precision, to compute with; and the number that came of it.
inline Tensor exact_number(const Scalar& s) {
  return scalar_tensor(s, s.is_boolean() ? DType::Bool : s.is_complex() ? DType::Complex128 : DType::Float64);
}
Tensor rewrapped(const Tensor& t);
// What a fill writes, in the dtype of what it is written to; a number must be one that the dtype can hold.
Tensor fill_value(const Tensor& value, DType dtype);
inline void check_same_device_list(const std::string& op, const Tensors& ts) {
  check_same_device(op.c_str(), ts.data(), static_cast<int>(ts.size()));
}
// Whether operators are being recorded, or carry tangents along.
inline bool recording() { return modes().grad || modes().forward_level; }
// Whether operators on t are recorded, or may carry tangents along.
inline bool wants_gradient(const Tensor& t) {
  return (modes().grad && t.get()->requires_grad) || modes().forward_level;
}
// The elements of an int64 tensor on the CPU, whatever its layout.
Ints ints_of(const Tensor& t);
Ints cat_strides(IntsView sizes, const Tensors& tensors);
void check_storage_bounds(const Tensor& self, IntsView sizes, IntsView strides, int64_t offset);
// A UserWarning; warn_once: the first time this text comes up.
void warn(const std::string& text);
void warn_once(const std::string& text);
// For operators without a deterministic form, when one is asked for (core/switches.h). An empty name passes.
void alert_not_deterministic(const std::string& name);

// On the device that the spec names, else on that of the call.
Tensor make_out(const OutSpec& spec, Device device);
Tensor make_view(const Tensor& self, const ViewSpec& spec);
Tensors make_views(const Tensor& self, const std::vector<ViewSpec>& specs);
// In place: another geometry on the same memory.
void change_geometry(const Tensor& self, const ViewSpec& spec);
// out= for operators that return fresh tensors: checks the dtype, resizes, copies.
void copy_to_out(const Tensor& out, const Tensor& result, const char* op);
// out= and in-place for operators whose kernel writes into given tensors.
void prepare_out(const Tensor& out, const OutSpec& spec, const char* op);
// out= of factories, which take any size without a word; only a length that was computed is worth one.
void resize_for_factory(const Tensor& out, IntsView sizes);
void warn_of_length(const Tensor& out, IntsView sizes);
void check_inplace(const Tensor& self, const char* op);

}  // namespace tocha
