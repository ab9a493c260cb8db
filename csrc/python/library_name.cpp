// The library's own name: reprs read it, tocha/as_torch.py sets it. Native types are immutable to Python,
// so their module is changed here.
#include "python/library_name.h"

#include <cstring>
#include <string>

namespace tocha::python {

const char* library_name = "tocha";

namespace {

const char* kept(const std::string& text) { return strdup(text.c_str()); }  // for the life of the process

PyObject* set_library_name(PyObject*, PyObject* name) {
  return guarded([&] {
    library_name = kept(text_of(name));
    return Py_NewRef(Py_None);
  });
}

// _set_type_module(type, module): the module that a native type says it is of, in reprs, pickles and messages.
PyObject* set_type_module(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyTypeObject* type;
    PyObject* module;
    if (!PyArg_ParseTuple(args, "O!U", &PyType_Type, &type, &module)) throw PythonError();
    TOCHA_CHECK(type->tp_flags & Py_TPFLAGS_HEAPTYPE, Type, "[_set_type_module] ", type->tp_name, " is built in");
    Ref name = own(PyType_GetName(type));
    check(PyDict_SetItemString(type->tp_dict, "__module__", module));
    type->tp_name = kept(text_of(module) + "." + text_of(name.get()));
    PyType_Modified(type);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef table[] = {
    {"_set_library_name", set_library_name, METH_O, nullptr},
    {"_set_type_module", set_type_module, METH_VARARGS, nullptr},
};

}  // namespace

void add_library_name_functions(std::vector<PyMethodDef>& all) {
  all.insert(all.end(), std::begin(table), std::end(table));
}

}  // namespace tocha::python
