#include "python/indexing.h"

#include "autograd/levels.h"
#include "autograd/mode.h"
#include "core/dtype_messages.h"
#include "dispatch/backend.h"
#include "dispatch/rules.h"
#include "ops/copies.h"
#include "ops/indexing.h"
#include "ops/masks.h"
#include "ops/views.h"
#include "python/dispatch_calls.h"
#include "python/level_calls.h"
#include "python/new_tensor.h"
#include "python/parser.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

// An index, taken apart: the basic part as one view, the tensors that pick elements by dim of that view.
struct Indexing {
  Ints sizes, strides;
  int64_t offset = 0;
  Tensor recorded;     // the view so far by single operators, where a gradient will flow through it
  Tensors picks;       // null where a dim is taken whole; a mask of n dims is one entry for n dims
  int64_t places = 0;  // dims that picks covers
  bool advanced = false;

  void pick(const Tensor& t, int64_t dims) {
    picks.push_back(t);
    places += dims;
    advanced = advanced || t;
  }
};

bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

bool is_array(PyObject* o) {
  const NumpyTypes* numpy = loaded_numpy();
  return numpy && PyObject_TypeCheck(o, numpy->ndarray);
}

bool is_plain_sequence(PyObject* o) {
  return PySequence_Check(o) && !is_tensor(o) && !PyUnicode_Check(o) && !PyBytes_Check(o);
}

Tensor index_tensor(PyObject* o) {
  Tensor t;
  if (is_tensor(o)) {
    t = Tensor::borrow(o);
  } else if (is_array(o)) {
    t = tensor_from_data(o, std::nullopt, std::nullopt);
  } else {
    Ref list = own(PySequence_List(o));
    t = tensor_from_data(list.get(), std::nullopt, std::nullopt);
    if (t.numel() == 0) t = empty(t.sizes(), DType::Int64, Device{});
  }
  DType d = t.dtype();
  TOCHA_CHECK(is_mask(t) || d == DType::Int64 || d == DType::Int32 || (t.dim() == 0 && is_integral(d)), Index,
              "tensors used as indices must be long, int, byte or bool tensors, got ", d);
  return t;
}

// Whether it stands for an element of each sample (vmap), so that it cannot be read.
bool is_batched(Tensor t) {
  while (const levels::Held* h = levels::held(t)) {
    if (h->dim >= 0) return true;
    t = levels::value_of(*h);
  }
  return false;
}

bool is_select(PyObject* o) {  // picks one element of a dim
  if (PyLong_CheckExact(o)) return true;
  if (PyBool_Check(o) || is_numpy_bool(o)) return false;
  if (is_tensor(o)) {
    auto* t = reinterpret_cast<TensorObject*>(o);
    return t->ndim == 0 && is_integral(t->dtype) && t->dtype != DType::UInt8 && !is_batched(Tensor::borrow(o));
  }
  return is_int(o);
}

// A list stands for a tensor, unless it holds what no tensor is made of: then it stands for a tuple.
bool stands_for_tuple(PyObject* index) {
  if (!is_plain_sequence(index) || is_array(index)) return false;
  Py_ssize_t n = PySequence_Size(index);
  if (n < 0) throw PythonError();
  if (n >= 32) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Ref o = own(PySequence_GetItem(index, i));
    if (PySlice_Check(o.get()) || o.get() == Py_Ellipsis || o.get() == Py_None || is_tensor(o.get()) ||
        is_plain_sequence(o.get()))
      return true;
  }
  return false;
}

// One item of an index; lists and arrays already are tensors.
struct Item {
  PyObject* object;  // borrowed from the tuple
  Tensor tensor;
  int64_t dims;  // of self that it takes
};

Item read_item(PyObject* o) {
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return {o, Tensor(), 0};
  if (is_select(o) || PySlice_Check(o)) return {o, Tensor(), 1};
  if (is_tensor(o) || (is_plain_sequence(o) && !is_numpy_bool(o))) {
    Tensor t = index_tensor(o);
    int64_t dims = is_mask(t) ? t.dim() : 1;
    return {o, std::move(t), dims};
  }
  TOCHA_CHECK(!PyUnicode_Check(o), Type, "invalid index of type 'str'");
  fail(ErrorKind::Index,
       "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got ",
       Py_TYPE(o)->tp_name, ")");
}

void apply_select(Indexing& r, int64_t dim, int64_t i, const Tensor& self) {
  int64_t n = r.sizes[dim];
  TOCHA_CHECK(i >= -n && i < n, Index, "index ", i, " is out of bounds for dimension ", dim, " with size ", n,
              " of a tensor of shape ", self.sizes());
  r.offset += (i < 0 ? i + n : i) * r.strides[dim];
  if (r.recorded) r.recorded = ops::select(r.recorded, dim, i);
  r.sizes.erase(dim);
  r.strides.erase(dim);
}

