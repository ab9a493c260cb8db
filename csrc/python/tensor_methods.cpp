#include "python/tensor_methods.h"

#include "autograd/forward.h"
#include "autograd/history.h"
#include "autograd/leaf.h"
#include "autograd/levels.h"
#include "core/dtype_messages.h"
#include "core/sparse.h"
#include "dispatch/backend.h"
#include "dispatch/rules.h"
#include "ops/copies.h"
#include "ops/views.h"
#include "python/autograd_bindings.h"
#include "python/bindings.h"
#include "python/dispatch_calls.h"
#include "python/exchange.h"
#include "python/library_name.h"
#include "python/new_tensor.h"

namespace tocha::python {

Tensor alias_as(const Tensor& t, PyTypeObject* type, bool share_version) {
  check_strided(t, "another tensor on the same memory");
  if (type == tensor_type) return alias_of(t, share_version);
  Tensor v = new_subclass_object(type);
  TensorObject* o = v.get();
  o->dtype = t.dtype();
  o->device = t.device();
  o->offset = t.offset();
  o->storage = t.storage_ref().give();
  o->conj = t.is_conj();
  o->neg = t.is_neg();
  init_descriptor(o, t.sizes(), t.strides());
  mark_dispatch(o, type);
  if (share_version) {
    o->version = version_counter(t.get());
    ++o->version->refs;
  }
  return v;
}

Scalar item(const Tensor& t) {
  TOCHA_CHECK(t.numel() == 1, Runtime, "a Tensor with ", t.numel(), " elements cannot be converted to Scalar");
  TOCHA_CHECK(!t.is_meta(), Runtime, "Tensor.item() cannot be called on meta tensors");
  check_strided(t, "item");
  return ops::_local_scalar_dense(t);
}

namespace {

Tensor self_of(PyObject* o) { return Tensor::borrow(o); }
TensorObject* object_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o); }

#define GETTER(NAME, BODY)                                          \
  PyObject* get_##NAME(PyObject* self, void*) {                     \
    return overridable(self, #NAME ".__get__", [&]() -> PyObject* { \
      auto t = self_of(self);                                       \
      (void)t;                                                      \
      BODY                                                          \
    });                                                             \
  }

GETTER(shape, return size_object(t.sizes());)
GETTER(dtype, return Py_NewRef(dtype_object(t.dtype()));)
GETTER(device, return device_object(t.device());)
PyObject* read_grad(const Tensor& t) {
  const AutogradMeta* m = t.get()->autograd;
  if (m && m->grad) return wrap(m->grad);
  if (!(m && m->retained) && !autograd::is_leaf(t)) [[unlikely]] {
    warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.");
  }
  return Py_NewRef(Py_None);
}

GETTER(layout, return Py_NewRef(layout_object(tocha::is_sparse(t)));)
GETTER(ndim, return PyLong_FromLongLong(t.dim());)
GETTER(requires_grad, return PyBool_FromLong(autograd::requires_grad(t));)
GETTER(is_leaf, return PyBool_FromLong(autograd::is_leaf(t));)
GETTER(grad_fn, return node_object(autograd::grad_fn(t));)
GETTER(grad, return read_grad(t);)
GETTER(grad_dtype, TOCHA_CHECK(autograd::is_leaf(t), Runtime, "grad_dtype can only be accessed on leaf tensors.");
       return Py_NewRef(autograd::grad_dtype(t) == DType::Undefined ? Py_None : dtype_object(autograd::grad_dtype(t)));)
void give_own_version(TensorObject* o) {
  if (o->version && --o->version->refs == 0) delete o->version;
  o->version = nullptr;
}

// Whoever watches operators sees a detach, else writes to what comes back would be lost on them.
Tensor data_of(const Tensor& t, PyTypeObject* type) {
  if (!modes().dispatch_modes || modes().dispatch_off) return alias_as(t, type, false);
  Tensor shown = ops::detach(t);
  give_own_version(shown.get());
  return shown;
}

