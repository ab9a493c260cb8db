#include "python/python_node.h"

#include <structmember.h>

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/mode.h"
#include "autograd/saved.h"
#include "core/sparse.h"
#include "ops/factories.h"
#include "ops/views.h"
#include "python/parser.h"
#include "python/saved_fields.h"

namespace tocha::python {
namespace {

using autograd::Grads;
using autograd::Node;
using autograd::NodeRef;

// Whether another than the kernels answers for a tensor: views of it are that one's to make.
bool taken_over(const Tensor& t) { return is_fake(t) || (marks_of(t.get()) & kDispatches) != 0; }

Tensor by_python(const Tensor& t, const char* method, PyObject* argument) {
  autograd::GradMode off(false);
  Ref found = own(argument ? PyObject_CallMethod(t.object(), method, "O", argument)
                           : PyObject_CallMethod(t.object(), method, nullptr));
  TOCHA_CHECK(is_tensor(found.get()), Type, method, " of a tensor gave ", Py_TYPE(found.get())->tp_name);
  return Tensor::borrow(found.get());
}

class PythonNode;

struct ContextObject {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  PythonNode* node;  // borrowed: the node holds the context
};

PyTypeObject* context_type = nullptr;
ContextObject* context_of(PyObject* o) { return reinterpret_cast<ContextObject*>(o); }

bool flag(PyObject* ctx, const char* name, bool otherwise) {
  PyObject* v = PyObject_GetAttrString(ctx, name);
  if (!v) {
    PyErr_Clear();
    return otherwise;
  }
  int on = PyObject_IsTrue(v);
  Py_DECREF(v);
  return on > 0;
}

Ref attribute_or_none(PyObject* o, const char* name) {
  PyObject* v = PyObject_GetAttrString(o, name);
  if (!v) {
    PyErr_Clear();
    return Ref::borrow(Py_None);
  }
  return Ref(v);
}

class PythonNode final : public Node {
 public:
  explicit PythonNode(PyObject* ctx) : ctx_(Py_NewRef(ctx)), name_(Py_TYPE(ctx)->tp_name) {
    auto dot = name_.rfind('.');
    if (dot != std::string::npos) name_ = name_.substr(dot + 1);
    context_of(ctx)->node = this;
  }
  ~PythonNode() override {
    context_of(ctx_)->node = nullptr;
    Py_DECREF(ctx_);
  }
  const char* name() const override { return name_.c_str(); }
  bool takes_sparse() const override { return true; }

  // A gradient that did not come. Among gradients of a class that takes operators over, one of them makes it; one of
  // symbolic sizes is made like its result.
  Tensor zeros_for(size_t i, const Grads& grads) const {
    const autograd::Shape& meta = inputs[i];
    if (i < symbolic_.size() && symbolic_[i]) {
      Ref sizes = own(PyObject_GetAttrString(symbolic_[i].object(), "shape"));
      return by_python(symbolic_[i], "new_zeros", sizes.get());
    }
    for (const Tensor& g : grads)
      if (g && g.get()->dispatches) return ops::new_zeros(g, meta.sizes, meta.dtype, meta.device);
    return ops::zeros(meta.sizes, meta.dtype, meta.device);
  }

