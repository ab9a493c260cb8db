// tocha.Size: the tuple of ints that x.shape gives. Native, because shapes are made and indexed everywhere.
#include "python/library_name.h"
#include "python/types.h"

namespace tocha::python {

PyTypeObject* size_type = nullptr;

namespace {

PyObject* new_size(Py_ssize_t n) { return own(size_type->tp_alloc(size_type, n)).give(); }

// A dimension as an exact int that fits int64, or a symbolic one as it is; a new reference.
PyObject* checked_dimension(PyObject* item, Py_ssize_t position) {
  if (Py_TYPE(item) == symbolic_types.integer) return Py_NewRef(item);
  TOCHA_CHECK(PyIndex_Check(item), Type, "tocha.Size() takes an iterable of 'int' (item ", position, " is '",
              Py_TYPE(item)->tp_name, "')");
  return own(PyLong_FromLongLong(as_int(item))).give();
}

PyObject* from_items(PyObject* const* items, Py_ssize_t n) {
  Ref size = own(new_size(n));
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(size.get(), i, checked_dimension(items[i], i));
  return size.give();
}

// The same items, which are known to be good.
PyObject* from_tuple(Ref tuple) {
  Py_ssize_t n = PyTuple_GET_SIZE(tuple.get());
  Ref size = own(new_size(n));
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(size.get(), i, Py_NewRef(PyTuple_GET_ITEM(tuple.get(), i)));
  return size.give();
}

PyObject* size_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(!kwargs || PyDict_GET_SIZE(kwargs) == 0, Type, "Size() takes no keyword arguments");
    Py_ssize_t given = PyTuple_GET_SIZE(args);
    TOCHA_CHECK(given <= 1, Type, "Size expected at most 1 argument, got ", given);
    if (given == 0) return new_size(0);
    Ref items = own(PySequence_Tuple(PyTuple_GET_ITEM(args, 0)));
    return from_items(&PyTuple_GET_ITEM(items.get(), 0), PyTuple_GET_SIZE(items.get()));
  });
}

void size_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  for (Py_ssize_t i = PyTuple_GET_SIZE(self); --i >= 0;) Py_XDECREF(PyTuple_GET_ITEM(self, i));
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* size_repr(PyObject* self) {
  return guarded([&] {
    std::string text = std::string(library_name) + ".Size([";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      if (i) text += ", ";
      text += text_of(own(PyObject_Repr(PyTuple_GET_ITEM(self, i))).get());
    }
    return PyUnicode_FromString((text + "])").c_str());
  });
}

PyObject* size_subscript(PyObject* self, PyObject* index) {
  PyObject* item = PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
  if (!item || !PySlice_Check(index)) return item;
  return guarded([&] { return from_tuple(Ref(item)); });
}

// Also runs for tuple + Size, because tuple itself has no nb_add.
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) return Py_NewRef(Py_NotImplemented);
  return guarded([&] {
    Ref both = own(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
    return from_items(&PyTuple_GET_ITEM(both.get(), 0), PyTuple_GET_SIZE(both.get()));
  });
}

PyObject* size_repeat(PyObject* self, Py_ssize_t count) {
  return guarded([&] { return from_tuple(own(PyTuple_Type.tp_as_sequence->sq_repeat(self, count))); });
}

PyObject* size_numel(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref n = own(PyLong_FromLong(1));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i)
      n = own(PyNumber_Multiply(n.get(), PyTuple_GET_ITEM(self, i)));
    return n.give();
  });
}

PyObject* size_reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref items = own(PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self)));
    return Py_BuildValue("O(O)", Py_TYPE(self), items.get());
  });
}

PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this size."},
    {"__reduce__", size_reduce, METH_NOARGS, nullptr},
    {},
};
PyType_Slot size_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(size_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(size_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
    {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
    {Py_nb_add, reinterpret_cast<void*>(size_add)},
    {Py_sq_repeat, reinterpret_cast<void*>(size_repeat)},
    {Py_tp_methods, size_methods},
    {0, nullptr},
};
PyType_Spec size_spec = {"tocha.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, size_slots};

void fill_tuple(PyObject* tuple, IntsView v) {
  for (int64_t i = 0; i < v.size(); ++i) PyTuple_SET_ITEM(tuple, i, own(PyLong_FromLongLong(v[i])).give());
}

}  // namespace

PyObject* size_object(IntsView sizes) {
  Ref size = own(new_size(sizes.size()));
  fill_tuple(size.get(), sizes);
  return size.give();
}

PyObject* int_tuple(IntsView v) {
  Ref tuple = own(PyTuple_New(v.size()));
  fill_tuple(tuple.get(), v);
  return tuple.give();
}

void add_size_type(PyObject* module) {
  Ref type = own(PyType_FromSpecWithBases(&size_spec, reinterpret_cast<PyObject*>(&PyTuple_Type)));
  check(PyModule_AddObjectRef(module, "Size", type.get()));
  size_type = reinterpret_cast<PyTypeObject*>(type.give());
}

}  // namespace tocha::python
