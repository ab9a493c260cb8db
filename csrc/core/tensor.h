// The tensor: a Python object that holds its own descriptor (sizes, strides, offset, dtype) and a
// counted reference to a storage. `Tensor` is a counted handle on that object, so a tensor has one
// identity wherever it is held, and one allocation. The GIL guards all of it but the elements.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/ints.h"
#include "core/scalar.h"
#include "core/storage.h"

namespace tocha {

struct AutogradMeta;  // csrc/autograd; null for tensors that never met autograd

// Shared by a tensor and its views: how many in-place writes have happened.
struct VersionCounter {
  int64_t refs = 1;
  int64_t version = 0;
};

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

// What made a view, or a view that it is a view of. One that is not plain must not be written to while operations are
// recorded: its history could not be redone from its base's.
enum class ViewOrigin : uint8_t { plain, one_of_many, custom_function, no_grad, inference };
// The last step from its base to a view: another geometry, or one of those that change what the memory means.
enum class ViewStep : uint8_t { geometry, conj, neg, as_real, as_complex };
// A 0-d tensor that stands for a number: of an operator inside another's body, or of the call in Python.
enum class NumberFrom : uint8_t { none, body, call };

struct TensorObject {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  Storage* storage;
  TensorObject* base;  // the tensor this one is a view of, or null
  AutogradMeta* autograd;
  VersionCounter* version;  // made when first needed
  int64_t offset;           // in elements
  int64_t numel;
  int64_t* dims;  // ndim sizes, then ndim strides
  int64_t inline_dims[10];
  uint32_t held;        // how many views of it there are, and nodes that keep it: it must stay what it is
  uint32_t history_at;  // of a view: the version of its memory that its history is of
  DType dtype;
  Device device;
  uint8_t ndim;
  uint8_t dims_capacity;  // sizes that fit in dims
  bool contiguous;
  NumberFrom number;  // a Python number on its way through an operator
  bool conj;          // reads as its complex conjugate
  bool neg;           // reads negated
  // Who has a say in operators on it besides the kernel; read together by marks_of.
  alignas(4) bool requires_grad;  // a leaf that was asked to, or a result of recorded operations
  bool has_tangent;               // forward mode: carries a derivative (of some level) in its autograd part
  bool dispatches;                // its class, or its device, takes operators over (dispatch/taken_over.h)
  ViewOrigin origin;              // of a view
  ViewStep step;                  // of a view
  bool inference;                 // made in inference mode
  bool sparse;                    // holds indices and values in Python; reads as zeros here (core/sparse.h)
};

// Bits of marks_of; both architectures put the first byte lowest.
constexpr uint32_t kRequiresGrad = 1, kHasTangent = 1u << 8, kDispatches = 1u << 16;
constexpr uint32_t kDifferentiates = kRequiresGrad | kHasTangent;
inline uint32_t marks_of(const TensorObject* t) {
  static_assert(offsetof(TensorObject, has_tangent) == offsetof(TensorObject, requires_grad) + 1 &&
                offsetof(TensorObject, dispatches) == offsetof(TensorObject, requires_grad) + 2);
  uint32_t marks;
  std::memcpy(&marks, &t->requires_grad, sizeof marks);
  return marks & (kDifferentiates | kDispatches);
}

// A view stops being one.
inline void forget_base(TensorObject* t) {
  if (t->base) --t->base->held;
  Py_CLEAR(t->base);
  t->origin = ViewOrigin::plain;
}

class Tensor {
 public:
  Tensor() = default;
  static Tensor steal(TensorObject* p) {
    Tensor t;
    t.p_ = p;
    return t;
  }
  static Tensor borrow(TensorObject* p) {
    Py_XINCREF(reinterpret_cast<PyObject*>(p));
    return steal(p);
  }
  static Tensor borrow(PyObject* p) { return borrow(reinterpret_cast<TensorObject*>(p)); }
  Tensor(const Tensor& o) : p_(o.p_) { Py_XINCREF(object()); }
  Tensor(Tensor&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Tensor& operator=(Tensor o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Tensor() { Py_XDECREF(object()); }

  explicit operator bool() const { return p_ != nullptr; }
  TensorObject* get() const { return p_; }
  PyObject* object() const { return reinterpret_cast<PyObject*>(p_); }
  PyObject* give() { return reinterpret_cast<PyObject*>(std::exchange(p_, nullptr)); }
  bool is(const Tensor& o) const { return p_ == o.p_; }

  int64_t dim() const { return p_->ndim; }
  int64_t numel() const { return p_->numel; }
  IntsView sizes() const { return {p_->dims, p_->ndim}; }
  IntsView strides() const { return {p_->dims + p_->ndim, p_->ndim}; }
  int64_t size(int64_t i) const { return p_->dims[i]; }
  int64_t stride(int64_t i) const { return p_->dims[p_->ndim + i]; }
  int64_t offset() const { return p_->offset; }
  DType dtype() const { return p_->dtype; }
  Device device() const { return p_->device; }
  int64_t itemsize() const { return tocha::itemsize(p_->dtype); }
  Storage& storage() const { return *p_->storage; }
  StorageRef storage_ref() const {
    ++p_->storage->refs;
    return StorageRef(p_->storage);
  }
  // The first element. Refused where there are elements but no memory: a meta tensor, a storage that was emptied.
  char* bytes() const {
    if (!p_->storage->data && p_->numel) [[unlikely]]
      refuse_without_memory();
    return static_cast<char*>(p_->storage->data) + p_->offset * itemsize();
  }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(bytes());
  }

  bool is_contiguous() const { return p_->contiguous; }
  bool is_contiguous(MemoryFormat f) const;
  bool is_non_overlapping_and_dense() const;
  bool is_wrapped_number() const { return p_->number != NumberFrom::none; }
  bool is_conj() const { return p_->conj; }
  bool is_neg() const { return p_->neg; }
  bool is_complex() const { return tocha::is_complex(p_->dtype); }
  bool is_floating() const { return tocha::is_floating(p_->dtype); }
  bool is_meta() const { return p_->device.is_meta(); }
  bool is_cpu() const { return p_->device.is_cpu(); }

  int64_t version() const { return p_->version ? p_->version->version : 0; }
  void bump_version() const;

 private:
  [[noreturn, gnu::cold]] TOCHA_API void refuse_without_memory() const;
  TensorObject* p_ = nullptr;
};

using Tensors = std::vector<Tensor>;

// Made by csrc/python; the Tensor class itself.
extern PyTypeObject* tensor_type;
TensorObject* allocate_tensor_object();  // an uninitialised exact Tensor (from a free list)
void init_descriptor(TensorObject* t, IntsView sizes, IntsView strides);  // numel, flags, dims
void set_sizes_and_strides(const Tensor& t, IntsView sizes, IntsView strides, int64_t offset);

Tensor make_tensor(StorageRef storage, DType dtype, IntsView sizes, IntsView strides, int64_t offset);
TOCHA_API Tensor empty(IntsView sizes, DType dtype, Device device);
TOCHA_API Tensor empty_strided(IntsView sizes, IntsView strides, DType dtype, Device device);
// A 0-d CPU tensor that promotes as a Python number does.
Tensor wrapped_number(const Scalar& s);
Tensor scalar_tensor(const Scalar& s, DType dtype, Device device = {});
// A view: shares storage, version counter and the conj/neg bits. Those of inference tensors have no base: nothing is
// tracked for them.
Tensor view_of(const Tensor& base, IntsView sizes, IntsView strides, int64_t offset);
Tensor view_of(const Tensor& base, IntsView sizes, IntsView strides, int64_t offset, DType dtype);
// Another tensor on the same memory that is not a view for autograd; shares the version counter when asked.
Tensor alias_of(const Tensor& t, bool share_version);

VersionCounter* version_counter(TensorObject* t);
// Tensors made in inference mode are written to only there.
void check_not_inference(const Tensor& t);

Ints contiguous_strides(IntsView sizes);
Ints format_strides(IntsView sizes, MemoryFormat format);
int64_t product(IntsView sizes);
// Bytes a storage needs to hold these elements; checks for overflow.
size_t bytes_needed(IntsView sizes, IntsView strides, int64_t offset, int64_t itemsize);
// The strides an elementwise result gets: inputs' layout kept when dense, else contiguous.
Ints like_strides(const Tensor& t, MemoryFormat format);
// PyTorch's suggestion for outputs: channels_last when t is laid out that way.
MemoryFormat suggested_format(const Tensor& t);

int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op = nullptr);
// May two different elements of t share memory?
bool has_internal_overlap(const Tensor& t);
// Do the memory regions they span have a byte in common? They may interleave there and share none.
bool address_ranges_meet(const Tensor& a, const Tensor& b);
enum class Overlap { none, full, partial };
Overlap memory_overlap(const Tensor& a, const Tensor& b);

DType default_dtype();
void set_default_dtype(DType d);

inline std::ostream& operator<<(std::ostream& out, DType d) { return out << info(d).name; }
// float32[2, 3], for messages
std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace tocha
