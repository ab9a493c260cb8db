#include "python/indexing.h"

#include "dispatch/backend.h"
#include "dispatch/rules.h"
#include "ops.h"
#include "python/parser.h"
#include "python/new_tensor.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

// An index, taken apart: the basic part as one view, the tensors that pick elements by dim of that view.
struct Indexing {
  Ints sizes, strides;
  int64_t offset = 0;
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

bool is_index_tensor(PyObject* o) {  // becomes a tensor: lists, arrays, tensors
  return is_tensor(o) || PyList_Check(o) || PyTuple_Check(o) || PyObject_HasAttrString(o, "__array_interface__");
}

Tensor index_tensor(PyObject* o) {
  Tensor t = is_tensor(o) ? Tensor::borrow(o) : tensor_from_data(o, std::nullopt, std::nullopt);
  if (t.numel() == 0 && !is_tensor(o)) t = empty(t.sizes(), DType::Int64, Device{});
  TOCHA_CHECK(is_integral(t.dtype()) || t.dtype() == DType::Bool, Index,
              "tensors used as indices must be long, int, byte or bool tensors, got ", t.dtype());
  return t;
}

// A list stands for a tensor, unless it holds slices and the like: then it stands for a tuple.
bool is_tuple_like(PyObject* index) {
  if (PyTuple_Check(index)) return true;
  if (!PyList_Check(index) || PyList_GET_SIZE(index) >= 32) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(index); ++i) {
    PyObject* o = PyList_GET_ITEM(index, i);
    if (PySlice_Check(o) || o == Py_Ellipsis || o == Py_None) return true;
    if (is_tensor(o) && reinterpret_cast<TensorObject*>(o)->ndim > 0) return true;
  }
  return false;
}

std::vector<PyObject*> index_items(PyObject* index) {
  std::vector<PyObject*> items;
  if (!is_tuple_like(index)) {
    items.push_back(index);
    return items;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(index); ++i) items.push_back(PySequence_Fast_ITEMS(index)[i]);
  return items;
}

bool is_select(PyObject* o) {  // picks one element of a dim
  if (PyBool_Check(o)) return false;
  if (is_tensor(o)) {
    auto* t = reinterpret_cast<TensorObject*>(o);
    return t->ndim == 0 && is_integral(t->dtype) && t->dtype != DType::UInt8;
  }
  return is_int(o) || (PyIndex_Check(o) && !is_index_tensor(o));
}

int64_t dims_taken(PyObject* o) {
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
  if (is_tensor(o)) {
    Tensor t = Tensor::borrow(o);
    return is_mask(t) ? t.dim() : 1;
  }
  if (PyList_Check(o) || PyTuple_Check(o) || (!is_int(o) && PyObject_HasAttrString(o, "__array_interface__"))) {
    Tensor t = index_tensor(o);
    return is_mask(t) ? t.dim() : 1;
  }
  return 1;
}

void apply_select(Indexing& r, int64_t dim, int64_t i, const Tensor& self) {
  int64_t n = r.sizes[dim];
  TOCHA_CHECK(i >= -n && i < n, Index, "index ", i, " is out of bounds for dimension ", dim, " with size ", n, " of a tensor of shape ",
              self.sizes());
  r.offset += (i < 0 ? i + n : i) * r.strides[dim];
  r.sizes.erase(dim);
  r.strides.erase(dim);
}

void apply_slice(Indexing& r, int64_t dim, PyObject* slice) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice, &start, &stop, &step) < 0) throw PythonError();
  TOCHA_CHECK(step > 0, Value, "step must be greater than zero");
  Py_ssize_t n = PySlice_AdjustIndices(r.sizes[dim], &start, &stop, step);
  r.offset += (n ? start : std::min<Py_ssize_t>(start, r.sizes[dim])) * r.strides[dim];
  r.sizes[dim] = n;
  r.strides[dim] *= step;
}

void insert_dim(Indexing& r, int64_t dim) {
  r.strides.insert(dim, dim < r.sizes.size() ? r.sizes[dim] * r.strides[dim] : 1);
  r.sizes.insert(dim, 1);
}

