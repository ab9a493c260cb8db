#include "python/parser.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "python/dispatch_calls.h"
#include "python/level_calls.h"

namespace tocha::python {

namespace {

PyObject* interned(const char* s) {
  PyObject* o = PyUnicode_InternFromString(s);
  if (!o) throw PythonError();
  return o;
}

bool is_sequence(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

// What a call is about to be matched against, with the operands that override it.
struct Match {
  PyObject* slots[kMaxArguments];
  Ref packed;  // loose ints gathered into a tuple
  std::vector<PyObject*> overridden;
};

// What records a program stands for the numbers in it: sizes of a tensor that is traced.
bool stands_in(PyObject* o) { return !is_tensor(o) && has_override(o); }

// Whether a subclass or a look-alike takes the call over.
bool takes_over(PyObject* o, std::vector<PyObject*>& overridden) {
  if (has_override(o) || is_fake(o)) {
    overridden.push_back(o);
    return true;
  }
  if (overrides != Overrides::on) check_not_sparse(o);
  return false;
}

bool accepts_tensor(PyObject* o, std::vector<PyObject*>& overridden) {
  return Py_TYPE(o) == tensor_type || takes_over(o, overridden) || is_tensor(o);
}

bool is_zero_dim_number(PyObject* o) {  // a 0-d tensor where a number is wanted
  if (!is_tensor(o)) return false;
  auto* t = reinterpret_cast<TensorObject*>(o);
  return t->numel == 1 && t->ndim == 0 && !t->sparse;
}

bool is_integral_tensor(PyObject* o) {
  return is_zero_dim_number(o) && (is_integral(reinterpret_cast<TensorObject*>(o)->dtype));
}

bool accepts_int(PyObject* o) { return is_int(o) || is_integral_tensor(o); }
bool accepts_float(PyObject* o) {
  return PyFloat_Check(o) || PyLong_Check(o) || (is_number(o) && !PyComplex_Check(o)) || is_zero_dim_number(o);
}
bool accepts_scalar(PyObject* o) { return is_number(o) || is_zero_dim_number(o); }

template <class F>
bool all_items(PyObject* o, F ok) {
  if (!is_sequence(o)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    if (!ok(PySequence_Fast_ITEMS(o)[i])) return false;
  return true;
}

// Calls f with each item of a list or tuple. Python's own code may run in it, and change the list: f's item is held.
template <class F>
void each_item(PyObject* o, F f) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    PyObject* item = PySequence_Fast_ITEMS(o)[i];
    if (PyLong_CheckExact(item) || PyFloat_CheckExact(item)) {
      f(item);
    } else {
      f(Ref::borrow(item).get());
    }
  }
}

}  // namespace

std::vector<PyObject*> overriders(const std::vector<PyObject*>& noted) {
  std::vector<PyObject*> found;
  for (PyObject* o : noted)
    if (has_override(o)) found.push_back(o);
  return found;
}

bool accepts(const Param& p, PyObject* o, std::vector<PyObject*>& overridden) {
  switch (p.type) {
    case ArgType::Tensor:
      return accepts_tensor(o, overridden);
    case ArgType::Operand:
      return accepts_tensor(o, overridden) || is_number(o);
    case ArgType::OptTensor:
      return o == Py_None || accepts_tensor(o, overridden);
    case ArgType::Tensors:
      return all_items(o, [&](PyObject* x) { return accepts_tensor(x, overridden); });
    case ArgType::Outs:
      return o == Py_None || all_items(o, [&](PyObject* x) { return accepts_tensor(x, overridden); });
    case ArgType::OptTensors:
      return all_items(o, [&](PyObject* x) { return x == Py_None || accepts_tensor(x, overridden); });
    case ArgType::Scalar:
      return accepts_scalar(o);
    case ArgType::OptScalar:
      return o == Py_None || accepts_scalar(o);
    case ArgType::Scalars:
      return all_items(o, accepts_scalar);
    case ArgType::Int:
      return accepts_int(o);
    case ArgType::OptInt:
      return o == Py_None || accepts_int(o);
    case ArgType::Ints:
      return all_items(o, accepts_int) || (p.size > 0 && accepts_int(o));
    case ArgType::OptInts:
      return o == Py_None || all_items(o, accepts_int) || (p.size > 0 && accepts_int(o));
    case ArgType::Float:
      return accepts_float(o);
    case ArgType::OptFloat:
      return o == Py_None || accepts_float(o);
    case ArgType::OptFloats:
      return o == Py_None || all_items(o, accepts_float);
    case ArgType::Bool:
      return PyBool_Check(o) ||
             (is_number(o) && !PyLong_Check(o) && !PyFloat_Check(o) && !PyComplex_Check(o) && !is_int(o));
    case ArgType::OptBool:
      return o == Py_None || PyBool_Check(o);
    case ArgType::Bools:
      return all_items(o, [](PyObject* x) { return static_cast<bool>(PyBool_Check(x)); });
    case ArgType::Str:
      return PyUnicode_Check(o);
    case ArgType::OptStr:
      return o == Py_None || PyUnicode_Check(o);
    case ArgType::DType:
      return is_dtype_like(o);
    case ArgType::OptDType:
      return o == Py_None || is_dtype_like(o);
    case ArgType::Device:
      return is_device_like(o);
    case ArgType::OptDevice:
      return o == Py_None || is_device_like(o);
    case ArgType::OptLayout:
      return o == Py_None || PyObject_TypeCheck(o, layout_type);
    case ArgType::OptMemoryFormat:
      return o == Py_None || PyObject_TypeCheck(o, memory_format_type);
    case ArgType::OptGenerator:
      return o == Py_None || PyObject_TypeCheck(o, generator_type);
    case ArgType::Storage:
      return is_storage(o);
  }
  return false;
}

namespace {

const char* shown_type(ArgType t) {
  switch (t) {
    case ArgType::Tensor:
    case ArgType::OptTensor:
    case ArgType::Operand:
      return "Tensor";
    case ArgType::Tensors:
    case ArgType::OptTensors:
    case ArgType::Outs:
      return "tuple of Tensors";
    case ArgType::Scalar:
    case ArgType::OptScalar:
      return "Number";
    case ArgType::Scalars:
      return "tuple of Numbers";
    case ArgType::Int:
    case ArgType::OptInt:
      return "int";
    case ArgType::Ints:
    case ArgType::OptInts:
      return "tuple of ints";
    case ArgType::Float:
    case ArgType::OptFloat:
      return "float";
    case ArgType::OptFloats:
      return "tuple of floats";
    case ArgType::Bool:
    case ArgType::OptBool:
      return "bool";
    case ArgType::Bools:
      return "tuple of bools";
    case ArgType::Str:
    case ArgType::OptStr:
      return "str";
    case ArgType::DType:
    case ArgType::OptDType:
      return "tocha.dtype";
    case ArgType::Device:
    case ArgType::OptDevice:
      return "tocha.device";
    case ArgType::OptLayout:
      return "tocha.layout";
    case ArgType::OptMemoryFormat:
      return "tocha.memory_format";
    case ArgType::OptGenerator:
      return "tocha.Generator";
    case ArgType::Storage:
      return "tocha.Storage";
  }
  return "?";
}

// NumPy's names for the same things are understood too.
const char* numpy_alias(const char* name) {
  static constexpr std::pair<const char*, const char*> aliases[] = {
      {"dim", "axis"}, {"keepdim", "keepdims"}, {"input", "x"}, {"other", "x2"}};
  for (auto [ours, theirs] : aliases)
    if (std::strcmp(ours, name) == 0) return theirs;
  return nullptr;
}

// Whether a look-alike, or a sequence with some, was given where no tensor is meant.
bool accepts_stand_in(PyObject* o, std::vector<PyObject*>& overridden) {
  auto noted = [&](PyObject* x) {
    if (!stands_in(x)) return false;
    overridden.push_back(x);
    return true;
  };
  if (noted(o)) return true;
  size_t before = overridden.size();
  bool fits = all_items(o, [&](PyObject* x) { return accepts_scalar(x) || noted(x); });
  return fits && overridden.size() > before;
}

PyObject* find_keyword(Param& p, PyObject* const* values, PyObject* kwnames, int* used) {
  if (!p.key) p.key = interned(p.name);
  Py_ssize_t n = PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* k = PyTuple_GET_ITEM(kwnames, i);
    if (k == p.key || PyUnicode_Compare(k, p.key) == 0) {
      ++*used;
      return values[i];
    }
  }
  const char* alias = numpy_alias(p.name);
  for (Py_ssize_t i = 0; alias && i < n; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), alias) == 0) {
      ++*used;
      return values[i];
    }
  }
  return nullptr;
}

