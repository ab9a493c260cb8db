// Comparisons of whole tensors: the kernels of tocha/operators/comparison.py that answer with one bool.
#include <cstring>

#include "dispatch/native.h"
#include "ops/comparison.h"

namespace tocha::native {
namespace {

// Of a fresh bool tensor, which is dense.
bool all_true(const Tensor& t) { return std::memchr(t.bytes(), 0, static_cast<size_t>(t.numel())) == nullptr; }

}  // namespace

bool equal(const Tensor& self, const Tensor& other) {
  TOCHA_CHECK(self.device() == other.device(), Runtime,
              "[equal] Expected all tensors to be on the same device, but found ", self.device(), " and ",
              other.device());
  TOCHA_CHECK(!self.is_meta(), NotImplemented, "[equal] meta tensors have no elements to compare");
  if (!(self.sizes() == other.sizes())) return false;
  return self.numel() == 0 || all_true(ops::eq(self, other));
}

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  Tensor close = ops::isclose(self, other, rtol, atol, equal_nan);
  TOCHA_CHECK(!close.is_meta(), NotImplemented, "[allclose] meta tensors have no elements to compare");
  return close.numel() == 0 || all_true(close);
}

}  // namespace tocha::native
