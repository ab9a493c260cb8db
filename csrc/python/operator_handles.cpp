#include "python/operator_handles.h"

#include <structmember.h>

#include <string>
#include <unordered_map>

#include "python/bindings.h"
#include "python/dispatch_calls.h"
#include "python/level_calls.h"

namespace tocha::python {

namespace {

// How an argument of a handle reaches the record's.
enum class Wants : uint8_t {
  as_given,   // whatever the record's parameter takes
  number,     // a number, though the record takes tensors too
  some_ints,  // a list; the record takes None where the handle takes an empty one
  nothing,    // the record has no such argument: None, False or the strided layout
  result,     // one of the tensors that out= is
};

struct HandleArgument {
  Ref name;
  int slot;
  Wants wants;
  bool keyword_only;
  bool required;
  Ref otherwise;  // the handle's default, where the record has another
};

struct OverloadObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const RecordCall* record;
  std::vector<HandleArgument>* arguments;
  int results;      // how many arguments are tensors of out=
  bool list;        // PyTorch gives a list, not a tuple
  PyObject* owner;  // tocha._ops.OpOverload, which overrides see; both live as long as the process
};

PyTypeObject* overload_type = nullptr;

}  // namespace

const RecordCall* find_record(const std::string& name) {
  static const auto* table = [] {
    auto* all = new std::unordered_map<std::string, const RecordCall*>;
    for (auto [rows, n] : bindings().records_)
      for (size_t i = 0; i < n; ++i) all->emplace(rows[i].name, &rows[i]);
    return all;
  }();
  auto at = table->find(name);
  return at == table->end() ? nullptr : at->second;
}

namespace {

// The arguments of one call on their way to the record.
struct HandleCall {
  PyObject* slots[kMaxArguments] = {};
  Ref results;
  std::vector<Ref> numbers;  // as the tensors that they stand for
  std::vector<PyObject*> overridden;
};

bool takes(const OverloadObject* f, const HandleArgument& a, PyObject* value, HandleCall& c) {
  if (a.wants == Wants::nothing) return value == Py_None || value == Py_False || value == layout_object();
  if (a.wants == Wants::result) {
    if (!is_tensor(value)) return false;
    if (has_override(value) || is_fake(value)) c.overridden.push_back(value);
    PyTuple_SET_ITEM(c.results.get(), a.slot, Py_NewRef(value));
    return true;
  }
  if (a.wants == Wants::number && is_tensor(value)) return false;
  if (a.wants == Wants::some_ints && PySequence_Check(value) && PySequence_Size(value) == 0) value = Py_None;
  const Param& p = f->record->params[a.slot];
  if ((p.type == ArgType::Tensor || p.type == ArgType::OptTensor) && is_number(value)) {
    c.numbers.emplace_back(as_operand(value).give());
    value = c.numbers.back().get();
  }
  if (!accepts(p, value, c.overridden)) return false;
  c.slots[a.slot] = value;
  return true;
}

PyObject* keyword(const HandleArgument& a, PyObject* const* values, PyObject* names) {
  Py_ssize_t n = PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* k = PyTuple_GET_ITEM(names, i);
    if (k == a.name.get() || PyUnicode_Compare(k, a.name.get()) == 0) return values[i];
  }
  return nullptr;
}

bool match(const OverloadObject* f, PyObject* const* args, Py_ssize_t nargs, PyObject* names, HandleCall& c) {
  Py_ssize_t next = 0, used = 0;
  if (f->results) c.results = own(PyTuple_New(f->results));
  for (const HandleArgument& a : *f->arguments) {
    PyObject* given = nullptr;
    if (next < nargs && !a.keyword_only) {
      given = args[next++];
    } else if (names) {
      given = keyword(a, args + nargs, names);
      used += given != nullptr;
    }
    if (!given) {
      if (a.required) return false;
      if (a.otherwise) c.slots[a.slot] = a.otherwise.get();
    } else if (!takes(f, a, given, c)) {
      return false;
    }
  }
  if (f->results > 0) c.slots[f->record->count - 1] = c.results.get();
  return next == nargs && (!names || used == PyTuple_GET_SIZE(names));
}

Ref keywords_of(PyObject* const* values, PyObject* names) {
  Ref kwargs = own(PyDict_New());
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    check(PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(names, i), values[i]));
  return kwargs;
}