// With kStandIns look-alikes may stand for numbers and sizes, too.
template <bool kStandIns>
bool match(Signature& s, const Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
           Match& m) {
  m.overridden.clear();
  int i = 0;
  if (f.method) {
    m.slots[i++] = self;
    if (Py_TYPE(self) != tensor_type) takes_over(self, m.overridden);
  }
  Py_ssize_t next = 0;
  int keywords_used = 0;
  for (; i < s.count; ++i) {
    Param& p = s.params[i];
    PyObject* given = nullptr;
    if (next < nargs && !p.keyword_only) {
      bool is_list = p.type == ArgType::Ints || p.type == ArgType::OptInts;
      auto loose = [&](PyObject* o) { return accepts_int(o) || (kStandIns && nargs - next > 1 && stands_in(o)); };
      if (s.varargs && is_list && loose(args[next]) && !(p.size == 1 && nargs - next == 1)) {
        m.packed = own(PyTuple_New(nargs - next));
        for (Py_ssize_t k = 0; next < nargs; ++k, ++next) PyTuple_SET_ITEM(m.packed.get(), k, Py_NewRef(args[next]));
        given = m.packed.get();
      } else {
        given = args[next++];
      }
    } else if (kwnames) {
      given = find_keyword(p, args + nargs, kwnames, &keywords_used);
    }
    if (!given) {
      if (!p.optional) return false;
    } else if (!accepts(p, given, m.overridden) && !(kStandIns && accepts_stand_in(given, m.overridden))) {
      return false;
    }
    m.slots[i] = given;
  }
  if (next != nargs) return false;
  return !kwnames || keywords_used == PyTuple_GET_SIZE(kwnames);
}

