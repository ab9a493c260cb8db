// NumPy arrays, buffers and array interfaces to tensors and back. Knows NumPy only through the protocols it documents
// (__array_struct__, __array_interface__), so it needs no NumPy to build and works with every NumPy.
#include "python/exchange.h"

#include <cstring>
#include <memory>
#include <string>

#include "core/modes.h"
#include "core/sparse.h"
#include "dispatch/rules.h"
#include "python/pinned_storage.h"
#include "python/types.h"

namespace tocha::python {
namespace {

// The struct behind __array_struct__, as NumPy's documentation of the array interface lays it out.
struct ArrayStruct {
  int two;  // 2: a sanity check
  int nd;
  char typekind;
  int itemsize;
  int flags;
  Py_intptr_t* shape;
  Py_intptr_t* strides;  // in bytes
  void* data;
  PyObject* descr;
};
constexpr int kNotSwapped = 0x200;
constexpr int kAligned = 0x100;
constexpr int kWriteable = 0x400;

struct ForeignArray {
  void* data = nullptr;
  Ints sizes;
  Ints strides;  // in bytes
  DType dtype = DType::Undefined;
  bool writable = true;
};

constexpr const char* kSupported =
    "The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, "
    "uint64, uint32, uint16, uint8, and bool.";

// A kind letter of the array interface and a size; Undefined for what a tensor cannot hold.
DType dtype_of_kind(char kind, int64_t size) {
  switch (kind) {
    case 'b':
      return size == 1 ? DType::Bool : DType::Undefined;
    case 'i':
      return size == 1   ? DType::Int8
             : size == 2 ? DType::Int16
             : size == 4 ? DType::Int32
             : size == 8 ? DType::Int64
                         : DType::Undefined;
    case 'u':
      return size == 1   ? DType::UInt8
             : size == 2 ? DType::UInt16
             : size == 4 ? DType::UInt32
             : size == 8 ? DType::UInt64
                         : DType::Undefined;
    case 'f':
      return size == 2 ? DType::Float16 : size == 4 ? DType::Float32 : size == 8 ? DType::Float64 : DType::Undefined;
    case 'c':
      return size == 8 ? DType::Complex64 : size == 16 ? DType::Complex128 : DType::Undefined;
    default:
      return DType::Undefined;
  }
}

char kind_of_dtype(DType d) {
  switch (info(d).kind) {
    case Kind::boolean:
      return 'b';
    case Kind::integer:
      return info(d).is_signed ? 'i' : 'u';
    case Kind::floating:
      return 'f';
    case Kind::complex:
      break;
  }
  return 'c';
}

void check_byte_order(bool native) {
  TOCHA_CHECK(native, Value,
              "given numpy array has byte order different from the native byte order. Conversion between byte orders "
              "is currently not supported.");
}

struct Layout {
  Ints strides;  // in elements
  size_t nbytes;
};

// What a tensor on this memory needs; refuses what no tensor can describe, and warns of what it may not write.
Layout checked_layout(const ForeignArray& a) {
  check_foreign_strides(a.strides, "numpy array");
  int64_t size = itemsize(a.dtype);
  Ints strides(a.strides.size());
  for (int64_t i = 0; i < strides.size(); ++i) {
    TOCHA_CHECK(a.strides[i] % size == 0, Value,
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                "reallocate the memory.");
    strides[i] = a.strides[i] / size;
  }
  size_t nbytes = bytes_needed(a.sizes, strides, 0, size);
  TOCHA_CHECK(a.data || !nbytes, Value, "the given array has elements but no memory");
  if (!a.writable) warn_read_only("NumPy array");
  return {std::move(strides), nbytes};
}

// Storages let go of their memory under the GIL.
void release_object(Storage& s) { Py_DECREF(static_cast<PyObject*>(s.context)); }

// On the memory of `owner`, kept alive by a reference to it.
Tensor share_object(const ForeignArray& a, PyObject* owner) {
  Layout layout = checked_layout(a);
  StorageRef s = borrow_storage(a.data, layout.nbytes, Device{}, release_object, Py_NewRef(owner));
  return make_tensor(std::move(s), a.dtype, a.sizes, layout.strides, 0);
}

// ---- __array_struct__

std::string numpy_type_name(PyObject* array) {
  Ref dtype = attribute(array, "dtype");
  Ref type = attribute(dtype.get(), "type");
  return reinterpret_cast<PyTypeObject*>(type.get())->tp_name;
}

const ArrayStruct& array_struct(PyObject* capsule) {
  auto* a = static_cast<ArrayStruct*>(PyCapsule_GetPointer(capsule, nullptr));
  if (!a) throw PythonError();
  TOCHA_CHECK(a->two == 2, Value, "invalid __array_struct__");
  return *a;
}

ForeignArray describe(const ArrayStruct& a) {
  ForeignArray out;
  out.data = a.data;
  for (int i = 0; i < a.nd; ++i) out.sizes.push_back(a.shape[i]);
  if (a.strides) {
    for (int i = 0; i < a.nd; ++i) out.strides.push_back(a.strides[i]);
  } else {
    out.strides = contiguous_strides(out.sizes);
    for (int64_t& s : out.strides) s *= a.itemsize;
  }
  check_byte_order((a.flags & kNotSwapped) != 0 || a.itemsize == 1);
  out.dtype = dtype_of_kind(a.typekind, a.itemsize);
  out.writable = (a.flags & kWriteable) != 0;
  return out;
}

// ---- __array_interface__

PyObject* entry(PyObject* dict, const char* key) {  // borrowed; null for a missing entry or None
  PyObject* value = PyDict_GetItemString(dict, key);
  return value == Py_None ? nullptr : value;
}

Ints ints_of(PyObject* o, const char* what) {
  TOCHA_CHECK(PyTuple_Check(o), Type, "__array_interface__: ", what, " must be a tuple, not ", Py_TYPE(o)->tp_name);
  Ints out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) out.push_back(as_int(PyTuple_GET_ITEM(o, i)));
  return out;
}

// '<f4': byte order, kind, size.
DType dtype_of_typestr(const std::string& s) {
  bool good = s.size() >= 3 && s.size() <= 5 && s.find_first_not_of("0123456789", 2) == std::string::npos;
  TOCHA_CHECK(good, Type, "__array_interface__: unsupported typestr '", s, "'");
  check_byte_order(s[0] == '|' || s[0] == '=' || (s[0] == '<') == (PY_LITTLE_ENDIAN != 0));
  DType d = dtype_of_kind(s[1], std::stoi(s.substr(2)));
  TOCHA_CHECK(d != DType::Undefined, Type, "can't convert an array of type '", s, "'. ", kSupported);
  return d;
}

Tensor from_interface_dict(PyObject* o, PyObject* dict) {
  TOCHA_CHECK(PyDict_Check(dict), Type, "__array_interface__ must be a dict, not ", Py_TYPE(dict)->tp_name);
  PyObject *shape = entry(dict, "shape"), *typestr = entry(dict, "typestr"), *data = entry(dict, "data");
  TOCHA_CHECK(shape && typestr && PyUnicode_Check(typestr), Value, "__array_interface__ lacks shape or typestr");
  TOCHA_CHECK(data && PyTuple_Check(data) && PyTuple_GET_SIZE(data) == 2, Type,
              "__array_interface__: data must be a tuple of an address and a read-only flag");
  TOCHA_CHECK(!entry(dict, "mask"), Type, "__array_interface__: masked arrays are not supported");
  ForeignArray a;
  a.sizes = ints_of(shape, "shape");
  a.dtype = dtype_of_typestr(text_of(typestr));
  a.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
  int read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1));
  if (PyErr_Occurred()) throw PythonError();
  a.writable = read_only == 0;
  if (PyObject* strides = entry(dict, "strides")) {
    a.strides = ints_of(strides, "strides");
    TOCHA_CHECK(a.strides.size() == a.sizes.size(), Value, "__array_interface__: shape and strides differ in length");
  } else {
    a.strides = contiguous_strides(a.sizes);
    for (int64_t& s : a.strides) s *= itemsize(a.dtype);
  }
  return share_object(a, o);
}

