// What a walk of guards found behind an object, in a form that is quickly seen to hold still.
//
// CPython 3.11 gives every change of a dict a number of its own, so a dict with the number it had then has the contents
// it had then: the same keys, the same objects. Lists, cells and the like have none and are looked at each time.
#pragma once

#include <Python.h>

#include <cstdint>

namespace tocha::capture {

#if PY_VERSION_HEX < 0x030C0000
inline constexpr bool kStamps = true;
inline uint64_t dict_version(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
// Where an object keeps its attributes; null where it has none.
inline PyObject** dict_place(PyObject* object) { return _PyObject_GetDictPtr(object); }
#else
inline constexpr bool kStamps = false;
inline uint64_t dict_version(PyObject*) { return 0; }
inline PyObject** dict_place(PyObject*) { return nullptr; }
#endif

struct Stamp {
  PyObject* object;    // borrowed: it is looked at only after what holds it was found unchanged
  PyTypeObject* type;  // null for a dict itself
  unsigned tag;        // the type's own version, 0 where attributes do not matter
  PyObject* dict;      // null where attributes do not matter
  uint64_t version;
  PyObject** place = nullptr;  // where the object keeps the dict

  bool holds() const {
    if (type) {
      if (Py_TYPE(object) != type) return false;
      if (!dict) return true;
      if (type->tp_version_tag != tag || *place != dict) return false;
    }
    return dict_version(dict) == version;
  }

  static Stamp of_dict(PyObject* dict) { return {dict, nullptr, 0, dict, dict_version(dict)}; }
  static Stamp of_type(PyObject* object) { return {object, Py_TYPE(object), 0, nullptr, 0}; }

  // An object whose attributes are those in its dict; the dict is null where that is not so.
  static Stamp of_object(PyObject* object) {
    static PyObject* name = PyUnicode_InternFromString("__getattribute__");
    static PyObject* plain = PyObject_GetAttr(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
    PyTypeObject* type = Py_TYPE(object);
    if (PyType_Check(object) || PyModule_Check(object) || _PyType_Lookup(type, name) != plain || !type->tp_version_tag)
      return of_type(object);
    PyObject** place = dict_place(object);
    if (!place || !*place) return of_type(object);
    return {object, type, type->tp_version_tag, *place, dict_version(*place), place};
  }

  // Is this attribute the one in the dict, whatever the class has?
  bool covers(PyObject* name, PyObject* value) const {
    if (!type || !dict || PyDict_GetItemWithError(dict, name) != value) return false;
    PyObject* in_class = _PyType_Lookup(type, name);
    return !in_class || !Py_TYPE(in_class)->tp_descr_set;
  }
};

}  // namespace tocha::capture