const char* type_name(PyObject* o) { return Py_TYPE(o) == tensor_type ? "Tensor" : Py_TYPE(o)->tp_name; }

// A call that matched no overload.
struct Call {
  const Function& f;
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;

  int first() const { return f.method ? 1 : 0; }
  Py_ssize_t keywords() const { return kwnames ? PyTuple_GET_SIZE(kwnames) : 0; }
};

// Why one overload does not fit, in PyTorch's words, and how many of the arguments did.
struct Reason {
  int fitting = 0;
  std::string text;
};

std::string too_many(const Call& c, const Signature& s) {
  int least = 0, most = 0;
  for (int i = c.first(); i < s.count; ++i) {
    if (s.params[i].keyword_only) continue;
    ++most;
    least += !s.params[i].optional;
  }
  if (c.f.method && s.count == 1) return str(c.f.name, "() takes no arguments (", c.nargs, " given)");
  std::string takes = least == most ? str(most) : str("from ", least, " to ", most);
  return str(c.f.name, "() takes ", takes, " positional argument", most == 1 ? "" : "s", " but ", c.nargs,
             c.nargs == 1 ? " was given" : " were given");
}

std::string missing(const Call& c, const Signature& s, int from) {
  std::string names;
  int count = 0;
  for (int i = from; i < s.count; ++i) {
    Param& p = s.params[i];
    int unused = 0;
    if (p.optional || (c.kwnames && find_keyword(p, c.args + c.nargs, c.kwnames, &unused))) continue;
    names += str(count++ ? ", " : "", "\"", p.name, "\"");
  }
  return str(c.f.name, "() missing ", count, " required positional argument", count == 1 ? "s" : "", ": ", names);
}

// The first item of a list that is not what the parameter is a list of; -1 if it is no such list.
Py_ssize_t bad_item(const Param& p, PyObject* given) {
  bool tensors = p.type == ArgType::Tensors || p.type == ArgType::OptTensors || p.type == ArgType::Outs;
  bool ints = p.type == ArgType::Ints || p.type == ArgType::OptInts;
  if (!is_sequence(given) || !(tensors || ints)) return -1;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given); ++i) {
    PyObject* item = PySequence_Fast_ITEMS(given)[i];
    if (!(tensors ? is_tensor(item) : accepts_int(item))) return i;
  }
  return -1;
}

