// cumsum and cumprod: how the work is cut. One long row is scanned in two passes: the totals of its stretches,
// then every stretch from the total before it.
#include "cpu/scan/scan.h"

#include <algorithm>
#include <vector>

#include "core/dtype_messages.h"
#include "core/error.h"
#include "cpu/engine/lanes.h"
#include "cpu/scan/kernels.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kStreams = 8;
constexpr int64_t kLaneMin = 1 << 14;

void scan_columns(const ScanPiece& piece, ScanShape shape) {
  const ScanKernels& kernels = scan_kernels();
  int64_t tiles = (shape.inner + kScanTile - 1) / kScanTile;
  int64_t grain = std::max<int64_t>(1, kLaneMin / (shape.n * std::min(shape.inner, kScanTile)));
  parallel_for(shape.outer * tiles, grain, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      int64_t column = t % tiles * kScanTile;
      int64_t width = std::min(kScanTile, shape.inner - column);
      kernels.columns(piece, t / tiles * shape.n * shape.inner + column, shape.n, shape.inner, width);
    }
  });
}

void scan_rows(const ScanPiece& piece, int64_t rows, int64_t n) {
  const ScanKernels& kernels = scan_kernels();
  ScanCarry fresh[kStreams];
  for (ScanCarry& carry : fresh) kernels.identity(piece, &carry);
  int64_t groups = (rows + kStreams - 1) / kStreams;
  parallel_for(groups, std::max<int64_t>(1, kLaneMin / (n * kStreams)), [&](int64_t first, int64_t last) {
    for (int64_t g = first; g < last; ++g) {
      int64_t streams = std::min(kStreams, rows - g * kStreams);
      kernels.scan(piece, g * kStreams * n, n, streams, n, fresh);
    }
  });
}

// Floating products are not regrouped: the product of a stretch may overflow where the whole does not.
bool can_split(const ScanPiece& piece) { return piece.op == ScanOp::sum || is_integral(piece.out_dtype); }

void scan_long_row(const ScanPiece& piece, int64_t begin, int64_t n) {
  const ScanKernels& kernels = scan_kernels();
  int lanes = can_split(piece) ? lane_count(n, kLaneMin, 2) : 1;
  std::vector<ScanCarry> before(lanes);
  kernels.identity(piece, &before[0]);
  if (lanes > 1) {
    for_lanes(n, lanes, [&](int lane, int64_t from, int64_t to) {
      if (lane + 1 == lanes) return;
      kernels.identity(piece, &before[lane + 1]);
      kernels.reduce(piece, begin + from, begin + to, &before[lane + 1]);
    });
    for (int lane = 1; lane < lanes; ++lane) {
      ScanCarry total = before[lane - 1];
      kernels.combine(piece, &total, &before[lane]);
      before[lane] = total;
    }
  }
  for_lanes(n, lanes, [&](int lane, int64_t from, int64_t to) {
    kernels.scan(piece, begin + from, 0, 1, to - from, &before[lane]);
  });
}

void scan_all(ScanOp op, const char* name, DType in_dtype, const void* in, DType out_dtype, void* out,
              ScanShape shape) {
  TOCHA_CHECK(scan_kernels().supports(in_dtype, out_dtype), NotImplemented, "[", name, "] \"", kernel_word(name),
              "\" not implemented for '", info(in_dtype).name, "' into ", info(out_dtype).name);
  if (shape.outer == 0 || shape.n == 0 || shape.inner == 0) return;
  ScanPiece piece{op, in_dtype, out_dtype, in, out};
  if (shape.inner > 1) {
    scan_columns(piece, shape);
  } else if (shape.outer < num_threads()) {
    for (int64_t r = 0; r < shape.outer; ++r) scan_long_row(piece, r * shape.n, shape.n);
  } else {
    scan_rows(piece, shape.outer, shape.n);
  }
}

}  // namespace

void cumsum(DType in_dtype, const void* in, DType out_dtype, void* out, ScanShape shape) {
  scan_all(ScanOp::sum, "cumsum", in_dtype, in, out_dtype, out, shape);
}

void cumprod(DType in_dtype, const void* in, DType out_dtype, void* out, ScanShape shape) {
  scan_all(ScanOp::product, "cumprod", in_dtype, in, out_dtype, out, shape);
}

}  // namespace tocha::cpu
