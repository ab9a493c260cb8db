// What a walk over the graph that is written in Python (tocha/_dynamo/compiled_autograd.py) asks of nodes, and the
// switch by which it takes the native one's place.
#include "python/walk_bindings.h"

#include "autograd/copy_slices.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/saved.h"
#include "python/autograd_bindings.h"
#include "python/parser.h"
#include "python/python_node.h"
#include "python/types.h"

namespace tocha::python {
namespace {

using autograd::AccumulateGrad;
using autograd::Edge;
using autograd::Fields;
using autograd::Grads;
using autograd::Node;
using autograd::NodeRef;
using autograd::Saved;
using autograd::SavedList;

thread_local PyObject* walker = nullptr;  // owned

Node& behind(PyObject* o) {
  Node* node = node_behind(o);
  TOCHA_CHECK(node, Type, "a node of the graph is needed, got ", Py_TYPE(o)->tp_name);
  return *node;
}

bool is_packed(const Saved& kept) {
  int objects = 0;
  kept.each_object([&](PyObject*) { ++objects; });
  return objects > 1;
}

// Everything that a node keeps, in order: tensors without their history.
class Everything final : public Fields {
 public:
  explicit Everything(const Node& owner) : owner_(owner), list(own(PyList_New(0))) {}
  void tensor(const char*, Saved& kept) override {
    if (is_packed(kept)) {
      packed = true;
      return;
    }
    if (kept.shape_only()) return sizes(nullptr, kept);
    Tensor t = kept.get(owner_, false);
    add(t ? Ref(t.give()) : Ref::borrow(Py_None));
  }
  void tensors(const char* name, SavedList& kept) override {
    for (size_t i = 0; i < kept.size(); ++i) tensor(name, kept[i]);
  }
  void sizes(const char*, Saved& kept) override {
    Tensor shape = kept.get(owner_, false);
    add(shape ? own(Py_BuildValue("(NNO)", int_tuple(shape.sizes()), int_tuple(shape.strides()),
                                  dtype_object(shape.dtype())))
              : Ref::borrow(Py_None));
  }
  void number(const char*, const Scalar& value) override { add(own(scalar_object(value))); }
  void ints(const char*, IntsView value) override { add(own(int_tuple(value))); }
  void text(const char*, const std::string& value) override { add(own(PyUnicode_FromString(value.c_str()))); }
  void none(const char*) override { add(Ref::borrow(Py_None)); }

 private:
  void add(Ref item) { check(PyList_Append(list.get(), item.get())); }
  const Node& owner_;

 public:
  Ref list;
  bool packed = false;
};

const char* kind_of(Node& node) {
  if (dynamic_cast<AccumulateGrad*>(&node)) return "leaf";
  if (python_face(&node)) return "function";
  bool closed = dynamic_cast<autograd::CopySlices*>(&node) || dynamic_cast<autograd::NotImplementedNode*>(&node);
  return closed ? "closed" : "plain";
}

// _node_state(node): (kind, name, what it keeps); kind is "leaf", "function", "plain", or "closed": one that does not
// show all that its apply depends on.
PyObject* node_state(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    Node& node = behind(o);
    const char* kind = kind_of(node);
    Everything kept(node);
    if (*kind == 'p' || *kind == 'f') node.fields(kept);
    return Py_BuildValue("(ssN)", kept.packed ? "closed" : kind, node.name(), kept.list.give());
  });
}

Ref callables(PyObject* hooks) {
  if (!hooks) return own(PyTuple_New(0));
  Ref values = own(PyMapping_Values(hooks));
  return own(PySequence_Tuple(values.get()));
}

// _node_hooks(node): (((input, hooks), ...) of its results, ((input, tensor), ...) that retain their gradients, hooks
// before it, hooks after it), hooks being tuples.
PyObject* all_hooks(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    Node& node = behind(o);
    Ref of_results = own(PyList_New(0)), retained = own(PyList_New(0));
    auto add = [](Ref& list, Ref item) { check(PyList_Append(list.get(), item.get())); };
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(&node)) {
      AutogradMeta* m = leaf->variable().get()->autograd;
      if (m && m->hooks) add(of_results, own(Py_BuildValue("(iN)", 0, callables(m->hooks).give())));
      return Py_BuildValue("(NNNN)", of_results.give(), retained.give(), callables(nullptr).give(),
                           callables(m ? m->post_accumulate : nullptr).give());
    }
    autograd::Extras* e = node.extras.get();
    if (e) {
      for (auto& h : e->tensor_hooks) add(of_results, own(Py_BuildValue("(IN)", h.input, callables(h.hooks).give())));
      for (auto& r : e->retained) add(retained, own(Py_BuildValue("(IO)", r.input, r.tensor)));
    }
    return Py_BuildValue("(NNNN)", of_results.give(), retained.give(), callables(e ? e->pre_hooks : nullptr).give(),
                         callables(e ? e->post_hooks : nullptr).give());
  });
}

