// tocha.UntypedStorage: the bytes under a tensor, as Python sees them. Tensors hand it out, serialization reads it.
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "core/companions.h"
#include "python/library_name.h"
#include "python/pinned_storage.h"
#include "python/shared_memory.h"
#include "python/types.h"

namespace tocha::python {

PyTypeObject* storage_type = nullptr;

namespace {

struct StorageObject {
  PyObject_HEAD Storage* storage;  // counted
  PyObject* dict;
  PyObject* weakrefs;
};

StorageObject* object_of(PyObject* self) { return reinterpret_cast<StorageObject*>(self); }
Storage& storage_of(PyObject* self) { return *object_of(self)->storage; }
uint8_t* bytes_of(PyObject* self) { return static_cast<uint8_t*>(storage_of(self).data); }
int64_t size_of(PyObject* self) { return static_cast<int64_t>(storage_of(self).nbytes); }

void check_readable(PyObject* self, const char* what) {
  Device d = storage_of(self).device;
  TOCHA_CHECK(d.is_cpu(), NotImplemented, "[", what, "] Not available for '", name(d.type), "' device type");
}

PyObject* wrap_storage(PyTypeObject* type, StorageRef storage) {
  Ref self = own(type->tp_alloc(type, 0));
  storage->wrapper = self.get();
  object_of(self.get())->storage = storage.give();
  return self.give();
}

uint8_t as_byte(PyObject* o) {
  Ref index = own(PyNumber_Index(o));
  unsigned long long v = PyLong_AsUnsignedLongLongMask(index.get());
  if (PyErr_Occurred()) throw PythonError();
  return static_cast<uint8_t>(v);
}

bool is_byte_like(PyObject* o) { return PyBool_Check(o) || is_int(o); }

// ---- Making storages.

StorageRef storage_of_size(int64_t nbytes, Device device) {
  TOCHA_CHECK(nbytes >= 0, Runtime, "[UntypedStorage] the size must not be negative, got ", nbytes);
  return new_storage(static_cast<size_t>(nbytes), device);
}

StorageRef copy_of_bytes(const void* data, size_t nbytes, Device device) {
  StorageRef s = new_storage(nbytes, device);
  if (nbytes && device.is_cpu()) std::memcpy(s->data, data, nbytes);
  return s;
}

StorageRef storage_of_sequence(PyObject* o, Device device) {
  const char* kind = Py_TYPE(o)->tp_name;
  TOCHA_CHECK(PySequence_Check(o) && !PyObject_TypeCheck(o, tensor_type), Runtime,
              "tocha.UntypedStorage(): Expected a sequence type, but got ", kind);
  Ref items = own(PySequence_Fast(o, "expected a sequence"));
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
  std::string bytes(static_cast<size_t>(n), '\0');
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    TOCHA_CHECK(is_byte_like(item), Runtime, "tocha.UntypedStorage(): tried to construct a storage from a sequence (",
                kind, "), but one of the items was of type ", Py_TYPE(item)->tp_name, " instead of int");
    bytes[static_cast<size_t>(i)] = static_cast<char>(as_byte(item));
  }
  return copy_of_bytes(bytes.data(), bytes.size(), device);
}

StorageRef storage_from(PyObject* source, Device device) {
  if (!source) return new_storage(0, device);
  if (is_int(source)) return storage_of_size(as_int(source), device);
  if (PyBytes_Check(source))
    return copy_of_bytes(PyBytes_AS_STRING(source), static_cast<size_t>(PyBytes_GET_SIZE(source)), device);
  if (PyObject_TypeCheck(source, storage_type)) {
    check_readable(source, "UntypedStorage");
    return copy_of_bytes(bytes_of(source), storage_of(source).nbytes, device);
  }
  return storage_of_sequence(source, device);
}

PyObject* storage_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* keywords[] = {"size", "device", nullptr};
    PyObject *source = nullptr, *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O:UntypedStorage", const_cast<char**>(keywords), &source,
                                     &device))
      throw PythonError();
    return wrap_storage(type, storage_from(source, device == Py_None ? Device{} : as_device(device)));
  });
}

void swap_bytes(uint8_t* data, size_t nbytes, size_t width) {
  for (size_t at = 0; at + width <= nbytes; at += width) std::reverse(data + at, data + at + width);
}