  void apply(Grads& grads, Grads& out) override {
    bool materialize = flag(ctx_, "materialize_grads", true);
    Ref args = own(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i] && materialize && inputs[i].dtype != DType::Undefined) grads[i] = zeros_for(i, grads);
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(grads[i] ? grads[i].object() : Py_None));
    }
    grads.clear();
    Ref apply = own(PyObject_GetAttrString(ctx_, "apply"));
    Ref result = own(PyObject_Call(apply.get(), args.get(), nullptr));
    args = Ref();
    if (!PyTuple_Check(result.get())) result = own(PyTuple_Pack(1, result.get()));
    auto n = static_cast<size_t>(PyTuple_GET_SIZE(result.get()));
    auto item = [&](size_t i) { return PyTuple_GET_ITEM(result.get(), static_cast<Py_ssize_t>(i)); };
    // More results than inputs are fine if they are None.
    size_t expected = is_tensor_.size();
    for (size_t i = expected; i < n; ++i)
      TOCHA_CHECK(item(i) == Py_None, Runtime, "function ", name_,
                  " returned an incorrect number of gradients (expected ", expected, ", got ", n, ")");
    TOCHA_CHECK(n >= expected, Runtime, "function ", name_, " returned an incorrect number of gradients (expected ",
                expected, ", got ", n, ")");
    size_t at = 0;
    for (size_t i = 0; i < expected; ++i) {
      PyObject* g = item(i);
      if (!is_tensor_[i]) {
        TOCHA_CHECK(g == Py_None, Runtime, "function ", name_, " returned a gradient different from None at position ",
                    i + 1, ", but the corresponding forward input was not a Variable");
        continue;
      }
      TOCHA_CHECK(g == Py_None || is_tensor(g), Type, "expected Variable or None (got ", Py_TYPE(g)->tp_name, ")");
      if (next[at] && g != Py_None) out[at] = Tensor::borrow(g);
      ++at;
    }
  }

  void release_saved() override {
    if (count_) {
      saved_.reset();
      saved_ = std::make_unique<autograd::Saved[]>(count_);
    }
    released = true;
  }

  // Remembers a result whose sizes are symbols.
  void remember_symbolic(size_t i, const Tensor& result) {
    if (!is_fake(result) || std::none_of(inputs[i].sizes.begin(), inputs[i].sizes.end(), [](auto n) { return n < 0; }))
      return;
    symbolic_.resize(i + 1);
    symbolic_[i] = by_python(result, "detach", nullptr);
  }

  // What the context's to_save names, if it does.
  void save_from_context(PyObject* returned, const std::vector<PyObject*>& results) {
    Ref to_save = attribute_or_none(ctx_, "to_save");
    if (to_save.get() != Py_None) save(to_save.get(), returned, results);
  }

  // to_save: a tuple of tensors and Nones. What forward returned is kept as the result that was made of it.
  void save(PyObject* to_save, PyObject* returned, const std::vector<PyObject*>& results) {
    count_ = static_cast<size_t>(PyTuple_GET_SIZE(to_save));
    saved_ = std::make_unique<autograd::Saved[]>(count_);
    for (size_t i = 0; i < count_; ++i) {
      PyObject* o = PyTuple_GET_ITEM(to_save, static_cast<Py_ssize_t>(i));
      if (o == Py_None) continue;
      TOCHA_CHECK(is_tensor(o), Type, "save_for_backward can only save variables, but argument ", i, " is of type ",
                  Py_TYPE(o)->tp_name);
      size_t k = 0;
      while (k < results.size() && !(results[k] && PyTuple_GET_ITEM(returned, static_cast<Py_ssize_t>(k)) == o)) ++k;
      if (k < results.size())
        saved_[i].output(Tensor::borrow(results[k]), static_cast<uint32_t>(k));
      else
        saved_[i].input(Tensor::borrow(o));
    }
  }
  PyObject* saved_tensors() {
    Ref all = own(PyTuple_New(static_cast<Py_ssize_t>(count_)));
    for (size_t i = 0; i < count_; ++i) {
      Tensor t = saved_[i].get(*this, true);
      PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), t ? t.give() : Py_NewRef(Py_None));
    }
    return all.give();
  }

  void fields(autograd::Fields& f) override {
    f.object(ctx_);
    for (size_t i = 0; i < count_; ++i) f.tensor("", saved_[i]);
  }

  PyObject* context() const { return ctx_; }
  std::vector<bool> is_tensor_;   // per argument of apply
  std::vector<Tensor> symbolic_;  // results whose sizes are symbols, without history; null for others

 private:
  PyObject* ctx_;
  std::string name_;
  std::unique_ptr<autograd::Saved[]> saved_;
  size_t count_ = 0;
};

void context_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (context_of(self)->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(context_of(self)->dict);
  type->tp_free(self);
  Py_DECREF(type);
}
int context_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(context_of(self)->dict);
  return 0;
}
int context_clear(PyObject* self) {
  Py_CLEAR(context_of(self)->dict);
  return 0;
}

