// The door below autograd: operators that Python takes over, for classes with __torch_dispatch__, modes, and devices
// made in Python. Generated operators come here when a tensor's mark says so, with their arguments as values of any
// type.
#pragma once

#include <initializer_list>

#include "core/modes.h"
#include "core/profile.h"
#include "dispatch/op_types.h"

namespace tocha::dispatch {

// An argument of a call: where it is, and what it is.
struct Value {
  enum Kind : uint8_t {
    tensor,
    tensors,
    scalar,
    opt_scalar,
    scalars,
    integer,
    opt_integer,
    ints,
    own_ints,
    opt_ints,
    real,
    opt_real,
    opt_reals,
    boolean,
    opt_boolean,
    booleans,
    text,
    opt_text,
    dtype,
    opt_dtype,
    device,
    opt_device,
    opt_format,
    generator,
    storage,
  } kind;
  const void* at;

  Value(const Tensor& v) : kind(tensor), at(&v) {}
  Value(const Tensors& v) : kind(tensors), at(&v) {}
  Value(const Scalar& v) : kind(scalar), at(&v) {}
  Value(const std::optional<Scalar>& v) : kind(opt_scalar), at(&v) {}
  Value(const std::vector<Scalar>& v) : kind(scalars), at(&v) {}
  Value(const int64_t& v) : kind(integer), at(&v) {}
  Value(const std::optional<int64_t>& v) : kind(opt_integer), at(&v) {}
  Value(const IntsView& v) : kind(ints), at(&v) {}
  Value(const Ints& v) : kind(own_ints), at(&v) {}
  Value(const std::optional<Ints>& v) : kind(opt_ints), at(&v) {}
  Value(const double& v) : kind(real), at(&v) {}
  Value(const std::optional<double>& v) : kind(opt_real), at(&v) {}
  Value(const std::optional<std::vector<double>>& v) : kind(opt_reals), at(&v) {}
  Value(const bool& v) : kind(boolean), at(&v) {}
  Value(const std::optional<bool>& v) : kind(opt_boolean), at(&v) {}
  Value(const std::vector<bool>& v) : kind(booleans), at(&v) {}
  Value(const std::string& v) : kind(text), at(&v) {}
  Value(const std::optional<std::string>& v) : kind(opt_text), at(&v) {}
  Value(const DType& v) : kind(dtype), at(&v) {}
  Value(const std::optional<DType>& v) : kind(opt_dtype), at(&v) {}
  Value(const Device& v) : kind(device), at(&v) {}
  Value(const std::optional<Device>& v) : kind(opt_device), at(&v) {}
  Value(const std::optional<MemoryFormat>& v) : kind(opt_format), at(&v) {}
  Value(const GeneratorRef& v) : kind(generator), at(&v) {}
  Value(const GivenStorage& v) : kind(storage), at(&v) {}

  template <class T>
  const T& as() const {
    return *static_cast<const T*>(at);
  }
};

// One form of one record, as Python is told of it.
struct Call {
  enum Form : uint8_t { functional, view, inplace, out };
  const char* record;
  Form form;
  uint8_t count;                // arguments; those of out= come first
  uint8_t outs = 0;             // of them
  PyObject* plan = nullptr;     // tocha._library.plans.Plan, made at the first call
  const char* shown = nullptr;  // what profilers call it, likewise
};

// A call with its arguments.
struct Given {
  Call* call;
  const Value* values;
};

// Whether somebody takes the call over: a mode on this thread, or one of the tensors.
bool taken(const Call& call, const Value* given);

// Whether a profiler wants a range for the call; a call within itself (below autograd) is the same one.
inline bool profiled(const Call& call) { return (dispatch_forced & kProfiles) && !profile::Range::is_open(&call); }

// The range of one call, which is made again within it.
class ProfiledCall : profile::Range {
 public:
  ProfiledCall(Call& call, const Value* given);
};

// What Python returned.
class Result {
 public:
  explicit Result(PyObject* owned) : owned_(owned) {}
  Result(Result&& o) noexcept : owned_(std::exchange(o.owned_, nullptr)) {}
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() { Py_XDECREF(owned_); }

  template <class T>
  T as() const {
    T out;
    read(owned_, out);
    return out;
  }
  // Several results.
  void fill(Tensor* outs, int n) const;

 private:
  static void read(PyObject* o, Tensor& out);
  static void read(PyObject* o, Tensors& out);
  static void read(PyObject* o, bool& out);
  static void read(PyObject* o, int64_t& out);
  static void read(PyObject* o, double& out);
  static void read(PyObject* o, Scalar& out);
  // Item i of a sequence of n, borrowed.
  static PyObject* item(PyObject* o, size_t i, size_t n);
  template <class... T>
  static void read(PyObject* o, std::tuple<T...>& out) {
    read_items(o, out, std::index_sequence_for<T...>());
  }
  template <class... T, size_t... i>
  static void read_items(PyObject* o, std::tuple<T...>& out, std::index_sequence<i...>) {
    (read(item(o, i, sizeof...(T)), std::get<i>(out)), ...);
  }
  PyObject* owned_;
};

// Hands the call over. Results of views become views, and what is written to counts it, as after a kernel.
Result run(Call& call, const Value* given);

// Set by csrc/python: calls the plan.
extern PyObject* (*call_python)(Call& call, const Value* given);

}  // namespace tocha::dispatch
