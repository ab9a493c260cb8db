// DLPack: tensors to and from other array libraries without a copy. The structs are the documented DLPack ABI, both
// the one before 1.0 ("dltensor" capsules) and the versioned one.
#include <algorithm>
#include <memory>
#include <string>

#include "core/sparse.h"
#include "python/exchange.h"
#include "python/pinned_storage.h"
#include "python/types.h"

namespace tocha::python {
namespace {

// ---- The ABI

struct DLDevice {
  int32_t type;
  int32_t id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null for row-major
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

constexpr uint32_t kMajor = 1, kMinor = 1;
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3;
enum Code : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kE4m3fn = 10,
  kE4m3fnuz = 11,
  kE5m2 = 12,
  kE5m2fnuz = 13,
  kE8m0fnu = 14
};

constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kUsedName = "used_dltensor";
constexpr const char* kUsedVersionedName = "used_dltensor_versioned";

// ---- dtypes

Code code_of(DType d) {
  if (d == DType::BFloat16) return kBfloat;
  if (d == DType::Float8_e4m3fn) return kE4m3fn;
  if (d == DType::Float8_e4m3fnuz) return kE4m3fnuz;
  if (d == DType::Float8_e5m2) return kE5m2;
  if (d == DType::Float8_e5m2fnuz) return kE5m2fnuz;
  if (d == DType::Float8_e8m0fnu) return kE8m0fnu;
  switch (info(d).kind) {
    case Kind::boolean:
      return kBool;
    case Kind::integer:
      return info(d).is_signed ? kInt : kUInt;
    case Kind::floating:
      return kFloat;
    case Kind::complex:
      break;
  }
  return kComplex;
}

DLDataType dlpack_dtype(DType d) { return {code_of(d), static_cast<uint8_t>(8 * itemsize(d)), 1}; }

DType from_dlpack_dtype(DLDataType t) {
  TOCHA_CHECK(t.lanes == 1, Runtime, "[from_dlpack] vectors of ", t.lanes, " lanes are not supported");
  for (int i = 0; i < kNumDTypes; ++i) {
    DLDataType ours = dlpack_dtype(static_cast<DType>(i));
    if (ours.code == t.code && ours.bits == t.bits) return static_cast<DType>(i);
  }
  fail(ErrorKind::Runtime, "[from_dlpack] unsupported dtype: code ", static_cast<int>(t.code), ", ",
       static_cast<int>(t.bits), " bits");
}

// ---- Export

// One allocation that the consumer's deleter call frees: the managed tensor, what it points to, and the memory's pin.
template <class Managed>
struct Export {
  Managed managed{};
  PinnedStorage storage;
  Ints sizes, strides;

  explicit Export(const Tensor& t) : storage(t.storage_ref()), sizes(t.sizes()), strides(t.strides()) {
    auto [type, id] = dlpack_device(t.device());
    managed.tensor = {t.numel() ? t.bytes() : nullptr,
                      {type, id},
                      static_cast<int32_t>(t.dim()),
                      dlpack_dtype(t.dtype()),
                      sizes.data(),
                      strides.data(),
                      0};
    managed.context = this;
    managed.deleter = [](Managed* m) {
      // A consumer may let go from any thread; after the interpreter is gone there is nothing left to give back.
      if (!Py_IsInitialized()) return;
      PyGILState_STATE gil = PyGILState_Ensure();
      delete static_cast<Export*>(m->context);
      PyGILState_Release(gil);
    };
  }
};

template <class Managed>
void call_deleter(Managed* m) {
  if (m->deleter) m->deleter(m);
}

// A capsule nobody consumed still owns its tensor; a consumed one has another name.
void destroy_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kName))
    call_deleter(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kName)));
  if (PyCapsule_IsValid(capsule, kVersionedName))
    call_deleter(static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersionedName)));
}

PyObject* export_old(const Tensor& t) {
  auto e = std::make_unique<Export<DLManagedTensor>>(t);
  PyObject* capsule = own(PyCapsule_New(&e->managed, kName, destroy_capsule)).give();
  e.release();
  return capsule;
}

PyObject* export_versioned(const Tensor& t, bool copied) {
  auto e = std::make_unique<Export<DLManagedTensorVersioned>>(t);
  e->managed.major = kMajor;
  e->managed.minor = kMinor;
  e->managed.flags = copied ? kCopied : 0;
  PyObject* capsule = own(PyCapsule_New(&e->managed, kVersionedName, destroy_capsule)).give();
  e.release();
  return capsule;
}

Device device_of_dlpack(int64_t type, int64_t id) {
  if (type == kCpu || type == kCudaHost) return Device{};
  TOCHA_CHECK(type == kCuda, Buffer, "Unsupported device_type: ", type);
  TOCHA_CHECK(id >= 0 && id <= 126, Buffer, "Unsupported device index: ", id);
  return {DeviceType::cuda, static_cast<int8_t>(id)};
}

bool same_device(Device a, Device b) {
  return a.type == b.type && (a.is_cpu() || std::max<int8_t>(a.index, 0) == std::max<int8_t>(b.index, 0));
}

Tensor moved(const Tensor& t, Device d) {
  Ref device = own(device_object(d));
  Ref there = own(PyObject_CallOneArg(attribute(t.object(), "to").get(), device.get()));
  return Tensor::borrow(there.get());
}

