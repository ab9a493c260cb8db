#include "python/compiled_program.h"

#include <dlfcn.h>
#include <structmember.h>

#include <bit>
#include <optional>
#include <string>

#include "core/gil.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/tensor.h"
#include "cpu/engine/program_api.h"
#include "python/bindings.h"
#include "python/product_bindings.h"

namespace tocha::python {

namespace {

// An operator that the program calls: arguments as they are in the call, with holes that tensors are put in.
struct NativeCall {
  Ref callable;
  std::vector<Ref> arguments;
  std::vector<int> holes;
  Ref keywords;      // names of the last arguments, or null
  bool takes_sizes;  // the callable gets a tuple of sizes after its tensors
};

struct ProgramObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  void* library;
  tocha_program_entry entry;
  std::vector<Ref>* constants;
  std::vector<NativeCall>* calls;
  int inputs, outputs;
  bool keeps_arena;
  std::vector<const char*>* names;  // of kernels, for profilers
  PyObject* arena;                  // between calls, where it is kept
};

PyTypeObject* program_type = nullptr;

TensorObject* object_of(void* t) { return static_cast<TensorObject*>(t); }

int expect(void* p, int64_t position, int64_t dtype, int64_t ndim, const int64_t* sizes, const int64_t* strides) {
  TensorObject* t = object_of(p);
  bool fits = t->ndim == ndim && static_cast<int64_t>(t->dtype) == dtype && !t->conj && !t->neg && t->device.is_cpu();
  for (int64_t i = 0; fits && i < ndim; ++i) {
    fits = sizes[i] < 0 || t->dims[i] == sizes[i];
    // The stride of a dim of one element is never used, nor are those of a tensor without elements.
    fits = fits && (strides[i] < 0 || t->dims[i] < 2 || !t->numel || t->dims[ndim + i] == strides[i]);
  }
  if (fits && (t->storage->data || !t->numel)) return 0;
  return guarded_status([&] {
    std::string wanted;
    for (int64_t i = 0; i < ndim; ++i)
      wanted += (i ? ", " : "") + (sizes[i] < 0 ? std::string("?") : std::to_string(sizes[i]));
    TOCHA_CHECK(false, Runtime, "[compiled graph] input ", position, " must be ", info(static_cast<DType>(dtype)).name,
                "[", wanted, "] laid out as when it was compiled, got ", Tensor::borrow(t));
  });
}
void* data(void* t) {
  TensorObject* o = object_of(t);
  return static_cast<char*>(o->storage->data) + o->offset * itemsize(o->dtype);
}
int64_t size(void* t, int64_t dim) { return object_of(t)->dims[dim]; }
int64_t integer(void* number) { return PyLong_AsLongLong(static_cast<PyObject*>(number)); }
int64_t real_bits(void* number) {
  double value = PyFloat_AsDouble(static_cast<PyObject*>(number));
  return std::bit_cast<int64_t>(value);
}
void* number(int64_t value) { return PyLong_FromLongLong(value); }
void* truth(int value) { return PyBool_FromLong(value); }
void* real(double value) { return PyFloat_FromDouble(value); }
int64_t offset(void* t) { return object_of(t)->offset; }
int64_t stride(void* t, int64_t dim) { return object_of(t)->dims[object_of(t)->ndim + dim]; }

template <class F>
void* made(F&& f) {
  return guarded([&]() -> PyObject* { return f().give(); });
}
void* empty(int64_t dtype, int64_t ndim, const int64_t* sizes, const int64_t* strides) {
  return made([&] {
    size_t n = static_cast<size_t>(ndim);
    return tocha::empty_strided({sizes, n}, {strides, n}, static_cast<DType>(dtype), Device());
  });
}
void* view(void* p, int64_t dtype, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t offset) {
  return made([&] {
    TensorObject* t = object_of(p);
    size_t n = static_cast<size_t>(ndim);
    if (static_cast<int64_t>(t->dtype) == dtype) {  // writes to the base are seen where it is kept for backward
      Tensor alias = alias_of(Tensor::borrow(t), true);
      set_sizes_and_strides(alias, {sizes, n}, {strides, n}, t->offset + offset);
      return alias;
    }
    auto other = static_cast<DType>(dtype);
    ++t->storage->refs;
    int64_t first = t->offset * itemsize(t->dtype) / itemsize(other);
    return make_tensor(StorageRef(t->storage), other, {sizes, n}, {strides, n}, first + offset);
  });
}
void retain(void* t) { Py_XINCREF(static_cast<PyObject*>(t)); }
void release(void* t) { Py_XDECREF(static_cast<PyObject*>(t)); }

void parallel(int64_t n, int64_t grain, int64_t work, void (*fn)(void*, int64_t, int64_t), void* context) {
  ReleaseGil unlocked(work);
  parallel_range(n, grain, fn, context);
}

int fail(int64_t reason) {
  if (reason & TOCHA_INDEX_OUT_OF_RANGE)
    PyErr_SetString(compiled_index_error, "[compiled graph] index out of bounds: it is out of range of its dimension");
  else if (reason & TOCHA_DIVIDED_BY_ZERO)
    PyErr_SetString(PyExc_RuntimeError, "[compiled graph] ZeroDivisionError");
  else
    PyErr_NoMemory();
  return 1;
}

int refuse(const char* error, const char* message) {
  return guarded_status([&] {
    Ref builtins = own(PyImport_ImportModule("builtins"));
    Ref type = own(PyObject_GetAttrString(builtins.get(), error));
    PyErr_SetString(type.get(), message);
    throw PythonError();
  });
}

void flatten(PyObject* result, std::vector<PyObject*>& out) {
  if (!PyTuple_Check(result) && !PyList_Check(result)) return out.push_back(result);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i) flatten(PySequence_Fast_GET_ITEM(result, i), out);
}