// A tensor may stand for a number, but only one without dims.
std::string not_zero_dim(const Call& c, const Signature& s, const Param& p, PyObject* given) {
  bool number = p.type == ArgType::Scalar || p.type == ArgType::OptScalar;
  bool integer = p.type == ArgType::Int || p.type == ArgType::OptInt;
  if (!is_tensor(given) || !(number || integer)) return "";
  if (integer) return str(": ", p.name, " must be an 0-dim integral Tensor.");
  std::string names;
  for (int i = c.first(); i < s.count; ++i)
    if (s.params[i].type == p.type) names += str(names.empty() ? "" : " and ", s.params[i].name);
  return str(": ", c.f.name, " only supports 0-dimensional ", names, " tensors");
}

std::string wrong_type(const Call& c, const Signature& s, int index, bool by_position, PyObject* given) {
  const Param& p = s.params[index];
  std::string argument = str(c.f.name, "(): argument '", p.name, "'");
  std::string place = by_position ? str(" (position ", index - c.first() + 1, ")") : "";
  const char* wanted = shown_type(p.type);
  Py_ssize_t bad = bad_item(p, given);
  if (bad < 0)
    return str(argument, place, " must be ", wanted, ", not ", type_name(given), not_zero_dim(c, s, p, given));
  const char* item = type_name(PySequence_Fast_ITEMS(given)[bad]);
  if (p.type != ArgType::Ints && p.type != ArgType::OptInts)
    return str("[", c.f.name, "] expected Tensor as element ", bad, " in argument ", index, ", but got ", item);
  if (bad == 0) return str(argument, place, " must be ", wanted, ", but found element of type ", item, " at pos 0");
  return str(argument, " failed to unpack the object at pos ", bad + 1, " with error \"type must be ", wanted,
             ",but got ", item, "\"");
}

std::string wrong_keyword(const Call& c, const Signature& s) {
  if (c.f.method && s.count == 1) return str(c.f.name, "() takes no keyword arguments");
  for (Py_ssize_t k = 0; k < c.keywords(); ++k) {
    std::string key = text_of(PyTuple_GET_ITEM(c.kwnames, k));
    int at = c.first();
    while (at < s.count && key != s.params[at].name) ++at;
    if (at == s.count) return str(c.f.name, "() got an unexpected keyword argument '", key, "'");
    if (at - c.first() < c.nargs && !s.params[at].keyword_only)
      return str(c.f.name, "() got multiple values for argument '", key, "'");
  }
  return str(c.f.name, "() does not take these arguments together");
}

Reason why_not(const Call& c, const Signature& s) {
  Reason r;
  int positional = 0;
  for (int i = c.first(); i < s.count; ++i) positional += !s.params[i].keyword_only;
  if (c.nargs > positional && !s.varargs) return {r.fitting, too_many(c, s)};
  Match m;
  int unused = 0;
  for (int i = c.first(); i < s.count; ++i) {
    Param& p = s.params[i];
    bool by_position = i - c.first() < c.nargs && !p.keyword_only;
    bool loose = by_position && s.varargs && c.nargs > 1 && accepts_int(c.args[0]);
    if (loose) {  // x.view(2, 3)
      m.packed = own(PyTuple_New(c.nargs));
      for (Py_ssize_t k = 0; k < c.nargs; ++k) PyTuple_SET_ITEM(m.packed.get(), k, Py_NewRef(c.args[k]));
    }
    PyObject* given = loose         ? m.packed.get()
                      : by_position ? c.args[i - c.first()]
                      : c.kwnames   ? find_keyword(p, c.args + c.nargs, c.kwnames, &unused)
                                    : nullptr;
    if (!given && !p.optional) return {r.fitting, missing(c, s, i)};
    bool list = p.type == ArgType::Ints || p.type == ArgType::OptInts;
    bool number = s.varargs && list && given && accepts_int(given);  // x.view(2)
    if (given && !number && !accepts(p, given, m.overridden))
      return {r.fitting, wrong_type(c, s, i, by_position, given)};
    r.fitting += given != nullptr;
  }
  if (c.nargs > positional) return {r.fitting, too_many(c, s)};
  return {r.fitting, wrong_keyword(c, s)};
}

