// The native module tocha._C: types, operators, and the module-level switches.
#include <Python.h>
#include <structmember.h>

#include "capture/guards.h"
#include "capture/hook.h"
#include "core/denormals.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "core/switches.h"
#include "cpu/engine/backend.h"
#include "cpu/units/matrix_unit.h"
#include "dispatch/promotion.h"
#include "dispatch/rules.h"
#include "python/autocast_bindings.h"
#include "python/autograd_bindings.h"
#include "python/bindings.h"
#include "python/compiled_function.h"
#include "python/compiled_program.h"
#include "python/dispatch_calls.h"
#include "python/exchange.h"
#include "python/level_calls.h"
#include "python/library_name.h"
#include "python/memory_bindings.h"
#include "python/new_tensor.h"
#include "python/operator_handles.h"
#include "python/optimizer_bindings.h"
#include "python/product_bindings.h"
#include "python/profiler_bindings.h"
#include "python/stand_in_bindings.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

PyObject* set_num_threads(PyObject*, PyObject* n) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(PyLong_Check(n), Type, "set_num_threads expects an int, but got ", Py_TYPE(n)->tp_name);
    int64_t value = as_int(n);
    TOCHA_CHECK(value > 0, Runtime, "set_num_threads expects a positive integer");
    tocha::set_num_threads(static_cast<int>(std::min<int64_t>(value, 1 << 20)));
    return Py_NewRef(Py_None);
  });
}
PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }

PyObject* get_default_dtype(PyObject*, PyObject*) { return Py_NewRef(dtype_object(default_dtype())); }
PyObject* set_default_dtype(PyObject*, PyObject* d) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(PyObject_TypeCheck(d, dtype_type), Type,
                "invalid dtype object: only floating-point types are supported as the default type");
    DType value = as_dtype(d);
    TOCHA_CHECK(is_floating(value) && !is_float8(value), Type,
                "only floating-point types are supported as the default type, got ", value);
    tocha::set_default_dtype(value);
    return Py_NewRef(Py_None);
  });
}

PyObject* result_type(PyObject*, PyObject* args) {
  return overridable_function("result_type", args, nullptr, [&]() -> PyObject* {
    TOCHA_CHECK(PyTuple_GET_SIZE(args) == 2, Type, "result_type() takes 2 arguments, got ", PyTuple_GET_SIZE(args));
    ResultType r;
    for (int i = 0; i < 2; ++i) {
      PyObject* o = PyTuple_GET_ITEM(args, i);
      TOCHA_CHECK(is_tensor(o) || is_number(o), Type,
                  "result_type() received an invalid combination of arguments - got (",
                  Py_TYPE(PyTuple_GET_ITEM(args, 0))->tp_name, ", ", Py_TYPE(PyTuple_GET_ITEM(args, 1))->tp_name,
                  "), but expected Tensors or Numbers");
      r.add(as_operand(o));
    }
    return Py_NewRef(dtype_object(r.get()));
  });
}

void check_dtype(const char* f, const char* name, int position, PyObject* o) {
  TOCHA_CHECK(Py_TYPE(o) == dtype_type, Type, f, "(): argument '", name, "' (position ", position,
              ") must be tocha.dtype, not ", Py_TYPE(o)->tp_name);
}

void check_dtype_option(const char* f, PyObject* o) {
  TOCHA_CHECK(o == Py_None || is_dtype_like(o), Type, f, "(): argument 'dtype' must be tocha.dtype, not ",
              Py_TYPE(o)->tp_name);
}

PyObject* promote_types(PyObject*, PyObject* args) {
  return overridable_function("promote_types", args, nullptr, [&]() -> PyObject* {
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) throw PythonError();
    check_dtype("promote_types", "type1", 1, a);
    check_dtype("promote_types", "type2", 2, b);
    return Py_NewRef(dtype_object(tocha::promote_types(as_dtype(a), as_dtype(b))));
  });
}

