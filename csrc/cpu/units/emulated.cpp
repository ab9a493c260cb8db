// AMX on any machine, slowly, so that every machine can test packing and loops. Chosen only by its name.
// flags: x86_64 -Os
// flags: aarch64 -Os
#define TOCHA_ISA emulated
#include "cpu/units/emulated_tiles.h"
#include "cpu/units/packing.h"
#include "cpu/units/units.h"

namespace tocha::cpu {
using namespace units;
using HalfPacking = Packing<uint16_t, uint32_t, 32>;
using BytePacking = Packing<uint8_t, uint32_t, 32>;
extern const MatrixUnit kEmulatedBFloat16 =
    unit_of<HalfPacking>("emulated", 32, 16, multiply_tiles<EmulatedBFloat16Tiles>, finish);
extern const MatrixUnit kEmulatedInt8 =
    unit_of<BytePacking>("emulated", 32, 32, multiply_tiles<EmulatedInt8Tiles>, nullptr);
}  // namespace tocha::cpu
