// Mixed precision: while a region is open for a device, operators whose record says so (`autocast=`) take their
// arguments in another dtype: "lower" (the region's dtype), "float32", "widest" (the widest among them), or "state"
// (the region's dtype, or a wider one that the state of a recurrent network has).
#pragma once

#include <array>
#include <type_traits>

#include "core/tensor.h"

namespace tocha::autocast {

constexpr std::array<DType, kNumDeviceTypes> default_dtypes() {
  std::array<DType, kNumDeviceTypes> out{};
  out.fill(DType::Float16);
  for (DeviceType t : {DeviceType::cpu, DeviceType::meta, DeviceType::hpu, DeviceType::maia, DeviceType::xla})
    out[static_cast<size_t>(t)] = DType::BFloat16;
  return out;
}

struct Region {     // of one thread
  bool on = false;  // open for some device
  bool enabled[kNumDeviceTypes] = {};
  std::array<DType, kNumDeviceTypes> dtype = default_dtypes();
  bool cache = true;  // keep weights' casts until the outermost region ends
  int nesting = 0;
};
extern thread_local Region region __attribute__((tls_model("initial-exec")));

void enable(DeviceType device, bool on);
void clear_cache();

// Operators within it see their arguments as they are.
class Off {
 public:
  Off() : before_(region.on) { region.on = false; }
  ~Off() { region.on = before_; }
  Off(const Off&) = delete;
  Off& operator=(const Off&) = delete;

 private:
  bool before_;
};

inline bool covers(const Tensor& t) { return t && region.enabled[static_cast<int>(t.device().type)]; }
inline bool covers(const Tensors& ts) {
  for (const Tensor& t : ts)
    if (covers(t)) return true;
  return false;
}
template <class... T>
inline bool applies(const T&... arguments) {
  return region.on && (covers(arguments) || ...);
}

// float64, integers and tensors of other devices stay what they are.
inline bool is_cast(const Tensor& t) {
  return covers(t) && t.is_floating() && t.dtype() != DType::Float64 && !is_float8(t.dtype());
}
Tensor cast(const Tensor& t, DType to);
Tensors cast(const Tensors& ts, DType to);

// What each kind of operator casts to.
DType lower_dtype(const Tensor& t);
DType lower_dtype(const Tensors& ts);
template <class... T>
DType lower(const T&... arguments) {
  DType found = DType::Undefined;
  ((found == DType::Undefined ? void(found = lower_dtype(arguments)) : void()), ...);
  return found;
}
template <class... T>
DType float32(const T&...) {
  return DType::Float32;
}
void widen(DType& so_far, const Tensor& t);
void widen(DType& so_far, const Tensors& ts);
template <class... T>
DType widest(const T&... arguments) {
  DType found = lower(arguments...);
  (widen(found, arguments), ...);
  return found;
}

inline DType state(const Tensor& hx) {
  DType found = lower(hx);
  widen(found, hx);
  return found;
}
inline DType state(const Tensors& hx) { return hx.empty() ? lower(hx) : state(hx.back()); }  // an LSTM's cell counts

}  // namespace tocha::autocast