PyObject* can_cast(PyObject*, PyObject* args, PyObject* kwargs) {
  return overridable_function("can_cast", args, kwargs, [&]() -> PyObject* {
    PyObject *a, *b;
    static const char* names[] = {"from_", "to", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", const_cast<char**>(names), &a, &b)) throw PythonError();
    check_dtype("can_cast", "from_", 1, a);
    check_dtype("can_cast", "to", 2, b);
    return PyBool_FromLong(tocha::can_cast(as_dtype(a), as_dtype(b)));
  });
}

PyObject* tensor(PyObject*, PyObject* args, PyObject* kwargs) {
  return overridable_function("tensor", args, kwargs, [&]() -> PyObject* {
    PyObject *data, *dtype = Py_None, *device = Py_None, *names = Py_None;
    int requires_grad = 0, pin = 0;
    static const char* keys[] = {"data", "dtype", "device", "requires_grad", "pin_memory", "names", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOppO:tensor", const_cast<char**>(keys), &data, &dtype, &device,
                                     &requires_grad, &pin, &names))
      throw PythonError();
    if (is_tensor(data)) {
      check(PyErr_WarnEx(PyExc_UserWarning,
                         "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                         "sourceTensor.detach().clone().requires_grad_(True), rather than tocha.tensor(sourceTensor).",
                         1));
    }
    check_dtype_option("tensor", dtype);
    Device fallback = default_device();
    Tensor t = tensor_from_data(
        data, optional(dtype, as_dtype),
        device == Py_None && !is_tensor(data) ? std::optional<Device>(fallback) : optional(device, as_device));
    TOCHA_CHECK(!requires_grad || t.is_floating() || t.is_complex(), Runtime,
                "Only Tensors of floating point and complex dtype can require gradients");
    t.get()->requires_grad = requires_grad;
    return t.give();
  });
}

// as_tensor(data, dtype, device): shares memory where it can.
PyObject* as_tensor_(PyObject*, PyObject* args, PyObject* kwargs) {
  return overridable_function("as_tensor", args, kwargs, [&]() -> PyObject* {
    PyObject *data, *dtype = Py_None, *device = Py_None;
    static const char* keys[] = {"data", "dtype", "device", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:as_tensor", const_cast<char**>(keys), &data, &dtype, &device))
      throw PythonError();
    check_dtype_option("as_tensor", dtype);
    auto want = optional(dtype, as_dtype);
    auto where = optional(device, as_device);
    if (is_tensor(data)) {
      Tensor t = Tensor::borrow(data);
      if ((!want || *want == t.dtype()) && (!where || *where == t.device())) return t.give();
      return tensor_from_data(data, want, where).give();
    }
    if (Tensor t = shared_array(data)) {
      if ((!want || *want == t.dtype()) && (!where || where->is_cpu())) return t.give();
    }
    return tensor_from_data(data, want, where ? where : std::optional<Device>(default_device())).give();
  });
}

// _set_symbolic_types(SymInt, SymFloat, SymBool): numbers of those classes stand where numbers do.
PyObject* set_symbolic_types(PyObject*, PyObject* args) {
  PyObject *ints, *floats, *bools;
  if (!PyArg_ParseTuple(args, "OOO", &ints, &floats, &bools)) return nullptr;
  symbolic_types = {reinterpret_cast<PyTypeObject*>(Py_NewRef(ints)),
                    reinterpret_cast<PyTypeObject*>(Py_NewRef(floats)),
                    reinterpret_cast<PyTypeObject*>(Py_NewRef(bools))};
  return Py_NewRef(Py_None);
}
PyObject* set_function_modes(PyObject*, PyObject* n) {
  const long count = PyLong_AsLong(n);
  if (count == -1 && PyErr_Occurred()) return nullptr;
  function_modes = (function_modes & kFakeMode) | static_cast<int>(count);
  capture::function_modes_active = count != 0;
  return Py_NewRef(Py_None);
}
Overrides switch_overrides(Overrides to) {
  capture::overrides_off = static_cast<uint8_t>(to);
  return std::exchange(overrides, to);
}
PyObject* set_overrides(PyObject*, PyObject* on) {
  // _set_overrides(level): 0 on, 1 modes only, 2 off; returns what it was.
  long level = PyLong_AsLong(on);
  if (level == -1 && PyErr_Occurred()) return nullptr;
  Overrides before = switch_overrides(static_cast<Overrides>(level));
  return PyLong_FromLong(static_cast<long>(before));
}
PyObject* disabled_torch_function(PyObject*, PyObject* args) {
  // (func, types, args, kwargs): runs func as if no operand had overrides.
  return guarded([&]() -> PyObject* {
    PyObject *func, *types, *inner = nullptr, *kwargs = nullptr;
    if (!PyArg_ParseTuple(args, "OO|OO", &func, &types, &inner, &kwargs)) throw PythonError();
    Ref none = own(PyTuple_New(0));
    Overrides before = switch_overrides(std::max(overrides, Overrides::modes_only));
    PyObject* result = PyObject_Call(func, inner ? inner : none.get(), kwargs == Py_None ? nullptr : kwargs);
    switch_overrides(before);
    return result;
  });
}
// The next question whether overrides take a function written in Python over is answered no.
thread_local bool skips_override = false;
PyObject* skip_next_override(PyObject*, PyObject* on) {
  return PyBool_FromLong(std::exchange(skips_override, on == Py_True));
}
PyObject* has_torch_function(PyObject*, PyObject* items) {
  return guarded([&]() -> PyObject* {
    if (std::exchange(skips_override, false)) Py_RETURN_FALSE;
    if (modes_ask()) Py_RETURN_TRUE;
    Ref seq = own(PySequence_Fast(items, "expected a sequence"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(seq.get()); ++i)
      if (has_override(PySequence_Fast_GET_ITEM(seq.get(), i))) Py_RETURN_TRUE;
    Py_RETURN_FALSE;
  });
}

PyObject* set_warn_always(PyObject*, PyObject* on) {
  switches.warn_always = on == Py_True;
  return Py_NewRef(Py_None);
}
PyObject* set_deterministic(PyObject*, PyObject* args) {
  int on, warns;
  if (!PyArg_ParseTuple(args, "pp:_set_deterministic", &on, &warns)) return nullptr;
  switches.deterministic = on;
  switches.deterministic_warns = warns;
  return Py_NewRef(Py_None);
}
PyObject* set_fill_uninitialized(PyObject*, PyObject* on) {
  switches.fill_uninitialized = on == Py_True;
  return Py_NewRef(Py_None);
}
PyObject* set_flush_denormal(PyObject*, PyObject* on) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(PyBool_Check(on), Runtime, "flush_denormal expects a bool, but got ", Py_TYPE(on)->tp_name);
    return PyBool_FromLong(set_flush_denormals(on == Py_True));
  });
}

