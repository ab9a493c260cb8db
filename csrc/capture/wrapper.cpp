// A callable around another: with a callback, frames below it are captured; without one, they are not. What
// tocha.compile and tocha.compiler.disable return.
#include <Python.h>
#include <structmember.h>

#include "capture/hook.h"
#include "core/error.h"

namespace tocha::capture {
namespace {

struct WrapperObject {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  PyObject* function;
  PyObject* callback;  // or null
  vectorcallfunc call;
};

// Set by set_stance("force_eager") and its like: wrappers call straight through.
bool bypass = false;

PyObject* call(PyObject* object, PyObject* const* args, size_t count, PyObject* names) {
  auto* self = reinterpret_cast<WrapperObject*>(object);
  PyObject* function = self->function;
  if (bypass || (!self->callback && !current_callback)) return PyObject_Vectorcall(function, args, count, names);
  PyObject* before = current_callback;
  PyObject* callback = Py_XNewRef(self->callback);
  PyObject* result;
  {
    Installed hook;
    current_callback = callback;
    result = PyObject_Vectorcall(function, args, count, names);
    current_callback = before;
  }
  Py_XDECREF(callback);
  return result;
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *callback;
  if (!PyArg_ParseTuple(args, "OO", &function, &callback)) return nullptr;
  if (!PyCallable_Check(function)) {
    PyErr_Format(PyExc_TypeError, "expected a callable, got %s", Py_TYPE(function)->tp_name);
    return nullptr;
  }
  auto* self = reinterpret_cast<WrapperObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->function = Py_NewRef(function);
  self->callback = callback == Py_None ? nullptr : Py_NewRef(callback);
  self->call = call;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<WrapperObject*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dict);
  Py_VISIT(self->function);
  Py_VISIT(self->callback);
  return 0;
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<WrapperObject*>(object);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->function);
  Py_CLEAR(self->callback);
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  if (reinterpret_cast<WrapperObject*>(object)->weakrefs) PyObject_ClearWeakRefs(object);
  clear(object);
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
  return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject* repr(PyObject* object) {
  auto* self = reinterpret_cast<WrapperObject*>(object);
  return PyUnicode_FromFormat("<%s %R>", self->callback ? "compiled" : "not captured", self->function);
}

PyObject* set_bypass(PyObject*, PyObject* on) {
  bool before = bypass;
  int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  bypass = value;
  return PyBool_FromLong(before);
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(WrapperObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(WrapperObject, weakrefs), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(WrapperObject, call), READONLY, nullptr},
    {"_function", T_OBJECT, offsetof(WrapperObject, function), READONLY, nullptr},
    {"_callback", T_OBJECT, offsetof(WrapperObject, callback), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("Wrapper(function, callback): calls function with frames captured, or left alone.")},
    {0, nullptr},
};
PyType_Spec spec = {"tocha._C._capture.Wrapper", sizeof(WrapperObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
PyMethodDef functions[] = {
    {"set_bypass", set_bypass, METH_O, "While true, wrappers call straight through. Returns what it was."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_wrapper_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type || PyModule_AddObjectRef(module, "Wrapper", type) < 0 || PyModule_AddFunctions(module, functions) < 0)
    throw PythonError();
  Py_DECREF(type);
}

}  // namespace tocha::capture
