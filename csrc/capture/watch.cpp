#include "capture/watch.h"

#if PY_VERSION_HEX >= 0x030D0000

#include <unordered_map>

#include "core/error.h"

namespace tocha::capture {
namespace {

using Counter = std::shared_ptr<uint64_t>;

std::unordered_map<PyObject*, Counter>& counters() {
  static auto* all = new std::unordered_map<PyObject*, Counter>;  // dicts die until the very end
  return *all;
}

int watcher = -1;

int on_change(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
  auto found = counters().find(dict);
  if (found == counters().end()) return 0;
  ++*found->second;
  bool dies = event == PyDict_EVENT_DEALLOCATED;
  if (dies || found->second.use_count() == 1) {  // nobody remembers it any more
    counters().erase(found);
    if (!dies) PyDict_Unwatch(watcher, dict);
  }
  return 0;
}

}  // namespace

DictVersion version_of(PyObject* dict) {
  if (watcher < 0 && (watcher = PyDict_AddWatcher(on_change)) < 0) throw PythonError();
  Counter& counter = counters()[dict];
  if (!counter) {
    counter = std::make_shared<uint64_t>(0);
    if (PyDict_Watch(watcher, dict) < 0) throw PythonError();
  }
  return {counter.get(), counter};
}

}  // namespace tocha::capture

#endif