PyObject* memory_stats(PyObject*, PyObject*) {
  CpuMemory m = cpu_memory();
  return Py_BuildValue("{s:n,s:n,s:n}", "in_use", static_cast<Py_ssize_t>(m.in_use), "cached",
                       static_cast<Py_ssize_t>(m.cached), "peak", static_cast<Py_ssize_t>(m.peak));
}
PyObject* empty_cache(PyObject*, PyObject*) {
  cpu_empty_cache();
  return Py_NewRef(Py_None);
}
PyObject* cpu_capability(PyObject*, PyObject*) {
  static const char* names[] = {"DEFAULT", "AVX2", "AVX512"};
  return PyUnicode_FromString(names[static_cast<int>(cpu_isa())]);
}

// The instructions that products of narrow dtypes use, or None.
PyObject* matrix_units(PyObject*, PyObject*) {
  auto name = [](DType dtype) {
    const cpu::MatrixUnit* unit = cpu::matrix_unit(dtype);
    return unit ? unit->name : nullptr;
  };
  return Py_BuildValue("{s:z,s:z}", "bfloat16", name(DType::BFloat16), "int8", name(DType::Int8));
}

// _run_rows(function, pointers, rows, grain): a compiled kernel over [0, rows), shared among the threads.
PyObject* run_rows(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    unsigned long long function, pointers;
    long long rows, grain;
    if (!PyArg_ParseTuple(args, "KKLL", &function, &pointers, &rows, &grain)) throw PythonError();
    auto run = reinterpret_cast<RangeFn>(function);
    {
      ReleaseGil unlocked(1 << 20);
      parallel_range(rows, grain, run, reinterpret_cast<void*>(pointers));
    }
    return Py_NewRef(Py_None);
  });
}

PyMethodDef module_table[] = {
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(n): how many threads kernels use."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "How many threads kernels use."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "The dtype of new floating tensors."},
    {"_set_default_dtype", set_default_dtype, METH_O, nullptr},
    {"result_type", result_type, METH_VARARGS, "result_type(a, b): the dtype an operator on both computes in."},
    {"promote_types", promote_types, METH_VARARGS, "promote_types(a, b): the smallest dtype that holds both."},
    {"can_cast", reinterpret_cast<PyCFunction>(can_cast), METH_VARARGS | METH_KEYWORDS,
     "can_cast(from_, to): whether a result may be stored so."},
    {"tensor", reinterpret_cast<PyCFunction>(tensor), METH_VARARGS | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False): a new tensor with a copy of data."},
    {"as_tensor", reinterpret_cast<PyCFunction>(as_tensor_), METH_VARARGS | METH_KEYWORDS,
     "as_tensor(data, dtype=None, device=None): data as a tensor, sharing memory where possible."},
    {"_set_symbolic_types", set_symbolic_types, METH_VARARGS, nullptr},
    {"_set_function_modes", set_function_modes, METH_O, nullptr},
    {"_set_overrides", set_overrides, METH_O, nullptr},
    {"_disabled_torch_function_impl", disabled_torch_function, METH_VARARGS, nullptr},
    {"_has_torch_function", has_torch_function, METH_O, nullptr},
    {"_skip_next_override", skip_next_override, METH_O, nullptr},
    {"_set_warn_always", set_warn_always, METH_O, nullptr},
    {"_set_deterministic", set_deterministic, METH_VARARGS, nullptr},
    {"_set_fill_uninitialized", set_fill_uninitialized, METH_O, nullptr},
    {"set_flush_denormal", set_flush_denormal, METH_O,
     "set_flush_denormal(mode): whether numbers too small for a normal float count as zero, in this thread and those "
     "that compute for it. Returns whether the processor can do so."},
    {"_swap_tensors", swap_tensors, METH_VARARGS, nullptr},
    {"_run_rows", run_rows, METH_VARARGS, nullptr},
    {"_cpu_memory", memory_stats, METH_NOARGS, nullptr},
    {"_cpu_empty_cache", empty_cache, METH_NOARGS, nullptr},
    {"_cpu_capability", cpu_capability, METH_NOARGS, nullptr},
    {"_matrix_units", matrix_units, METH_NOARGS, nullptr},
};

