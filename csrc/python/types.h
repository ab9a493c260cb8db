// The small value types that Python sees: dtype, device, layout, memory_format, Size; and numbers.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "dispatch/op_types.h"
#include "python/object.h"

namespace tocha {

namespace python {

extern PyTypeObject* dtype_type;
extern PyTypeObject* device_type;
extern PyTypeObject* size_type;
extern PyTypeObject* layout_type;
extern PyTypeObject* memory_format_type;
extern PyTypeObject* generator_type;
extern PyTypeObject* storage_type;

struct DTypeObject {
  PyObject_HEAD DType value;
};
struct DeviceObject {
  PyObject_HEAD Device value;
};
struct NamedObject {  // layout and memory_format
  PyObject_HEAD int value;
  const char* name;
};

PyObject* dtype_object(DType d);  // borrowed
DType as_dtype(PyObject* o);
bool is_dtype_like(PyObject* o);  // a dtype, or Python's float, int, bool, complex

PyObject* device_object(Device d);  // new
Device as_device(PyObject* o);      // device, str or int
bool is_device_like(PyObject* o);
// The device type that a bare index such as device(1) means; set by the accelerator's backend when it loads.
extern std::optional<DeviceType> accelerator;

PyObject* memory_format_object(MemoryFormat f);  // borrowed
MemoryFormat as_memory_format(PyObject* o);
PyObject* layout_object(bool sparse = false);  // borrowed: strided, or sparse_coo

PyObject* size_object(IntsView sizes);  // new tocha.Size
PyObject* int_tuple(IntsView v);        // new tuple

bool is_int(PyObject* o);     // int (not bool), NumPy integers and other objects with __index__; no tensors
bool is_number(PyObject* o);  // bool, int, float, complex, NumPy's scalars and symbolic numbers
// Numbers that depend on sizes (tocha/ir/sym_types.py); null as long as there are none. Read as plain numbers they say
// what they are now, and add a guard.
struct SymbolicTypes {
  PyTypeObject *integer, *floating, *boolean;
};
extern SymbolicTypes symbolic_types;
inline bool is_symbolic(PyObject* o) {
  PyTypeObject* t = Py_TYPE(o);
  return t == symbolic_types.integer || t == symbolic_types.floating || t == symbolic_types.boolean;
}
bool is_numpy_bool(PyObject* o);  // numpy.bool_
int64_t as_int(PyObject* o);
double as_double(PyObject* o);
Scalar as_scalar(PyObject* o);             // also 0-d tensors
PyObject* scalar_object(const Scalar& s);  // new

Generator& generator_of(PyObject* o);  // of a Generator object

PyObject* storage_object(const StorageRef& s);  // new, one per storage while alive
StorageRef as_storage(PyObject* o);
bool is_storage(PyObject* o);  // an UntypedStorage, or a TypedStorage (tocha/storage.py)
GivenStorage as_given_storage(PyObject* o);

// NumPy's classes, or null as long as nobody has imported NumPy.
struct NumpyTypes {
  PyTypeObject *ndarray, *boolean, *integer, *floating, *complex;
};
const NumpyTypes* loaded_numpy();

// Makes a heap type and adds it to the module under the last part of its name.
PyTypeObject* add_type(PyObject* module, PyType_Spec& spec);
// The parts of add_types that live in files of their own.
void add_size_type(PyObject* module);
void add_device_type(PyObject* module);
void add_generator_type(PyObject* module);
void add_storage_type(PyObject* module);
void add_leased_block_type(PyObject* module);

// Adds every type, dtype, layout and memory format, default_generator, get_default_device and set_default_device.
void add_types(PyObject* module);

}  // namespace python
}  // namespace tocha