GETTER(data, return data_of(t, has_override(self) ? Py_TYPE(self) : tensor_type).give();)
GETTER(_version, TOCHA_CHECK(!t.get()->inference, Runtime, "Inference tensors do not track version counter.");
       return PyLong_FromLongLong(t.version());)
GETTER(_base, return t.get()->base ? Py_NewRef(reinterpret_cast<PyObject*>(t.get()->base)) : Py_NewRef(Py_None);)
GETTER(itemsize, return PyLong_FromLongLong(t.itemsize());)
GETTER(nbytes, return PyLong_FromLongLong(t.itemsize() * t.numel());)
GETTER(is_cpu, return PyBool_FromLong(t.is_cpu());)
GETTER(is_meta, return PyBool_FromLong(t.is_meta());)
GETTER(is_cuda, return PyBool_FromLong(t.device().type == DeviceType::cuda);)
GETTER(is_sparse, return PyBool_FromLong(tocha::is_sparse(t));)
GETTER(is_quantized, return PyBool_FromLong(0);)
GETTER(is_nested, return PyBool_FromLong(0);)
GETTER(retains_grad, return PyBool_FromLong(t.get()->autograd && t.get()->autograd->retained);)
GETTER(_backward_hooks,
       return Py_NewRef(t.get()->autograd && t.get()->autograd->hooks ? t.get()->autograd->hooks : Py_None);)
GETTER(_post_accumulate_grad_hooks,
       return Py_NewRef(t.get()->autograd && t.get()->autograd->post_accumulate ? t.get()->autograd->post_accumulate
                                                                                : Py_None);)
GETTER(output_nr, return PyLong_FromLong(t.get()->autograd ? t.get()->autograd->output : 0);)

int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return overridable_set(self, "requires_grad", value, [&] {
    TOCHA_CHECK(value, Type, "requires_grad cannot be deleted");
    const Tensor t = self_of(self);
    const bool on = as_bool(value);
    TOCHA_CHECK(!on || autograd::is_leaf(t), Runtime, "you can only change requires_grad flags of leaf variables.");
    autograd::set_requires_grad(t, on);
  });
}

int set_hooks(PyObject* self, const char* name, PyObject* value, PyObject* AutogradMeta::* slot) {
  return overridable_set(self, name, value, [&] {
    AutogradMeta& m = autograd_meta(object_of(self));
    Py_XSETREF(m.*slot, !value || value == Py_None ? nullptr : Py_NewRef(value));
  });
}
int set__backward_hooks(PyObject* self, PyObject* value, void*) {
  return set_hooks(self, "_backward_hooks", value, &AutogradMeta::hooks);
}
int set__post_accumulate_grad_hooks(PyObject* self, PyObject* value, void*) {
  return set_hooks(self, "_post_accumulate_grad_hooks", value, &AutogradMeta::post_accumulate);
}

// The hooks of a result go with the node that made it.
PyObject* register_hook_dict(PyObject* self, PyObject*) {
  return guarded([&] {
    Tensor t = self_of(self);
    autograd::NodeRef fn = autograd::grad_fn(t);
    AutogradMeta& m = autograd_meta(t.get());
    if (fn && m.hooks) fn->extra().tensor_hooks.push_back({m.output, Py_NewRef(m.hooks)});
    return Py_NewRef(Py_None);
  });
}
PyObject* bump_version(PyObject* self, PyObject*) {
  return guarded([&] {
    self_of(self).bump_version();
    return Py_NewRef(Py_None);
  });
}
PyObject* own_version(PyObject* self, PyObject*) {
  give_own_version(object_of(self));
  return Py_NewRef(Py_None);
}
PyObject* retain_grad(PyObject* self, PyObject*) {
  return overridable(self, "retain_grad", [&] {
    levels::check_none_open("Tensor.retain_grad()", "retain_grad()");
    autograd::retain_grad(self_of(self));
    return Py_NewRef(Py_None);
  });
}
PyObject* detach_inplace(PyObject* self, PyObject*) {
  return overridable(self, "detach_", [&] {
    autograd::detach_(self_of(self));
    return Py_NewRef(self);
  });
}