// Hands the tensors of a result on to the program, which owns them from now on; those in lists one after the other.
void take_results(PyObject* result, void** results, int64_t count) {
  if (result == Py_None && count == 0) return;  // of what only looks at its operands
  if (is_tensor(result)) {
    TOCHA_CHECK(count == 1, Runtime, "[compiled graph] one result, ", count, " were expected");
    results[0] = Py_NewRef(result);
    return;
  }
  std::vector<PyObject*> all;
  flatten(result, all);
  TOCHA_CHECK(static_cast<int64_t>(all.size()) == count, Runtime, "[compiled graph] ", all.size(), " results, ", count,
              " were expected");
  for (size_t i = 0; i < all.size(); ++i) results[i] = is_tensor(all[i]) ? Py_NewRef(all[i]) : nullptr;
}

int call(void* program, int64_t which, void* const* tensors, int64_t count, const int64_t* sizes, int64_t sizes_count,
         void** results, int64_t results_count) {
  return guarded_status([&] {
    const NativeCall& c = (*static_cast<ProgramObject*>(program)->calls)[static_cast<size_t>(which)];
    std::vector<PyObject*> arguments;
    Ref given_sizes;
    if (c.takes_sizes) {
      for (int64_t i = 0; i < count; ++i) arguments.push_back(static_cast<PyObject*>(tensors[i]));
      given_sizes = own(PyTuple_New(sizes_count));
      for (int64_t i = 0; i < sizes_count; ++i)
        PyTuple_SET_ITEM(given_sizes.get(), i, own(PyLong_FromLongLong(sizes[i])).give());
      arguments.push_back(given_sizes.get());
    } else {
      for (const Ref& a : c.arguments) arguments.push_back(a.get());
      for (int64_t i = 0; i < count; ++i)
        arguments[static_cast<size_t>(c.holes[static_cast<size_t>(i)])] = static_cast<PyObject*>(tensors[i]);
    }
    size_t named = c.keywords ? static_cast<size_t>(PyTuple_GET_SIZE(c.keywords.get())) : 0;
    Ref result = own(PyObject_Vectorcall(c.callable.get(), arguments.data(), arguments.size() - named,
                                         c.keywords ? c.keywords.get() : nullptr));
    take_results(result.get(), results, results_count);
  });
}

