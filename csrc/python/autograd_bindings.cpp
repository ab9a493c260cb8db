#include "python/autograd_bindings.h"

#include <map>
#include <string>

#include "autograd/engine.h"
#include "autograd/forward.h"
#include "autograd/gc.h"
#include "autograd/leaf.h"
#include "autograd/levels.h"
#include "core/fake.h"
#include "core/sparse.h"
#include "ops/factories.h"
#include "ops/views.h"
#include "python/parser.h"
#include "python/python_node.h"
#include "python/saved_fields.h"
#include "python/types.h"
#include "python/walk_bindings.h"

namespace tocha::python {
namespace {

using autograd::Edge;
using autograd::Extras;
using autograd::Node;
using autograd::NodeRef;

struct NodeObject {
  PyObject_HEAD Node* node;  // counted
};

PyTypeObject* node_type = nullptr;

Node* node_of(PyObject* o) { return reinterpret_cast<NodeObject*>(o)->node; }

void node_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Node* node = node_of(self);
  if (node->extras) node->extras->wrapper = nullptr;
  if (--node->refs == 0) release(node);
  type->tp_free(self);
  Py_DECREF(type);
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return autograd::traverse(node_of(self), visit, arg);
}
int node_clear(PyObject* self) {
  Extras* e = node_of(self)->extras.get();
  if (!e || node_of(self)->refs != 1) return 0;
  Py_CLEAR(e->metadata);
  Py_CLEAR(e->pre_hooks);
  Py_CLEAR(e->post_hooks);
  return 0;
}
PyObject* node_getattr(PyObject* self, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const std::string wanted = text_of(name);
    if (Ref found = saved_attribute(*node_of(self), wanted)) return found.give();
    TOCHA_CHECK(wanted.rfind("_saved_", 0) != 0 && wanted.rfind("_raw_saved_", 0) != 0, Attribute, "'",
                node_of(self)->title(), "' object has no attribute '", wanted, "'");
    return PyObject_GenericGetAttr(self, name);
  });
}
PyObject* node_dir(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Ref all = own(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
    Ref kept = saved_names(*node_of(self));
    return PySequence_InPlaceConcat(all.get(), kept.get());
  });
}

PyObject* node_name(PyObject* self, PyObject*) { return PyUnicode_FromString(node_of(self)->title()); }
PyObject* node_sequence(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(node_of(self)->sequence); }

PyObject* node_next_functions(PyObject* self, void*) {
  return guarded([&] { return next_functions(*node_of(self)); });
}
PyObject* node_metadata(PyObject* self, void*) {
  return guarded([&] {
    Extras& e = node_of(self)->extra();
    if (!e.metadata) e.metadata = own(PyDict_New()).give();
    return Py_NewRef(e.metadata);
  });
}
PyObject* node_input_metadata(PyObject* self, void*) {
  return guarded([&] { return input_metadata(*node_of(self)); });
}
PyObject* node_variable(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    auto* leaf = dynamic_cast<autograd::AccumulateGrad*>(node_of(self));
    TOCHA_CHECK(leaf, Attribute, "'", node_of(self)->title(), "' object has no attribute 'variable'");
    return Py_NewRef(leaf->variable().object());
  });
}

PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, "The node's name."},
    {"_sequence_nr", node_sequence, METH_NOARGS, "When it was made, as a running number."},
    {"_hooks", node_hooks, METH_O, "_hooks(kind): the dict of its 'pre' or 'post' hooks."},
    {"__dir__", node_dir, METH_NOARGS, nullptr},
    {},
};
PyGetSetDef node_getters[] = {
    {"next_functions", node_next_functions, nullptr, "Where its gradients go: ((node, input), ...).", nullptr},
    {"metadata", node_metadata, nullptr, "A dict for notes.", nullptr},
    {"_input_metadata", node_input_metadata, nullptr, nullptr, nullptr},
    {"variable", node_variable, nullptr, "The leaf it adds to.", nullptr},
    {},
};

// One class per node name, made when first seen.
PyTypeObject* type_named(const std::string& name) {
  static auto& types = *new std::map<std::string, PyTypeObject*>();
  auto found = types.find(name);
  if (found != types.end()) return found->second;
  auto* full = new std::string("tocha.autograd." + name);
  PyType_Slot slots[] = {{0, nullptr}};
  PyType_Spec spec = {full->c_str(), 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  Ref bases = own(PyTuple_Pack(1, reinterpret_cast<PyObject*>(node_type)));
  auto* type = reinterpret_cast<PyTypeObject*>(own(PyType_FromSpecWithBases(&spec, bases.get())).give());
  check(PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), "__module__",
                               own(PyUnicode_FromString("tocha.autograd")).get()));
  return types[name] = type;
}