Indexing take_apart(const Tensor& self, PyObject* index) {
  Indexing r;
  r.sizes = self.sizes();
  r.strides = self.strides();
  r.offset = self.offset();
  // The commonest forms first.
  if (is_select(index)) {
    TOCHA_CHECK(self.dim() > 0, Index,
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number");
    apply_select(r, 0, as_int(index), self);
    return r;
  }
  if (PySlice_Check(index)) {
    TOCHA_CHECK(self.dim() > 0, Index, "slice() cannot be applied to a 0-dim tensor.");
    apply_slice(r, 0, index);
    return r;
  }
  std::vector<PyObject*> items = index_items(index);
  int64_t taken = 0;
  for (PyObject* o : items) taken += dims_taken(o);
  TOCHA_CHECK(taken <= self.dim(), Index, "too many indices for tensor of dimension ", self.dim());
  int64_t dim = 0;
  bool seen_ellipsis = false;
  for (PyObject* o : items) {
    if (o == Py_Ellipsis) {
      if (!seen_ellipsis) dim += self.dim() - taken;
      seen_ellipsis = true;
    } else if (o == Py_None) {
      insert_dim(r, dim++);
    } else if (PySlice_Check(o)) {
      apply_slice(r, dim++, o);
    } else if (is_select(o)) {
      apply_select(r, dim, as_int(o), self);
    } else if (PyBool_Check(o)) {
      insert_dim(r, dim);
      while (r.places < dim) r.pick(Tensor(), 1);
      r.pick(ops::reshape(scalar_tensor(Scalar(o == Py_True), DType::Bool), Ints{1}), 1);
      ++dim;
    } else if (is_index_tensor(o)) {
      Tensor t = index_tensor(o);
      while (r.places < dim) r.pick(Tensor(), 1);
      if (is_mask(t) && t.dim() == 0) {
        insert_dim(r, dim);
        t = ops::reshape(t, Ints{1});
      }
      int64_t n = is_mask(t) ? t.dim() : 1;
      r.pick(t, n);
      dim += n;
    } else {
      fail(ErrorKind::Index, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got ",
           Py_TYPE(o)->tp_name, ")");
    }
  }
  return r;
}

Tensor basic_view(const Tensor& self, const Indexing& r) { return view_of(self, r.sizes, r.strides, r.offset); }

bool overridden(PyObject* self, PyObject* index, PyObject* value, std::vector<PyObject*>& out) {
  auto look = [&](PyObject* o) {
    if (o && Py_TYPE(o) != tensor_type && has_override(o)) out.push_back(o);
  };
  look(self);
  look(index);
  if (PyTuple_Check(index))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i) look(PyTuple_GET_ITEM(index, i));
  look(value);
  return !out.empty() || (function_modes && !overrides_disabled);
}

PyObject* override_item(const char* name, PyObject* self, PyObject* index, PyObject* value, const std::vector<PyObject*>& who) {
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

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* index) {
  return guarded([&]() -> PyObject* {
    std::vector<PyObject*> who;
    if (overridden(self, index, nullptr, who)) return override_item("__getitem__", self, index, nullptr, who);
    Tensor t = Tensor::borrow(self);
    Indexing r = take_apart(t, index);
    Tensor v = basic_view(t, r);
    if (!r.advanced) return v.give();
    return ops::index(v, r.picks).give();
  });
}

int tensor_setitem(PyObject* self, PyObject* index, PyObject* value) {
  return guarded_status([&] {
    TOCHA_CHECK(value, Type, "Tensor does not support deleting items");
    std::vector<PyObject*> who;
    if (overridden(self, index, value, who)) {
      Ref done(override_item("__setitem__", self, index, value, who));
      if (!done) throw PythonError();
      return;
    }
    Tensor t = Tensor::borrow(self);
    Indexing r = take_apart(t, index);
    Tensor target = basic_view(t, r);
    if (is_number(value) && !r.advanced) {
      ops::fill_(target, wrapped_number(as_scalar(value)));
      return;
    }
    Tensor v;
    if (is_tensor(value)) {
      v = Tensor::borrow(value);
    } else {
      TOCHA_CHECK(is_number(value), Type, "can't assign a ", Py_TYPE(value)->tp_name, " to a tocha.Tensor of dtype ", t.dtype());
      v = scalar_tensor(as_scalar(value), t.dtype(), t.device());
    }
    if (!r.advanced) {
      ops::copy_(target, fit_value(v, target.dim()), false);
      return;
    }
    if (v.dtype() != t.dtype() && v.dim() == 0) v = ops::to_dtype(v, t.dtype(), false, false, std::nullopt);
    TOCHA_CHECK(v.dtype() == t.dtype(), Runtime, "Index put requires the source and destination dtypes match, got ", t.dtype(),
                " for the destination and ", v.dtype(), " for the source.");
    ops::index_put_(target, r.picks, v, false);
  });
}

}  // namespace tocha::python