// Complex numbers are swapped part by part.
size_t swap_width(DType d) { return static_cast<size_t>(itemsize(real_dtype(d))); }

bool is_foreign_order(const std::string& order) {
  TOCHA_CHECK(order == "little" || order == "big" || order == "native", Value, "invalid byte_order '", order,
              "' (expected 'big', 'little' or 'native')");
  return order != "native" && (order == "little") != (PY_LITTLE_ENDIAN != 0);
}

struct BufferView {  // an open buffer, closed when it goes out of scope
  Py_buffer view{};
  explicit BufferView(PyObject* o) { check(PyObject_GetBuffer(o, &view, PyBUF_SIMPLE)); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  ~BufferView() { PyBuffer_Release(&view); }
};

PyObject* storage_from_buffer(PyObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* keywords[] = {"buffer", "byte_order", "count", "offset", "dtype", nullptr};
    PyObject *buffer, *dtype = nullptr;
    const char* order = nullptr;
    Py_ssize_t count = -1, offset = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|znnO:from_buffer", const_cast<char**>(keywords), &buffer, &order,
                                     &count, &offset, &dtype))
      throw PythonError();
    TOCHA_CHECK(dtype, Type, "from_buffer() needs a dtype");
    DType d = as_dtype(dtype);
    TOCHA_CHECK(order || itemsize(d) == 1, Type, "from_buffer() needs a byte_order for ", d);
    BufferView bytes(buffer);
    Py_ssize_t size = itemsize(d), length = bytes.view.len;
    TOCHA_CHECK(offset >= 0 && offset <= length, Value,
                "offset must be non-negative and no greater than buffer length (", length, "), got ", offset);
    if (count < 0) {
      TOCHA_CHECK((length - offset) % size == 0, Value, "buffer size (", length - offset,
                  ") must be a multiple of element size (", size, ")");
      count = (length - offset) / size;
    }
    TOCHA_CHECK(count <= (length - offset) / size, Value, "buffer has only ", length - offset,
                " bytes after the offset, but ", count, " elements of ", size, " bytes were asked for");
    StorageRef s = copy_of_bytes(static_cast<char*>(bytes.view.buf) + offset, static_cast<size_t>(count * size), {});
    if (order && is_foreign_order(order)) swap_bytes(static_cast<uint8_t*>(s->data), s->nbytes, swap_width(d));
    return wrap_storage(reinterpret_cast<PyTypeObject*>(cls), std::move(s));
  });
}

PyObject* storage_new_shared(PyObject* cls, PyObject* size) {
  return guarded([&] {
    int64_t n = as_int(size);
    TOCHA_CHECK(n >= 0, Runtime, "[_new_shared] the size must not be negative, got ", n);
    return wrap_storage(reinterpret_cast<PyTypeObject*>(cls), new_shared_storage(static_cast<size_t>(n)));
  });
}

PyObject* storage_new_shared_fd(PyObject* cls, PyObject* args) {
  return guarded([&] {
    int fd;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "in:_new_shared_fd", &fd, &size)) throw PythonError();
    TOCHA_CHECK(size >= 0, Runtime, "[_new_shared_fd] the size must not be negative, got ", size);
    return wrap_storage(reinterpret_cast<PyTypeObject*>(cls), open_shared_storage(fd, static_cast<size_t>(size)));
  });
}

std::string as_path(PyObject* o) {
  const char* path = PyUnicode_AsUTF8(o);
  if (!path) throw PythonError();
  return path;
}

PyObject* storage_open_shared_file(PyObject* cls, PyObject* args) {
  return guarded([&] {
    PyObject* path;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Un:_open_shared_file", &path, &size)) throw PythonError();
    TOCHA_CHECK(size >= 0, Runtime, "[_open_shared_file] the size must not be negative, got ", size);
    return wrap_storage(reinterpret_cast<PyTypeObject*>(cls),
                        open_shared_file(as_path(path), static_cast<size_t>(size)));
  });
}

PyObject* storage_share_file(PyObject* self, PyObject* path) {
  return guarded([&] {
    check_readable(self, "_share_file");
    return PyUnicode_FromString(shared_memory_path(storage_of(self), as_path(path)).c_str());
  });
}