// The nearest overload's reason first, as PyTorch says it of a function with one overload; then, as PyTorch says it of
// others, what was given and what is taken.
[[noreturn]] void refuse(const Function& f, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Call c{f, args, nargs, kwnames};
  int shown = 0;  // older forms have no text
  while (shown < f.count && f.signatures[shown].text) ++shown;
  Reason nearest = why_not(c, f.signatures[0]);
  for (int i = 1; i < shown; ++i) {
    Reason r = why_not(c, f.signatures[i]);
    if (r.fitting > nearest.fitting) nearest = std::move(r);
  }
  std::string got;
  for (Py_ssize_t i = 0; i < nargs; ++i) got += str(i ? ", " : "", type_name(args[i]));
  for (Py_ssize_t i = 0; i < c.keywords(); ++i)
    got += str(got.empty() ? "" : ", ", text_of(PyTuple_GET_ITEM(kwnames, i)), "=", type_name(args[nargs + i]));
  std::string expected = shown == 1 ? str(" ", f.signatures[0].text) : std::string(" one of:");
  for (int i = 0; shown > 1 && i < shown; ++i) expected += str("\n * ", f.signatures[i].text);
  if (nargs == 0 && c.keywords()) got += ", ";  // as PyTorch has it
  fail(ErrorKind::Type, nearest.text, "\n", f.name, "() received an invalid combination of arguments - got (", got,
       "), but expected", expected);
}

PyObject* kept_object(PyObject*& slot, const char* path) {
  if (!slot) slot = public_object(path).give();
  return slot;
}

PyObject* override_call(Function& f, const std::vector<PyObject*>& overridden, PyObject* self, PyObject* const* args,
                        Py_ssize_t nargs, PyObject* kwnames) {
  int lead = f.method ? 1 : 0;
  Ref tuple = own(PyTuple_New(nargs + lead));
  if (lead) PyTuple_SET_ITEM(tuple.get(), 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(tuple.get(), i + lead, Py_NewRef(args[i]));
  Ref kwargs;
  if (kwnames) {
    kwargs = own(PyDict_New());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i)
      check(PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(kwnames, i), args[nargs + i]));
  }
  return call_override(kept_object(f.callable, f.qualified), overridden, tuple.get(), kwargs.get());
}

// 1 - x is x.__rsub__(1) to those who override.
PyObject* override_reflected(Function& f, const std::vector<PyObject*>& overridden, PyObject* const* args) {
  Ref swapped = own(PyTuple_Pack(2, args[1], args[0]));
  return call_override(kept_object(f.reflected_callable, f.reflected), overridden, swapped.get(), nullptr);
}

// A call that fits no overload, unless look-alikes stand for numbers in it: what they make of it, or null.
PyObject* stood_in(Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Match m;
  for (int i = 0; i < f.count; ++i) {
    if (!match<true>(f.signatures[i], f, self, args, nargs, kwnames, m)) continue;
    std::vector<PyObject*> who = overriders(m.overridden);
    if (!who.empty()) return override_call(f, who, self, args, nargs, kwnames);
  }
  return nullptr;
}

PyObject* invoke_matched(Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                         bool binary) {
  Match m;
  for (int i = 0; i < f.count; ++i) {
    Signature& s = f.signatures[i];
    if (!match<false>(s, f, self, args, nargs, kwnames, m)) continue;
    if (!m.overridden.empty() || function_modes) [[unlikely]] {
      std::vector<PyObject*> who = overriders(m.overridden);
      if (!who.empty() || modes_ask()) {
        if (f.reflected && !is_tensor(args[0])) return override_reflected(f, who, args);
        return override_call(f, who, self, args, nargs, kwnames);
      }
      if ((!m.overridden.empty() || fake_mode_active()) && !meets_level(m.slots, s.count) &&
          !meets_wrapper(m.slots, s.count))
        return fake_call(s.fake, s.record, s.params, s.count, m.slots);
    }
    return s.call(m.slots);
  }
  if (PyErr_Occurred()) throw PythonError();
  if (binary) return Py_NewRef(Py_NotImplemented);
  if (PyObject* answer = stood_in(f, self, args, nargs, kwnames)) return answer;
  refuse(f, args, nargs, kwnames);
}

}  // namespace