int set_grad(PyObject* self, PyObject* value, void*) {
  return overridable_set(self, "grad", value, [&] {
    auto t = self_of(self);
    if (!value || value == Py_None) {
      if (t.get()->autograd) t.get()->autograd->grad = Tensor();
      return;
    }
    TOCHA_CHECK(is_tensor(value), Type, "assigned grad expected to be a Tensor or None but got grad of type ",
                Py_TYPE(value)->tp_name);
    auto g = self_of(value);
    TOCHA_CHECK(!g.is(t), Runtime, "can't assign Variable as its own grad");
    TOCHA_CHECK(g.sizes() == t.sizes(), Runtime, "attempting to assign a gradient of size '", g.sizes(),
                "' to a tensor of size '", t.sizes(),
                "'. Please ensure that the gradient and the tensor are the same size");
    DType wanted = autograd::grad_dtype(t);
    TOCHA_CHECK(wanted == DType::Undefined || g.dtype() == wanted, Runtime,
                "attempting to assign a gradient with dtype '", c_name(g.dtype()), "' to a tensor with grad_dtype '",
                wanted,
                "'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set the "
                "tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype.");
    TOCHA_CHECK(g.device() == t.device(), Runtime, "attempting to assign a gradient with device type '", g.device(),
                "' to a tensor with device type '", t.device(),
                "'. Please ensure that the gradient and the tensor are on the same device");
    autograd_meta(t.get()).grad = g;
  });
}

int set_grad_dtype(PyObject* self, PyObject* value, void*) {
  return overridable_set(self, "grad_dtype", value, [&] {
    TOCHA_CHECK(value, Runtime, "grad_dtype cannot be deleted");
    TOCHA_CHECK(value == Py_None || Py_TYPE(value) == dtype_type, Runtime, "grad_dtype must be a ", library_name,
                ".dtype or None, but got ", Py_TYPE(value)->tp_name);
    auto t = self_of(self);
    TOCHA_CHECK(autograd::is_leaf(t), Runtime, "grad_dtype can only be set on leaf tensors.");
    autograd::set_grad_dtype(t, value == Py_None ? DType::Undefined : as_dtype(value));
  });
}

int set_data(PyObject* self, PyObject* value, void*) {
  return overridable_set(self, "data", value, [&] {
    TOCHA_CHECK(value && is_tensor(value), Type, "Variable data has to be a tensor, but got ",
                value ? Py_TYPE(value)->tp_name : "nothing");
    auto t = self_of(self);
    auto v = self_of(value);
    TOCHA_CHECK(tocha::is_sparse(t) == tocha::is_sparse(v), Runtime,
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
                "type.");
    TensorObject* o = t.get();
    TOCHA_CHECK(!o->requires_grad || v.is_floating() || v.is_complex(), Runtime,
                "data set to a tensor that requires gradients must be floating point or complex dtype, got ",
                v.dtype());
    StorageRef fresh = v.storage_ref();
    StorageRef old(o->storage);
    o->storage = fresh.give();
    o->dtype = v.dtype();
    o->device = v.device();
    o->conj = v.is_conj();
    o->neg = v.is_neg();
    mark_dispatch(o, Py_TYPE(self));
    set_sizes_and_strides(t, v.sizes(), v.strides(), v.offset());
  });
}

// The argument of a method that takes one, which may be left out (null then).
PyObject* only_argument(const char* method, const char* name, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  TOCHA_CHECK(n + named <= 1, Type, method, "() takes at most 1 argument, got ", n + named);
  TOCHA_CHECK(!named || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name) == 0, Type, method,
              "() got an unexpected keyword argument '", text_of(PyTuple_GET_ITEM(kwnames, 0)), "'");
  return n + named ? args[0] : nullptr;
}