// ---- Life and death.

int storage_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object_of(self)->dict);
  return 0;
}
int storage_clear(PyObject* self) {
  Py_CLEAR(object_of(self)->dict);
  return 0;
}
void storage_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  StorageObject* o = object_of(self);
  if (o->storage) o->storage->wrapper = nullptr;  // first: what runs below may ask for a new wrapper
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  storage_clear(self);
  StorageRef(o->storage);  // lets go
  type->tp_free(self);
  Py_DECREF(type);
}

int storage_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  return guarded_status([&] {
    check_readable(self, "buffer");
    static char nothing;
    void* data = bytes_of(self) ? static_cast<void*>(bytes_of(self)) : &nothing;
    auto pin = std::make_unique<PinnedStorage>(as_storage(self));
    check(PyBuffer_FillInfo(view, self, data, size_of(self), 0, flags));
    view->internal = pin.release();
  });
}
void storage_release_buffer(PyObject*, Py_buffer* view) { delete static_cast<PinnedStorage*>(view->internal); }

// ---- Elements.

void let_go_of_parent(Storage& s) { delete static_cast<PinnedStorage*>(s.context); }

struct Range {
  Py_ssize_t start, length;
};
Range range_of(PyObject* self, PyObject* slice) {
  Py_ssize_t start, stop, step;
  check(PySlice_Unpack(slice, &start, &stop, &step));
  Py_ssize_t length = PySlice_AdjustIndices(size_of(self), &start, &stop, step);
  TOCHA_CHECK(step == 1, Runtime, "Trying to slice with a step of ", step, ", but only a step of 1 is supported");
  return {start, length};
}

// The same bytes, from `start` on.
PyObject* slice_of(PyObject* self, Range r) {
  auto parent = std::make_unique<PinnedStorage>(as_storage(self));
  StorageRef part = borrow_storage(bytes_of(self) + r.start, static_cast<size_t>(r.length), (*parent)->device,
                                   let_go_of_parent, parent.get());
  parent.release();
  return wrap_storage(Py_TYPE(self), std::move(part));
}

PyObject* storage_getitem(PyObject* self, PyObject* index) {
  return guarded([&] {
    check_readable(self, "getitem");
    if (PySlice_Check(index)) return slice_of(self, range_of(self, index));
    TOCHA_CHECK(is_int(index), Type, "can't index a tocha.UntypedStorage with ", Py_TYPE(index)->tp_name);
    int64_t asked = as_int(index), n = size_of(self), i = asked < 0 ? asked + n : asked;
    TOCHA_CHECK(i >= 0 && i < n, Index, "index ", asked, " out of range for storage of size ", n);
    return PyLong_FromLong(bytes_of(self)[i]);
  });
}

int storage_setitem(PyObject* self, PyObject* index, PyObject* value) {
  return guarded_status([&] {
    check_readable(self, "setitem");
    TOCHA_CHECK(value, Type, "the bytes of a storage cannot be deleted");
    TOCHA_CHECK(is_byte_like(value), Runtime, "can only set storage content with an int, but got ",
                Py_TYPE(value)->tp_name);
    uint8_t byte = as_byte(value);
    if (PySlice_Check(index)) {
      Range r = range_of(self, index);
      if (r.length) std::memset(bytes_of(self) + r.start, byte, static_cast<size_t>(r.length));
      return;
    }
    TOCHA_CHECK(is_int(index), Runtime, "can't index a tocha.UntypedStorage with ", Py_TYPE(index)->tp_name);
    int64_t asked = as_int(index), n = size_of(self), i = asked < 0 ? asked + n : asked;
    TOCHA_CHECK(i >= 0 && i < n, Runtime, "index ", asked, " out of bounds for storage of size ", n);
    bytes_of(self)[i] = byte;
  });
}

PyObject* storage_tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    check_readable(self, "tolist");
    Ref list = own(PyList_New(size_of(self)));
    for (int64_t i = 0; i < size_of(self); ++i)
      PyList_SET_ITEM(list.get(), i, own(PyLong_FromLong(bytes_of(self)[i])).give());
    return list.give();
  });
}

