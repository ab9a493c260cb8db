#include "core/device.h"

#include <vector>

#include "core/error.h"

namespace tocha {
namespace {

struct DefaultDevice {
  Device set;
  std::vector<Device> entered;
};
thread_local DefaultDevice the_default;

std::string privateuse1_name = "privateuseone";
bool renamed = false;

std::string all_names() {
  std::string text;
  for (int t = 0; t < kNumDeviceTypes; ++t) text += (t ? ", " : "") + std::string(name(static_cast<DeviceType>(t)));
  return text;
}

}  // namespace

const char* name(DeviceType t) {
  return t == DeviceType::privateuseone ? privateuse1_name.c_str() : kDeviceNames[static_cast<int>(t)];
}

void rename_privateuse1(const std::string& name) {
  TOCHA_CHECK(!renamed || privateuse1_name == name, Runtime,
              "torch.register_privateuse1_backend() has already been set! Current backend: ", privateuse1_name);
  for (const char* known : kDeviceNames)
    TOCHA_CHECK(name != known || name == privateuse1_name, Runtime, "Cannot register privateuse1 backend with name ",
                name, ": it is the name of another device");
  privateuse1_name = name;
  renamed = true;
}
bool is_privateuse1_renamed() { return renamed; }

Device default_device() { return the_default.entered.empty() ? the_default.set : the_default.entered.back(); }
void set_default_device(Device d) { the_default.set = d; }
void enter_device(Device d) { the_default.entered.push_back(d); }
bool leave_device() {
  if (the_default.entered.empty()) return false;
  the_default.entered.pop_back();
  return true;
}

Device parse_device(const std::string& text) {
  size_t colon = text.find(':');
  std::string type = text.substr(0, colon);
  Device d;
  bool known = false;
  for (int t = 0; t < kNumDeviceTypes; ++t) {
    if (type == name(static_cast<DeviceType>(t)) || type == kDeviceNames[t]) {
      d.type = static_cast<DeviceType>(t);
      known = true;
    }
  }
  TOCHA_CHECK(known, Runtime, "Expected one of ", all_names(), " device type at start of device string: ", type);
  if (colon != std::string::npos) {
    std::string digits = text.substr(colon + 1);
    bool fine = !digits.empty() && digits.size() <= 3 && digits.find_first_not_of("0123456789") == std::string::npos &&
                (digits.size() == 1 || digits[0] != '0') && std::stoi(digits) < 127;
    TOCHA_CHECK(fine, Runtime, "Invalid device string: '", text, "'");
    d.index = static_cast<int8_t>(std::stoi(digits));
  }
  return d;
}

std::string to_string(Device d) {
  std::string s = name(d.type);
  if (d.index >= 0) s += ":" + std::to_string(d.index);
  return s;
}

}  // namespace tocha