// ---- The buffer protocol

struct OpenBuffer {
  Py_buffer view{};
  ~OpenBuffer() {
    if (view.obj) PyBuffer_Release(&view);
  }
};

void release_buffer(Storage& s) { delete static_cast<OpenBuffer*>(s.context); }

// Writable when it can be; the view says which it is.
std::unique_ptr<OpenBuffer> open_buffer(PyObject* o, int flags) {
  auto b = std::make_unique<OpenBuffer>();
  if (PyObject_GetBuffer(o, &b->view, flags | PyBUF_WRITABLE) == 0) return b;
  PyErr_Clear();
  TOCHA_CHECK(PyObject_GetBuffer(o, &b->view, flags) == 0, Runtime, "could not retrieve buffer from object");
  return b;
}

DType dtype_of_format(const char* format, int64_t size) {
  const char* code = format ? format : "B";
  bool native = true;
  if (*code && std::strchr("@=<>!", *code)) {
    native = *code == '@' || *code == '=' || (*code == '<') == (PY_LITTLE_ENDIAN != 0);
    ++code;
  }
  bool complex = *code == 'Z';
  if (complex) ++code;
  DType d = DType::Undefined;
  if (*code && !code[1]) {
    char kind = complex                        ? 'c'
                : *code == '?'                 ? 'b'
                : std::strchr("bhilqn", *code) ? 'i'
                : std::strchr("BHILQN", *code) ? 'u'
                : std::strchr("efd", *code)    ? 'f'
                                               : ' ';
    d = dtype_of_kind(kind, size);
  }
  TOCHA_CHECK(d != DType::Undefined, Type, "can't convert a buffer of format '", format ? format : "", "'. ",
              kSupported);
  check_byte_order(native || size == 1);
  return d;
}