PyObject* get_saved_tensors(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    PythonNode* node = context_of(self)->node;
    if (!node) return own(PyTuple_New(0)).give();
    return node->saved_tensors();
  });
}
PyObject* get_raw_saved(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    PythonNode* node = context_of(self)->node;
    return node ? raw_saved(*node, "").give() : own(PyTuple_New(0)).give();
  });
}
PyObject* get_next_functions(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    PythonNode* node = context_of(self)->node;
    return node ? next_functions(*node) : own(PyTuple_New(0)).give();
  });
}
PyObject* get_input_metadata(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    PythonNode* node = context_of(self)->node;
    return node ? input_metadata(*node) : own(PyList_New(0)).give();
  });
}
PyObject* get_metadata(PyObject* self, void*) {
  return guarded([&] {
    PythonNode* node = context_of(self)->node;
    TOCHA_CHECK(node, Runtime, "this context's graph is gone");
    autograd::Extras& e = node->extra();
    if (!e.metadata) e.metadata = own(PyDict_New()).give();
    return Py_NewRef(e.metadata);
  });
}
PyObject* context_name(PyObject* self, PyObject*) {
  PythonNode* node = context_of(self)->node;
  return PyUnicode_FromString(node ? node->name() : Py_TYPE(self)->tp_name);
}
PyObject* context_sequence(PyObject* self, PyObject*) {
  PythonNode* node = context_of(self)->node;
  return PyLong_FromUnsignedLongLong(node ? node->sequence : 0);
}

PyMethodDef context_methods[] = {
    {"name", context_name, METH_NOARGS, "The node's name."},
    {"_sequence_nr", context_sequence, METH_NOARGS, nullptr},
    {"_hooks", node_hooks, METH_O, nullptr},
    {},
};
PyGetSetDef context_getters[] = {
    {"saved_tensors", get_saved_tensors, nullptr, "What save_for_backward kept.", nullptr},
    {"_raw_saved_tensors", get_raw_saved, nullptr, "What save_for_backward kept, as SavedTensors.", nullptr},
    {"saved_variables", get_saved_tensors, nullptr, nullptr, nullptr},
    {"next_functions", get_next_functions, nullptr, "Where its gradients go.", nullptr},
    {"metadata", get_metadata, nullptr, "A dict for notes.", nullptr},
    {"_input_metadata", get_input_metadata, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};
PyMemberDef context_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ContextObject, weakrefs), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(ContextObject, dict), READONLY, nullptr},
    {},
};

bool in_set(PyObject* tuple, PyObject* o) {
  if (!tuple || !PyTuple_Check(tuple)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    if (PyTuple_GET_ITEM(tuple, i) == o) return true;
  return false;
}

}  // namespace

PyObject* python_face(Node* node) {
  auto* p = dynamic_cast<PythonNode*>(node);
  return p ? p->context() : nullptr;
}

Node* function_node(PyObject* o) { return PyObject_TypeCheck(o, context_type) ? context_of(o)->node : nullptr; }

PyObject* record_function(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *ctx, *inputs, *outputs;
    int executable;
    if (!PyArg_ParseTuple(args, "OO!O!p", &ctx, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &executable))
      throw PythonError();
    NodeRef ref = autograd::make_node<PythonNode>(ctx);
    auto* node = static_cast<PythonNode*>(ref.get());
    if (modes().anomaly && executable) autograd::remember_call(*ref);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
      PyObject* o = PyTuple_GET_ITEM(inputs, i);
      node->is_tensor_.push_back(is_tensor(o));
      if (is_tensor(o)) autograd::collect(*ref, executable ? Tensor::borrow(o) : Tensor());
    }
    Ref dirty = attribute_or_none(ctx, "dirty_tensors");
    Ref fixed = attribute_or_none(ctx, "non_differentiable");
    Ref results = own(PyTuple_New(PyTuple_GET_SIZE(outputs)));
    std::vector<PyObject*> made;  // results of this node; null for what is none
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
      PyObject* o = PyTuple_GET_ITEM(outputs, i);
      if (!is_tensor(o)) {
        PyTuple_SET_ITEM(results.get(), i, Py_NewRef(o));
        made.push_back(nullptr);
        autograd::skip_output(Tensor(), *ref);
        continue;
      }
      Tensor t = Tensor::borrow(o);
      bool is_input = in_set(inputs, o);
      if (is_input) check_strided(t, "an autograd.Function that returns its argument");
      if (in_set(dirty.get(), o)) {
        if (executable) {
          autograd::check_writable(t, node->name());
          autograd::rebase_history(t, ref);
        } else {
          autograd::skip_output(t, *ref);
        }
      } else if (in_set(fixed.get(), o) || !executable) {
        if (is_input) t = taken_over(t) ? by_python(t, "detach", nullptr) : alias_of(t, true);
        autograd::skip_output(t, *ref);
        if (!executable && !is_input && t.get()->autograd) autograd::detach_(t);
      } else {
        // An input, or a view, becomes a view with this history; it must not be written to.
        if (is_input || t.get()->base) {
          t = taken_over(t) ? by_python(t, "view_as", t.object()) : view_of(t, t.sizes(), t.strides(), t.offset());
          t.get()->origin = ViewOrigin::custom_function;
        }
        autograd::set_history(t, ref);
      }
      if (executable) node->remember_symbolic(static_cast<size_t>(i), t);
      // An argument that is returned as it is can be kept for what it was.
      made.push_back(executable && (!is_input || in_set(dirty.get(), o)) ? t.object() : nullptr);
      PyTuple_SET_ITEM(results.get(), i, t.give());
    }
    node->save_from_context(outputs, made);
    // Without a gradient to compute nobody would hold the node: the context remembers its tensors in Python.
    return results.give();
  });
}

