// Products of narrow numbers (bfloat16, int8) on the instructions that processors have for them: Intel's AMX tiles,
// AVX-512's and ARM's dot products and small matrix products. All of them multiply neighbours along the depth and add
// up in 32 bits, so all take their operands in the same form:
//
//   a: rows with the depth side by side, in blocks of kBlockBytes; the last block of a row is filled up with zeros.
//   b: rows of words. A word holds as many neighbours along the depth as fit, of one column; the words of neighbouring
//      columns lie side by side. As many rows of words as make a block of a are a block of b.
//
// Each unit is compiled by itself (csrc/cpu/units) and chosen once, at run time. gemm/unit.cpp, convolution/unit.cpp
// and attention/unit.cpp drive them; without a unit these products are computed in float, or 32-bit integers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"

namespace tocha::cpu {

constexpr int64_t kBlockBytes = 64;

// sums[rows, columns] (+)= a @ b, in float or int32, on one thread. All distances are in bytes.
struct UnitJob {
  int64_t rows, columns, blocks;
  const char* a;
  int64_t a_row, a_panel;  // of rows within a panel of the unit's `rows`, and of panels
  int64_t a_block = kBlockBytes;
  const char* b;  // whole vectors of columns are read, of which the last may be partly of no account
  int64_t b_row, b_panel, b_block;
  const int64_t *a_at = nullptr, *b_at = nullptr;  // where each block lies, instead of a_block, b_block apart
  const int64_t* b_panels = nullptr;               // where each panel of b lies, instead of b_panel apart
  char* sums;                                      // whole panels of columns are written
  int64_t sums_row;
  bool add;
};

inline const char* panel_of(const UnitJob& job, int64_t i) {
  return job.b + (job.b_panels ? job.b_panels[i] : i * job.b_panel);
}

// c = alpha * sums + beta * c, or + the bias, rounded once. Distances count elements.
struct UnitFinish {
  int64_t rows, columns;
  const float* sums;
  int64_t sums_row;
  void* c;
  int64_t c_row, c_col;
  float alpha, beta;           // beta == 0 does not read c
  const void* bias = nullptr;  // instead of beta * c: an element for each column, or for each row
  bool bias_by_row = false;
};

// Rows of n elements, each step apart, become rows of `pitch` elements one behind the other: `zeros` zeros, the
// elements, and zeros again. Up to kBlockBytes behind the last row are written too. Distances count elements.
struct UnitCopy {
  const void* from;
  int64_t from_row, step, rows, n;
  void* to;
  int64_t pitch, zeros;
};

// For each place, a block of each row: n elements, each step apart, from the row's place on, filled up with zeros. A
// row's blocks lie kBlockBytes apart, those of the places out_place bytes. The other distances count elements.
struct UnitUnzip {
  const void* from;
  int64_t from_row, rows, step, n;  // at most block_depth() elements
  const int64_t* place;             // less than step
  int64_t places;
  char* out;
  int64_t out_place;
};

struct MatrixUnit {
  const char* name;
  int64_t rows, columns;  // of a panel
  int64_t word;           // bytes
  int64_t item;           // bytes of an element
  int64_t speed;          // how many products in the time of one of float's
  void (*multiply)(const UnitJob& job);
  // Rows of a, from any strides (which count elements): block i of row r goes to out + r * out_row + i * out_block.
  void (*pack_rows)(const void* a, int64_t a_row, int64_t a_k, int64_t rows, int64_t k, char* out, int64_t out_row,
                    int64_t out_block);
  // ceil(k / depth of a word) rows of n words, from any strides; those of a panel's columns side by side, panels
  // out_panel bytes apart.
  void (*pack_words)(const void* b, int64_t b_k, int64_t b_col, int64_t k, int64_t n, char* out, int64_t out_row,
                     int64_t out_panel);
  // One row of n words from k rows, at most depth() of them, each with its columns side by side.
  void (*zip)(const void* const* rows, int64_t k, int64_t n, char* out, int64_t out_panel);
  void (*copy_rows)(const UnitCopy& job);
  void (*unzip)(const UnitUnzip& job);
  void (*finish)(const UnitFinish& job);  // null for integers

  int64_t depth() const { return word / item; }               // of a word
  int64_t block_depth() const { return kBlockBytes / item; }  // of a block
  int64_t block_words() const { return kBlockBytes / word; }  // rows of words in it
  int64_t panel_row() const { return columns * word; }        // bytes of a row of words of one panel
  int64_t blocks(int64_t k) const { return (k + block_depth() - 1) / block_depth(); }
};

// The unit for a dtype's products, or null. TOCHA_MATRIX_UNIT names another one that this processor has, or "none".
const MatrixUnit* matrix_unit(DType dtype);
// All that this processor has for a dtype, best first, and the emulation of AMX.
std::vector<const MatrixUnit*> matrix_units(DType dtype);

// The same in pieces of the depth, so that a panel of rows stays in the second-level cache while it meets the columns.
void multiply_in_pieces(const MatrixUnit& unit, UnitJob job);

// b as packed panels, each [rows of words][columns], filled up with zeros: the form that UnitJob reads with
// b_row = panel_row(), b_block = block_words() * b_row and b_panel = blocks * b_block.
inline int64_t packed_panel_bytes(const MatrixUnit& unit, int64_t k) {
  return unit.blocks(k) * unit.block_words() * unit.panel_row();
}
void pack_panels(const MatrixUnit& unit, const void* b, int64_t b_k, int64_t b_col, int64_t k, int64_t n, char* out);

}  // namespace tocha::cpu
