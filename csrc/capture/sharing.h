// Which inputs of a graph share memory with one that it writes to: a graph compiled for separate tensors is not for
// views of one.
#pragma once

#include <Python.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace tocha::capture {

// The bytes between a tensor's first element and its last; none of one without elements or memory.
struct Extent {
  uintptr_t begin = 0, end = 0;
  bool operator==(const Extent&) const = default;
};

Extent extent_of(const TensorObject* t);

using Pairs = std::vector<std::pair<int, int>>;
// Which tensors, by slot, have bytes in common with one that is written to.
Pairs meeting_pairs(const std::vector<Extent>& extents, const std::vector<bool>& written);

// Of a graph that writes to inputs: with whom they share memory.
struct Sharing {
  std::vector<bool> written;  // by slot
  Pairs pairs;
  std::vector<Extent> before;  // of the last walk that held
};

// The slots of a tuple, as marks by slot; false with an error set.
bool read_slots(PyObject* tuple, int slots, std::vector<bool>& marks);

extern PyMethodDef pairs_method;

}  // namespace tocha::capture