void* arena(void* program, int64_t bytes) {
  auto* p = static_cast<ProgramObject*>(program);
  // Taken for the time of the call: another thread, or a call within this one, gets memory of its own.
  if (p->arena) return std::exchange(p->arena, nullptr);
  int64_t one = 1;
  return empty(static_cast<int64_t>(DType::UInt8), 1, &bytes, &one);
}
int reusable(void* p) {
  TensorObject* t = object_of(p);
  return Py_REFCNT(p) == 1 && Py_TYPE(p) == tensor_type && t->storage->refs == 1 && !t->base && !t->autograd &&
         !t->offset;
}
void end_arena(void* program, void* t) {
  auto* p = static_cast<ProgramObject*>(program);
  if (p->keeps_arena && !p->arena)
    p->arena = static_cast<PyObject*>(t);
  else
    release(t);
}

void ran(void* program, int64_t kernel, int64_t began) {
  const auto& names = *static_cast<ProgramObject*>(program)->names;
  const char* name = static_cast<size_t>(kernel) < names.size() ? names[static_cast<size_t>(kernel)] : "kernel";
  profile::add_range(profile::Kind::kernel, name, began);
}

int product(const tocha_product* p) {
  return guarded_status([&] { run_product(*p); });
}
int convolution(const tocha_convolution* c) {
  return guarded_status([&] { run_convolution(*c); });
}

const tocha_api api = {kTochaApiVersion, expect, data,     size,
                       stride,           empty,  view,     retain,
                       release,          call,   parallel, fail,
                       integer,          arena,  reusable, end_arena,
                       real_bits,        number, real,     &profile::recording,
                       profile::now,     ran,    product,  convolution,
                       refuse,           offset, truth};

// inputs: room for the constants behind those that are given. Throws what the program raises.
Ref enter(ProgramObject* p, void** inputs, size_t given, bool owned) {
  for (size_t i = 0; i < p->constants->size(); ++i) inputs[given + i] = (*p->constants)[i].get();
  Ref result = own(PyTuple_New(p->outputs));
  constexpr size_t kInline = 32;
  void* few[kInline] = {};
  std::vector<void*> many(p->outputs > static_cast<int>(kInline) ? static_cast<size_t>(p->outputs) : 0);
  void** outputs = many.empty() ? few : many.data();
  std::optional<profile::Range> range;
  if (profile::watching) [[unlikely]]
    range.emplace(profile::Kind::kernel, "## Call CompiledFxGraph ##");
  int failed = p->entry(&api, p, inputs, owned, outputs);
  for (int i = 0; i < p->outputs; ++i)
    PyTuple_SET_ITEM(result.get(), i, outputs[i] ? static_cast<PyObject*>(outputs[i]) : Py_NewRef(Py_None));
  if (failed) throw PythonError();
  return result;
}

PyObject* run_program(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    auto* p = reinterpret_cast<ProgramObject*>(self);
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    TOCHA_CHECK(n == p->inputs && !names, Type, "[compiled graph] takes ", p->inputs, " arguments, got ", n);
    constexpr size_t kInline = 32;
    void* few[kInline];
    std::vector<void*> many;
    size_t all = static_cast<size_t>(n) + p->constants->size();
    void** inputs = few;
    if (all > kInline) {
      many.resize(all);
      inputs = many.data();
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      TOCHA_CHECK(is_tensor(args[i]) || PyLong_Check(args[i]) || PyFloat_Check(args[i]), Type,
                  "[compiled graph] input ", i, " must be a tensor or a number");
      inputs[i] = args[i];
    }
    return enter(p, inputs, static_cast<size_t>(n), false).give();
  });
}

