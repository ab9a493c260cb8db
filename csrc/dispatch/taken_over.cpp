#include "dispatch/taken_over.h"

#include "core/fake.h"
#include "dispatch/level_hooks.h"

namespace tocha::dispatch {

PyObject* (*call_python)(Call& call, const Value* given) = nullptr;
const Batching& (*batching_of)(const Call& call) = nullptr;
Tensor (*value_behind)(const Tensor& t) = nullptr;
bool (*innermost_maps)(const Call& call, const Value* given) = nullptr;
thread_local int open_levels = 0, vmaps = 0;

namespace {

bool takes_over(const Tensor& t) { return t && t.get()->dispatches; }
bool takes_over(Device d) { return python_device && *python_device == d.type; }

// Whether an argument alone makes Python answer for the call.
bool takes_over(const Value& v) {
  switch (v.kind) {
    case Value::tensor:
      return takes_over(v.as<Tensor>());
    case Value::tensors:
      for (const Tensor& t : v.as<Tensors>())
        if (takes_over(t)) return true;
      return false;
    case Value::device:
      return takes_over(v.as<Device>());
    case Value::opt_device:
      return takes_over(v.as<std::optional<Device>>().value_or(Device{}));
    default:
      return false;
  }
}

// Below autograd nothing is recorded, whoever computes.
class Below {
 public:
  Below() : grad_(modes().grad), level_(modes().forward_level) {
    modes().grad = false;
    modes().forward_level = 0;
  }
  ~Below() {
    modes().grad = grad_;
    modes().forward_level = level_;
  }
  Below(const Below&) = delete;
  Below& operator=(const Below&) = delete;

 private:
  bool grad_;
  int64_t level_;
};

// The versions of what a call writes to: each goes up by one, whether or not Python has written natively.
class Writes {
 public:
  Writes(const Call& call, const Value* given) {
    for (int i = 0; i < (call.form == Call::inplace ? 1 : call.outs); ++i) {
      if (given[i].kind == Value::tensors)
        for (const Tensor& t : given[i].as<Tensors>()) add(t);
      if (given[i].kind == Value::tensor) add(given[i].as<Tensor>());
    }
  }
  void count() const {
    for (const auto& [t, before] : written_) {
      if (t->version() == before)
        t->bump_version();
      else
        t->get()->version->version = before + 1;
    }
  }

 private:
  void add(const Tensor& t) {
    if (t) written_.emplace_back(&t, t.version());
  }
  // The caller's: levels ask whether anybody else holds what is written to.
  std::vector<std::pair<const Tensor*, int64_t>> written_;
};

// What Python made for a view operator is a view of self, with or without memory.
void make_view_of(const Tensor& self, PyObject* result) {
  if (!PyObject_TypeCheck(result, tensor_type)) return;
  auto* t = reinterpret_cast<TensorObject*>(result);
  TensorObject* s = self.get();
  if (t == s || t->base || t->autograd || s->inference || t->inference) return;
  t->base = s->base ? s->base : s;
  if (t->base == t) {
    t->base = nullptr;
    return;
  }
  Py_INCREF(reinterpret_cast<PyObject*>(t->base));
  ++t->base->held;
  VersionCounter* counter = version_counter(s);
  if (t->version != counter) {
    if (t->version && --t->version->refs == 0) delete t->version;
    t->version = counter;
    ++counter->refs;
  }
  t->history_at = static_cast<uint32_t>(counter->version);
  t->origin = s->origin;
  if (modes().inference)
    t->origin = ViewOrigin::inference;
  else if (!modes().grad && s->origin != ViewOrigin::inference)
    t->origin = ViewOrigin::no_grad;
}

template <class F>
bool any_tensor(const Call& call, const Value* given, F f) {
  for (int i = 0; i < call.count; ++i) {
    if (given[i].kind == Value::tensor && given[i].as<Tensor>() && f(given[i].as<Tensor>())) return true;
    if (given[i].kind == Value::tensors)
      for (const Tensor& t : given[i].as<Tensors>())
        if (t && f(t)) return true;
  }
  return false;
}

bool of_level(const Tensor& t) { return t.get()->dispatches && !value_behind(t).is(t); }

// What is made of other operators falls apart into them above levels of transforms; only classes and devices see it
// whole.
bool seen_whole(const Call& call, const Value* given) {
  const bool levels = open_levels && any_tensor(call, given, of_level);
  auto by_class = [&](const Tensor& t) {
    const bool of_class = Py_TYPE(t.object()) != tensor_type && !(levels && is_fake(t));
    return t.get()->dispatches && (of_class || takes_over(t.device()));
  };
  if (any_tensor(call, given, by_class)) return true;
  const Batching::Kind kind = batching_of(call).kind;  // asked last: it loads the rules of vmap
  if (kind != Batching::body && kind != Batching::body_with_gradient) return true;
  return kind == Batching::body_with_gradient && !innermost_maps(call, given);
}

// A factory: what it makes inside a level belongs there, and may be written to.
bool makes_tensors(const Call& call, const Value* given) {
  if (call.form != Call::functional) return false;
  for (int i = 0; i < call.count; ++i)
    if (given[i].kind == Value::tensor || given[i].kind == Value::tensors) return false;
  return batching_of(call).kind < Batching::body;
}

void make_views_of(const Tensor& self, PyObject* result) {
  if (!PyList_Check(result) && !PyTuple_Check(result)) return make_view_of(self, result);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i)
    make_view_of(self, PySequence_Fast_GET_ITEM(result, i));
}

}  // namespace