// t itself, or the copy that the request asks for.
Tensor as_requested(const Tensor& t, const DlpackRequest& request) {
  if (request.device) {
    Device wanted = device_of_dlpack(request.device->first, request.device->second);
    if (!same_device(wanted, t.device())) {
      TOCHA_CHECK(request.copy.value_or(true), Value, "cannot move (i.e. copy=False) tensor from ", t.device(), " to ",
                  wanted, " without copying.");
      return moved(t, wanted);
    }
  }
  return request.copy.value_or(false) ? call_tensor_method(t, "clone") : t;
}

// ---- Import

template <class Managed>
void release_managed(Storage& s) {
  call_deleter(static_cast<Managed*>(s.context));
}

Ints strides_of(const DLTensor& d, IntsView sizes) {
  Ints strides = d.strides ? Ints(IntsView(d.strides, d.ndim)) : contiguous_strides(sizes);
  check_foreign_strides(strides, "DLPack tensor");
  return strides;
}

// On an error the capsule still owns the managed tensor, as if it had never been looked at.
template <class Managed>
Tensor import_tensor(PyObject* capsule, Managed* m, const char* used_name) {
  const DLTensor& d = m->tensor;
  Device device = device_of_dlpack(d.device.type, d.device.id);
  TOCHA_CHECK(device.is_cpu() || accelerator == device.type, Runtime, "[from_dlpack] device ", device,
              " is not available");
  DType dtype = from_dlpack_dtype(d.dtype);
  TOCHA_CHECK(d.ndim >= 0 && d.ndim <= 64, Runtime, "[from_dlpack] ", d.ndim, " dimensions are not supported");
  Ints sizes(IntsView(d.shape, d.ndim));
  Ints strides = strides_of(d, sizes);
  size_t nbytes = bytes_needed(sizes, strides, 0, itemsize(dtype));
  TOCHA_CHECK(d.data || !nbytes, Value, "[from_dlpack] the given tensor has elements but no memory");
  check(PyCapsule_SetName(capsule, used_name));
  StorageRef s =
      borrow_storage(static_cast<char*>(d.data) + d.byte_offset, nbytes, device, release_managed<Managed>, m);
  return make_tensor(std::move(s), dtype, sizes, strides, 0);
}

Tensor from_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kVersionedName)) {
    auto* m = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersionedName));
    TOCHA_CHECK(m->major <= kMajor, Buffer, "[from_dlpack] unsupported DLPack version ", m->major, ".", m->minor);
    if (m->flags & kReadOnly) warn_read_only("DLPack tensor");
    return import_tensor(capsule, m, kUsedVersionedName);
  }
  TOCHA_CHECK(PyCapsule_IsValid(capsule, kName), Runtime,
              "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you "
              "might have already constructed a tensor from it once.");
  auto* m = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kName));
  return import_tensor(capsule, m, kUsedName);
}

Ref dlpack_keywords(std::optional<Device> device, std::optional<bool> copy) {
  Ref kwargs = own(Py_BuildValue("{s(ii)}", "max_version", static_cast<int>(kMajor), 0));
  if (copy) check(PyDict_SetItemString(kwargs.get(), "copy", *copy ? Py_True : Py_False));
  if (device) {
    auto [type, id] = dlpack_device(*device);
    check(PyDict_SetItemString(kwargs.get(), "dl_device", own(Py_BuildValue("(ii)", type, id)).get()));
  }
  return kwargs;
}

// Producers older than the array API of 2023 know none of the keywords; what was asked for is then done here.
Tensor from_old_producer(PyObject* method, std::optional<Device> device, std::optional<bool> copy) {
  Tensor t = from_capsule(own(PyObject_CallNoArgs(method)).get());
  DlpackRequest request{std::nullopt, std::nullopt, copy};
  if (device) request.device = dlpack_device(*device);
  return as_requested(t, request);
}

}  // namespace

std::pair<int, int> dlpack_device(Device d) {
  TOCHA_CHECK(!d.is_meta(), Buffer, "Cannot pack tensors on meta");
  return {d.is_cpu() ? kCpu : kCuda, std::max<int>(d.index, 0)};
}

PyObject* to_dlpack(const Tensor& t, const DlpackRequest& request) {
  TOCHA_CHECK(!is_sparse(t), Buffer, "Can't export sparse tensors, use tensor.to_dense()");
  TOCHA_CHECK(!requires_grad(t), Buffer, "Can't export tensors that require gradient, use tensor.detach()");
  TOCHA_CHECK(!t.is_conj(), Buffer, "Can't export tensors with the conjugate bit set");
  TOCHA_CHECK(!t.is_neg(), Buffer, "Can't export tensors with the negative bit set");
  Tensor given = as_requested(t, request);
  if (request.max_major.value_or(0) < 1) return export_old(given);
  return export_versioned(given, !given.is(t));
}

Tensor from_dlpack(PyObject* o, std::optional<Device> device, std::optional<bool> copy) {
  if (PyCapsule_CheckExact(o)) return from_capsule(o);
  Ref method = attribute_or_null(o, "__dlpack__");
  TOCHA_CHECK(method, Runtime, "from_dlpack needs a DLPack capsule or an object with __dlpack__, not ",
              Py_TYPE(o)->tp_name);
  Ref kwargs = dlpack_keywords(device, copy);
  Ref none = own(PyTuple_New(0));
  Ref capsule(PyObject_Call(method.get(), none.get(), kwargs.get()));
  if (capsule) return from_capsule(capsule.get());
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
  PyErr_Clear();
  return from_old_producer(method.get(), device, copy);
}

}  // namespace tocha::python
