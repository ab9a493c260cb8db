#include "core/tensor.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/memory_order.h"
#include "core/modes.h"
#include "core/sparse.h"

namespace tocha {

thread_local Modes current_modes;
PyTypeObject* tensor_type = nullptr;

namespace {

DType the_default_dtype = DType::Float32;
constexpr const char* kTooManyBytes = "Storage size calculation overflowed with sizes=";

bool compute_contiguous(IntsView sizes, IntsView strides, int64_t numel) {
  if (numel == 0) return true;
  int64_t expected = 1;
  for (int64_t i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

int64_t checked_product(IntsView sizes, const char* refusal = "numel: integer multiplication overflow with sizes=") {
  uint64_t n = 1;
  bool fits = true;
  for (int64_t s : sizes) {
    TOCHA_CHECK(s >= 0, Runtime, "Trying to create tensor with negative dimension ", s, ": ", sizes);
    fits = !__builtin_mul_overflow(n, static_cast<uint64_t>(s), &n) && fits;
  }
  TOCHA_CHECK(fits && n <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()), Runtime, refusal, sizes);
  return static_cast<int64_t>(n);
}

// How far apart the elements of the next dim outwards are.
int64_t next_stride(int64_t stride, int64_t size, IntsView sizes) {
  TOCHA_CHECK(!__builtin_mul_overflow(stride, std::max<int64_t>(size, 1), &stride), Runtime,
              "Stride calculation overflowed with sizes=", sizes);
  return stride;
}

}  // namespace

DType default_dtype() { return the_default_dtype; }
void set_default_dtype(DType d) { the_default_dtype = d; }

int64_t product(IntsView sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

Ints contiguous_strides(IntsView sizes) {
  Ints strides(sizes.size());
  int64_t step = 1;
  for (int64_t i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = step;
    if (i) step = next_stride(step, sizes[i], sizes);
  }
  return strides;
}

Ints format_strides(IntsView sizes, MemoryFormat format) {
  int64_t wanted = format == MemoryFormat::ChannelsLast ? 4 : format == MemoryFormat::ChannelsLast3d ? 5 : 0;
  if (!wanted) return contiguous_strides(sizes);
  TOCHA_CHECK(sizes.size() == wanted, Runtime, "required rank ", wanted, " tensor to use channels_last",
              wanted == 5 ? "_3d" : "", " format");
  Ints strides(sizes.size());
  int64_t step = 1;
  auto place = [&](int64_t d) {
    strides[d] = step;
    if (d) step = sizes[d] == 0 ? 0 : next_stride(step, sizes[d], sizes);
  };
  place(1);
  for (int64_t d = wanted - 1; d >= 2; --d) place(d);
  place(0);
  return strides;
}

size_t bytes_needed(IntsView sizes, IntsView strides, int64_t offset, int64_t itemsize) {
  for (int64_t s : sizes)
    if (s == 0) return 0;
  int64_t end = 0, bytes = 0;  // one past the last element
  bool fits = offset >= 0 && !__builtin_add_overflow(offset, 1, &end);
  for (int64_t i = 0; i < sizes.size() && fits; ++i) {
    int64_t step;
    fits = !__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) && !__builtin_add_overflow(end, step, &end);
  }
  fits = fits && end > 0 && !__builtin_mul_overflow(end, itemsize, &bytes);
  TOCHA_CHECK(fits, Runtime, kTooManyBytes, sizes, " and strides=", strides, " at storage offset ", offset);
  return static_cast<size_t>(bytes);
}

void init_descriptor(TensorObject* t, IntsView sizes, IntsView strides) {
  int64_t n = sizes.size();
  TOCHA_CHECK(n <= 64, Runtime, "tensors of more than 64 dimensions are not supported, got ", n);
  int64_t numel = checked_product(sizes);  // before anything changes
  if (n > t->dims_capacity) {
    auto* grown = new int64_t[static_cast<size_t>(2 * n)];
    if (t->dims != t->inline_dims) delete[] t->dims;
    t->dims = grown;
    t->dims_capacity = static_cast<uint8_t>(n);
  }
  std::copy(sizes.begin(), sizes.end(), t->dims);
  std::copy(strides.begin(), strides.end(), t->dims + n);
  t->ndim = static_cast<uint8_t>(n);
  t->numel = numel;
  t->contiguous = compute_contiguous(sizes, strides, t->numel);
}

void set_sizes_and_strides(const Tensor& t, IntsView sizes, IntsView strides, int64_t offset) {
  Ints keep_sizes(sizes), keep_strides(strides);  // the views may look into t itself
  init_descriptor(t.get(), keep_sizes, keep_strides);
  t.get()->offset = offset;
}

Tensor make_tensor(StorageRef storage, DType dtype, IntsView sizes, IntsView strides, int64_t offset) {
  TensorObject* t = allocate_tensor_object();
  Tensor handle = Tensor::steal(t);
  t->dtype = dtype;
  t->device = storage->device;
  t->offset = offset;
  t->storage = storage.give();
  t->inference = modes().inference;
  if (!t->device.is_cpu() && python_device && *python_device == t->device.type) [[unlikely]]
    t->dispatches = true;
  init_descriptor(t, sizes, strides);
  return handle;
}

Tensor empty_strided(IntsView sizes, IntsView strides, DType dtype, Device device) {
  checked_product(sizes, kTooManyBytes);
  return make_tensor(new_storage(bytes_needed(sizes, strides, 0, itemsize(dtype)), device), dtype, sizes, strides, 0);
}

Tensor empty(IntsView sizes, DType dtype, Device device) {
  int64_t n = checked_product(sizes, kTooManyBytes);
  int64_t bytes;
  TOCHA_CHECK(!__builtin_mul_overflow(n, itemsize(dtype), &bytes), Runtime, kTooManyBytes, sizes);
  return make_tensor(new_storage(static_cast<size_t>(bytes), device), dtype, sizes, contiguous_strides(sizes), 0);
}

Tensor scalar_tensor(const Scalar& s, DType dtype, Device device) {
  Tensor t = empty({}, dtype, device);
  if (device.is_cpu()) s.store(dtype, t.bytes());
  return t;
}

Tensor wrapped_number(const Scalar& s) {
  DType d;
  switch (s.kind()) {
    case Kind::boolean:
      d = DType::Bool;
      break;
    case Kind::integer:
      d = s.is_beyond_int64() ? DType::UInt64 : DType::Int64;
      break;
    case Kind::floating:
      d = DType::Float64;
      break;
    default:
      d = DType::Complex128;
  }
  Tensor t = scalar_tensor(s, d);
  t.get()->number = NumberFrom::body;
  return t;
}

VersionCounter* version_counter(TensorObject* t) {
  if (!t->version) t->version = new VersionCounter();
  return t->version;
}

void check_not_inference(const Tensor& t) {
  TOCHA_CHECK(!t.get()->inference || modes().inference, Runtime,
              "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
              "normal tensor before doing inplace update.");
}

void Tensor::refuse_without_memory() const {
  TOCHA_CHECK(!is_meta(), NotImplemented, "Cannot copy out of meta tensor; no data!");
  TOCHA_CHECK(!p_->dispatches || Py_TYPE(object()) != tensor_type, Runtime,
              "Cannot access data pointer of Tensor that doesn't have storage: got ", *this, " of a transform");
  fail(ErrorKind::Runtime, "The tensor has a non-zero number of elements, but its data is not allocated yet: got ",
       *this, " on a storage of ", storage().nbytes, " bytes");
}

void Tensor::bump_version() const {
  check_not_inference(*this);
  ++version_counter(p_)->version;
}

Tensor view_of(const Tensor& base, IntsView sizes, IntsView strides, int64_t offset, DType dtype) {
  Tensor v = make_tensor(base.storage_ref(), dtype, sizes, strides, offset);
  TensorObject* t = v.get();
  TensorObject* b = base.get();
  t->version = version_counter(b);
  ++t->version->refs;
  t->conj = b->conj;
  t->neg = b->neg;
  t->inference = b->inference;
  if (b->inference) return v;
  t->base = b->base ? b->base : b;
  t->history_at = static_cast<uint32_t>(t->version->version);
  t->origin = b->origin;
  if (modes().inference)
    t->origin = ViewOrigin::inference;
  else if (!modes().grad && b->origin != ViewOrigin::inference)
    t->origin = ViewOrigin::no_grad;
  Py_INCREF(reinterpret_cast<PyObject*>(t->base));
  ++t->base->held;
  return v;
}

Tensor view_of(const Tensor& base, IntsView sizes, IntsView strides, int64_t offset) {
  return view_of(base, sizes, strides, offset, base.dtype());
}

Tensor alias_of(const Tensor& t, bool share_version) {
  check_strided(t, "another tensor on the same memory");
  Tensor v = make_tensor(t.storage_ref(), t.dtype(), t.sizes(), t.strides(), t.offset());
  if (share_version) {
    v.get()->version = version_counter(t.get());
    ++v.get()->version->refs;
  }
  v.get()->conj = t.is_conj();
  v.get()->neg = t.is_neg();
  v.get()->inference = t.get()->inference;
  return v;
}

bool Tensor::is_contiguous(MemoryFormat f) const {
  if (f == MemoryFormat::Contiguous || f == MemoryFormat::Preserve) return p_->contiguous;
  int64_t wanted = f == MemoryFormat::ChannelsLast ? 4 : 5;
  if (dim() != wanted) return false;
  Ints expected = format_strides(sizes(), f);
  for (int64_t i = 0; i < wanted; ++i)
    if (size(i) != 1 && stride(i) != expected[i]) return false;
  return true;
}

bool is_non_overlapping_and_dense(IntsView sizes, IntsView strides) {
  Ints order;
  for (int64_t i = 0; i < static_cast<int64_t>(sizes.size()); ++i)
    if (sizes[i] != 1) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (int64_t d : order) {
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

bool Tensor::is_non_overlapping_and_dense() const {
  return p_->contiguous || tocha::is_non_overlapping_and_dense(sizes(), strides());
}

MemoryFormat suggested_format(const Tensor& t) {
  for (MemoryFormat f : {MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d}) {
    int64_t wanted = f == MemoryFormat::ChannelsLast ? 4 : 5;
    if (t.dim() != wanted || t.stride(1) == 0) continue;
    // Channels innermost, then the spatial dims from last to first, then the batch.
    int64_t least = 0;
    bool fits = true;
    auto check = [&](int64_t d) {
      if (t.size(d) == 0 || t.stride(d) < least) fits = false;
      if (d == 0 && least == t.stride(1)) fits = false;
      least = t.stride(d);
      if (t.size(d) > 1) least *= t.size(d);
    };
    check(1);
    for (int64_t d = wanted - 1; d >= 2 && fits; --d) check(d);
    if (fits) check(0);
    if (fits) return f;
  }
  return MemoryFormat::Contiguous;
}

Ints like_strides(const Tensor& t, MemoryFormat format) {
  if (format != MemoryFormat::Preserve) return format_strides(t.sizes(), format);
  if (t.is_non_overlapping_and_dense()) return Ints(t.strides());
  // Keep the order of the dims by stride, but leave no holes.
  return strides_by_operands(t.sizes(), 1, [&](int, int64_t d) { return t.stride(d); });
}

int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op) {
  int64_t n = std::max<int64_t>(ndim, 1);
  if (dim < -n || dim >= n) [[unlikely]] {
    std::string where = op ? str("[", op, "] ") : std::string();
    fail(ErrorKind::Index, where, "Dimension out of range (expected to be in range of [", -n, ", ", n - 1,
         "], but got ", dim, ")");
  }
  return dim < 0 ? dim + n : dim;
}

bool has_internal_overlap(const Tensor& t) {
  if (t.is_contiguous()) return false;
  for (int64_t i = 0; i < t.dim(); ++i)
    if (t.size(i) > 1 && t.stride(i) == 0) return true;
  return false;
}

namespace {

// The first byte of t's elements and the one past the last.
std::pair<uintptr_t, uintptr_t> address_range(const Tensor& t) {
  int64_t last = 0;
  for (int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
  auto first = reinterpret_cast<uintptr_t>(t.storage().data) + static_cast<uintptr_t>(t.offset() * t.itemsize());
  return {first, first + static_cast<uintptr_t>((last + 1) * t.itemsize())};
}

}  // namespace

bool address_ranges_meet(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  auto [a0, a1] = address_range(a);
  auto [b0, b1] = address_range(b);
  return a0 < b1 && b0 < a1;
}

Overlap memory_overlap(const Tensor& a, const Tensor& b) {
  if (&a.storage() != &b.storage() || !address_ranges_meet(a, b)) return Overlap::none;
  if (a.is(b)) return Overlap::full;
  if (!a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense()) {
    // Not decidable cheaply: interleaved views such as x[::2] and x[1::2] are legitimate.
    bool same = a.offset() == b.offset() && a.sizes() == b.sizes() && a.strides() == b.strides();
    return same ? Overlap::full : Overlap::none;
  }
  bool same = address_range(a) == address_range(b) && a.strides() == b.strides();
  return same ? Overlap::full : Overlap::partial;
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t) return out << "None";
  return out << t.dtype() << t.sizes();
}

}  // namespace tocha
