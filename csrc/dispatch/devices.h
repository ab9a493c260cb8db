// The gate before every kernel: its tensors are on one device, where the kernel is then looked up. Generated operators
// and the engines ask here, so that no kernel is handed memory that it cannot reach.
#pragma once

#include "core/tensor.h"

namespace tocha {

// Kernels of other devices by the name of the kernel, with the parameters of the CPU's, which is called directly.
using AnyKernel = void (*)();
TOCHA_API void register_kernel(const char* kernel, DeviceType type, AnyKernel function);
// The kernel, or a refusal that names the operator.
AnyKernel find_kernel(const char* op, const char* kernel, Device device);
[[noreturn]] void refuse_backend(const char* op, Device device);
template <class F>
F* kernel_on(const char* op, const char* kernel, Device device) {
  return reinterpret_cast<F*>(find_kernel(op, kernel, device));
}

// True when results must be computed; meta tensors stop at shapes.
inline bool computes(const Tensor& t) { return !t.is_meta(); }

// The devices of a call's tensors, as they are met.
class Devices {
 public:
  void add(const Tensor& t) {
    if (!t) return;
    if (!first_) first_ = &t;
    mixed_ |= t.device() != first_->device();
  }
  void add(const Tensors& ts) {
    for (const Tensor& t : ts) add(t);
  }
  template <class... Arguments>
  static Devices of(const Arguments&... arguments) {
    Devices d;
    (d.add(arguments), ...);
    return d;
  }
  bool mixed() const { return mixed_; }
  Device first() const { return first_ ? first_->device() : Device{}; }

 private:
  const Tensor* first_ = nullptr;
  bool mixed_ = false;
};

inline void list_tensors(std::vector<const Tensor*>& out, const Tensor& t) {
  if (t) out.push_back(&t);
}
inline void list_tensors(std::vector<const Tensor*>& out, const Tensors& ts) {
  for (const Tensor& t : ts) list_tensors(out, t);
}

[[noreturn]] void refuse_devices(const char* op, Device a, Device b);
// A result that lies elsewhere than the out= it is for.
[[noreturn]] void refuse_out_device(const char* op, Device result, Device out);
// What a call on several devices runs on. 0-d tensors of the CPU go anywhere; a meta tensor makes it a call about
// shapes; everything else is refused.
Device settle(const char* op, const std::vector<const Tensor*>& tensors);
// For a call that writes into `written`: refuses what a kernel of its device cannot read.
void check_reachable(const char* op, const Tensor& written, const std::vector<const Tensor*>& tensors);

// The device of a call that makes its results.
template <class... Arguments>
Device common_device(const char* op, const Arguments&... arguments) {
  Devices d = Devices::of(arguments...);
  if (d.mixed()) [[unlikely]] {
    std::vector<const Tensor*> all;
    (list_tensors(all, arguments), ...);
    return settle(op, all);
  }
  return d.first();
}

// Whether a call that writes into `written` has to compute.
template <class... Arguments>
bool computes_into(const char* op, const Tensor& written, const Arguments&... arguments) {
  if (Devices::of(written, arguments...).mixed()) [[unlikely]] {
    std::vector<const Tensor*> all;
    (list_tensors(all, arguments), ...);
    check_reachable(op, written, all);
  }
  return computes(written);
}

// out= must be where the inputs are.
template <class... Arguments>
void check_out_device(const char* op, const Tensor& out, const Arguments&... arguments) {
  if (!Devices::of(out, arguments...).mixed()) [[likely]]
    return;
  Device device = common_device(op, arguments...);
  if (device != out.device()) refuse_out_device(op, device, out.device());
}

// For kernels whose results depend on values.
template <class... Arguments>
Device refuse_meta(const char* op, const Arguments&... arguments) {
  const Device place = common_device(op, arguments...);
  TOCHA_CHECK(!place.is_meta(), NotImplemented, "[", op, "] depends on values and cannot run on meta tensors");
  return place;
}

}  // namespace tocha
