// Types that operator signatures use.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/generator_ref.h"
#include "core/tensor.h"

namespace tocha {

// A storage that a call gives: bytes, or elements of a dtype (Undefined for bytes).
struct GivenStorage {
  StorageRef memory;
  DType dtype;
};

}  // namespace tocha
