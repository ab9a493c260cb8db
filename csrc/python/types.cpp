// dtype, layout and memory_format: singletons that pickle by name. The bindings and the parser call this;
// Size, device, Generator, UntypedStorage and numbers have files of their own.
#include "python/types.h"

#include <cstring>
#include <string>

#include "core/dtype_messages.h"
#include "python/library_name.h"

namespace tocha::python {

PyTypeObject* dtype_type = nullptr;
PyTypeObject* layout_type = nullptr;
PyTypeObject* memory_format_type = nullptr;

PyTypeObject* add_type(PyObject* module, PyType_Spec& spec) {
  PyObject* type = own(PyType_FromSpec(&spec)).give();
  const char* dot = std::strrchr(spec.name, '.');
  check(PyModule_AddObjectRef(module, dot ? dot + 1 : spec.name, type));
  return reinterpret_cast<PyTypeObject*>(type);
}

namespace {

PyObject* dtypes[kNumDTypes];

const char* const kShortNames[kNumDTypes] = {
#define _(e, t, n, c) #c,
    TOCHA_FORALL_DTYPES(_)
#undef _
};

DType dtype_of(PyObject* self) { return reinterpret_cast<DTypeObject*>(self)->value; }

PyObject* dtype_repr(PyObject* self) {
  return PyUnicode_FromFormat("%s.%s", library_name, python_name(dtype_of(self)));
}
// Pickle and copy look the name up in module tocha, and so find the same object.
PyObject* dtype_reduce(PyObject* self, PyObject*) { return PyUnicode_FromString(python_name(dtype_of(self))); }

PyObject* dtype_to_real(PyObject* self, PyObject*) { return Py_NewRef(dtype_object(real_dtype(dtype_of(self)))); }

PyObject* dtype_to_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    DType d = dtype_of(self);
    bool known = is_complex(d) || (is_floating(d) && !is_float8(d));
    TOCHA_CHECK(known, Runtime, "[to_complex] Unknown Complex ScalarType for ", info(d).name);
    return Py_NewRef(dtype_object(is_complex(d) ? d : complex_dtype(d)));
  });
}