bool only_numbers(const Call& call, const Value* given) {
  if (!open_levels || call.form != Call::functional) return false;
  return any_tensor(call, given, [](const Tensor& t) { return t.is_wrapped_number(); }) &&
         !any_tensor(call, given, [](const Tensor& t) { return !t.is_wrapped_number(); });
}

bool taken(const Call& call, const Value* given) {
  if (modes().dispatch_off) return false;
  if (only_numbers(call, given)) return fake_type || modes().dispatch_modes;
  // A mode sees what levels make of a call, not the call.
  if (modes().dispatch_modes) return !(open_levels && any_tensor(call, given, of_level)) || seen_whole(call, given);
  for (int i = 0; i < call.count; ++i)
    if (takes_over(given[i])) return seen_whole(call, given);
  return open_levels && (makes_tensors(call, given) || (vmaps && batching_of(call).draws));
}

Result run(Call& call, const Value* given) {
  const Writes writes(call, given);
  PyObject* result;
  {
    Below off;
    result = call_python(call, given);
  }
  if (call.form == Call::view) make_views_of(given[0].as<Tensor>(), result);
  writes.count();
  return Result(result);
}

void Result::read(PyObject* o, Tensor& out) {
  if (o == Py_None) return;
  TOCHA_CHECK(PyObject_TypeCheck(o, tensor_type), Runtime, "Unable to cast Python instance of type ",
              Py_TYPE(o)->tp_name, " to a Tensor: that is what __torch_dispatch__ has to return here");
  out = Tensor::borrow(o);
}

void Result::read(PyObject* o, Tensors& out) {
  TOCHA_CHECK(PyList_Check(o) || PyTuple_Check(o), Runtime, "Unable to cast Python instance of type ",
              Py_TYPE(o)->tp_name, " to a list of Tensors: that is what __torch_dispatch__ has to return here");
  out.resize(static_cast<size_t>(PySequence_Fast_GET_SIZE(o)));
  for (size_t i = 0; i < out.size(); ++i) read(PySequence_Fast_GET_ITEM(o, static_cast<Py_ssize_t>(i)), out[i]);
}

void Result::read(PyObject* o, bool& out) {
  int truth = PyObject_IsTrue(o);
  if (truth < 0) throw PythonError();
  out = truth != 0;
}

void Result::read(PyObject* o, int64_t& out) {
  out = PyLong_AsLongLong(o);
  if (out == -1 && PyErr_Occurred()) throw PythonError();
}

void Result::read(PyObject* o, double& out) {
  out = PyFloat_AsDouble(o);
  if (out == -1 && PyErr_Occurred()) throw PythonError();
}

void Result::read(PyObject* o, Scalar& out) {
  if (PyBool_Check(o)) {
    out = Scalar(o == Py_True);
  } else if (PyLong_Check(o)) {
    int64_t v;
    read(o, v);
    out = Scalar(v);
  } else if (PyComplex_Check(o)) {
    out = Scalar(Complex<double>{PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)});
  } else {
    double v;
    read(o, v);
    out = Scalar(v);
  }
}

PyObject* Result::item(PyObject* o, size_t i, size_t n) {
  bool fits = (PyList_Check(o) || PyTuple_Check(o)) && PySequence_Fast_GET_SIZE(o) == static_cast<Py_ssize_t>(n);
  TOCHA_CHECK(fits, Runtime, "__torch_dispatch__ has to return ", n, " results here, got ", Py_TYPE(o)->tp_name);
  return PySequence_Fast_GET_ITEM(o, static_cast<Py_ssize_t>(i));
}

void Result::fill(Tensor* outs, int n) const {
  if (n == 1) return read(owned_, outs[0]);
  for (int i = 0; i < n; ++i) read(item(owned_, static_cast<size_t>(i), static_cast<size_t>(n)), outs[i]);
}

}  // namespace tocha::dispatch
