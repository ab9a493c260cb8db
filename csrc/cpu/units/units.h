// The units there are, each in a file of its own. A line `// flags: <architecture> <flags>` at the top of the file says
// what it is compiled with, and TOCHA_ISA in it names its copy of the shared headers (see core/isa.h).
#pragma once

#include "cpu/units/matrix_unit.h"

namespace tocha::cpu {

extern const MatrixUnit kAmxBFloat16, kAmxInt8;
extern const MatrixUnit kAvx512BFloat16, kAvx512Int8;
extern const MatrixUnit kNeonBFloat16, kNeonInt8;  // products of small matrices
extern const MatrixUnit kNeonDotInt8;
extern const MatrixUnit kEmulatedBFloat16, kEmulatedInt8;

}  // namespace tocha::cpu