Edge edge_of(PyObject* o, const char* what, Py_ssize_t i) {
  if (is_tensor(o)) {
    Edge e = autograd::gradient_edge(Tensor::borrow(o));
    return e;
  }
  // GradientEdge(node, output_nr)
  if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2) {
    PyObject* n = PyTuple_GET_ITEM(o, 0);
    auto input = static_cast<uint32_t>(PyLong_AsLong(PyTuple_GET_ITEM(o, 1)));
    if (Node* node = node_behind(n)) return {NodeRef(node), input};
  }
  fail(ErrorKind::Type, "element ", i, " of ", what, " must be a Tensor or a GradientEdge, got ", Py_TYPE(o)->tp_name);
}

// A gradient to start from has the shape and the kind of numbers of what it is the gradient of.
void check_start(const Tensor& grad, const Edge& e, Py_ssize_t i) {
  if (!grad || e.input >= e.node->inputs.size()) return;
  const auto& shape = e.node->inputs[e.input];
  if (is_fake(grad)) return;  // sizes may be symbols
  TOCHA_CHECK(grad.sizes() == IntsView(shape.sizes), Runtime, "[backward] Mismatch in shape: grad_output[", i,
              "] has a shape of torch.Size(", grad.sizes(), ") and output[", i, "] has a shape of torch.Size(",
              IntsView(shape.sizes), ").");
  TOCHA_CHECK(is_complex(grad.dtype()) == is_complex(shape.dtype), Runtime,
              "[backward] For complex Tensors, both grad_output and output are required to have the same dtype. "
              "Mismatch in dtype: grad_output[",
              i, "] has a dtype of ", grad.dtype(), " and output[", i, "] has a dtype of ", shape.dtype, ".");
}

// _backward(tensors, grads, keep_graph, create_graph, inputs, allow_unreachable, accumulate)
PyObject* run_backward(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensors, *grads, *inputs;
    int keep, create, unreachable, accumulate;
    if (!PyArg_ParseTuple(args, "O!O!ppO!pp", &PyTuple_Type, &tensors, &PyTuple_Type, &grads, &keep, &create,
                          &PyTuple_Type, &inputs, &unreachable, &accumulate))
      throw PythonError();
    std::vector<Edge> roots, wanted;
    autograd::Grads start;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
      PyObject* t = PyTuple_GET_ITEM(tensors, i);
      Edge e = edge_of(t, "tensors", i);
      TOCHA_CHECK(e, Runtime, "[backward] element ", i,
                  " of tensors does not require grad and does not have a grad_fn");
      PyObject* g = PyTuple_GET_ITEM(grads, i);
      Tensor grad = g == Py_None ? Tensor() : Tensor::borrow(g);
      check_start(grad, e, i);
      roots.push_back(std::move(e));
      start.push_back(std::move(grad));
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
      PyObject* o = PyTuple_GET_ITEM(inputs, i);
      Edge e = edge_of(o, "inputs", i);
      // A view requires grad when its base does, also one with no history of its own: then nothing leads to it.
      TOCHA_CHECK(
          e || !is_tensor(o) || autograd::requires_grad(Tensor::borrow(o)), Runtime, "[backward] element ", i,
          " of the input tensors does not require grad: One of the differentiated Tensors does not require grad");
      if (accumulate && is_tensor(o)) {
        Tensor t = Tensor::borrow(o);
        if (!autograd::is_leaf(t)) autograd::retain_grad(t);
      }
      wanted.push_back(std::move(e));
    }
    autograd::BackwardOptions options{keep != 0, create != 0, accumulate != 0, unreachable != 0};
    autograd::Grads found = autograd::backward(roots, std::move(start), wanted, options);
    if (accumulate) return Py_NewRef(Py_None);
    Ref out = own(PyTuple_New(static_cast<Py_ssize_t>(found.size())));
    for (size_t i = 0; i < found.size(); ++i) {
      TOCHA_CHECK(
          found[i] || unreachable, Runtime, "[grad] The differentiated Tensor at index ", i,
          " appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.");
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Py_NewRef(found[i] ? found[i].object() : Py_None));
    }
    return out.give();
  });
}

// backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): the usual call without a detour; the
// rest, and what subclasses override, in Python (tocha.autograd.backward).
PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    levels::check_backward_outside();
    static const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs"};
    PyObject* given[4] = {Py_None, Py_None, Py_False, Py_None};
    Py_ssize_t count = PyVectorcall_NARGS(static_cast<size_t>(n));
    TOCHA_CHECK(count <= 4, Type, "backward() takes from 0 to 4 positional arguments but ", count, " were given");
    for (Py_ssize_t i = 0; i < count; ++i) given[i] = args[i];
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
      PyObject* key = PyTuple_GET_ITEM(kwnames, k);
      int at = 0;
      while (at < 4 && PyUnicode_CompareWithASCIIString(key, names[at]) != 0) ++at;
      TOCHA_CHECK(at < 4, Type, "backward() got an unexpected keyword argument '", text_of(key), "'");
      TOCHA_CHECK(at >= count, Type, "backward() got multiple values for argument '", names[at], "'");
      given[at] = args[count + k];
    }
    Tensor t = Tensor::borrow(self);
    bool usual = nobody_asks(self) && given[3] == Py_None &&
                 (given[0] == Py_None || Py_TYPE(given[0]) == tensor_type) && given[2] == Py_False &&
                 (given[1] == Py_None || PyBool_Check(given[1]));
    if (!usual || (given[0] == Py_None && (t.numel() != 1 || !t.is_floating() || !autograd::requires_grad(t)))) {
      PyObject* general = cached_attribute("tocha._tensor", "_backward");
      PyObject* all[] = {self, given[0], given[1], given[2], given[3]};
      return PyObject_Vectorcall(general, all, 5, nullptr);
    }
    Edge e = autograd::gradient_edge(t);
    TOCHA_CHECK(e, Runtime, "[backward] element 0 of tensors does not require grad and does not have a grad_fn");
    Tensor start;
    if (given[0] == Py_None && ((autograd::marks(t) | dispatch_forced) & kDispatches)) {
      autograd::Unrecorded off;
      start = ops::ones_like(t, std::nullopt, std::nullopt, MemoryFormat::Preserve);
    } else if (given[0] == Py_None) {
      start = empty_strided(t.sizes(), t.strides(), t.dtype(), t.device());
      if (!t.is_meta()) Scalar(1.0).store(t.dtype(), start.bytes());
    } else {
      start = Tensor::borrow(given[0]);
      check_start(start, e, 0);
    }
    bool create = given[2] == Py_True;
    bool keep = given[1] == Py_None ? create : given[1] == Py_True;
    std::vector<Edge> roots{std::move(e)};
    autograd::Grads grads{std::move(start)};
    autograd::backward(roots, std::move(grads), {}, {keep, create, true, true});
    return Py_NewRef(Py_None);
  });
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(modes().grad); }
PyObject* set_grad_enabled(PyObject*, PyObject* on) {
  modes().grad = levels::asked_to_record = on == Py_True;
  return Py_NewRef(Py_None);
}
PyObject* is_inference_enabled(PyObject*, PyObject*) { return PyBool_FromLong(modes().inference); }
PyObject* set_inference(PyObject*, PyObject* on) {
  modes().inference = on == Py_True;
  return Py_NewRef(Py_None);
}
PyObject* keeps_grad_layout(PyObject*, PyObject*) { return PyBool_FromLong(modes().grad_layout); }
PyObject* set_grad_layout(PyObject*, PyObject* on) {
  modes().grad_layout = on == Py_True;
  return Py_NewRef(Py_None);
}
PyObject* set_anomaly(PyObject*, PyObject* args) {
  int on, nan;
  if (!PyArg_ParseTuple(args, "pp", &on, &nan)) return nullptr;
  modes().anomaly = on;
  modes().anomaly_checks_nan = nan;
  return Py_NewRef(Py_None);
}
PyObject* get_anomaly(PyObject*, PyObject*) {
  return Py_BuildValue("(OO)", modes().anomaly ? Py_True : Py_False, modes().anomaly_checks_nan ? Py_True : Py_False);
}
// _set_saved_hooks(pack, unpack): None, None for none. The caller keeps them alive.
PyObject* set_saved_hooks(PyObject*, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  modes().pack = pack == Py_None ? nullptr : pack;
  modes().unpack = unpack == Py_None ? nullptr : unpack;
  return Py_NewRef(Py_None);
}
PyObject* queue_callback(PyObject*, PyObject* f) {
  return guarded([&] {
    autograd::queue_callback(f);
    return Py_NewRef(Py_None);
  });
}
PyObject* current_node(PyObject*, PyObject*) {
  return guarded([&] { return node_object(NodeRef(autograd::current_node())); });
}
PyObject* next_sequence_number(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(autograd::next_sequence_number());
}
PyObject* gradient_edge(PyObject*, PyObject* t) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(is_tensor(t), Type, "a Tensor is needed, got ", Py_TYPE(t)->tp_name);
    Edge e = autograd::gradient_edge(Tensor::borrow(t));
    TOCHA_CHECK(e, Runtime, "Can't get GradientEdge for a tensor that doesn't require grad");
    return Py_BuildValue("(NI)", node_object(e.node), e.input);
  });
}