PyObject* invoke(Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  try {
    return invoke_matched(f, self, args, nargs, kwnames, false);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* invoke_binary(Function& f, PyObject* a, PyObject* b) {
  try {
    PyObject* args[2] = {a, b};
    if (f.method) return invoke_matched(f, a, args + 1, 1, nullptr, true);
    return invoke_matched(f, nullptr, args, 2, nullptr, true);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

Tensor as_operand(PyObject* o) {
  if (is_tensor(o)) return Tensor::borrow(o);
  Tensor number = wrapped_number(as_scalar(o));
  number.get()->number = NumberFrom::call;
  return number;
}

Tensors as_tensors(PyObject* o) {
  Tensors out;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  out.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_ITEMS(o)[i];
    TOCHA_CHECK(item == Py_None || is_tensor(item), Type, "a list of tensors was changed while it was read");
    out.push_back(as_opt_tensor(item));
  }
  return out;
}

Ints as_ints(PyObject* o, int size) {
  if (!is_sequence(o)) return Ints(size, as_int(o));
  Ints out;
  each_item(o, [&](PyObject* item) { out.push_back(as_int(item)); });
  if (out.size() == 1 && size > 1) out = Ints(size, out[0]);
  return out;
}

std::vector<Scalar> as_scalars(PyObject* o) {
  std::vector<Scalar> out;
  each_item(o, [&](PyObject* item) { out.push_back(as_scalar(item)); });
  return out;
}

std::vector<double> as_doubles(PyObject* o) {
  std::vector<double> out;
  each_item(o, [&](PyObject* item) { out.push_back(as_double(item)); });
  return out;
}

std::vector<bool> as_bools(PyObject* o) {
  std::vector<bool> out;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) out.push_back(PySequence_Fast_ITEMS(o)[i] == Py_True);
  return out;
}

bool as_bool(PyObject* o) {
  int v = PyObject_IsTrue(o);
  check(v);
  return v != 0;
}

GeneratorRef as_generator(PyObject* o) { return o == Py_None ? GeneratorRef() : GeneratorRef(o, generator_of(o)); }

bool wants_other_layout(PyObject* const* extra) {
  return extra[0] && extra[0] != Py_None && extra[0] != layout_object();
}

PyObject* make_in_layout(const char* factory, std::initializer_list<const char*> names, PyObject* const* slots) {
  Ref given = own(PyDict_New());
  for (const char* name : names) {
    if (*slots) check(PyDict_SetItemString(given.get(), name, *slots));
    ++slots;
  }
  PyObject* make = cached_attribute("tocha.sparse._factories", "make_in_layout");
  return own(PyObject_CallFunction(make, "sO", factory, given.get())).give();
}

Tensor finish_factory(Tensor t, PyObject* const* extra) {
  auto [pin_memory, requires_grad] = std::pair(extra[1], extra[2]);
  TOCHA_CHECK(!wants_other_layout(extra), NotImplemented, "only the strided layout is supported");
  TOCHA_CHECK(!pin_memory || pin_memory != Py_True, Runtime,
              "Cannot access accelerator device when none is available.");
  if (requires_grad && as_bool(requires_grad)) {
    TOCHA_CHECK(t.is_floating() || t.is_complex(), Runtime,
                "Only Tensors of floating point and complex dtype can require gradients");
    t.get()->requires_grad = true;
  }
  return t;
}

std::optional<DType> factory_dtype(const Tensor& out, std::optional<DType> given) {
  TOCHA_CHECK(!given || *given == out.dtype(), Runtime, "dtype ", *given, " does not match dtype of out parameter (",
              out.dtype(), ")");
  return out.dtype();
}

std::optional<Device> factory_device(const Tensor& out, std::optional<Device> given) {
  TOCHA_CHECK(!given || *given == out.device(), Runtime, "device ", *given, " does not match device of out parameter (",
              out.device(), ")");
  return out.device();
}

PyObject* wrap(Tensors ts) {
  Ref out = own(PyTuple_New(static_cast<Py_ssize_t>(ts.size())));
  for (size_t i = 0; i < ts.size(); ++i)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), wrap(std::move(ts[i])));
  return out.give();
}

PyObject* wrap_fields(PyTypeObject* type, std::vector<PyObject*> items) {
  Py_ssize_t n = static_cast<Py_ssize_t>(items.size());
  PyObject* out = type ? PyStructSequence_New(type) : PyTuple_New(n);
  if (!out) throw PythonError();
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (type)
      PyStructSequence_SetItem(out, i, items[static_cast<size_t>(i)]);
    else
      PyTuple_SET_ITEM(out, i, items[static_cast<size_t>(i)]);
  }
  return out;
}

}  // namespace tocha::python