PyObject* size(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return overridable(self, "size", FastArguments{args, n, kwnames}, [&]() -> PyObject* {
    auto t = self_of(self);
    PyObject* dim = only_argument("size", "dim", args, n, kwnames);
    if (!dim || dim == Py_None) return size_object(t.sizes());
    int64_t d = as_int(dim);
    TOCHA_CHECK(t.dim() > 0, Index, "Dimension specified as ", d, " but tensor has no dimensions");
    return PyLong_FromLongLong(t.size(wrap_dim(d, t.dim())));
  });
}

PyObject* stride(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return overridable(self, "stride", FastArguments{args, n, kwnames}, [&]() -> PyObject* {
    auto t = self_of(self);
    PyObject* dim = only_argument("stride", "dim", args, n, kwnames);
    if (!dim || dim == Py_None) return int_tuple(t.strides());
    int64_t d = as_int(dim);
    TOCHA_CHECK(t.dim() > 0, Index, "Dimension specified as ", d, " but tensor has no dimensions");
    return PyLong_FromLongLong(t.stride(wrap_dim(d, t.dim())));
  });
}

#define FACT(NAME, EXPRESSION)                           \
  PyObject* NAME(PyObject* self, PyObject*) {            \
    return overridable(self, #NAME, [&]() -> PyObject* { \
      auto t = self_of(self);                            \
      return EXPRESSION;                                 \
    });                                                  \
  }
FACT(dim, PyLong_FromLongLong(t.dim()))
FACT(numel, PyLong_FromLongLong(t.numel()))
FACT(element_size, PyLong_FromLongLong(t.itemsize()))
FACT(storage_offset, PyLong_FromLongLong(t.offset()))
FACT(data_ptr, PyLong_FromVoidPtr(t.is_meta() || !t.numel() || !t.storage().data ? nullptr : t.bytes()))
FACT(is_floating_point, PyBool_FromLong(t.is_floating()))
FACT(is_complex, PyBool_FromLong(t.is_complex()))
FACT(is_signed, PyBool_FromLong(info(t.dtype()).is_signed))
FACT(is_conj, PyBool_FromLong(t.is_conj()))
FACT(is_neg, PyBool_FromLong(t.is_neg()))
FACT(is_inference, PyBool_FromLong(t.get()->inference))
FACT(_is_view, PyBool_FromLong(t.get()->base != nullptr))
FACT(item, scalar_object(tocha::python::item(t)))
FACT(get_device, PyLong_FromLong(t.device().index))
FACT(has_names, PyBool_FromLong(0))
FACT(untyped_storage, (check_strided(t, "untyped_storage"), storage_object(t.storage_ref())))

PyObject* is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return overridable(self, "is_contiguous", FastArguments{args, n, kwnames}, [&]() -> PyObject* {
    PyObject* format = only_argument("is_contiguous", "memory_format", args, n, kwnames);
    auto t = self_of(self);
    if (!format) return PyBool_FromLong(t.is_contiguous());
    return PyBool_FromLong(t.is_contiguous(as_memory_format(format)));
  });
}

PyObject* tolist_at(const Tensor& t, int64_t d, const char* p) {
  if (d == t.dim()) {
    Scalar s = Scalar::load(t.dtype(), p);
    if (t.is_conj()) s = Scalar(Complex<double>(s.to_complex().re, -s.to_complex().im));
    if (t.is_neg()) s = -s;
    return scalar_object(s);
  }
  Ref list = own(PyList_New(t.size(d)));
  for (int64_t i = 0; i < t.size(d); ++i) {
    PyObject* v = tolist_at(t, d + 1, p + i * t.stride(d) * t.itemsize());
    if (!v) throw PythonError();
    PyList_SET_ITEM(list.get(), i, v);
  }
  return list.give();
}

PyObject* tolist(PyObject* self, PyObject*) {
  return overridable(self, "tolist", [&]() -> PyObject* {
    auto t = self_of(self);
    TOCHA_CHECK(!t.is_meta(), NotImplemented, "Cannot copy out of meta tensor; no data!");
    check_strided(t, "tolist");
    if (!t.is_cpu()) t = ops::cpu(t, {});
    return tolist_at(t, 0, t.numel() ? t.bytes() : nullptr);
  });
}

