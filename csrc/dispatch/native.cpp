#include "dispatch/native.h"

#include "core/dtype_messages.h"

namespace tocha {

Tensor clone_dense(const Tensor& t) {
  Tensor copy = empty_strided(t.sizes(), like_strides(t, MemoryFormat::Preserve), t.dtype(), t.device());
  if (computes(copy)) backend(t.device().type).copy(copy, t);
  return copy;
}

Tensor readable(const Tensor& t) {
  if (t.is_contiguous() && !t.is_conj() && !t.is_neg()) return t;
  Tensor copy = empty(t.sizes(), t.dtype(), t.device());
  if (computes(copy)) backend(t.device().type).copy(copy, t);
  return copy;
}

void copy_across(const Tensor& to, const Tensor& from) {
  bool apart =
      to.device() != from.device() || !address_ranges_meet(to, from) || memory_overlap(to, from) == Overlap::full;
  copy_between(to, apart ? from : clone_dense(from));
}

void check_inplace_result(const Tensor& self, const Tensor& result, const char* op) {
  TOCHA_CHECK(self.sizes() == result.sizes(), Runtime, "[", op, "] output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", result.sizes());
  TOCHA_CHECK(can_cast(result.dtype(), self.dtype()), Runtime, "[", op, "] result type ", result.dtype(),
              " can't be cast to the desired output type ", self.dtype());
  if (self.device() != result.device() && computes(self)) refuse_devices(op, self.device(), result.device());
  check_no_internal_overlap(self, op);
}

void write_inplace(const Tensor& self, const Tensor& result, const char* op) {
  if (self.is(result)) return self.bump_version();
  check_inplace_result(self, result, op);
  if (computes(self)) copy_across(self, result);
  self.bump_version();
}

OutScope::OutScope(const Tensor& out, OutSpec spec, const char* op) : out_(out), spec_(std::move(spec)), op_(op) {
  TOCHA_CHECK(spec_.dtype == out.dtype(), Runtime, "[", op, "] Expected out tensor to have dtype ", c_name(spec_.dtype),
              ", but got ", c_name(out.dtype()), " instead");
  check_no_internal_overlap(out, op);
  direct_ = !out.is_conj() && !out.is_neg();
}

void OutScope::avoid(const Tensor& input) {
  // Views whose overlap is hard to decide count as overlapping: a kernel may read an input after writing out.
  if (input && &input.storage() == &out_.storage()) direct_ = false;
}

const Tensor& OutScope::target() {
  if (!target_) {
    if (direct_) {
      resize_output(out_, spec_.sizes, op_);
      if (out_.is_contiguous()) target_ = out_;
    }
    if (!target_) {
      direct_ = false;
      target_ = make_out(spec_, out_.device());
    }
  }
  return target_;
}

void OutScope::finish() {
  if (!direct_)
    copy_to_out(out_, target_, op_);
  else
    out_.bump_version();
}

}  // namespace tocha
