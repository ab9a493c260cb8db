// Where a tensor's memory lives.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "core/export.h"

namespace tocha {

// Every device that a program can name. Most of them are only names here: asking for memory on one is refused.
// clang-format off: it does not come to rest on this list
#define TOCHA_FORALL_DEVICES(_)                                                                                    \
  _(cpu)                                                                                                           \
  _(cuda)                                                                                                          \
  _(ipu)                                                                                                           \
  _(xpu)                                                                                                           \
  _(mkldnn)                                                                                                        \
  _(opengl) _(opencl) _(ideep) _(hip) _(ve) _(fpga) _(maia) _(xla) _(lazy) _(vulkan) _(mps) _(meta) _(hpu) _(mtia) \
      _(privateuseone)
// clang-format on

enum class DeviceType : uint8_t {
#define _(name) name,
  TOCHA_FORALL_DEVICES(_)
#undef _
};
constexpr const char* kDeviceNames[] = {
#define _(name) #name,
    TOCHA_FORALL_DEVICES(_)
#undef _
};
constexpr int kNumDeviceTypes = sizeof(kDeviceNames) / sizeof(kDeviceNames[0]);

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = -1;  // -1: the current device of that type

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool is_meta() const { return type == DeviceType::meta; }
  friend bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
};

const char* name(DeviceType t);
// Another name for privateuseone, the device that a program adds. Once.
TOCHA_API void rename_privateuse1(const std::string& name);
bool is_privateuse1_renamed();

// Where factories put tensors when no device is given: the innermost `with device:`, else what was set; per thread.
Device default_device();
void set_default_device(Device d);
void enter_device(Device d);
bool leave_device();  // false when none was entered

// "cpu", "cuda:1"; throws RuntimeError for what it does not know.
Device parse_device(const std::string& text);
std::string to_string(Device d);
inline std::ostream& operator<<(std::ostream& out, Device d) { return out << to_string(d); }

}  // namespace tocha