PyObject* storage_iter(PyObject* self) {
  return guarded([&] { return PyObject_GetIter(own(storage_tolist(self, nullptr)).get()); });
}

Py_ssize_t storage_length(PyObject* self) { return size_of(self); }

PyObject* storage_repr(PyObject* self) {
  return guarded([&] {
    Storage& s = storage_of(self);
    std::string text = s.device.is_cpu() ? (s.nbytes ? "" : " \n") : "...\n";
    for (size_t i = 0; s.device.is_cpu() && i < s.nbytes; ++i) text += " " + std::to_string(bytes_of(self)[i]) + "\n";
    text += str("[", library_name, ".storage.UntypedStorage(device=", s.device, ") of size ", s.nbytes, "]");
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

// ---- Whole storages.

PyObject* as_tensor_of(PyObject* self, DType d) {
  int64_t n = size_of(self) / itemsize(d);
  return make_tensor(as_storage(self), d, Ints{n}, Ints{1}, 0).give();
}

PyObject* storage_as_tensor(PyObject* self, PyObject* dtype) {
  return guarded([&] { return as_tensor_of(self, as_dtype(dtype)); });
}

void copy_bytes(PyObject* to, PyObject* from) {
  Device a = storage_of(to).device, b = storage_of(from).device;
  if (a.is_cpu() && b.is_cpu()) {
    if (size_of(to)) std::memmove(bytes_of(to), bytes_of(from), storage_of(to).nbytes);
  } else {
    Ref target = own(as_tensor_of(to, DType::UInt8)), source = own(as_tensor_of(from, DType::UInt8));
    own(PyObject_CallMethod(target.get(), "copy_", "O", source.get()));
  }
}

PyObject* storage_copy_(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* keywords[] = {"src", "non_blocking", nullptr};
    PyObject* source;
    int non_blocking = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:copy_", const_cast<char**>(keywords), &source, &non_blocking))
      throw PythonError();
    TOCHA_CHECK(is_storage(source), Type, "copy_(): argument 'src' must be tocha.UntypedStorage, not ",
                Py_TYPE(source)->tp_name);
    Ref from = own(storage_object(as_given_storage(source).memory));
    TOCHA_CHECK(size_of(self) == size_of(from.get()), Runtime, "size does not match, self was ", size_of(self),
                " bytes but src was ", size_of(from.get()), " bytes");
    copy_bytes(self, from.get());
    return Py_NewRef(self);
  });
}

PyObject* storage_clone(PyObject* self, PyObject*) {
  return guarded([&] {
    Storage& s = storage_of(self);
    Ref clone = own(wrap_storage(Py_TYPE(self), new_storage(s.nbytes, s.device)));
    copy_bytes(clone.get(), self);
    return clone.give();
  });
}

PyObject* storage_fill_(PyObject* self, PyObject* value) {
  return guarded([&] {
    TOCHA_CHECK(is_byte_like(value), Runtime, "fill_ expects int, but got ", Py_TYPE(value)->tp_name);
    uint8_t byte = as_byte(value);
    if (!storage_of(self).device.is_meta()) check_readable(self, "fill_");
    if (bytes_of(self)) std::memset(bytes_of(self), byte, storage_of(self).nbytes);
    return Py_NewRef(self);
  });
}

PyObject* storage_resize_(PyObject* self, PyObject* size) {
  return guarded([&] {
    TOCHA_CHECK(is_int(size), Runtime, "resize_ expects an int, but got ", Py_TYPE(size)->tp_name);
    int64_t n = as_int(size);
    TOCHA_CHECK(n >= 0, Runtime, "[resize_] the size must not be negative, got ", n);
    resize_storage(storage_of(self), static_cast<size_t>(n));
    return Py_NewRef(self);
  });
}

PyObject* storage_byteswap(PyObject* self, PyObject* dtype) {
  return guarded([&] {
    check_readable(self, "byteswap");
    swap_bytes(bytes_of(self), storage_of(self).nbytes, swap_width(as_dtype(dtype)));
    return Py_NewRef(Py_None);
  });
}

PyObject* storage_share_memory_(PyObject* self, PyObject*) {
  return guarded([&] {
    check_readable(self, "share_memory_");
    move_to_shared_memory(storage_of(self));
    return Py_NewRef(self);
  });
}

PyObject* storage_share_fd(PyObject* self, PyObject*) {
  return guarded([&] {
    check_readable(self, "_share_fd");
    return Py_BuildValue("in", shared_memory_fd(storage_of(self)), static_cast<Py_ssize_t>(size_of(self)));
  });
}

PyObject* storage_cpu(PyObject* self, PyObject*) {
  return guarded([&] {
    if (storage_of(self).device.is_cpu()) return Py_NewRef(self);
    Ref copy = own(wrap_storage(Py_TYPE(self), new_storage(storage_of(self).nbytes, Device{})));
    copy_bytes(copy.get(), self);
    return copy.give();
  });
}

PyObject* storage_reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    check_readable(self, "pickle");
    Ref bytes = own(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes_of(self)), size_of(self)));
    return Py_BuildValue("O(O)", Py_TYPE(self), bytes.get());
  });
}