// tocha.return_types.sort(\nvalues=...,\nindices=...)
PyObject* repr_of_results(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const PyMemberDef* fields = Py_TYPE(self)->tp_members;
    std::string text = std::string(Py_TYPE(self)->tp_name) + "(";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      Ref value = own(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
      text += std::string(i ? ",\n" : "\n") + fields[i].name + "=" + text_of(value.get());
    }
    return PyUnicode_FromString((text + ")").c_str());
  });
}

void add_return_types(PyObject* module) {
  Ref types = own(PyModule_New("tocha.return_types"));
  for (ReturnType& r : bindings().returns_) {
    PyTypeObject* t = PyStructSequence_NewType(&r.description);
    if (!t) throw PythonError();
    t->tp_repr = repr_of_results;
    *r.type = t;
    check(PyModule_AddObjectRef(types.get(), r.name, reinterpret_cast<PyObject*>(t)));
  }
  check(PyModule_AddObjectRef(module, "return_types", types.get()));
}

void add_linalg_error(PyObject* module) {
  linalg_error = own(PyErr_NewExceptionWithDoc("tocha._C._LinAlgError",
                                               "A matrix is singular, or a decomposition did not converge.",
                                               PyExc_RuntimeError, nullptr))
                     .give();
  check(PyModule_AddObjectRef(module, "_LinAlgError", linalg_error));
}

// A kernel reports that an index lies outside, not whose: uncompiled, some operators raise IndexError then and some
// RuntimeError, so that this is both.
void add_compiled_index_error(PyObject* module) {
  Ref bases = own(PyTuple_Pack(2, PyExc_IndexError, PyExc_RuntimeError));
  compiled_index_error =
      own(PyErr_NewExceptionWithDoc("tocha._C._CompiledIndexError", "An index in a compiled graph is out of bounds.",
                                    bases.get(), nullptr))
          .give();
  check(PyModule_AddObjectRef(module, "_CompiledIndexError", compiled_index_error));
}

// tocha._C._special, _C._nn and so on hold the operators of those namespaces.
void add_functions(PyObject* module) {
  for (auto& [space, table] : bindings().functions_) {
    if (space.empty()) {
      std::vector<PyMethodDef> extra(std::begin(module_table), std::end(module_table));
      add_exchange_functions(extra);
      add_autograd_functions(extra);
      add_autocast_functions(extra);
      add_optimizer_functions(extra);
      add_operator_handle_functions(extra);
      add_compiled_program_functions(extra);
      add_product_functions(extra);
      add_dispatch_functions(extra);
      add_level_functions(extra);
      add_fake_functions(extra);
      add_library_name_functions(extra);
      add_profiler_functions(extra);
      add_memory_functions(extra);
      add_stand_in_functions(extra);
      table.insert(table.end(), extra.begin(), extra.end());
    }
    table.push_back({nullptr, nullptr, 0, nullptr});
    if (space.empty()) {
      check(PyModule_AddFunctions(module, table.data()));
      continue;
    }
    std::string name = "tocha._C._" + space;
    Ref sub = own(PyModule_New(name.c_str()));
    check(PyModule_AddFunctions(sub.get(), table.data()));
    check(PyModule_AddObjectRef(module, ("_" + space).c_str(), sub.get()));
  }
}

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tocha._C", "tocha's native core.", -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace tocha::python

PyMODINIT_FUNC PyInit__C() {
  using namespace tocha::python;
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  try {
    bind_all(bindings());
    add_tensor_type(module);
    add_types(module);
    add_autograd_types(module);
    add_operator_handle_type(module);
    add_compiled_program_type(module);
    add_compiled_function_type(module);
    add_return_types(module);
    add_functions(module);
    add_linalg_error(module);
    add_compiled_index_error(module);
    tocha::capture::add_capture_module(module);
    tocha::cpu::register_cpu();
  } catch (...) {
    set_python_error();
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
