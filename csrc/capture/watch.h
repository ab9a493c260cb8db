// The number of a dict's last change. Up to Python 3.12 a dict carries it; later ones tell watchers of changes, which
// count them.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>

namespace tocha::capture {

struct DictVersion {
  const uint64_t* at;
  std::shared_ptr<uint64_t> counter;  // where `at` points into, if that is not the dict itself
};

#if PY_VERSION_HEX < 0x030D0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
inline DictVersion version_of(PyObject* dict) {
  return {&reinterpret_cast<PyDictObject*>(dict)->ma_version_tag, nullptr};
}
#pragma GCC diagnostic pop
#else
DictVersion version_of(PyObject* dict);
#endif

}  // namespace tocha::capture
