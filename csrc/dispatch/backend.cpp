#include "dispatch/backend.h"

namespace tocha {
namespace {
const Backend* backends[kNumDeviceTypes] = {};
}

const Backend& backend(DeviceType type, const char* op) {
  const Backend* b = backends[static_cast<int>(type)];
  if (!b) [[unlikely]]
    refuse_backend(op, Device{type});
  return *b;
}

void register_backend(DeviceType type, const Backend& b) { backends[static_cast<int>(type)] = &b; }

}  // namespace tocha