PyObject* graph_task(PyObject*, PyObject*) { return PyLong_FromLongLong(autograd::current_walk()); }
// _reached(tensors): how many of them the walk in progress brings a gradient to.
PyObject* reached(PyObject*, PyObject* tensors) {
  return guarded([&]() -> PyObject* {
    long n = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
      Edge e = autograd::gradient_edge(Tensor::borrow(PyTuple_GET_ITEM(tensors, i)));
      n += e && autograd::will_run(e.node.get());
    }
    return PyLong_FromLong(n);
  });
}

PyObject* enter_dual_level(PyObject*, PyObject*) {
  modes().forward_level = levels::new_forward_level();
  return PyLong_FromLongLong(modes().forward_level - 1);
}
PyObject* exit_dual_level(PyObject*, PyObject*) {
  return guarded([&] {
    autograd::drop_tangents();
    modes().forward_level = 0;
    return Py_NewRef(Py_None);
  });
}
PyObject* make_dual(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *o, *t;
    if (!PyArg_ParseTuple(args, "O!O!", tensor_type, &o, tensor_type, &t)) throw PythonError();
    Tensor primal = Tensor::borrow(o), tangent = Tensor::borrow(t);
    check_strided(primal, "make_dual");
    check_strided(tangent, "make_dual");
    TOCHA_CHECK(!autograd::tangent_of(primal), Runtime,
                "Expected primal to have no tangent: it already has a forward gradient at this level.");
    TOCHA_CHECK(primal.sizes() == tangent.sizes(), Runtime, "Expected tangent of shape ", primal.sizes(), ", got ",
                tangent.sizes());
    TOCHA_CHECK(primal.dtype() == tangent.dtype(), Runtime, "Expected tangent of dtype ", primal.dtype(), ", got ",
                tangent.dtype());
    Tensor dual = ops::alias(primal);
    autograd::set_tangent(dual, tangent);
    return dual.give();
  });
}
PyObject* unpack_dual(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(is_tensor(o), Type, "unpack_dual: a Tensor is needed, got ", Py_TYPE(o)->tp_name);
    Tensor t = Tensor::borrow(o);
    Tensor tangent = autograd::tangent_of(t);
    if (!tangent) return Py_BuildValue("(OO)", o, Py_None);
    int64_t level = std::exchange(modes().forward_level, 0);
    Tensor primal = ops::alias(t);
    modes().forward_level = level;
    return Py_BuildValue("(NO)", primal.give(), tangent.object());
  });
}
PyObject* set_tangent(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *o, *t;
    if (!PyArg_ParseTuple(args, "O!O!", tensor_type, &o, tensor_type, &t)) throw PythonError();
    Tensor dual = Tensor::borrow(o);
    autograd::set_tangent(dual, Tensor::borrow(t));
    if (NodeRef fn = autograd::grad_fn(dual)) {
      Tensors results(dual.get()->autograd->output + 1);
      results.back() = dual;
      autograd::share_tangents(*fn, results);
    }
    return Py_NewRef(Py_None);
  });
}

