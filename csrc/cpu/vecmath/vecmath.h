// Elementwise math for float and double: what the kernels, hand-written and generated, call as math::exp(x) and so on.
// Scalar, branch-free, always inlined: `for (...) out[i] = math::exp(x[i]);` becomes SIMD code for the instruction set
// the file is compiled for. Accurate to 1-2 ulp; tests/native/vecmath_test.cpp holds each function to its bound.
// With AVX-512 some also take whole vectors (avx512.h).
// Not vectorized: fmod, remainder; sin, cos, tan (see trig.h for the fast forms); double pow without FMA.
#pragma once

#include "cpu/vecmath/atrig.h"
#include "cpu/vecmath/avx512.h"
#include "cpu/vecmath/basic.h"
#include "cpu/vecmath/core.h"
#include "cpu/vecmath/erf.h"
#include "cpu/vecmath/exp.h"
#include "cpu/vecmath/gamma.h"
#include "cpu/vecmath/log.h"
#include "cpu/vecmath/pow.h"
#include "cpu/vecmath/trig.h"
