#include "autograd/leaf.h"

#include <limits>

#include "autograd/forward.h"
#include "core/dtype_messages.h"
#include "core/fake.h"
#include "core/sparse.h"
#include "dispatch/native.h"
#include "ops/arithmetic.h"
#include "ops/copies.h"
#include "ops/factories.h"
#include "ops/views.h"

namespace tocha::autograd {
namespace {

// A gradient has its variable's layout if that is dense, so that optimizers walk both in step.
bool has_layout_of(const Tensor& g, const Tensor& variable) {
  return variable.is_non_overlapping_and_dense() ? g.strides() == variable.strides() : g.is_contiguous();
}

// Who takes operators over is shown PyTorch's steps, and that does not look at who else has the memory.
bool only_ours(const Tensor& g) {
  if ((marks_of(g.get()) | dispatch_forced) & kDispatches) return Py_REFCNT(g.object()) == 1;
  return Py_REFCNT(g.object()) == 1 && g.storage().refs == 1 && !g.get()->base && Py_TYPE(g.object()) == tensor_type;
}

Tensor in_layout_of(const Tensor& g, const Tensor& variable) {
  if (is_sparse(g)) return grad_enabled() ? g : sparse_copy(g);
  if (!variable.is_non_overlapping_and_dense()) return ops::clone(g, MemoryFormat::Contiguous);
  if (grad_enabled() || asked(g)) {
    Tensor copy = ops::new_empty_strided(g, variable.sizes(), variable.strides(), std::nullopt, std::nullopt);
    return ops::copy_(copy, g, false);
  }
  Tensor copy = empty_strided(variable.sizes(), variable.strides(), g.dtype(), g.device());
  if (computes(copy)) backend(copy.device().type).copy(copy, g);
  return copy;
}

}  // namespace

class AccumulateGrad::Turn {
 public:
  explicit Turn(AccumulateGrad& leaf) : leaf_(leaf), own_(!leaf.busy_ || leaf.adding_ != std::this_thread::get_id()) {
    if (!own_) return;
    while (leaf_.busy_) {
      Py_BEGIN_ALLOW_THREADS std::this_thread::yield();
      Py_END_ALLOW_THREADS
    }
    leaf_.busy_ = true;
    leaf_.adding_ = std::this_thread::get_id();
  }
  ~Turn() {
    if (own_) leaf_.busy_ = false;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  AccumulateGrad& leaf_;
  bool own_;  // not when this thread already has its turn
};

AccumulateGrad::AccumulateGrad(const Tensor& variable) : variable_(variable) {
  sequence = std::numeric_limits<uint64_t>::max();  // as soon as the gradient is complete
  inputs.push_back({Ints(variable.sizes()), variable.dtype(), variable.device()});
  expect_grad_dtype();
}

void AccumulateGrad::expect_grad_dtype() {
  DType dtype = grad_dtype(variable_);
  inputs[0].any_dtype = dtype == DType::Undefined;
  inputs[0].dtype = inputs[0].any_dtype ? variable_.dtype() : dtype;
}

AccumulateGrad::~AccumulateGrad() {
  AutogradMeta* m = variable_.get()->autograd;
  if (m && m->accumulator == this) m->accumulator = nullptr;
}

NodeRef accumulator_of(const Tensor& leaf) {
  AutogradMeta& m = autograd_meta(leaf.get());
  if (m.accumulator) return NodeRef(m.accumulator);
  NodeRef node = make_node<AccumulateGrad>(leaf);
  m.accumulator = node.get();
  return node;
}

DType grad_dtype(const Tensor& leaf) {
  const AutogradMeta* m = leaf.get()->autograd;
  return m && m->has_grad_dtype ? m->grad_dtype : leaf.dtype();
}

void set_grad_dtype(const Tensor& leaf, DType dtype) {
  AutogradMeta& m = autograd_meta(leaf.get());
  TOCHA_CHECK(!m.grad || dtype == DType::Undefined || m.grad.dtype() == dtype, Runtime, "Cannot set grad_dtype to '",
              dtype, "' because there is already a gradient with dtype '", c_name(m.grad.dtype()),
              "'. Please clear the gradient (.grad = None) before changing grad_dtype, or ensure the new grad_dtype "
              "matches the existing gradient's dtype.");
  m.has_grad_dtype = true;
  m.grad_dtype = dtype;
  if (m.accumulator && !m.stands_in) static_cast<AccumulateGrad*>(m.accumulator)->expect_grad_dtype();
}

void disown_accumulator(TensorObject* leaf) {
  AutogradMeta* m = leaf->autograd;
  if (!m || !m->accumulator) return;
  auto* node = static_cast<AccumulateGrad*>(std::exchange(m->accumulator, nullptr));
  if (!std::exchange(m->stands_in, false))
    node->mark_swapped();
  else if (--node->refs == 0)
    release(node);
}

void stand_in(const Tensor& copy, const Tensor& t) {
  if (Edge e = gradient_edge(t)) {
    AutogradMeta& m = autograd_meta(copy.get());
    if (e.node.get() == t.get()->autograd->accumulator) {
      m.accumulator = e.node.get();
      ++m.accumulator->refs;
      m.stands_in = true;
    } else {
      m.grad_fn = e.node;
      m.output = e.input;
    }
    copy.get()->requires_grad = true;
  }
  if (Tensor tangent = tangent_of(t)) set_tangent(copy, tangent);
}

void accumulate_grad(const Tensor& t, Tensor g) {
  AutogradMeta& m = autograd_meta(t.get());
  if (is_fake(g)) {
    if (!m.grad)
      m.grad = fake_kept_gradient(g, t);
    else if (grad_enabled() || requires_grad(m.grad))
      m.grad = fake_sum(m.grad, g);
    else
      fake_add_(m.grad, g);
    return;
  }
  if (!m.grad) {
    if (!grad_enabled() && is_sparse(g) && Py_REFCNT(g.object()) == 1) {
      m.grad = std::move(g);
    } else if (!grad_enabled() && only_ours(g) && (!modes().grad_layout || has_layout_of(g, t)) && !g.is_conj() &&
               !g.is_neg()) {
      m.grad = asked(g) ? ops::detach(g) : std::move(g);
    } else {
      m.grad = in_layout_of(g, t);
    }
  } else if (!grad_enabled()) {
    // A grad that is itself part of a graph must not change under it.
    if (requires_grad(m.grad)) {
      m.grad = sum_of(m.grad, g);
    } else if (is_sparse(m.grad) || is_sparse(g)) {
      m.grad = sparse_accumulate(m.grad, g);
    } else {
      ops::add_(m.grad, g, Scalar(int64_t{1}));
    }
  } else {
    m.grad = sum_of(m.grad, g);
  }
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (is_fake(a) || is_fake(b)) return fake_sum(a, b);
  return is_sparse(a) || is_sparse(b) ? sparse_sum(a, b) : ops::add(a, b, Scalar(int64_t{1}));
}

void AccumulateGrad::apply(Grads& grads, Grads&) {
  TOCHA_CHECK(!swapped_, Runtime,
              "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the tensor that this gradient "
              "is for has been swapped since the forward pass.");
  if (!grads[0] || !variable_.get()->requires_grad) return;
  {
    Turn turn(*this);
    accumulate_grad(variable_, std::move(grads[0]));
  }
  AutogradMeta& m = autograd_meta(variable_.get());
  if (!m.post_accumulate) return;
  PyObject* values = PyDict_Values(m.post_accumulate);
  if (!values) throw PythonError();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); ++i) {
    PyObject* r = PyObject_CallOneArg(PyList_GET_ITEM(values, i), variable_.object());
    if (!r) {
      Py_DECREF(values);
      throw PythonError();
    }
    bool allowed = r == Py_None || PyObject_TypeCheck(r, tensor_type);  // a tensor is not looked at
    std::string type = Py_TYPE(r)->tp_name;
    Py_DECREF(r);
    if (!allowed) {
      Py_DECREF(values);
      fail(ErrorKind::Type, "expected Variable, but hook returned '" + type + "'");
    }
  }
  Py_DECREF(values);
}

Tensor run_hooks(PyObject* hooks, Tensor g) {
  PyObject* values = PyMapping_Values(hooks);
  if (!values) throw PythonError();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); ++i) {
    PyObject* argument = g ? g.object() : Py_None;
    PyObject* r = PyObject_CallOneArg(PyList_GET_ITEM(values, i), argument);
    if (!r) {
      Py_DECREF(values);
      throw PythonError();
    }
    if (r == Py_None) {
      Py_DECREF(r);
      continue;
    }
    if (!PyObject_TypeCheck(r, tensor_type)) {
      std::string type = Py_TYPE(r)->tp_name;
      Py_DECREF(r);
      Py_DECREF(values);
      fail(ErrorKind::Type, "expected a Tensor from a backward hook, but got ", type);
    }
    Tensor next = Tensor::steal(reinterpret_cast<TensorObject*>(r));
    if (g && !(next.sizes() == g.sizes() && next.dtype() == g.dtype() && next.device() == g.device())) {
      Py_DECREF(values);
      fail(ErrorKind::Runtime, "backward hook has changed the gradient: got ", next, ", expected ", g);
    }
    g = std::move(next);
  }
  Py_DECREF(values);
  return g;
}

}  // namespace tocha::autograd
