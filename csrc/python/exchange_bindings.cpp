// The Python names of exchange.h: methods of Tensor and functions of the module. tensor_type.cpp and module.cpp add
// them.
#include "python/exchange.h"
#include "python/fakes.h"
#include "python/overrides.h"
#include "python/types.h"

namespace tocha::python {
namespace {

template <class F>
PyCFunction with_keywords(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

template <class... Out>
void parse(PyObject* args, PyObject* kwargs, const char* format, const char* const* names, Out*... out) {
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), out...)) throw PythonError();
}

std::optional<bool> optional_bool(PyObject* o, const char* function) {
  if (o == Py_None) return std::nullopt;
  TOCHA_CHECK(PyBool_Check(o), Type, function, "(): argument 'copy' must be bool or None, not ", Py_TYPE(o)->tp_name);
  return o == Py_True;
}

// ---- Methods

PyObject* tensor_numpy(PyObject* self, PyObject* args, PyObject* kwargs) {
  return overridable(self, "numpy", TupleArguments{args, kwargs}, [&] {
    static const char* names[] = {"force", nullptr};
    PyObject* force = Py_False;
    parse(args, kwargs, "|$O:numpy", names, &force);
    TOCHA_CHECK(PyBool_Check(force), Type, "numpy(): argument 'force' must be bool, not ", Py_TYPE(force)->tp_name);
    return to_numpy(Tensor::borrow(self), force == Py_True);
  });
}

// NumPy 2 asks with copy=; an array of another dtype is a copy anyway.
PyObject* tensor_array(PyObject* self, PyObject* args, PyObject* kwargs) {
  return overridable(self, "__array__", TupleArguments{args, kwargs}, [&] {
    static const char* names[] = {"dtype", "copy", nullptr};
    PyObject *dtype = Py_None, *copy = Py_None;
    parse(args, kwargs, "|OO:__array__", names, &dtype, &copy);
    Ref array = own(to_numpy(Tensor::borrow(self), false));
    if (dtype == Py_None && copy != Py_True) return array.give();
    Ref wanted = dtype == Py_None ? attribute(array.get(), "dtype") : Ref::borrow(dtype);
    Ref options = own(Py_BuildValue("{sO}", "copy", copy == Py_True ? Py_True : Py_False));
    Ref astype = attribute(array.get(), "astype");
    Ref result = own(PyObject_Call(astype.get(), own(PyTuple_Pack(1, wanted.get())).get(), options.get()));
    TOCHA_CHECK(copy != Py_False || result.get() == array.get(), Value,
                "Unable to avoid copy while creating an array as requested: the dtypes differ");
    return result.give();
  });
}

std::pair<int64_t, int64_t> int_pair(PyObject* o, const char* what) {
  Ref items = own(PySequence_Tuple(o));
  TOCHA_CHECK(PyTuple_GET_SIZE(items.get()) == 2, Type, "__dlpack__(): argument '", what, "' must be a pair of ints");
  return {as_int(PyTuple_GET_ITEM(items.get(), 0)), as_int(PyTuple_GET_ITEM(items.get(), 1))};
}

void check_stream(const Tensor& t, PyObject* stream) {
  if (stream == Py_None) return;
  TOCHA_CHECK(is_int(stream), Type, "stream must be ``int`` or ``none``");
  if (t.is_cpu() && as_int(stream) != -1) {
    PyErr_SetString(PyExc_AssertionError, "stream should be None on cpu.");
    throw PythonError();
  }
}

PyObject* tensor_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  return overridable(self, "__dlpack__", TupleArguments{args, kwargs}, [&] {
    static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    parse(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device, &copy);
    Tensor t = Tensor::borrow(self);
    check_stream(t, stream);
    DlpackRequest request;
    request.copy = optional_bool(copy, "__dlpack__");
    if (max_version != Py_None) request.max_major = as_int(own(PySequence_GetItem(max_version, 0)).get());
    if (device != Py_None) request.device = int_pair(device, "dl_device");
    return to_dlpack(t, request);
  });
}

PyObject* tensor_dlpack_device(PyObject* self, PyObject*) {
  return overridable(self, "__dlpack_device__", [&] {
    Device d = Tensor::borrow(self).device();
    TOCHA_CHECK(!d.is_meta(), Value, "Unknown device type ", d, " for Dlpack");
    auto [type, id] = dlpack_device(d);
    return Py_BuildValue("(ii)", type, id);
  });
}

// ---- Functions

PyObject* function_from_numpy(PyObject*, PyObject* array) {
  return guarded([&]() -> PyObject* {
    Tensor made = from_numpy(array);
    if (!fake_mode_active()) return made.give();
    Ref args = own(PyTuple_Pack(1, made.object()));
    return fake_function("from_numpy", args.get(), nullptr).give();
  });
}

PyObject* function_frombuffer(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"buffer", "dtype", "count", "offset", "requires_grad", nullptr};
    PyObject *buffer, *dtype = nullptr;
    Py_ssize_t count = -1, offset = 0;
    int grad = 0;
    parse(args, kwargs, "O|$Onnp:frombuffer", names, &buffer, &dtype, &count, &offset, &grad);
    TOCHA_CHECK(dtype, Type, "frombuffer() missing 1 required keyword argument: 'dtype'");
    Tensor t = from_buffer(buffer, as_dtype(dtype), count, offset);
    return (grad ? call_tensor_method(t, "requires_grad_") : t).give();
  });
}

PyObject* function_from_dlpack(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"ext_tensor", "device", "copy", nullptr};
    PyObject *object, *device = Py_None, *copy = Py_None;
    parse(args, kwargs, "O|$OO:from_dlpack", names, &object, &device, &copy);
    std::optional<Device> wanted;
    if (device != Py_None) wanted = as_device(device);
    return from_dlpack(object, wanted, optional_bool(copy, "from_dlpack")).give();
  });
}

PyObject* function_to_dlpack(PyObject*, PyObject* tensor) {
  return guarded([&] {
    TOCHA_CHECK(PyObject_TypeCheck(tensor, tensor_type), Type, "to_dlpack(): the argument must be Tensor, not ",
                Py_TYPE(tensor)->tp_name);
    return to_dlpack(Tensor::borrow(tensor), {});
  });
}

}  // namespace

void add_exchange_methods(std::vector<PyMethodDef>& methods) {
  constexpr int keywords = METH_VARARGS | METH_KEYWORDS;
  methods.push_back({"numpy", with_keywords(tensor_numpy), keywords,
                     "The tensor as a NumPy array on the same memory; force=True detaches, moves and resolves first."});
  methods.push_back({"__array__", with_keywords(tensor_array), keywords, nullptr});
  methods.push_back({"__dlpack__", with_keywords(tensor_dlpack), keywords, nullptr});
  methods.push_back({"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, nullptr});
}

void add_exchange_functions(std::vector<PyMethodDef>& functions) {
  constexpr int keywords = METH_VARARGS | METH_KEYWORDS;
  functions.push_back({"from_numpy", function_from_numpy, METH_O, "A tensor on the memory of a NumPy array."});
  functions.push_back({"frombuffer", with_keywords(function_frombuffer), keywords,
                       "A 1-d tensor on the memory of an object with the buffer protocol."});
  functions.push_back({"from_dlpack", with_keywords(function_from_dlpack), keywords,
                       "A tensor on the memory of another library's array."});
  functions.push_back({"to_dlpack", function_to_dlpack, METH_O, "A DLPack capsule on the memory of a tensor."});
}

}  // namespace tocha::python
