#include "dispatch/devices.h"

namespace tocha {
namespace {

bool goes_anywhere(const Tensor& t) { return t.dim() == 0 && t.is_cpu(); }

}  // namespace

void refuse_devices(const char* op, Device a, Device b) {
  fail(ErrorKind::Runtime, "[", op, "] Expected all tensors to be on the same device, but found at least two devices, ",
       a, " and ", b, "!");
}

void refuse_out_device(const char* op, Device result, Device out) {
  fail(ErrorKind::Runtime, "[", op, "] Attempting to copy from device ", result, " to device ", out,
       ", but cross-device copies are not allowed!");
}

Device settle(const char* op, const std::vector<const Tensor*>& tensors) {
  const Tensor* found = nullptr;
  for (const Tensor* t : tensors)
    if (t->is_meta()) return t->device();
  for (const Tensor* t : tensors) {
    if (goes_anywhere(*t)) continue;
    if (found && found->device() != t->device()) refuse_devices(op, found->device(), t->device());
    found = t;
  }
  return found ? found->device() : Device{};
}

void check_reachable(const char* op, const Tensor& written, const std::vector<const Tensor*>& tensors) {
  if (!computes(written)) return;
  for (const Tensor* t : tensors)
    if (t->device() != written.device() && !goes_anywhere(*t)) refuse_devices(op, written.device(), t->device());
}

}  // namespace tocha