PyObject* requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return overridable(self, "requires_grad_", FastArguments{args, n, kwnames}, [&]() -> PyObject* {
    levels::check_none_open("Tensor.requires_grad_() (or perhaps using tocha.autograd.functional.* APIs)",
                            "requires_grad_()");
    PyObject* value = only_argument("requires_grad_", "requires_grad", args, n, kwnames);
    if (!value) value = Py_True;
    TOCHA_CHECK(PyBool_Check(value), Type, "requires_grad_(): argument 'requires_grad' must be bool, not ",
                Py_TYPE(value)->tp_name);
    Tensor t = self_of(self);
    TOCHA_CHECK(value == Py_False || t.is_floating() || t.is_complex(), Runtime,
                "only Tensors of floating point dtype can require gradients");
    autograd::set_requires_grad(t, value == Py_True);
    return Py_NewRef(self);
  });
}

// A recorded view of self, moved into an object of the other class.
PyObject* as_subclass(PyObject* self, PyObject* cls) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type), Type,
                "as_subclass(): argument 'cls' must be a type that derives from Tensor");
    check_strided(self_of(self), "as_subclass");
    Tensor view = ops::alias(self_of(self));
    if (!autograd::grad_enabled()) view.get()->requires_grad = object_of(self)->requires_grad;
    Tensor t = new_subclass_object(reinterpret_cast<PyTypeObject*>(cls));
    Tensor tangent = autograd::tangent_of(view);
    if (tangent) autograd::set_tangent(view, Tensor());
    exchange_contents(t.get(), view.get());
    if (tangent) autograd::set_tangent(t, tangent);
    return t.give();
  });
}

// Tensor._make_subclass(cls, data, require_grad=False)
PyObject* make_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject *cls = nullptr, *data = nullptr;
    int require_grad = 0;
    static const char* names[] = {"cls", "data", "require_grad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p", const_cast<char**>(names), &cls, &data, &require_grad))
      throw PythonError();
    TOCHA_CHECK(PyType_Check(cls), Type, "cls must be a type (got ", Py_TYPE(cls)->tp_name, ")");
    TOCHA_CHECK(is_tensor(data), Type, "_make_subclass(): argument 'data' must be Tensor, not ",
                Py_TYPE(data)->tp_name);
    Tensor t = alias_as(self_of(data), reinterpret_cast<PyTypeObject*>(cls), true);
    TOCHA_CHECK(!require_grad || t.is_floating() || t.is_complex(), Runtime,
                "Only Tensors of floating point and complex dtype can require gradients");
    t.get()->requires_grad = require_grad;
    return t.give();
  });
}

Ints shape_argument(PyObject* o, const char* name) {
  TOCHA_CHECK(PyTuple_Check(o) || PyList_Check(o), Type, "_make_wrapper_subclass(): argument '", name,
              "' must be tuple of ints, not ", Py_TYPE(o)->tp_name);
  Ints out = as_ints(o, 0);
  for (int64_t n : out) TOCHA_CHECK(n >= 0, Runtime, "_make_wrapper_subclass(): negative ", name, ": ", out);
  return out;
}