Ref positional(PyObject* const* args, Py_ssize_t n) {
  Ref all = own(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(all.get(), i, Py_NewRef(args[i]));
  return all;
}

// PyTorch's handles give plain tuples and lists.
PyObject* plain_result(Ref result, bool list) {
  if (list) return own(PySequence_List(result.get())).give();
  if (PyTuple_Check(result.get()) && !PyTuple_CheckExact(result.get()))
    return own(PySequence_Tuple(result.get())).give();
  return result.give();
}

PyObject* call_overload(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    auto* f = reinterpret_cast<OverloadObject*>(self);
    Py_ssize_t nargs = PyVectorcall_NARGS(flags);
    HandleCall c;
    if (!match(f, args, nargs, names, c)) {
      if (PyErr_Occurred()) throw PythonError();
      Ref refused = own(PyObject_GetAttrString(f->owner, "_refuse"));
      return own(PyObject_Call(refused.get(), positional(args, nargs).get(), keywords_of(args + nargs, names).get()))
          .give();
    }
    if (!c.overridden.empty() || function_modes) [[unlikely]] {
      std::vector<PyObject*> who = overriders(c.overridden);
      if (!who.empty() || modes_ask())
        return call_override(f->owner, who, positional(args, nargs).get(), keywords_of(args + nargs, names).get());
      const RecordCall& r = *f->record;
      if ((!c.overridden.empty() || fake_mode_active()) && !meets_level(c.slots, r.count) &&
          !meets_wrapper(c.slots, r.count))
        return plain_result(own(fake_call(r.fake, r.name, r.params, r.count, c.slots)), f->list);
    }
    return plain_result(own(f->record->call(c.slots)), f->list);
  });
}

// (name, slot, wants, keyword_only, required, has_default, default) for each argument
HandleArgument handle_argument(PyObject* row) {
  PyObject *name, *otherwise;
  int slot, wants, keyword_only, required, has_default;
  if (!PyArg_ParseTuple(row, "UiipppO", &name, &slot, &wants, &keyword_only, &required, &has_default, &otherwise))
    throw PythonError();
  Ref key = Ref::borrow(name);
  PyObject* interned = key.give();
  PyUnicode_InternInPlace(&interned);
  return {Ref(interned),     slot,          static_cast<Wants>(wants),
          keyword_only != 0, required != 0, has_default ? Ref::borrow(otherwise) : Ref()};
}

void check_slots(const RecordCall& r, const std::vector<HandleArgument>& arguments, int results) {
  for (const HandleArgument& a : arguments) {
    int most = a.wants == Wants::result ? results : r.count;
    bool fits = a.wants == Wants::nothing || (a.slot >= 0 && a.slot < most);
    TOCHA_CHECK(fits && r.count <= kMaxArguments, Runtime, "[", r.name, "] has no argument ", a.slot);
  }
}

PyObject* record_call(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *name, *rows, *owner;
    int results, list;
    if (!PyArg_ParseTuple(args, "UO!ipO", &name, &PyTuple_Type, &rows, &results, &list, &owner)) throw PythonError();
    const RecordCall* record = find_record(text_of(name));
    TOCHA_CHECK(record, Runtime, "[", text_of(name), "] has no native form");
    std::vector<HandleArgument> arguments;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); ++i)
      arguments.push_back(handle_argument(PyTuple_GET_ITEM(rows, i)));
    check_slots(*record, arguments, results);
    auto* made = PyObject_New(OverloadObject, overload_type);
    if (!made) throw PythonError();
    made->vectorcall = call_overload;
    made->record = record;
    made->arguments = new std::vector<HandleArgument>(std::move(arguments));
    made->results = results;
    made->list = list != 0;
    made->owner = Py_NewRef(owner);
    return reinterpret_cast<PyObject*>(made);
  });
}

void free_overload(PyObject* self) {
  auto* f = reinterpret_cast<OverloadObject*>(self);
  delete f->arguments;
  Py_DECREF(f->owner);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OverloadObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot type_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(free_overload)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec type_spec = {"tocha._C._RecordCall", sizeof(OverloadObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         type_slots};

}  // namespace

void add_operator_handle_type(PyObject* module) {
  Ref type = own(PyType_FromSpec(&type_spec));
  overload_type = reinterpret_cast<PyTypeObject*>(type.get());
  check(PyModule_AddObjectRef(module, "_RecordCall", type.get()));
  type.give();
}

void add_operator_handle_functions(std::vector<PyMethodDef>& functions) {
  functions.push_back({"_record_call", record_call, METH_VARARGS, nullptr});
}

}  // namespace tocha::python