Tensor from_any_buffer(PyObject* o) {
  std::unique_ptr<OpenBuffer> b = open_buffer(o, PyBUF_STRIDES | PyBUF_FORMAT);
  ForeignArray a;
  a.data = b->view.buf;
  a.writable = !b->view.readonly;
  a.dtype = dtype_of_format(b->view.format, b->view.itemsize);
  for (int i = 0; i < b->view.ndim; ++i) {
    a.sizes.push_back(b->view.shape[i]);
    a.strides.push_back(b->view.strides[i]);
  }
  Layout layout = checked_layout(a);
  StorageRef s = borrow_storage(a.data, layout.nbytes, Device{}, release_buffer, b.release());
  return make_tensor(std::move(s), a.dtype, a.sizes, layout.strides, 0);
}

// ---- To NumPy

// What numpy.asarray reads and what then keeps the memory alive, as the array's base.
struct ArrayHolder {
  PyObject_VAR_HEAD PinnedStorage* storage;
  ArrayStruct array;
  Py_intptr_t dims[1];  // shape, then strides
};

void holder_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<ArrayHolder*>(self)->storage;
  type->tp_free(self);
  Py_DECREF(type);
}

void release_holder(PyObject* capsule) { Py_XDECREF(static_cast<PyObject*>(PyCapsule_GetContext(capsule))); }

PyObject* holder_array_struct(PyObject* self, void*) {
  return guarded([&] {
    Ref capsule = own(PyCapsule_New(&reinterpret_cast<ArrayHolder*>(self)->array, nullptr, release_holder));
    check(PyCapsule_SetContext(capsule.get(), Py_NewRef(self)));
    return capsule.give();
  });
}

PyGetSetDef holder_getters[] = {{"__array_struct__", holder_array_struct, nullptr, nullptr, nullptr}, {}};
PyType_Slot holder_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(holder_dealloc)},
    {Py_tp_getset, holder_getters},
    {0, nullptr},
};
PyType_Spec holder_spec = {"tocha._C.ArrayHolder", sizeof(ArrayHolder), sizeof(Py_intptr_t),
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, holder_slots};

