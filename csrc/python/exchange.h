// Memory shared with the rest of Python without a copy: NumPy, the buffer protocol, array interfaces, DLPack.
// Tensor's methods and the module's functions for these call this.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "python/object.h"

namespace tocha::python {

// ---- NumPy, buffers, array interfaces (exchange.cpp)

// A tensor on the memory of an ndarray, which it keeps alive.
Tensor from_numpy(PyObject* array);
// An ndarray on the memory of t, which it keeps alive. With force: of a detached copy or alias that NumPy can take.
PyObject* to_numpy(const Tensor& t, bool force);
// A 1-d tensor on the memory of an object with the buffer protocol; count < 0 means all there is.
Tensor from_buffer(PyObject* buffer, DType dtype, int64_t count, int64_t offset);
bool is_numpy_array(PyObject* o);
// Does o offer __array_struct__ or __array_interface__?
bool has_array_interface(PyObject* o);
Tensor from_array_interface(PyObject* o);
// The dtype of an array or a NumPy scalar.
DType array_dtype(PyObject* o);
// A tensor to read an ndarray by; null for arrays that no tensor can describe (negative strides, foreign types).
Tensor readable_array(PyObject* array);

// ---- DLPack (dlpack.cpp)

struct DlpackRequest {               // the arguments of __dlpack__
  std::optional<int64_t> max_major;  // of the consumer's version; none means before 1.0
  std::optional<std::pair<int64_t, int64_t>> device;
  std::optional<bool> copy;
};
// A "dltensor" or "dltensor_versioned" capsule, as Tensor.__dlpack__ gives.
PyObject* to_dlpack(const Tensor& t, const DlpackRequest& request);
std::pair<int, int> dlpack_device(Device d);
// From a capsule or an object with __dlpack__.
Tensor from_dlpack(PyObject* o, std::optional<Device> device, std::optional<bool> copy);

// ---- Bindings (exchange_bindings.cpp)

// numpy, __array__, __dlpack__, __dlpack_device__
void add_exchange_methods(std::vector<PyMethodDef>& methods);
// from_numpy, frombuffer, from_dlpack, to_dlpack
void add_exchange_functions(std::vector<PyMethodDef>& functions);

// ---- Shared by the files above

// An attribute by an interned name, so that CPython's cache of type attributes serves it.
Ref attribute(PyObject* o, const char* name);
Ref attribute_or_null(PyObject* o, const char* name);
bool requires_grad(const Tensor& t);
Tensor call_tensor_method(const Tensor& t, const char* name);
// Warns once in a program that a tensor on read-only memory can write to it.
void warn_read_only(const char* what);
void check_foreign_strides(IntsView strides, const char* what);

}  // namespace tocha::python
