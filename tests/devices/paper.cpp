// A device made outside of the library, in C++: memory of its own, the CPU's loops on it, one native kernel, and a
// count of what was asked of it. tests/test_third_device.py builds and loads it.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "dispatch/backend.h"

namespace {

using namespace tocha;

constexpr DeviceType kPaper = DeviceType::privateuseone;
std::atomic<int> blocks{0}, loops{0}, folds{0}, copies{0}, products{0};

void* allocate(size_t nbytes, Device) {
  ++blocks;
  return std::malloc(nbytes ? nbytes : 1);
}
void release(void* data, size_t) {
  --blocks;
  std::free(data);
}

const Backend& cpu() { return backend(DeviceType::cpu); }

void pointwise(const PointwiseOp& op, DType compute, const Tensor* const* operands, const char* params) {
  ++loops;
  cpu().pointwise(op, compute, operands, params);
}
void reduce(const ReductionOp& op, DType compute, const ReductionCall& call) {
  ++folds;
  cpu().reduce(op, compute, call);
}
void copy(const Tensor& to, const Tensor& from) {
  ++copies;
  cpu().copy(to, from);
}
void fill(const Tensor& to, const Scalar& value) { cpu().fill(to, value); }

// Of float32 matrices, however they lie.
void matmul(const Tensor& out, const Tensor& a, const Tensor& b) {
  TOCHA_CHECK(out.dim() == 2 && out.dtype() == DType::Float32, NotImplemented,
              "[matmul] paper multiplies float32 matrices");
  ++products;
  for (int64_t i = 0; i < out.size(0); ++i)
    for (int64_t j = 0; j < out.size(1); ++j) {
      float sum = 0;
      for (int64_t k = 0; k < a.size(1); ++k)
        sum += a.data<float>()[i * a.stride(0) + k * a.stride(1)] * b.data<float>()[k * b.stride(0) + j * b.stride(1)];
      out.data<float>()[i * out.stride(0) + j * out.stride(1)] = sum;
    }
}

const Backend paper = {"paper", pointwise, reduce, copy, fill};

[[maybe_unused]] const bool registered = [] {
  rename_privateuse1("paper");
  register_allocator(kPaper, {allocate, release});
  register_backend(kPaper, paper);
  register_kernel("matmul", kPaper, reinterpret_cast<AnyKernel>(matmul));
  return true;
}();

}  // namespace

extern "C" int paper_count(const char* what) {
  if (!std::strcmp(what, "blocks")) return blocks;
  if (!std::strcmp(what, "loops")) return loops;
  if (!std::strcmp(what, "folds")) return folds;
  if (!std::strcmp(what, "copies")) return copies;
  return products;
}