void apply_slice(Indexing& r, int64_t dim, PyObject* slice, bool even_if_whole = false) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice, &start, &stop, &step) < 0) throw PythonError();
  TOCHA_CHECK(step > 0, Value, "step must be greater than zero");
  Py_ssize_t n = PySlice_AdjustIndices(r.sizes[dim], &start, &stop, step);
  if (r.recorded && (n != r.sizes[dim] || step != 1 || even_if_whole))
    r.recorded = ops::slice(r.recorded, dim, start, std::max(start, stop), step);
  r.offset += (n ? start : std::min<Py_ssize_t>(start, r.sizes[dim])) * r.strides[dim];
  r.sizes[dim] = n;
  r.strides[dim] *= step;
}

void insert_dim(Indexing& r, int64_t dim) {
  if (r.recorded) r.recorded = ops::unsqueeze(r.recorded, dim);
  r.strides.insert(dim, dim < r.sizes.size() ? r.sizes[dim] * r.strides[dim] : 1);
  r.sizes.insert(dim, 1);
}

// A mask of no dims stands at a new dim of size one. Written to, it is a list of one index or none: what is assigned
// must have the tensor's dtype.
void pick_tensor(Indexing& r, int64_t* dim, Tensor t, bool writes) {
  while (r.places < *dim) r.pick(Tensor(), 1);
  if (is_mask(t) && t.dim() == 0) {
    insert_dim(r, *dim);
    t = view_of(t, Ints{1}, Ints{1}, t.offset());
    if (t.dtype() == DType::UInt8) t = ops::to_dtype(t, DType::Bool, false, false, std::nullopt);
    if (writes && t.is_cpu()) t = ops::masked_select(scalar_tensor(Scalar(int64_t{0}), DType::Int64), t);
  }
  int64_t n = is_mask(t) ? t.dim() : 1;
  r.pick(t, n);
  *dim += n;
}

Indexing take_apart(const Tensor& self, PyObject* index, bool writes) {
  Indexing r;
  r.sizes = self.sizes();
  r.strides = self.strides();
  r.offset = self.offset();
  if (autograd::asked(self)) r.recorded = self;
  // The commonest forms first.
  if (is_select(index)) {
    TOCHA_CHECK(self.dim() > 0, Index,
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number");
    apply_select(r, 0, as_int(index), self);
    return r;
  }
  if (PySlice_Check(index)) {
    TOCHA_CHECK(self.dim() > 0, Index, "slice() cannot be applied to a 0-dim tensor.");
    apply_slice(r, 0, index, !writes);
    return r;
  }
  Ref tuple = Ref::borrow(index);
  if (!PyTuple_Check(index) && stands_for_tuple(index)) {
    check(PyErr_WarnEx(
        PyExc_UserWarning,
        "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead of x[seq].",
        1));
    tuple = own(PySequence_Tuple(index));
  } else if (!PyTuple_Check(index)) {
    tuple = own(PyTuple_Pack(1, index));
  }
  std::vector<Item> items;
  int64_t taken = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    items.push_back(read_item(PyTuple_GET_ITEM(tuple.get(), i)));
    taken += items.back().dims;
  }
  TOCHA_CHECK(taken <= self.dim(), Index, "too many indices for tensor of dimension ", self.dim());
  int64_t dim = 0;
  bool seen_ellipsis = false;
  for (const Item& item : items) {
    PyObject* o = item.object;
    if (o == Py_Ellipsis) {
      if (!seen_ellipsis) dim += self.dim() - taken;
      seen_ellipsis = true;
    } else if (o == Py_None) {
      insert_dim(r, dim++);
    } else if (PySlice_Check(o)) {
      apply_slice(r, dim++, o);
    } else if (item.tensor) {
      pick_tensor(r, &dim, item.tensor, writes);
    } else if (PyBool_Check(o)) {
      pick_tensor(r, &dim, scalar_tensor(Scalar(o == Py_True), DType::Bool), writes);
    } else {
      apply_select(r, dim, as_int(o), self);
    }
  }
  return r;
}

Tensor basic_view(const Tensor& self, const Indexing& r) {
  if (!r.recorded) return view_of(self, r.sizes, r.strides, r.offset);
  return r.recorded.is(self) ? ops::alias(self) : r.recorded;
}

// What is written to; self, where an index takes all of it.
Tensor target_of(const Tensor& self, const Indexing& r) { return r.recorded.is(self) ? self : basic_view(self, r); }

bool overridden(PyObject* self, PyObject* index, PyObject* value, std::vector<PyObject*>& out, bool* fake) {
  *fake = fake_mode_active();
  auto look = [&](PyObject* o) {
    if (!o || Py_TYPE(o) == tensor_type) return;
    if (has_override(o))
      out.push_back(o);
    else if (is_fake(o))
      *fake = true;
    else if (overrides != Overrides::on)
      check_not_sparse(o);
  };
  look(self);
  look(index);
  if (PyTuple_Check(index))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i) look(PyTuple_GET_ITEM(index, i));
  look(value);
  PyObject* const all[] = {self, index, value};
  if (*fake) *fake = !meets_wrapper(all, 3) && !meets_level(all, 3);
  return !out.empty() || modes_ask();
}

