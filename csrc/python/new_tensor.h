// Tensors from Python values: tocha.tensor([[1, 2], [3, 4]]), Tensor(2, 3), as_tensor.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "python/object.h"

namespace tocha::python {

// Tensor(...): the legacy constructor, for Tensor and its subclasses.
PyObject* legacy_tensor(PyTypeObject* type, PyObject* args, PyObject* kwargs);
// A tensor on the memory of data where that is an array (NumPy's, or one that describes itself so); else null.
Tensor shared_array(PyObject* data);
// tensor(data): a copy of a tensor, an array, or of numbers in nested sequences.
Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device);

}  // namespace tocha::python
