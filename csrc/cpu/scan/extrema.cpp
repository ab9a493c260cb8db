// cummax and cummin with indices: how the work is cut. See scan.h; the loops are in isa/extrema_kernels.cpp.
#include "cpu/scan/extrema.h"

#include <algorithm>

#include "core/dtype_messages.h"
#include "core/error.h"
#include "cpu/engine/lanes.h"
#include "cpu/scan/scan.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kLaneMin = 1 << 14;

void scan_columns(const ExtremaPiece& piece, ScanShape shape) {
  const ExtremaKernels& kernels = extrema_kernels();
  int64_t tiles = (shape.inner + kExtremaTile - 1) / kExtremaTile;
  int64_t grain = std::max<int64_t>(1, kLaneMin / (shape.n * std::min(shape.inner, kExtremaTile)));
  parallel_for(shape.outer * tiles, grain, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      int64_t column = t % tiles * kExtremaTile;
      int64_t width = std::min(kExtremaTile, shape.inner - column);
      kernels.columns(piece, t / tiles * shape.n * shape.inner + column, shape.n, shape.inner, width);
    }
  });
}

// Every lane scans its own part; then, lane by lane, the best before it reaches as far as nothing there beats it.
void scan_long_row(const ExtremaPiece& piece, int64_t row, int64_t n) {
  const ExtremaKernels& kernels = extrema_kernels();
  int lanes = lane_count(n, kLaneMin);
  for_lanes(n, lanes, [&](int, int64_t begin, int64_t end) { kernels.scan(piece, row, row + begin, row + end); });
  for (int lane = 1; lane < lanes; ++lane) {
    kernels.extend(piece, row + lane_begin(n, lanes, lane), row + lane_begin(n, lanes, lane + 1));
  }
}

void scan_extrema(const char* name, const ExtremaPiece& piece, ScanShape shape) {
  if (shape.outer == 0 || shape.n == 0 || shape.inner == 0) return;
  if (!extrema_kernels().supports(piece.dtype)) refuse_dtype(name, piece.dtype);
  if (shape.inner > 1) {
    scan_columns(piece, shape);
  } else if (shape.outer < num_threads()) {
    for (int64_t r = 0; r < shape.outer; ++r) scan_long_row(piece, r * shape.n, shape.n);
  } else {
    parallel_for(shape.outer, std::max<int64_t>(1, kLaneMin / shape.n), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        extrema_kernels().scan(piece, r * shape.n, r * shape.n, (r + 1) * shape.n);
      }
    });
  }
}

}  // namespace

void cummax(DType dtype, const void* in, void* values, int64_t* indices, ScanShape shape) {
  scan_extrema("cummax", {dtype, true, in, values, indices}, shape);
}

void cummin(DType dtype, const void* in, void* values, int64_t* indices, ScanShape shape) {
  scan_extrema("cummin", {dtype, false, in, values, indices}, shape);
}

}  // namespace tocha::cpu
