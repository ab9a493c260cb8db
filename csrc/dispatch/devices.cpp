#include "dispatch/devices.h"

#include <cctype>

namespace tocha {
namespace {

bool goes_anywhere(const Tensor& t) { return t.dim() == 0 && t.is_cpu(); }

struct Slot {
  const char* kernel;
  DeviceType type;
  AnyKernel function;
};
std::vector<Slot>& slots() {
  static auto& all = *new std::vector<Slot>();
  return all;
}

// "CUDA", "PrivateUse1": how PyTorch calls the kernels of a device.
std::string key_of(DeviceType type) {
  if (type == DeviceType::privateuseone) return "PrivateUse1";
  std::string key = name(type);
  for (char& c : key) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return key;
}

}  // namespace

void register_kernel(const char* kernel, DeviceType type, AnyKernel function) {
  slots().push_back({kernel, type, function});
}

void refuse_backend(const char* op, Device device) {
  fail(ErrorKind::NotImplemented, "[", op, "] Could not run 'aten::", op, "' with arguments from the '",
       key_of(device.type), "' backend: no kernel is registered for it on ", device,
       ". It is available for these backends: [CPU, Meta]");
}

AnyKernel find_kernel(const char* op, const char* kernel, Device device) {
  for (auto s = slots().rbegin(); s != slots().rend(); ++s)  // the latest registration counts
    if (s->type == device.type && !std::strcmp(s->kernel, kernel)) return s->function;
  refuse_backend(op, device);
}

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
