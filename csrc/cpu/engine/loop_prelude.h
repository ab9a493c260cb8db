// What generated loops may name: element types, math functions, scalar helpers.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/engine/scalar_ops.h"
#include "cpu/special/special.h"
#include "cpu/vecmath/complex.h"
#include "cpu/vecmath/vecmath.h"
#include "dispatch/loops.h"

// Where a compiler's own vectors leave most of a processor idle: their chains of operations hardly overlap.
#if defined(__aarch64__)
#define TOCHA_PACKED_LOOPS 1
#include "cpu/engine/program_packs_math.h"
#else
#define TOCHA_PACKED_LOOPS 0
#endif