PyMethodDef function_table[] = {
    {"_enter_dual_level", enter_dual_level, METH_NOARGS, nullptr},
    {"_exit_dual_level", exit_dual_level, METH_NOARGS, nullptr},
    {"_make_dual", make_dual, METH_VARARGS, nullptr},
    {"_unpack_dual", unpack_dual, METH_O, nullptr},
    {"_set_tangent", set_tangent, METH_VARARGS, nullptr},
    {"_graph_task", graph_task, METH_NOARGS, nullptr},
    {"_reached", reached, METH_O, nullptr},
    {"_backward", run_backward, METH_VARARGS, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether operations are recorded for gradients."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference_enabled, METH_NOARGS, "Whether inference mode is on."},
    {"_set_inference", set_inference, METH_O, nullptr},
    {"_keeps_grad_layout", keeps_grad_layout, METH_NOARGS, nullptr},
    {"_set_grad_layout", set_grad_layout, METH_O, nullptr},
    {"_set_anomaly", set_anomaly, METH_VARARGS, nullptr},
    {"_get_anomaly", get_anomaly, METH_NOARGS, nullptr},
    {"_set_saved_hooks", set_saved_hooks, METH_VARARGS, nullptr},
    {"_queue_callback", queue_callback, METH_O, nullptr},
    {"_current_node", current_node, METH_NOARGS, nullptr},
    {"_next_sequence_number", next_sequence_number, METH_NOARGS, nullptr},
    {"_gradient_edge", gradient_edge, METH_O, nullptr},
    {"_record_function", record_function, METH_VARARGS, nullptr},
    {"_record_node", record_node, METH_VARARGS, nullptr},
    {"_record_write", record_write, METH_VARARGS, nullptr},
};

}  // namespace

PyObject* node_hooks(PyObject* self, PyObject* kind) {
  return guarded([&] {
    Node* node = node_behind(self);
    TOCHA_CHECK(node, Runtime, "this object is not part of a graph");
    Extras& e = node->extra();
    PyObject*& slot = text_of(kind) == "pre" ? e.pre_hooks : e.post_hooks;
    if (!slot) slot = own(PyObject_CallNoArgs(cached_attribute("collections", "OrderedDict"))).give();
    return Py_NewRef(slot);
  });
}

PyObject* next_functions(Node& node) {
  Ref all = own(PyTuple_New(static_cast<Py_ssize_t>(node.next.size())));
  for (size_t i = 0; i < node.next.size(); ++i) {
    Ref pair = own(Py_BuildValue("(NI)", node_object(node.next[i].node), node.next[i].input));
    PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), pair.give());
  }
  return all.give();
}

PyObject* input_metadata(const Node& node) {
  Ref list = own(PyList_New(0));
  for (const auto& s : node.inputs) {
    PyObject* dtype = s.dtype == DType::Undefined ? Py_None : dtype_object(s.dtype);  // of a result that is no tensor
    Ref item = own(Py_BuildValue("(NON)", size_object(s.sizes), dtype, device_object(s.device)));
    check(PyList_Append(list.get(), item.get()));
  }
  return list.give();
}

PyObject* node_object(const NodeRef& ref) {
  Node* node = ref.get();
  if (!node) return Py_NewRef(Py_None);
  if (PyObject* face = python_face(node)) return Py_NewRef(face);
  Extras& e = node->extra();
  if (e.wrapper) return Py_NewRef(e.wrapper);
  PyTypeObject* type = type_named(node->title());
  PyObject* o = own(type->tp_alloc(type, 0)).give();
  reinterpret_cast<NodeObject*>(o)->node = node;
  ++node->refs;
  e.wrapper = o;
  return o;
}

Node* node_behind(PyObject* o) {
  if (PyObject_TypeCheck(o, node_type)) return node_of(o);
  return function_node(o);
}

void add_autograd_methods(std::vector<PyMethodDef>& methods) {
  methods.push_back(
      {"backward", reinterpret_cast<PyCFunction>(tensor_backward), METH_FASTCALL | METH_KEYWORDS,
       "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): adds the gradients of "
       "the tensor to the grad of the leaves it came from."});
}

void add_autograd_functions(std::vector<PyMethodDef>& functions) {
  functions.insert(functions.end(), std::begin(function_table), std::end(function_table));
  add_walk_functions(functions);
}

void add_autograd_types(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
      {Py_tp_getattro, reinterpret_cast<void*>(node_getattr)},
      {Py_tp_call, reinterpret_cast<void*>(call_node)},
      {Py_tp_methods, node_methods},
      {Py_tp_getset, node_getters},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "tocha.autograd.graph.Node", sizeof(NodeObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  node_type = reinterpret_cast<PyTypeObject*>(own(PyType_FromSpec(&spec)).give());
  check(PyModule_AddObjectRef(module, "_Node", reinterpret_cast<PyObject*>(node_type)));
  add_function_type(module);
  add_saved_tensor_type(module);
}

}  // namespace tocha::python
