#include "dispatch/backend.h"

namespace tocha {
namespace {
const Backend* backends[kNumDeviceTypes] = {};
}

const Backend& backend(DeviceType type) {
  const Backend* b = backends[static_cast<int>(type)];
  TOCHA_CHECK(b, Runtime, "device ", name(type), " is not available");
  return *b;
}

void register_backend(DeviceType type, const Backend& b) { backends[static_cast<int>(type)] = &b; }

}  // namespace tocha
