// All the special functions, under the names of torch.special without its prefix: math::bessel_j0(x), math::zeta(x, q).
// Templates on float and double; tests/native/special_test.cpp checks them. Generated kernels include this.
#pragma once

#include "cpu/special/bessel.h"
#include "cpu/special/discrete.h"
#include "cpu/special/erf.h"
#include "cpu/special/gamma.h"
#include "cpu/special/igamma.h"
#include "cpu/special/poly.h"