PyObject* storage_deepcopy(PyObject* self, PyObject*) { return storage_clone(self, nullptr); }
PyObject* storage_self(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* storage_fresh(PyObject* self, PyObject*) {
  return guarded([&] { return wrap_storage(Py_TYPE(self), new_storage(0, storage_of(self).device)); });
}
PyObject* storage_nbytes(PyObject* self, PyObject*) { return PyLong_FromLongLong(size_of(self)); }
PyObject* storage_data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(storage_of(self).data); }
PyObject* storage_companion(PyObject* self, PyObject* fresh) {
  return guarded([&] { return Py_NewRef(companion_of(storage_of(self), fresh)); });
}
PyObject* storage_element_size(PyObject*, PyObject*) { return PyLong_FromLong(1); }
PyObject* storage_resizable(PyObject* self, PyObject*) { return PyBool_FromLong(storage_of(self).resizable); }
PyObject* storage_is_shared(PyObject* self, PyObject*) {
  Storage& s = storage_of(self);
  return PyBool_FromLong(s.from_shared_memory || s.device.type == DeviceType::cuda);
}
PyObject* storage_is_pinned(PyObject*, PyObject*) { return Py_NewRef(Py_False); }
PyObject* storage_type_name(PyObject*, PyObject*) {
  return PyUnicode_FromFormat("%s.storage.UntypedStorage", library_name);
}

PyObject* storage_device(PyObject* self, void*) {
  return guarded([&] { return device_object(storage_of(self).device); });
}
PyObject* storage_is_cuda(PyObject* self, void*) {
  return PyBool_FromLong(storage_of(self).device.type == DeviceType::cuda);
}
PyObject* storage_address(PyObject* self, void*) { return PyLong_FromVoidPtr(object_of(self)->storage); }
PyObject* storage_never(PyObject*, void*) { return Py_NewRef(Py_False); }

