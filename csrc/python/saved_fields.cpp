#include "python/saved_fields.h"

#include "autograd/saved.h"
#include "python/types.h"

namespace tocha::python {
namespace {

using autograd::Fields;
using autograd::Node;
using autograd::Saved;
using autograd::SavedList;

PyTypeObject* saved_tensor_type = nullptr;

// A kept tensor is found again by name and number: the node may have let go of it since.
struct SavedTensorObject {
  PyObject_HEAD Node* node;  // counted
  std::string* name;
  size_t index;
};
SavedTensorObject* saved_of(PyObject* o) { return reinterpret_cast<SavedTensorObject*>(o); }

Ref new_saved_tensor(Node& node, const std::string& name, size_t index) {
  Ref o = own(saved_tensor_type->tp_alloc(saved_tensor_type, 0));
  SavedTensorObject* s = saved_of(o.get());
  s->node = &node;
  ++node.refs;
  s->name = new std::string(name);
  s->index = index;
  return o;
}

Ref tensor_or_none(const Saved& kept, const Node& owner) {
  if (kept.shape_only()) return Ref::borrow(Py_None);
  Tensor t = kept.get(owner, true);
  return t ? Ref(t.give()) : Ref::borrow(Py_None);
}

class Value final : public Fields {
 public:
  Value(const Node& owner, std::string name) : owner_(owner), name_(std::move(name)) {}
  void tensor(const char* name, Saved& kept) override {
    if (name_ == name) found = tensor_or_none(kept, owner_);
  }
  void tensors(const char* name, SavedList& kept) override {
    if (name_ != name || kept.shapes_only()) return;
    found = own(PyTuple_New(static_cast<Py_ssize_t>(kept.size())));
    for (size_t i = 0; i < kept.size(); ++i)
      PyTuple_SET_ITEM(found.get(), static_cast<Py_ssize_t>(i), tensor_or_none(kept[i], owner_).give());
  }
  void sizes(const char* name, Saved& kept) override {
    if (name_ != std::string(name) + "_sym_sizes") return;
    Tensor shape = kept.get(owner_);
    found = shape ? own(int_tuple(shape.sizes())) : Ref::borrow(Py_None);
  }
  void number(const char* name, const Scalar& value) override {
    if (name_ == name) found = own(scalar_object(value));
  }
  void ints(const char* name, IntsView value) override {
    if (name_ == name) found = own(int_tuple(value));
  }
  void text(const char* name, const std::string& value) override {
    if (name_ == name) found = own(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
  }
  void none(const char* name) override {
    if (name_ == name) found = Ref::borrow(Py_None);
  }
  Ref found;

 private:
  const Node& owner_;
  std::string name_;
};

class Names final : public Fields {
 public:
  void tensor(const char* name, Saved&) override { both(name); }
  void tensors(const char* name, SavedList& kept) override {
    if (!kept.shapes_only()) both(name);
  }
  void sizes(const char* name, Saved&) override { add("_saved_", name, "_sym_sizes"); }
  void number(const char* name, const Scalar&) override { add("_saved_", name); }
  void ints(const char* name, IntsView) override { add("_saved_", name); }
  void text(const char* name, const std::string&) override { add("_saved_", name); }
  void none(const char* name) override { add("_saved_", name); }
  Ref list = own(PyList_New(0));

 private:
  void both(const char* name) {
    add("_saved_", name);
    add("_raw_saved_", name);
  }
  void add(const char* prefix, const char* name, const char* suffix = "") {
    if (*name) check(PyList_Append(list.get(), own(PyUnicode_FromFormat("%s%s%s", prefix, name, suffix)).get()));
  }
};

// The tensors kept under a name, in order.
class KeptTensors final : public Fields {
 public:
  explicit KeptTensors(std::string name) : name_(std::move(name)) {}
  void tensor(const char* name, Saved& kept) override {
    if (name_ == name) found.push_back(&kept);
  }
  void tensors(const char* name, SavedList& kept) override {
    if (name_ != name || kept.shapes_only()) return;
    many = true;
    for (size_t i = 0; i < kept.size(); ++i) found.push_back(&kept[i]);
  }
  std::vector<Saved*> found;
  bool many = false;

 private:
  std::string name_;
};

Saved& kept_by(SavedTensorObject* s) {
  KeptTensors all(*s->name);
  s->node->fields(all);
  TOCHA_CHECK(s->index < all.found.size(), Runtime, s->node->title(), " has let go of what it saved");
  return *all.found[s->index];
}

PyObject* register_hooks(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO:register_hooks", &pack, &unpack)) throw PythonError();
    TOCHA_CHECK(PyCallable_Check(pack) && PyCallable_Check(unpack), Type, "register_hooks() takes two callables, got ",
                Py_TYPE(pack)->tp_name, " and ", Py_TYPE(unpack)->tp_name);
    kept_by(saved_of(self)).register_hooks(*saved_of(self)->node, pack, unpack);
    return Py_NewRef(Py_None);
  });
}
PyObject* unpack(PyObject* self, PyObject*) {
  return guarded([&] { return tensor_or_none(kept_by(saved_of(self)), *saved_of(self)->node).give(); });
}
PyObject* data(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    Ref t = tensor_or_none(kept_by(saved_of(self)), *saved_of(self)->node);
    return t.get() == Py_None ? t.give() : alias_of(Tensor::borrow(t.get()), true).give();
  });
}

void saved_tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  SavedTensorObject* s = saved_of(self);
  if (s->node && --s->node->refs == 0) autograd::release(s->node);
  delete s->name;
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"register_hooks", register_hooks, METH_VARARGS,
     "register_hooks(pack, unpack): packs the tensor now; unpack is called when it is needed."},
    {"unpack", unpack, METH_NOARGS, "The tensor, with its history."},
    {},
};
PyGetSetDef getters[] = {
    {"data", data, nullptr, "The tensor, without history.", nullptr},
    {},
};

}  // namespace

Ref saved_attribute(Node& node, const std::string& name) {
  static const std::string raw = "_raw_saved_", plain = "_saved_";
  if (name.compare(0, raw.size(), raw) == 0) return raw_saved(node, name.substr(raw.size()));
  if (name.compare(0, plain.size(), plain) != 0) return {};
  Value value(node, name.substr(plain.size()));
  node.fields(value);
  return value.found;
}

Ref raw_saved(Node& node, const std::string& name) {
  KeptTensors all(name);
  node.fields(all);
  if (!all.many && !name.empty()) return all.found.empty() ? Ref() : new_saved_tensor(node, name, 0);
  Ref tuple = own(PyTuple_New(static_cast<Py_ssize_t>(all.found.size())));
  for (size_t i = 0; i < all.found.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), new_saved_tensor(node, name, i).give());
  return tuple;
}

Ref saved_names(Node& node) {
  Names names;
  node.fields(names);
  return names.list;
}

void add_saved_tensor_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(saved_tensor_dealloc)},
      {Py_tp_methods, methods},
      {Py_tp_getset, getters},
      {0, nullptr},
  };
  static PyType_Spec spec = {"tocha._C._SavedTensor", sizeof(SavedTensorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  saved_tensor_type = reinterpret_cast<PyTypeObject*>(own(PyType_FromSpec(&spec)).give());
  check(PyModule_AddObjectRef(module, "_SavedTensor", reinterpret_cast<PyObject*>(saved_tensor_type)));
}

}  // namespace tocha::python