PyObject* dtype_is_floating_point(PyObject* self, void*) { return PyBool_FromLong(is_floating(dtype_of(self))); }
PyObject* dtype_is_complex(PyObject* self, void*) { return PyBool_FromLong(is_complex(dtype_of(self))); }
PyObject* dtype_is_signed(PyObject* self, void*) { return PyBool_FromLong(info(dtype_of(self)).is_signed); }
PyObject* dtype_itemsize(PyObject* self, void*) { return PyLong_FromLong(info(dtype_of(self)).itemsize); }
PyObject* dtype_abbr(PyObject* self, void*) {
  DType d = dtype_of(self);
  return PyUnicode_FromString(d == DType::Bool ? "b8" : kShortNames[static_cast<int>(d)]);
}

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of the real part."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex dtype whose parts have this dtype."},
    {},
};
PyGetSetDef dtype_getters[] = {
    {"is_floating_point", dtype_is_floating_point, nullptr, nullptr, nullptr},
    {"is_complex", dtype_is_complex, nullptr, nullptr, nullptr},
    {"is_signed", dtype_is_signed, nullptr, nullptr, nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes per element.", nullptr},
    {"abbr", dtype_abbr, nullptr, "A short name: f32, i64, ...", nullptr},
    {},
};
PyType_Slot dtype_slots[] = {
    {Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
    {Py_tp_methods, dtype_methods},
    {Py_tp_getset, dtype_getters},
    {0, nullptr},
};
constexpr unsigned kSingletonFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
PyType_Spec dtype_spec = {"tocha.dtype", sizeof(DTypeObject), 0, kSingletonFlags, dtype_slots};

PyObject* allocate(PyTypeObject* type) { return own(type->tp_alloc(type, 0)).give(); }

void add_dtypes(PyObject* module) {
  dtype_type = add_type(module, dtype_spec);
  for (int i = 0; i < kNumDTypes; ++i) {
    PyObject* o = dtypes[i] = allocate(dtype_type);
    reinterpret_cast<DTypeObject*>(o)->value = static_cast<DType>(i);
    check(PyModule_AddObjectRef(module, python_name(static_cast<DType>(i)), o));
  }
  constexpr std::pair<const char*, DType> aliases[] = {
      {"half", DType::Float16},     {"float", DType::Float32},      {"double", DType::Float64},
      {"short", DType::Int16},      {"int", DType::Int32},          {"long", DType::Int64},
      {"cfloat", DType::Complex64}, {"cdouble", DType::Complex128}, {"chalf", DType::Complex32},
  };
  for (auto [name, d] : aliases) check(PyModule_AddObjectRef(module, name, dtype_object(d)));
}

PyObject* named_repr(PyObject* self) {
  return PyUnicode_FromFormat("%s.%s", library_name, reinterpret_cast<NamedObject*>(self)->name);
}
PyObject* named_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(reinterpret_cast<NamedObject*>(self)->name);
}
PyMethodDef named_methods[] = {{"__reduce__", named_reduce, METH_NOARGS, nullptr}, {}};
PyType_Slot named_slots[] = {
    {Py_tp_repr, reinterpret_cast<void*>(named_repr)},
    {Py_tp_methods, named_methods},
    {0, nullptr},
};
PyType_Spec layout_spec = {"tocha.layout", sizeof(NamedObject), 0, kSingletonFlags, named_slots};
PyType_Spec memory_format_spec = {"tocha.memory_format", sizeof(NamedObject), 0, kSingletonFlags, named_slots};

constexpr const char* kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                    "sparse_bsr", "sparse_bsc", "_mkldnn",    "jagged"};
constexpr const char* kMemoryFormats[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
PyObject* layouts[std::size(kLayouts)];
PyObject* memory_formats[std::size(kMemoryFormats)];

template <size_t n>
void add_named(PyObject* module, PyTypeObject* type, const char* const (&names)[n], PyObject* (&objects)[n]) {
  for (size_t i = 0; i < n; ++i) {
    PyObject* o = objects[i] = allocate(type);
    reinterpret_cast<NamedObject*>(o)->value = static_cast<int>(i);
    reinterpret_cast<NamedObject*>(o)->name = names[i];
    check(PyModule_AddObjectRef(module, names[i], o));
  }
}

}  // namespace

PyObject* dtype_object(DType d) { return dtypes[static_cast<int>(d)]; }

bool is_dtype_like(PyObject* o) {
  if (Py_TYPE(o) == dtype_type) return true;
  auto* type = reinterpret_cast<PyTypeObject*>(o);
  return type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyComplex_Type;
}

DType as_dtype(PyObject* o) {
  if (Py_TYPE(o) == dtype_type) return dtype_of(o);
  auto* type = reinterpret_cast<PyTypeObject*>(o);
  if (type == &PyFloat_Type) return DType::Float64;
  if (type == &PyLong_Type) return DType::Int64;
  if (type == &PyBool_Type) return DType::Bool;
  if (type == &PyComplex_Type) return DType::Complex128;
  fail(ErrorKind::Type, "argument 'dtype' must be tocha.dtype, not ", Py_TYPE(o)->tp_name);
}

PyObject* memory_format_object(MemoryFormat f) { return memory_formats[static_cast<int>(f)]; }

MemoryFormat as_memory_format(PyObject* o) {
  TOCHA_CHECK(Py_TYPE(o) == memory_format_type, Type, "a memory format must be tocha.memory_format, not ",
              Py_TYPE(o)->tp_name);
  return static_cast<MemoryFormat>(reinterpret_cast<NamedObject*>(o)->value);
}

PyObject* layout_object(bool sparse) { return layouts[sparse ? 1 : 0]; }

void add_types(PyObject* module) {
  add_dtypes(module);
  layout_type = add_type(module, layout_spec);
  add_named(module, layout_type, kLayouts, layouts);
  memory_format_type = add_type(module, memory_format_spec);
  add_named(module, memory_format_type, kMemoryFormats, memory_formats);
  add_size_type(module);
  add_device_type(module);
  add_generator_type(module);
  add_storage_type(module);
  add_leased_block_type(module);
}

}  // namespace tocha::python
