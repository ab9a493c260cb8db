#include "python/parser.h"

#include <algorithm>
#include <cstring>
#include <tuple>

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

// Whether a subclass or a look-alike takes the call over.
bool takes_over(PyObject* o, Match& m) {
  if (has_override(o)) {
    m.overridden.push_back(o);
    return true;
  }
  if (overrides != Overrides::on) check_not_sparse(o);
  return false;
}

bool accepts_tensor(PyObject* o, Match& m) { return Py_TYPE(o) == tensor_type || takes_over(o, m) || is_tensor(o); }

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

bool accepts(const Param& p, PyObject* o, Match& m) {
  switch (p.type) {
    case ArgType::Tensor:
      return accepts_tensor(o, m);
    case ArgType::Operand:
      return accepts_tensor(o, m) || is_number(o);
    case ArgType::OptTensor:
      return o == Py_None || accepts_tensor(o, m);
    case ArgType::Tensors:
      return all_items(o, [&](PyObject* x) { return accepts_tensor(x, m); });
    case ArgType::Outs:
      return o == Py_None || all_items(o, [&](PyObject* x) { return accepts_tensor(x, m); });
    case ArgType::OptTensors:
      return all_items(o, [&](PyObject* x) { return x == Py_None || accepts_tensor(x, m); });
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

const char* shown_type(ArgType t) {
  switch (t) {
    case ArgType::Tensor:
    case ArgType::OptTensor:
      return "Tensor";
    case ArgType::Operand:
      return "Tensor or Number";
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

bool match(Signature& s, const Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
           Match& m) {
  m.overridden.clear();
  int i = 0;
  if (f.method) {
    m.slots[i++] = self;
    if (Py_TYPE(self) != tensor_type) takes_over(self, m);
  }
  Py_ssize_t next = 0;
  int keywords_used = 0;
  for (; i < s.count; ++i) {
    Param& p = s.params[i];
    PyObject* given = nullptr;
    if (next < nargs && !p.keyword_only) {
      bool is_list = p.type == ArgType::Ints || p.type == ArgType::OptInts;
      if (s.varargs && is_list && accepts_int(args[next]) && !(p.size == 1 && nargs - next == 1)) {
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
    } else if (!accepts(p, given, m)) {
      return false;
    }
    m.slots[i] = given;
  }
  if (next != nargs) {
    // f(): permute((0, 1)) given as loose ints to an empty list
    return false;
  }
  return !kwnames || keywords_used == PyTuple_GET_SIZE(kwnames);
}

// How lists are shown in errors: not beyond a few levels, since they may contain themselves.
constexpr int kShownLevels = 3;

std::string describe(PyObject* o, int level = 0) {
  std::string name = Py_TYPE(o)->tp_name;
  size_t dot = name.rfind('.');
  if (dot != std::string::npos) name = name.substr(dot + 1);
  if (!is_sequence(o) || level == kShownLevels) return name;
  std::string out = name + " of (";
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  for (Py_ssize_t i = 0; i < n && i < 10; ++i)
    out += std::string(i ? ", " : "") + describe(PySequence_Fast_ITEMS(o)[i], level + 1);
  return out + (n == 1 ? ",)" : n > 10 ? ", ...)" : ")");
}

[[noreturn]] void refuse(Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  int shown = 0;
  while (shown < f.count && f.signatures[shown].text) ++shown;
  if (shown == 1) {  // say precisely what is wrong
    Signature& s = f.signatures[0];
    int first = f.method ? 1 : 0;
    int positional = 0;
    for (int i = first; i < s.count; ++i) positional += !s.params[i].keyword_only;
    TOCHA_CHECK(nargs <= positional || s.varargs, Type, f.name, "() takes ", positional, " positional argument",
                positional == 1 ? "" : "s", " but ", nargs, nargs == 1 ? " was" : " were", " given");
    Match m;
    int unused = 0;
    for (int i = first; i < s.count; ++i) {
      Param& p = s.params[i];
      bool by_position = i - first < nargs && !p.keyword_only;
      PyObject* given = by_position ? args[i - first]
                        : kwnames   ? find_keyword(p, args + nargs, kwnames, &unused)
                                    : nullptr;
      TOCHA_CHECK(given || p.optional, Type, f.name, "() missing 1 required positional argument: \"", p.name, "\"");
      if (given && !accepts(p, given, m) && !(s.varargs && is_int(given))) {
        fail(ErrorKind::Type, f.name, "(): argument '", p.name, "'",
             by_position ? str(" (position ", i - first + 1, ")") : "", " must be ", shown_type(p.type), ", not ",
             describe(given));
      }
    }
    for (Py_ssize_t k = 0; k < nkw; ++k) {
      std::string key = text_of(PyTuple_GET_ITEM(kwnames, k));
      bool known = false;
      for (int i = first; i < s.count; ++i) known = known || key == s.params[i].name;
      TOCHA_CHECK(known, Type, f.name, "() got an unexpected keyword argument '", key, "'");
    }
  }
  std::string got;
  for (Py_ssize_t i = 0; i < nargs; ++i) got += (got.empty() ? "" : ", ") + describe(args[i]);
  for (Py_ssize_t i = 0; i < nkw; ++i)
    got += (got.empty() ? "" : ", ") + text_of(PyTuple_GET_ITEM(kwnames, i)) + "=" + describe(args[nargs + i]);
  std::string expected;
  for (int i = 0; i < shown; ++i) expected += str("\n * ", f.signatures[i].text);
  (void)self;
  fail(ErrorKind::Type, f.name, "() received an invalid combination of arguments - got (", got,
       "), but expected one of:", expected);
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

PyObject* invoke_matched(Function& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                         bool binary) {
  Match m;
  for (int i = 0; i < f.count; ++i) {
    Signature& s = f.signatures[i];
    if (!match(s, f, self, args, nargs, kwnames, m)) continue;
    if (!m.overridden.empty() || modes_ask()) [[unlikely]] {
      if (f.reflected && !is_tensor(args[0])) return override_reflected(f, m.overridden, args);
      return override_call(f, m.overridden, self, args, nargs, kwnames);
    }
    return s.call(m.slots);
  }
  if (PyErr_Occurred()) throw PythonError();
  if (binary) return Py_NewRef(Py_NotImplemented);
  refuse(f, self, args, nargs, kwnames);
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
  return wrapped_number(as_scalar(o));
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

Tensor finish_factory(Tensor t, PyObject* const* extra) {
  auto [layout, pin_memory, requires_grad] = std::tuple(extra[0], extra[1], extra[2]);
  TOCHA_CHECK(!layout || layout == Py_None || layout == layout_object(), NotImplemented,
              "only the strided layout is supported");
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