PyObject* new_holder(const Tensor& t) {
  static auto* type = reinterpret_cast<PyTypeObject*>(own(PyType_FromSpec(&holder_spec)).give());
  Ref self = own(type->tp_alloc(type, 2 * t.dim()));
  auto* h = reinterpret_cast<ArrayHolder*>(self.get());
  h->storage = new PinnedStorage(t.storage_ref());
  int n = static_cast<int>(t.dim());
  static char nothing[16];  // NumPy takes a null pointer for a request to allocate
  void* data = t.numel() ? t.bytes() : nothing;
  h->array = {2,
              n,
              kind_of_dtype(t.dtype()),
              static_cast<int>(t.itemsize()),
              kNotSwapped | kAligned | kWriteable,
              h->dims,
              h->dims + n,
              data,
              nullptr};
  for (int i = 0; i < n; ++i) {
    h->dims[i] = t.size(i);
    h->dims[n + i] = t.stride(i) * t.itemsize();
  }
  return self.give();
}

void check_exportable(const Tensor& t) {
  TOCHA_CHECK(!is_sparse(t), Type, "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.");
  TOCHA_CHECK(t.is_cpu(), Type, "can't convert ", t.device(),
              " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
  TOCHA_CHECK(!modes().grad || !requires_grad(t), Runtime,
              "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
  TOCHA_CHECK(!t.is_conj(), Runtime,
              "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead.");
  TOCHA_CHECK(!t.is_neg(), Runtime,
              "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead.");
  const bool known = t.dtype() != DType::BFloat16 && t.dtype() != DType::Complex32 && !is_float8(t.dtype());
  TOCHA_CHECK(known, Type, "Got unsupported ScalarType ", t.dtype(), ": numpy has no such type");
}

Tensor forced(Tensor t) {
  for (const char* step : {"detach", "cpu", "resolve_conj", "resolve_neg"}) t = call_tensor_method(t, step);
  return t;
}

}  // namespace

Ref attribute(PyObject* o, const char* name) {
  Ref key = own(PyUnicode_InternFromString(name));
  return own(PyObject_GetAttr(o, key.get()));
}

Ref attribute_or_null(PyObject* o, const char* name) {
  Ref key = own(PyUnicode_InternFromString(name));
  PyObject* found = PyObject_GetAttr(o, key.get());
  if (!found) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
    PyErr_Clear();
  }
  return Ref(found);
}

bool requires_grad(const Tensor& t) {
  if (!t.get()->requires_grad && !t.get()->autograd) return false;
  Ref flag = attribute(t.object(), "requires_grad");
  return flag.get() == Py_True;
}

Tensor call_tensor_method(const Tensor& t, const char* name) {
  Ref result = own(PyObject_CallNoArgs(attribute(t.object(), name).get()));
  TOCHA_CHECK(PyObject_TypeCheck(result.get(), tensor_type), Type, "Tensor.", name, " gave no tensor but ",
              Py_TYPE(result.get())->tp_name);
  return Tensor::borrow(result.get());
}

void warn_read_only(const char* what) {
  warn_once(str("The given ", what,
                " is not writable, and tocha does not support non-writable tensors. This means writing to this tensor "
                "will result in undefined behavior. You may want to copy the array to protect its data or make it "
                "writable before converting it to a tensor. This type of warning will be suppressed for the rest of "
                "this program."));
}

void check_foreign_strides(IntsView strides, const char* what) {
  for (int64_t s : strides)
    TOCHA_CHECK(s >= 0, Value, "At least one stride in the given ", what,
                " is negative, and tensors with negative strides are not currently supported. (You can probably work "
                "around this by making a copy of your array with array.copy().)");
}

Tensor from_numpy(PyObject* array) {
  const NumpyTypes* np = loaded_numpy();
  TOCHA_CHECK(np && PyObject_TypeCheck(array, np->ndarray), Type, "expected np.ndarray (got ", Py_TYPE(array)->tp_name,
              ")");
  static PyObject* const name = PyUnicode_InternFromString("__array_struct__");
  Ref capsule = own(PyObject_GetAttr(array, name));
  ForeignArray a = describe(array_struct(capsule.get()));
  TOCHA_CHECK(a.dtype != DType::Undefined, Type, "can't convert np.ndarray of type ", numpy_type_name(array), ". ",
              kSupported);
  return share_object(a, array);
}