namespace {

NodeRef node_of(PyObject* ctx, PyObject* inputs) {
  TOCHA_CHECK(PyObject_TypeCheck(ctx, context_type), Type, "a node's context is needed, not ", Py_TYPE(ctx)->tp_name);
  NodeRef ref = autograd::make_node<PythonNode>(ctx);
  if (modes().anomaly) autograd::remember_call(*ref);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    TOCHA_CHECK(is_tensor(o), Type, "the inputs of a node are tensors, not ", Py_TYPE(o)->tp_name);
    static_cast<PythonNode*>(ref.get())->is_tensor_.push_back(true);
    autograd::collect(*ref, Tensor::borrow(o));
  }
  return ref;
}

}  // namespace

PyObject* record_node(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *ctx, *inputs, *outputs;
    int one_of_many;
    if (!PyArg_ParseTuple(args, "OO!O!p", &ctx, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &one_of_many))
      throw PythonError();
    NodeRef ref = node_of(ctx, inputs);
    std::vector<PyObject*> made;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
      PyObject* o = PyTuple_GET_ITEM(outputs, i);
      made.push_back(o == Py_None ? nullptr : o);
      if (o == Py_None) {
        autograd::skip_output(Tensor(), *ref);
        continue;
      }
      TOCHA_CHECK(is_tensor(o), Type, "the outputs of a node are tensors, not ", Py_TYPE(o)->tp_name);
      Tensor t = Tensor::borrow(o);
      if (t.get()->base && PyTuple_GET_SIZE(inputs))
        autograd::set_view_history(t, Tensor::borrow(PyTuple_GET_ITEM(inputs, 0)), ref, one_of_many);
      else
        autograd::set_history(t, ref);
    }
    static_cast<PythonNode*>(ref.get())->save_from_context(outputs, made);
    return Py_NewRef(Py_None);
  });
}

PyObject* record_write(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *ctx, *inputs, *target;
    if (!PyArg_ParseTuple(args, "OO!O", &ctx, &PyTuple_Type, &inputs, &target)) throw PythonError();
    TOCHA_CHECK(is_tensor(target), Type, "what is written to is a tensor, not ", Py_TYPE(target)->tp_name);
    NodeRef ref = node_of(ctx, inputs);
    autograd::replace_history(Tensor::borrow(target), ref);
    static_cast<PythonNode*>(ref.get())->save_from_context(own(PyTuple_Pack(1, target)).get(), {target});
    return Py_NewRef(Py_None);
  });
}

void add_function_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(context_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(context_clear)},
      {Py_tp_methods, context_methods},
      {Py_tp_getset, context_getters},
      {Py_tp_members, context_members},
      {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"tocha._C._FunctionBase", sizeof(ContextObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  context_type = reinterpret_cast<PyTypeObject*>(own(PyType_FromSpec(&spec)).give());
  check(PyModule_AddObjectRef(module, "_FunctionBase", reinterpret_cast<PyObject*>(context_type)));
}

}  // namespace tocha::python
