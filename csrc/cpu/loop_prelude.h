// What generated loops may name: element types, math functions, scalar helpers.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/complexmath.h"
#include "cpu/scalar_ops.h"
#include "cpu/special.h"
#include "cpu/vecmath.h"
#include "dispatch/loops.h"
