// Elementwise math for float and double: what the kernels, hand-written and generated, call as math::exp(x) and so on.
// Scalar, branch-free, always inlined: `for (...) out[i] = math::exp(x[i]);` becomes SIMD code for the instruction set
// the file is compiled for. Accurate to 1-2 ulp; tests/native/vecmath_test.cpp holds each function to its bound.
// With AVX-512 some also take whole vectors (vecmath_avx512.h).
// Not vectorized: fmod, remainder; sin, cos, tan (see vecmath_trig.h for the fast forms); double pow without FMA.
#pragma once

#include "cpu/vecmath_atrig.h"
#include "cpu/vecmath_avx512.h"
#include "cpu/vecmath_basic.h"
#include "cpu/vecmath_core.h"
#include "cpu/vecmath_erf.h"
#include "cpu/vecmath_exp.h"
#include "cpu/vecmath_gamma.h"
#include "cpu/vecmath_log.h"
#include "cpu/vecmath_pow.h"
#include "cpu/vecmath_trig.h"
