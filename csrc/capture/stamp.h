// What a walk of guards found behind an object, in a form that is quickly seen to hold still: words of memory that read
// as they did then. CPython gives every change of a dict a number of its own, so a dict with the number it had has the
// contents it had: the same keys, the same objects. Of a tensor the words are its descriptor's. Lists, cells and the
// like have none and are looked at each time.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstring>
#include <unordered_set>
#include <vector>

#include "capture/frame.h"
#include "core/tensor.h"

namespace tocha::capture {

class Words {
 public:
  bool hold() const {
    for (const Word& w : words_) {
      uint64_t now;
      std::memcpy(&now, w.at, sizeof now);
      if ((now & w.mask) != w.value) return false;
    }
    return true;
  }
  bool empty() const { return words_.empty(); }

  // What holds an object must have been added before it: it is borrowed, and looked at only after that was found
  // unchanged.
  template <class T>
  void add(const T& field) {
    add_bytes(reinterpret_cast<uintptr_t>(&field), sizeof(T));
  }
  void add_dict(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // to be gone after 3.13
    add(reinterpret_cast<PyDictObject*>(dict)->ma_version_tag);
#pragma GCC diagnostic pop
#if PY_VERSION_HEX >= 0x030D0000
    const void* values;
    size_t bytes = capture_inline_values(dict, &values);
    for (size_t i = 0; i < bytes; i += 8) add_bytes(reinterpret_cast<uintptr_t>(values) + i, 8);
#endif
  }
  void add_tensor(const TensorObject* t) {
    add(t->ob_base.ob_type);
    add(t->base);
    add(t->dtype);
    add(t->device);
    add(t->ndim);
    add(t->conj);
    add(t->neg);
    add(t->requires_grad);
    add(t->sparse);
    add(t->dims);
  }

  void finish() { seen_ = {}; }

 private:
  struct Word {
    const void* at;
    uint64_t mask, value;
  };

  // Both architectures put the lowest byte first.
  void add_bytes(uintptr_t field, size_t count) {
    uintptr_t at = field & ~uintptr_t{7};
    uint64_t mask = (count == 8 ? ~uint64_t{0} : (uint64_t{1} << count * 8) - 1) << (field - at) * 8;
    uint64_t value;
    std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
    if (!words_.empty() && words_.back().at == reinterpret_cast<const void*>(at)) {
      words_.back().mask |= mask;
      words_.back().value = value & words_.back().mask;
      return;
    }
    if (!seen_.insert(field).second) return;
    words_.push_back({reinterpret_cast<const void*>(at), mask, value & mask});
  }

  std::vector<Word> words_;
  std::unordered_set<uintptr_t> seen_;  // fields that are among the words
};

// What is known of an object whose attributes, or items, are followed.
struct Stamp {
  PyObject* object;
  PyTypeObject* type;  // null for a dict itself
  PyObject* dict;      // null where attributes do not matter
  PyObject** place;    // where the object keeps the dict

  static Stamp of_dict(PyObject* dict) { return {dict, nullptr, dict, nullptr}; }
  static Stamp of_type(PyObject* object) { return {object, Py_TYPE(object), nullptr, nullptr}; }

  // An object whose attributes are those in its dict; the dict is null where that is not so.
  static Stamp of_object(PyObject* object) {
    static PyObject* name = PyUnicode_InternFromString("__getattribute__");
    static PyObject* plain = PyObject_GetAttr(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
    PyTypeObject* type = Py_TYPE(object);
    if (PyType_Check(object) || PyModule_Check(object) || _PyType_Lookup(type, name) != plain || !type->tp_version_tag)
      return of_type(object);
    PyObject** place = _PyObject_GetDictPtr(object);
    if (!place || !*place) return of_type(object);
    return {object, type, *place, place};
  }

  // Is this attribute the one in the dict, whatever the class has?
  bool covers(PyObject* name, PyObject* value) const {
    if (!type || !dict || PyDict_GetItemWithError(dict, name) != value) return false;
    PyObject* in_class = _PyType_Lookup(type, name);
    return !in_class || !Py_TYPE(in_class)->tp_descr_set;
  }

  void add_to(Words& words) const {
    if (type) words.add(object->ob_type);
    if (!dict) return;
    if (type) {
      words.add(type->tp_version_tag);
      words.add(*place);
    }
    words.add_dict(dict);
  }
};

}  // namespace tocha::capture
