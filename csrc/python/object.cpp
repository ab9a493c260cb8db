#include "python/object.h"

#include <map>
#include <new>

namespace tocha::python {

PyObject* linalg_error = nullptr;
PyObject* compiled_index_error = nullptr;

void set_python_error() {
  try {
    throw;
  } catch (const PythonError&) {
    // already set
  } catch (const Error& e) {
    PyObject* type = PyExc_RuntimeError;
    switch (e.kind()) {
      case ErrorKind::Runtime:
        type = PyExc_RuntimeError;
        break;
      case ErrorKind::Value:
        type = PyExc_ValueError;
        break;
      case ErrorKind::Type:
        type = PyExc_TypeError;
        break;
      case ErrorKind::Index:
        type = PyExc_IndexError;
        break;
      case ErrorKind::NotImplemented:
        type = PyExc_NotImplementedError;
        break;
      case ErrorKind::Memory:
        type = PyExc_MemoryError;
        break;
      case ErrorKind::Key:
        type = PyExc_KeyError;
        break;
      case ErrorKind::Attribute:
        type = PyExc_AttributeError;
        break;
      case ErrorKind::Overflow:
        type = PyExc_OverflowError;
        break;
      case ErrorKind::ZeroDivision:
        type = PyExc_ZeroDivisionError;
        break;
      case ErrorKind::Buffer:
        type = PyExc_BufferError;
        break;
      case ErrorKind::Assertion:
        type = PyExc_AssertionError;
        break;
      case ErrorKind::LinAlg:
        type = linalg_error;
        break;
    }
    PyErr_SetString(type, e.message().c_str());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

PyObject* cached_attribute(const char* module, const char* name) {
  static auto& cache = *new std::map<std::pair<std::string, std::string>, PyObject*>();
  auto key = std::pair<std::string, std::string>(module, name);
  auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  Ref m = own(PyImport_ImportModule(module));
  PyObject* a = own(PyObject_GetAttrString(m.get(), name)).give();
  return cache[key] = a;
}

}  // namespace tocha::python