// Tensor._make_wrapper_subclass(cls, size, *, strides=None, storage_offset=None, dtype=None, device=None,
// requires_grad=False): a subclass instance with this shape and no memory of its own.
PyObject* make_wrapper_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject *cls, *size, *strides = Py_None, *offset = Py_None, *dtype = Py_None, *layout = Py_None, *device = Py_None;
    int requires_grad = 0;
    static const char* names[] = {"cls",    "size",   "strides",       "storage_offset", "dtype",
                                  "layout", "device", "requires_grad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OO$OOOp", const_cast<char**>(names), &cls, &size, &strides,
                                     &offset, &dtype, &layout, &device, &requires_grad)) {
      throw PythonError();
    }
    TOCHA_CHECK(PyType_Check(cls), Type, "cls must be a type (got ", Py_TYPE(cls)->tp_name, ")");
    Ints sizes = shape_argument(size, "size");
    Ints steps = strides == Py_None ? contiguous_strides(sizes) : shape_argument(strides, "strides");
    TOCHA_CHECK(steps.size() == sizes.size(), Value, "_make_wrapper_subclass(): ", sizes.size(), " sizes but ",
                steps.size(), " strides");
    int64_t at = offset == Py_None ? 0 : as_int(offset);
    TOCHA_CHECK(at >= 0, Runtime, "_make_wrapper_subclass(): invalid storage offset ", at);
    Device d = device == Py_None ? Device{} : as_device(device);
    Tensor t = new_subclass_object(reinterpret_cast<PyTypeObject*>(cls));
    TensorObject* o = t.get();
    o->dtype = dtype == Py_None ? default_dtype() : as_dtype(dtype);
    o->storage = new_storage(bytes_needed(sizes, steps, at, itemsize(o->dtype)), Device{DeviceType::meta}).give();
    o->device = d;
    o->offset = at;
    mark_dispatch(o, Py_TYPE(o));
    TOCHA_CHECK(!requires_grad || t.is_floating() || t.is_complex(), Runtime,
                "Only Tensors of floating point and complex dtype can require gradients");
    o->requires_grad = requires_grad;
    init_descriptor(o, sizes, steps);
    return t.give();
  });
}

// Tensor._mark_sparse(): what tocha.sparse makes holds indices and values, which native code must ask it for.
PyObject* mark_sparse(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(Py_TYPE(self) != tensor_type, Type, "[_mark_sparse] only a subclass can hold indices and values");
    object_of(self)->sparse = sparse_in_use = true;
    return Py_NewRef(self);
  });
}

PyObject* is_set_to(PyObject* self, PyObject* other) {
  return overridable(self, "is_set_to", FastArguments{&other, 1}, [&]() -> PyObject* {
    TOCHA_CHECK(is_tensor(other), Type, "is_set_to(): argument 'tensor' must be Tensor");
    auto a = self_of(self), b = self_of(other);
    return PyBool_FromLong(&a.storage() == &b.storage() && a.offset() == b.offset() && a.sizes() == b.sizes() &&
                           a.strides() == b.strides());
  });
}

PyObject* is_same_size(PyObject* self, PyObject* other) {
  return overridable(self, "is_same_size", FastArguments{&other, 1}, [&]() -> PyObject* {
    TOCHA_CHECK(is_tensor(other), Type, "is_same_size(): argument 'other' must be Tensor");
    return PyBool_FromLong(self_of(self).sizes() == self_of(other).sizes());
  });
}

