// What generated loops may name: element types, math functions, scalar helpers.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/engine/scalar_ops.h"
#include "cpu/special/special.h"
#include "cpu/vecmath/complex.h"
#include "cpu/vecmath/vecmath.h"
#include "dispatch/loops.h"
