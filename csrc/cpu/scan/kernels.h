// Inner loops of cumsum and cumprod, compiled once per instruction set (isa/kernels.cpp).
// Called by scan.cpp, which cuts the work into these pieces.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace tocha::cpu {

enum class ScanOp { sum, product };

// Room for one accumulator of any dtype.
struct alignas(16) ScanCarry {
  unsigned char bytes[16];
};

constexpr int64_t kScanTile = 64;

struct ScanPiece {
  ScanOp op;
  DType in_dtype, out_dtype;
  const void* in;
  void* out;
};

struct ScanKernels {
  bool (*supports)(DType in_dtype, DType out_dtype);
  void (*identity)(const ScanPiece& piece, ScanCarry* carry);
  // carry = carry op all of in[begin, end)
  void (*reduce)(const ScanPiece& piece, int64_t begin, int64_t end, ScanCarry* carry);
  // a = a op b
  void (*combine)(const ScanPiece& piece, ScanCarry* a, const ScanCarry* b);
  // Scans `streams` runs of n elements, `stride` apart and starting at `begin`, each from its own carry.
  void (*scan)(const ScanPiece& piece, int64_t begin, int64_t stride, int64_t streams, int64_t n,
               const ScanCarry* carries);
  // Scans down `columns` <= kScanTile adjacent columns of n rows that are `pitch` apart.
  void (*columns)(const ScanPiece& piece, int64_t begin, int64_t n, int64_t pitch, int64_t columns);
};

TOCHA_ISA_TABLE(ScanKernels, scan_kernels)

}  // namespace tocha::cpu