Grads grads_of(PyObject* tuple, size_t expected) {
  Grads grads;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* g = PyTuple_GET_ITEM(tuple, i);
    TOCHA_CHECK(g == Py_None || is_tensor(g), Type, "expected Tensor or None as a gradient, but got ",
                Py_TYPE(g)->tp_name);
    grads.push_back(g == Py_None ? Tensor() : Tensor::borrow(g));
  }
  if (grads.size() < expected) grads.resize(expected);
  return grads;
}

Ref tuple_of(const Grads& grads) {
  Ref out = own(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
  for (size_t i = 0; i < grads.size(); ++i)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Py_NewRef(grads[i] ? grads[i].object() : Py_None));
  return out;
}

// _apply_node(node, grads): the gradients that go on along its edges, in the shapes that are expected there.
PyObject* apply_node(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *o, *given;
    if (!PyArg_ParseTuple(args, "OO!", &o, &PyTuple_Type, &given)) throw PythonError();
    Node& node = behind(o);
    NodeRef held(&node);
    Grads grads = grads_of(given, node.inputs.size()), out(node.next.size());
    node.apply(grads, out);
    out.resize(node.next.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const Edge& e = node.next[i];
      if (e && out[i] && e.input < e.node->inputs.size())
        out[i] = autograd::fit(std::move(out[i]), e.node->inputs[e.input], node, i);
    }
    return tuple_of(out).give();
  });
}

PyObject* release_node(PyObject*, PyObject* o) {
  return guarded([&] {
    behind(o).release_saved();
    return Py_NewRef(Py_None);
  });
}

Ref edges_of(const std::vector<Edge>& edges) {
  Ref out = own(PyTuple_New(static_cast<Py_ssize_t>(edges.size())));
  for (size_t i = 0; i < edges.size(); ++i)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i),
                     own(Py_BuildValue("(NI)", node_object(edges[i].node), edges[i].input)).give());
  return out;
}

// Hands a walk to Python; false where that does not want it.
bool in_python(const std::vector<Edge>& roots, const Grads& grads, const std::vector<Edge>& inputs,
               const autograd::BackwardOptions& options, Grads& found) {
  Ref asked = Ref::borrow(walker);
  Ref args = own(Py_BuildValue("(NNNOOO)", edges_of(roots).give(), tuple_of(grads).give(), edges_of(inputs).give(),
                               options.keep_graph ? Py_True : Py_False, options.create_graph ? Py_True : Py_False,
                               options.accumulate ? Py_True : Py_False));
  Ref answer = own(PyObject_Call(asked.get(), args.get(), nullptr));
  if (answer.get() == Py_NotImplemented) return false;
  found = grads_of(answer.get(), inputs.size());
  return true;
}

// _set_walker(function or None): who walks graphs in this thread. Returns who did.
PyObject* set_walker(PyObject*, PyObject* function) {
  PyObject* before = walker ? walker : Py_NewRef(Py_None);
  walker = function == Py_None ? nullptr : Py_NewRef(function);
  autograd::other_walk = walker ? in_python : nullptr;
  return before;
}

PyMethodDef walk_functions[] = {
    {"_node_state", node_state, METH_O, nullptr},       {"_node_hooks", all_hooks, METH_O, nullptr},
    {"_apply_node", apply_node, METH_VARARGS, nullptr}, {"_release_node", release_node, METH_O, nullptr},
    {"_set_walker", set_walker, METH_O, nullptr},
};

}  // namespace

PyObject* call_node(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    Node& node = behind(self);
    TOCHA_CHECK(!kwargs || PyDict_GET_SIZE(kwargs) == 0, Type, "keyword arguments are not supported");
    NodeRef held(&node);
    Grads grads = grads_of(args, node.inputs.size()), out(node.next.size());
    TOCHA_CHECK(grads.size() == std::max<size_t>(node.inputs.size(), 1), Type, "expected ", node.inputs.size(),
                " gradients, got ", grads.size());
    node.apply(grads, out);
    out.resize(node.next.size());
    if (out.size() == 1) return Py_NewRef(out[0] ? out[0].object() : Py_None);
    return tuple_of(out).give();
  });
}

void add_walk_functions(std::vector<PyMethodDef>& functions) {
  functions.insert(functions.end(), std::begin(walk_functions), std::end(walk_functions));
}

}  // namespace tocha::python