template <class F>
PyCFunction with_keywords(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef storage_methods[] = {
    {"nbytes", storage_nbytes, METH_NOARGS, "The size in bytes."},
    {"size", storage_nbytes, METH_NOARGS, "The size in bytes."},
    {"data_ptr", storage_data_ptr, METH_NOARGS, "The address of the first byte."},
    {"element_size", storage_element_size, METH_NOARGS, "1: an untyped storage holds bytes."},
    {"resizable", storage_resizable, METH_NOARGS, "Whether resize_ can change the size."},
    {"resize_", storage_resize_, METH_O, "Changes the size in bytes and keeps what fits."},
    {"tolist", storage_tolist, METH_NOARGS, "The bytes as a list of ints."},
    {"clone", storage_clone, METH_NOARGS, "A copy."},
    {"copy_", with_keywords(storage_copy_), METH_VARARGS | METH_KEYWORDS,
     "Copies the bytes of a storage of the same size."},
    {"fill_", storage_fill_, METH_O, "Sets every byte."},
    {"byteswap", storage_byteswap, METH_O, "Reverses the bytes of each element of the given dtype."},
    {"cpu", storage_cpu, METH_NOARGS, "This storage if it is on the CPU, else a copy there."},
    {"new", storage_fresh, METH_NOARGS, "An empty storage on the same device."},
    {"untyped", storage_self, METH_NOARGS, "The storage itself."},
    {"type", storage_type_name, METH_NOARGS, "The name of the type."},
    {"is_shared", storage_is_shared, METH_NOARGS, "Whether other processes can have the same memory."},
    {"is_pinned", storage_is_pinned, METH_NOARGS, "Whether the memory is page-locked for an accelerator."},
    {"share_memory_", storage_share_memory_, METH_NOARGS, "Moves the bytes to memory that other processes can open."},
    {"from_buffer", with_keywords(storage_from_buffer), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "A copy of a buffer's elements, in this machine's byte order."},
    {"_new_shared", storage_new_shared, METH_O | METH_CLASS, "A storage in shared memory."},
    {"_share_fd", storage_share_fd, METH_NOARGS, "Moves to shared memory; gives its file descriptor and size."},
    {"_new_shared_fd", storage_new_shared_fd, METH_VARARGS | METH_CLASS, "Opens what _share_fd gave."},
    {"_share_file", storage_share_file, METH_O, "Moves to a file at this path; gives the path it has, if any."},
    {"_open_shared_file", storage_open_shared_file, METH_VARARGS | METH_CLASS, "Opens what _share_file made."},
    {"_as_tensor", storage_as_tensor, METH_O, "A 1-d tensor of the given dtype on these bytes."},
    {"_companion", storage_companion, METH_O, "The object that lives as long as these bytes: the first given."},
    {"__copy__", storage_clone, METH_NOARGS, nullptr},
    {"__deepcopy__", storage_deepcopy, METH_O, nullptr},
    {"__reduce__", storage_reduce, METH_NOARGS, nullptr},
    {},
};
PyGetSetDef storage_getters[] = {
    {"device", storage_device, nullptr, nullptr, nullptr},
    {"is_cuda", storage_is_cuda, nullptr, nullptr, nullptr},
    {"is_sparse", storage_never, nullptr, nullptr, nullptr},
    {"is_sparse_csr", storage_never, nullptr, nullptr, nullptr},
    {"_cdata", storage_address, nullptr, "Identifies the storage while it lives.", nullptr},
    {},
};
PyMemberDef storage_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(StorageObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(StorageObject, weakrefs), READONLY, nullptr},
    {},
};
PyType_Slot storage_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(storage_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(storage_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(storage_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(storage_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(storage_repr)},
    {Py_tp_iter, reinterpret_cast<void*>(storage_iter)},
    {Py_mp_length, reinterpret_cast<void*>(storage_length)},
    {Py_mp_subscript, reinterpret_cast<void*>(storage_getitem)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(storage_setitem)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(storage_get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(storage_release_buffer)},
    {Py_tp_methods, storage_methods},
    {Py_tp_getset, storage_getters},
    {Py_tp_members, storage_members},
    {0, nullptr},
};
PyType_Spec storage_spec = {"tocha.storage.UntypedStorage", sizeof(StorageObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, storage_slots};

}  // namespace

PyObject* storage_object(const StorageRef& s) {
  return s->wrapper ? Py_NewRef(s->wrapper) : wrap_storage(storage_type, s);
}

StorageRef as_storage(PyObject* o) {
  TOCHA_CHECK(PyObject_TypeCheck(o, storage_type), Type, "expected tocha.UntypedStorage, not ", Py_TYPE(o)->tp_name);
  ++storage_of(o).refs;
  return StorageRef(&storage_of(o));
}

namespace {
bool is_typed_storage(PyObject* o) {
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(cached_attribute("tocha.storage", "TypedStorage")));
}
}  // namespace

bool is_storage(PyObject* o) { return PyObject_TypeCheck(o, storage_type) || is_typed_storage(o); }

GivenStorage as_given_storage(PyObject* o) {
  if (PyObject_TypeCheck(o, storage_type)) return {as_storage(o), DType::Undefined};
  Ref untyped = own(PyObject_GetAttrString(o, "_untyped_storage"));
  Ref dtype = own(PyObject_GetAttrString(o, "dtype"));
  return {as_storage(untyped.get()), as_dtype(dtype.get())};
}

void add_storage_type(PyObject* module) { storage_type = add_type(module, storage_spec); }

}  // namespace tocha::python
