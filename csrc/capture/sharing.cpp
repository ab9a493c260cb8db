#include "capture/sharing.h"

#include <algorithm>

namespace tocha::capture {

Extent extent_of(const TensorObject* t) {
  if (!t->numel || !t->storage || !t->storage->data) return {};
  int64_t low = 0, high = 0;
  for (int i = 0; i < t->ndim; ++i) {
    const int64_t step = (t->dims[i] - 1) * t->dims[t->ndim + i];
    (step < 0 ? low : high) += step;
  }
  const int64_t width = itemsize(t->dtype);
  const auto at = reinterpret_cast<uintptr_t>(t->storage->data);
  return {at + (t->offset + low) * width, at + (t->offset + high + 1) * width};
}

Pairs meeting_pairs(const std::vector<Extent>& extents, const std::vector<bool>& written) {
  std::vector<int> order;
  for (size_t i = 0; i < extents.size(); ++i)
    if (extents[i].begin < extents[i].end) order.push_back(static_cast<int>(i));
  std::sort(order.begin(), order.end(), [&](int a, int b) { return extents[a].begin < extents[b].begin; });
  Pairs found;
  for (size_t k = 0; k < order.size(); ++k)
    for (size_t l = k + 1; l < order.size() && extents[order[l]].begin < extents[order[k]].end; ++l)
      if (written[order[k]] || written[order[l]]) found.push_back(std::minmax(order[k], order[l]));
  std::sort(found.begin(), found.end());
  return found;
}

bool read_slots(PyObject* tuple, int slots, std::vector<bool>& marks) {
  marks.assign(slots, false);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    const long slot = PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
    if (slot < 0 || slot >= slots) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "[Guards] there is no slot %ld", slot);
      return false;
    }
    marks[slot] = true;
  }
  return true;
}

namespace {

// meeting_pairs(((slot, tensor), ...), (slot, ...)): pairs of slots that share memory, one of them written to.
PyObject* pairs_of(PyObject*, PyObject* args) {
  PyObject *tensors, *written;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &tensors, &PyTuple_Type, &written)) return nullptr;
  std::vector<Extent> extents;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
    int slot;
    PyObject* tensor;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tensors, i), "iO!", &slot, tensor_type, &tensor)) return nullptr;
    if (slot < 0) return PyErr_Format(PyExc_ValueError, "[Guards] there is no slot %d", slot);
    if (extents.size() <= static_cast<size_t>(slot)) extents.resize(slot + 1);
    extents[slot] = extent_of(reinterpret_cast<TensorObject*>(tensor));
  }
  std::vector<bool> marks;
  if (!read_slots(written, static_cast<int>(extents.size()), marks)) return nullptr;
  const Pairs found = meeting_pairs(extents, marks);
  PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(found.size()));
  for (size_t i = 0; made && i < found.size(); ++i) {
    PyObject* pair = Py_BuildValue("ii", found[i].first, found[i].second);
    if (!pair)
      Py_CLEAR(made);
    else
      PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), pair);
  }
  return made;
}

}  // namespace

PyMethodDef pairs_method = {"meeting_pairs", pairs_of, METH_VARARGS, "Which tensors share memory with written ones."};

}  // namespace tocha::capture
