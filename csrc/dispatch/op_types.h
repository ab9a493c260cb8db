// Types that operator signatures use.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/generator_ref.h"
#include "core/tensor.h"