Ref fake_item(const char* name, PyObject* self, PyObject* index, PyObject* value) {
  Ref args = value ? own(PyTuple_Pack(3, self, index, value)) : own(PyTuple_Pack(2, self, index));
  return fake_method(name, args.get(), nullptr);
}

PyObject* override_item(const char* name, PyObject* self, PyObject* index, PyObject* value,
                        const std::vector<PyObject*>& who) {
  Ref callable = own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  Ref args = value ? own(PyTuple_Pack(3, self, index, value)) : own(PyTuple_Pack(2, self, index));
  return call_override(callable.get(), who, args.get(), nullptr);
}

// Leading dims of size 1 beyond the target's are dropped, as NumPy does on assignment.
Tensor fit_value(const Tensor& value, int64_t ndim) {
  int64_t extra = value.dim() - ndim;
  int64_t drop = 0;
  while (drop < extra && value.size(drop) == 1) ++drop;
  if (!drop) return value;
  Ints sizes(IntsView(value.sizes().begin() + drop, value.dim() - drop));
  return ops::reshape(value, sizes);
}

// A number that is assigned to a tensor of this dtype; like PyTorch's, an int must be an int64.
Scalar assigned_number(PyObject* value, DType dtype) {
  if (PyLong_Check(value)) {
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(value, &overflow);
    TOCHA_CHECK(!overflow, Value, "Overflow when unpacking long long");
  }
  return as_scalar(value).rounded_to(dtype);
}

// What is assigned, as a tensor.
Tensor value_for(const Tensor& t, PyObject* value) {
  if (is_tensor(value)) return Tensor::borrow(value);
  TOCHA_CHECK(is_number(value), Type, "can't assign a ", Py_TYPE(value)->tp_name, " to a torch.", t.dtype(), "Tensor");
  const Scalar number = assigned_number(value, t.dtype());
  if (t.get()->dispatches && !levels::held(t)) return wrapped_number(number);  // whoever takes the write over
  return scalar_tensor(number, t.dtype(), t.device());
}

// A value that is broadcast may be a part of what it is written to.
void assign(const Tensor& target, const Tensor& value) {
  if (value.dim() == 0 && value.device() == target.device())
    ops::fill_(target, value);
  else if (value.sizes() == target.sizes())
    ops::copy_(target, value, false);
  else
    ops::copy_(target, ops::expand(fit_value(value, 0), target.sizes(), false), false);
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* index) {
  return guarded([&]() -> PyObject* {
    std::vector<PyObject*> who;
    bool fake;
    if (overridden(self, index, nullptr, who, &fake)) return override_item("__getitem__", self, index, nullptr, who);
    if (fake) [[unlikely]]
      if (Ref found = fake_item("__getitem__", self, index, nullptr)) return found.give();
    Tensor t = Tensor::borrow(self);
    Indexing r = take_apart(t, index, false);
    Tensor v = r.advanced && r.recorded ? target_of(t, r) : basic_view(t, r);
    if (!r.advanced) return v.give();
    return ops::index(v, r.picks).give();
  });
}

int tensor_setitem(PyObject* self, PyObject* index, PyObject* value) {
  return guarded_status([&] {
    TOCHA_CHECK(value, Type, "Tensor does not support deleting items");
    std::vector<PyObject*> who;
    bool fake;
    if (overridden(self, index, value, who, &fake)) {
      Ref done(override_item("__setitem__", self, index, value, who));
      if (!done) throw PythonError();
      return;
    }
    if (fake) [[unlikely]]
      if (fake_item("__setitem__", self, index, value)) return;
    Tensor t = Tensor::borrow(self);
    if (PyBool_Check(index)) {
      Tensor v = value_for(t, value);
      if (index == Py_True) ops::copy_(t, ops::expand(fit_value(v, t.dim()), t.sizes(), false), false);
      return;
    }
    Indexing r = take_apart(t, index, true);
    Tensor target = target_of(t, r);
    if (!r.advanced && is_number(value) && !autograd::wanted(target)) {
      check_no_internal_overlap(target, "__setitem__");
      ops::fill_(target, wrapped_number(assigned_number(value, target.dtype())));
      return;
    }
    Tensor v = value_for(t, value);
    if (!r.advanced) {
      assign(target, fit_value(v, target.dim()));
      return;
    }
    ops::index_put_(target, r.picks, fit_value(v, 0), false);
  });
}

int assign_property(PyObject* self, PyObject* value, void* name) {
  return overridable_set(self, static_cast<const char*>(name), value, [&] {
    Ref view = own(PyObject_GetAttrString(self, static_cast<const char*>(name)));
    TOCHA_CHECK(value, Type, "the parts of a tensor cannot be deleted");
    const Tensor target = Tensor::borrow(view.get());
    ops::copy_(target, value_for(target, value), false);
  });
}

}  // namespace tocha::python