PyMethodDef tensor_table[] = {
    {"size", reinterpret_cast<PyCFunction>(size), METH_FASTCALL | METH_KEYWORDS,
     "size(dim=None): the sizes, or one of them."},
    {"stride", reinterpret_cast<PyCFunction>(stride), METH_FASTCALL | METH_KEYWORDS,
     "stride(dim=None): the strides, or one of them."},
    {"dim", dim, METH_NOARGS, "The number of dimensions."},
    {"ndimension", dim, METH_NOARGS, "The number of dimensions."},
    {"numel", numel, METH_NOARGS, "The number of elements."},
    {"nelement", numel, METH_NOARGS, "The number of elements."},
    {"element_size", element_size, METH_NOARGS, "Bytes per element."},
    {"storage_offset", storage_offset, METH_NOARGS, "Where the tensor begins in its storage, in elements."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"is_floating_point", is_floating_point, METH_NOARGS, "Whether the dtype is a real floating type."},
    {"is_complex", is_complex, METH_NOARGS, "Whether the dtype is complex."},
    {"is_signed", is_signed, METH_NOARGS, "Whether the dtype has negative values."},
    {"is_conj", is_conj, METH_NOARGS, "Whether the tensor reads as its complex conjugate."},
    {"is_neg", is_neg, METH_NOARGS, "Whether the tensor reads negated."},
    {"is_inference", is_inference, METH_NOARGS, "Whether the tensor was made in inference mode."},
    {"_is_view", _is_view, METH_NOARGS, "Whether the tensor is a view of another."},
    {"item", item, METH_NOARGS, "The one element as a Python number."},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists."},
    {"get_device", get_device, METH_NOARGS, "The device's index; -1 for the CPU."},
    {"has_names", has_names, METH_NOARGS, "Whether dimensions are named."},
    {"untyped_storage", untyped_storage, METH_NOARGS, "The memory behind the tensor."},
    {"is_contiguous", reinterpret_cast<PyCFunction>(is_contiguous), METH_FASTCALL | METH_KEYWORDS,
     "is_contiguous(memory_format=contiguous_format)"},
    {"requires_grad_", reinterpret_cast<PyCFunction>(requires_grad_), METH_FASTCALL | METH_KEYWORDS,
     "requires_grad_(requires_grad=True): sets it and returns the tensor."},
    {"_bump_version", bump_version, METH_NOARGS, nullptr},
    {"_own_version", own_version, METH_NOARGS, nullptr},
    {"_register_hook_dict", register_hook_dict, METH_NOARGS, nullptr},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps the gradient of a tensor that is no leaf."},
    {"detach_", detach_inplace, METH_NOARGS, "Forgets how the tensor was made."},
    {"as_subclass", as_subclass, METH_O, "The same data as an instance of another class."},
    {"_make_subclass", reinterpret_cast<PyCFunction>(make_subclass), METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "_make_subclass(cls, data, require_grad=False)"},
    {"_make_wrapper_subclass", reinterpret_cast<PyCFunction>(make_wrapper_subclass),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC, "A subclass instance with a shape and no memory."},
    {"_mark_sparse", mark_sparse, METH_NOARGS, nullptr},
    {"is_set_to", is_set_to, METH_O, "Whether both are the same view of the same memory."},
    {"is_same_size", is_same_size, METH_O, "Whether the sizes agree."},
    {"__complex__", tensor_complex, METH_NOARGS, nullptr},
};

PyGetSetDef attribute_table[] = {
    {"shape", get_shape, nullptr, "The sizes.", nullptr},
    {"dtype", get_dtype, nullptr, "The element type.", nullptr},
    {"device", get_device, nullptr, "Where the memory lives.", nullptr},
    {"layout", get_layout, nullptr, "The storage layout: strided.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of dimensions.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether gradients are wanted.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether the tensor was not made by a differentiable operator.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node that made the tensor.", nullptr},
    {"grad", get_grad, set_grad, "The accumulated gradient.", nullptr},
    {"grad_dtype", get_grad_dtype, set_grad_dtype, "The dtype of the gradient; None if any will do.", nullptr},
    {"data", get_data, set_data, "The same memory without history.", nullptr},
    {"_version", get__version, nullptr, "How many in-place writes the memory has seen.", nullptr},
    {"_base", get__base, nullptr, "The tensor this one is a view of.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
    {"is_meta", get_is_meta, nullptr, nullptr, nullptr},
    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
    {"is_sparse", get_is_sparse, nullptr, nullptr, nullptr},
    {"is_quantized", get_is_quantized, nullptr, nullptr, nullptr},
    {"is_nested", get_is_nested, nullptr, nullptr, nullptr},
    {"retains_grad", get_retains_grad, nullptr, nullptr, nullptr},
    {"output_nr", get_output_nr, nullptr, nullptr, nullptr},
    {"_backward_hooks", get__backward_hooks, set__backward_hooks, nullptr, nullptr},
    {"_post_accumulate_grad_hooks", get__post_accumulate_grad_hooks, set__post_accumulate_grad_hooks, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
};

}  // namespace

void add_tensor_methods(std::vector<PyMethodDef>& methods) {
  methods.insert(methods.end(), std::begin(tensor_table), std::end(tensor_table));
  add_exchange_methods(methods);
  add_autograd_methods(methods);
}
void add_tensor_attributes(std::vector<PyGetSetDef>& getters) {
  getters.insert(getters.end(), std::begin(attribute_table), std::end(attribute_table));
}

}  // namespace tocha::python
