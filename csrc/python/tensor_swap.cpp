// swap_tensors: two tensors exchange all but their identity. tocha/utils/_swap.py calls this, and swaps their classes.
#include <cstddef>
#include <cstring>

#include "autograd/leaf.h"
#include "dispatch/autocast.h"
#include "python/dispatch_calls.h"
#include "python/parser.h"
#include "python/tensor_methods.h"

namespace tocha::python {
namespace {

void check_swappable(const TensorObject* t, const char* name) {
  TOCHA_CHECK(!t->weakrefs, Runtime, "Cannot swap ", name, " because it has weakref associated with it");
  TOCHA_CHECK(t->held == 0, Runtime, "[swap_tensors] Cannot swap ", name, ": ", t->held,
              " views of it or recorded operations that need its value hold on to it");
  TOCHA_CHECK(!t->has_tangent && !(t->autograd && t->autograd->retained), Runtime, "[swap_tensors] Cannot swap ", name,
              ": it has a tangent, or retains its gradient");
}

// All that comes after the part that makes an object what it is to Python.
constexpr size_t kContent = offsetof(TensorObject, storage);
constexpr size_t kContentBytes = sizeof(TensorObject) - kContent;

}  // namespace

void exchange_contents(TensorObject* a, TensorObject* b) {
  char* first = reinterpret_cast<char*>(a) + kContent;
  char* second = reinterpret_cast<char*>(b) + kContent;
  char between[kContentBytes];
  std::memcpy(between, first, kContentBytes);
  std::memcpy(first, second, kContentBytes);
  std::memcpy(second, between, kContentBytes);
  if (a->dims == b->inline_dims) a->dims = a->inline_dims;
  if (b->dims == a->inline_dims) b->dims = b->inline_dims;
  mark_dispatch(a, Py_TYPE(a));
  mark_dispatch(b, Py_TYPE(b));
}

PyObject* swap_tensors(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *first, *second;
    if (!PyArg_ParseTuple(args, "O!O!:swap_tensors", tensor_type, &first, tensor_type, &second)) throw PythonError();
    auto* a = reinterpret_cast<TensorObject*>(first);
    auto* b = reinterpret_cast<TensorObject*>(second);
    if (a == b) return Py_NewRef(Py_None);
    check_swappable(a, "t1");
    check_swappable(b, "t2");
    autocast::clear_cache();  // which knows weights by their objects
    autograd::disown_accumulator(a);
    autograd::disown_accumulator(b);
    exchange_contents(a, b);
    std::swap(a->dict, b->dict);
    mark_dispatch(a, Py_TYPE(b));  // the classes follow
    mark_dispatch(b, Py_TYPE(a));
    return Py_NewRef(Py_None);
  });
}

}  // namespace tocha::python
