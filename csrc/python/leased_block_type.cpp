// tocha._C._LeasedBlock: memory that two processes keep mapped and hand back and forth. DataLoader's transport uses it.
#include <Python.h>

#include "python/shared_memory.h"
#include "python/types.h"

namespace tocha::python {
namespace {

struct BlockObject {
  PyObject_HEAD LeasedBlock* block;
};

LeasedBlock& block_of(PyObject* self) { return *reinterpret_cast<BlockObject*>(self)->block; }

size_t as_size(Py_ssize_t n, const char* what) {
  TOCHA_CHECK(n >= 0, Value, "[_LeasedBlock] the ", what, " must not be negative, got ", n);
  return static_cast<size_t>(n);
}

PyObject* block_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* keywords[] = {"capacity", "fd", nullptr};
    Py_ssize_t capacity;
    int fd = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n|i:_LeasedBlock", const_cast<char**>(keywords), &capacity, &fd))
      throw PythonError();
    size_t size = as_size(capacity, "capacity");
    Ref self = own(type->tp_alloc(type, 0));
    reinterpret_cast<BlockObject*>(self.get())->block = fd < 0 ? new LeasedBlock(size) : new LeasedBlock(fd, size);
    return self.give();
  });
}

void block_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (reinterpret_cast<BlockObject*>(self)->block) block_of(self).drop();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* block_write(PyObject* self, PyObject* args) {
  return guarded([&] {
    Py_ssize_t at, from, n;
    PyObject* source;
    if (!PyArg_ParseTuple(args, "nOnn:write", &at, &source, &from, &n)) throw PythonError();
    StorageRef s = as_storage(source);
    size_t first = as_size(from, "offset"), count = as_size(n, "size");
    TOCHA_CHECK(s->device.is_cpu() && first <= s->nbytes && count <= s->nbytes - first, Value, "[_LeasedBlock] bytes ",
                first, " to ", first + count, " are not in the storage");
    block_of(self).write(as_size(at, "offset"), static_cast<const char*>(s->data) + first, count);
    return Py_NewRef(Py_None);
  });
}

PyObject* block_lease(PyObject* self, PyObject* args) {
  return guarded([&] {
    Py_ssize_t at, n;
    if (!PyArg_ParseTuple(args, "nn:lease", &at, &n)) throw PythonError();
    return storage_object(block_of(self).lease(as_size(at, "offset"), as_size(n, "size")));
  });
}

PyObject* block_claim(PyObject* self, PyObject*) {
  block_of(self).claim();
  return Py_NewRef(Py_None);
}
PyObject* block_close_fd(PyObject* self, PyObject*) {
  block_of(self).close_fd();
  return Py_NewRef(Py_None);
}

PyObject* block_fd(PyObject* self, void*) { return PyLong_FromLong(block_of(self).fd()); }
PyObject* block_capacity(PyObject* self, void*) { return PyLong_FromSize_t(block_of(self).capacity()); }
PyObject* block_is_free(PyObject* self, void*) { return PyBool_FromLong(block_of(self).is_free()); }
PyObject* block_is_lost(PyObject* self, void*) { return PyBool_FromLong(block_of(self).is_lost()); }

PyMethodDef block_methods[] = {
    {"write", block_write, METH_VARARGS, "write(at, storage, offset, n): copies bytes of a storage into the block."},
    {"lease", block_lease, METH_VARARGS, "lease(at, n): a storage on a part; the last one to go frees the block."},
    {"claim", block_claim, METH_NOARGS, "The writer takes the block; the reader's leases will give it back."},
    {"close_fd", block_close_fd, METH_NOARGS, "The reader has the descriptor: this one is not needed any more."},
    {},
};
PyGetSetDef block_getters[] = {
    {"fd", block_fd, nullptr, "The descriptor to hand to the reader, -1 once closed.", nullptr},
    {"capacity", block_capacity, nullptr, "Bytes that fit.", nullptr},
    {"is_free", block_is_free, nullptr, "Whether the writer may claim it.", nullptr},
    {"is_lost", block_is_lost, nullptr, "Whether a fork of the reader may have kept its tensors.", nullptr},
    {},
};
PyType_Slot block_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(block_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(block_dealloc)},
    {Py_tp_methods, block_methods},
    {Py_tp_getset, block_getters},
    {0, nullptr},
};
PyType_Spec block_spec = {"tocha._C._LeasedBlock", sizeof(BlockObject), 0, Py_TPFLAGS_DEFAULT, block_slots};

}  // namespace

void add_leased_block_type(PyObject* module) { add_type(module, block_spec); }

}  // namespace tocha::python
