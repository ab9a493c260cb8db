// Types that operator signatures use.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/tensor.h"
#include "python/types.h"