bool is_numpy_array(PyObject* o) {
  const NumpyTypes* np = loaded_numpy();
  return np && PyType_IsSubtype(Py_TYPE(o), np->ndarray);
}

bool has_array_interface(PyObject* o) {
  return attribute_or_null(o, "__array_struct__") || attribute_or_null(o, "__array_interface__");
}

DType array_dtype(PyObject* o) {
  Ref capsule = attribute_or_null(o, "__array_struct__");
  if (!capsule) return from_array_interface(o).dtype();
  DType d = describe(array_struct(capsule.get())).dtype;
  TOCHA_CHECK(d != DType::Undefined, Type, "can't convert np.ndarray of type ", numpy_type_name(o), ". ", kSupported);
  return d;
}

Tensor readable_array(PyObject* array) {
  Ref capsule = attribute(array, "__array_struct__");
  const ArrayStruct& raw = array_struct(capsule.get());
  if (!(raw.flags & kNotSwapped) && raw.itemsize > 1) return Tensor();
  ForeignArray a = describe(raw);
  if (a.dtype == DType::Undefined) return Tensor();
  for (int64_t stride : a.strides)
    if (stride < 0 || stride % itemsize(a.dtype)) return Tensor();
  a.writable = true;  // nobody is going to write, so there is nothing to warn of
  return share_object(a, array);
}

Tensor from_array_interface(PyObject* o) {
  if (Ref capsule = attribute_or_null(o, "__array_struct__")) {
    ForeignArray a = describe(array_struct(capsule.get()));
    TOCHA_CHECK(a.dtype != DType::Undefined, Type, "can't convert the array of ", Py_TYPE(o)->tp_name, ". ",
                kSupported);
    // The capsule keeps the description alive, and through it the memory.
    return share_object(a, own(PyTuple_Pack(2, o, capsule.get())).get());
  }
  if (Ref dict = attribute_or_null(o, "__array_interface__")) return from_interface_dict(o, dict.get());
  TOCHA_CHECK(PyObject_CheckBuffer(o), Type, "expected an object with an array interface or a buffer, not ",
              Py_TYPE(o)->tp_name);
  return from_any_buffer(o);
}

Tensor from_buffer(PyObject* buffer, DType dtype, int64_t count, int64_t offset) {
  TOCHA_CHECK(PyObject_CheckBuffer(buffer), Value, "object does not implement Python buffer protocol.");
  std::unique_ptr<OpenBuffer> b = open_buffer(buffer, PyBUF_SIMPLE);
  int64_t length = b->view.len, size = itemsize(dtype);
  TOCHA_CHECK(length > 0 && count != 0, Value, "both buffer length (", length, ") and count (", count,
              ") must not be 0");
  TOCHA_CHECK(offset >= 0 && offset < length, Value, "offset (", offset,
              " bytes) must be non-negative and no greater than buffer length (", length, " bytes) minus 1");
  if (count < 0) {
    TOCHA_CHECK((length - offset) % size == 0, Value, "buffer length (", length - offset, " bytes) after offset (",
                offset, " bytes) must be a multiple of element size (", size, ")");
    count = (length - offset) / size;
  }
  TOCHA_CHECK(count <= (length - offset) / size, Value, "requested buffer length (", count, " * ", size,
              " bytes) after offset (", offset, " bytes) must not be greater than actual buffer length (", length,
              " bytes)");
  if (b->view.readonly) warn_read_only("buffer");
  char* data = static_cast<char*>(b->view.buf) + offset;
  StorageRef s = borrow_storage(data, static_cast<size_t>(count * size), Device{}, release_buffer, b.release());
  return make_tensor(std::move(s), dtype, Ints{count}, Ints{1}, 0);
}

PyObject* to_numpy(const Tensor& t, bool force) {
  if (force) return to_numpy(forced(t), false);
  check_exportable(t);
  static PyObject* asarray = cached_attribute("numpy", "asarray");
  Ref holder = own(new_holder(t));
  return own(PyObject_CallOneArg(asarray, holder.get())).give();
}

}  // namespace tocha::python