// (callable, arguments, holes, keywords or None, takes_sizes)
NativeCall native_call(PyObject* row) {
  PyObject *callable, *arguments, *holes, *keywords;
  int takes_sizes;
  if (!PyArg_ParseTuple(row, "OO!O!Op", &callable, &PyTuple_Type, &arguments, &PyTuple_Type, &holes, &keywords,
                        &takes_sizes))
    throw PythonError();
  NativeCall c{Ref::borrow(callable), {}, {}, keywords == Py_None ? Ref() : Ref::borrow(keywords), takes_sizes != 0};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
    c.arguments.push_back(Ref::borrow(PyTuple_GET_ITEM(arguments, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(holes); ++i) {
    long at = PyLong_AsLong(PyTuple_GET_ITEM(holes, i));
    TOCHA_CHECK(takes_sizes || (at >= 0 && at < static_cast<long>(c.arguments.size())), Runtime,
                "[compiled graph] no argument ", at);
    c.holes.push_back(static_cast<int>(at));
  }
  return c;
}

// _load_program(path, constants, calls, inputs, outputs, keeps_arena=False, names=()): `names` are those of its
// kernels.
PyObject* load_program(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *path, *constants, *calls, *names = nullptr;
    int inputs, outputs, keeps_arena = 0;
    if (!PyArg_ParseTuple(args, "UO!O!ii|pO!", &path, &PyTuple_Type, &constants, &PyTuple_Type, &calls, &inputs,
                          &outputs, &keeps_arena, &PyTuple_Type, &names))
      throw PythonError();
    std::vector<NativeCall> rows;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls); ++i) rows.push_back(native_call(PyTuple_GET_ITEM(calls, i)));
    std::vector<Ref> kept;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i)
      kept.push_back(Ref::borrow(PyTuple_GET_ITEM(constants, i)));
    void* library = dlopen(text_of(path).c_str(), RTLD_NOW | RTLD_LOCAL);
    TOCHA_CHECK(library, Runtime, "[compiled graph] cannot be loaded: ", dlerror());
    void* entry = dlsym(library, "tocha_program");
    TOCHA_CHECK(entry, Runtime, "[compiled graph] has no entry: ", text_of(path));
    auto* made = PyObject_New(ProgramObject, program_type);
    if (!made) throw PythonError();
    made->vectorcall = run_program;
    made->library = library;
    made->entry = reinterpret_cast<tocha_program_entry>(entry);
    made->constants = new std::vector<Ref>(std::move(kept));
    made->calls = new std::vector<NativeCall>(std::move(rows));
    made->inputs = inputs;
    made->outputs = outputs;
    made->keeps_arena = keeps_arena != 0;
    made->arena = nullptr;
    made->names = new std::vector<const char*>();
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      made->names->push_back(profile::keep_name(text_of(PyTuple_GET_ITEM(names, i))));
    return reinterpret_cast<PyObject*>(made);
  });
}

void free_program(PyObject* self) {
  auto* p = reinterpret_cast<ProgramObject*>(self);
  delete p->constants;
  delete p->calls;
  delete p->names;
  Py_XDECREF(p->arena);
  dlclose(p->library);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ProgramObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot type_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(free_program)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec type_spec = {"tocha._C._CompiledProgram", sizeof(ProgramObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         type_slots};

}  // namespace

bool is_program(PyObject* o) { return Py_TYPE(o) == program_type; }

Ref run_program_on(PyObject* program, std::vector<Ref>&& given) {
  auto* p = reinterpret_cast<ProgramObject*>(program);
  TOCHA_CHECK(given.size() == static_cast<size_t>(p->inputs), Type, "[compiled graph] takes ", p->inputs,
              " arguments, got ", given.size());
  struct Owned {
    explicit Owned(size_t n) : inputs(n), count(0) {}
    ~Owned() {
      for (size_t i = 0; i < count; ++i) Py_XDECREF(static_cast<PyObject*>(inputs[i]));
    }
    std::vector<void*> inputs;
    size_t count;
  } owned(given.size() + p->constants->size());
  for (Ref& r : given) owned.inputs[owned.count++] = r.give();
  return enter(p, owned.inputs.data(), owned.count, true);
}

void add_compiled_program_type(PyObject* module) {
  Ref type = own(PyType_FromSpec(&type_spec));
  program_type = reinterpret_cast<PyTypeObject*>(type.get());
  check(PyModule_AddObjectRef(module, "_CompiledProgram", type.get()));
  type.give();
}

void add_compiled_program_functions(std::vector<PyMethodDef>& functions) {
  functions.push_back({"_load_program", load_program, METH_VARARGS, nullptr});
}

}  // namespace tocha::python
