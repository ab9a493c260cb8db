// Staging and gathering of patches for convolution, on whole vectors.
#include "cpu/convolution_kernels.h"

#include "cpu/isa/gemm_convert.h"

TOCHA_ISA_BEGIN
namespace gemm {

using cpu::Move;
using cpu::PatchJob;
using cpu::PatchKernels;
using cpu::StageJob;
using cpu::TapJob;

template <class T>
inline void clear(T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = T(0);
}

// One row of a part: out[i] = in[i * in_step] for `count` columns.
template <class T, class S>
inline void stage_columns(const S* in, int64_t in_step, int64_t count, T* out) {
  constexpr int64_t n = kLanes<T>;
  int64_t i = 0;
  if (in_step == 1) {
    for (; i + n <= count; i += n) store(out + i, load_as<T>(in + i));
    if (i < count) {
      const Vec<T> rest = load_first_as<T>(in + i, count - i);
      store_first(out + i, rest, count - i);
    }
    return;
  }
  for (; i < count; ++i) out[i] = widen<T>(in[i * in_step]);
}

inline int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

template <class T, class S>
void stage_row(const StageJob<T>& job, const S* row, T* out) {
  for (int64_t phase = 0; phase < job.step; ++phase, out += job.part) {
    const int64_t first = job.first_x + phase;  // the column of out[0]
    int64_t begin = first >= 0 ? 0 : ceil_div(-first, job.step);
    int64_t end = first >= job.size_x ? 0 : ceil_div(job.size_x - first, job.step);
    if (end > job.part) end = job.part;
    if (begin > end) begin = end;
    clear(out, begin);
    stage_columns(row + (first + begin * job.step) * job.in_x, job.in_x * job.step, end - begin, out + begin);
    clear(out + end, job.part - end);
  }
}

template <class T>
void stage(const StageJob<T>& job) {
  with_storage<T>(job.dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    const S* in = static_cast<const S*>(job.in);
    for (int64_t c = 0; c < job.channels; ++c) {
      for (int64_t i = 0; i < job.count_z; ++i) {
        const int64_t z = job.first_z + i;
        for (int64_t j = 0; j < job.count_y; ++j) {
          const int64_t y = job.first_y + j;
          T* out = job.out + c * job.out_channel + i * job.out_z + j * job.out_y;
          if (z < 0 || z >= job.size_z || y < 0 || y >= job.size_y) {
            clear(out, job.step * job.part);
          } else {
            stage_row(job, in + c * job.in_channel + z * job.in_z + y * job.in_y, out);
          }
        }
      }
    }
  });
}

template <class T>
void gather(const PatchJob<T>& job) {
  T* out = job.out;
  for (int64_t c = 0; c < job.channels; ++c) {
    const T* channel = job.staged + c * job.channel;
    for (int64_t t = 0; t < job.taps; ++t, out += job.out_row) {
      const T* from = channel + job.tap[t];
      for (int64_t m = 0; m < job.move_count; ++m) {
        const Move move = job.moves[m];
        store(out + move.to, load(from + move.from));
      }
    }
  }
}

template <class T>
void pack_taps(const TapJob<T>& job) {
  with_storage<T>(job.dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    T* out = job.out;
    for (int64_t c = 0; c < job.channels; ++c) {
      for (int64_t t = 0; t < job.taps; ++t, out += job.height) {
        const S* from = static_cast<const S*>(job.weight) + c * job.channel + job.tap[t];
        for (int64_t i = 0; i < job.height; ++i) out[i] = widen<T>(from[i * job.row]);
      }
    }
  });
}

template <class T>
constexpr PatchKernels<T> patches() {
  static_assert(kLanes<T> <= cpu::kMoveSlack);
  return {kLanes<T>, stage<T>, gather<T>, pack_taps<T>};
}

}  // namespace gemm
TOCHA_ISA_END

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const ConvolutionKernels convolution_kernels;
const ConvolutionKernels convolution_kernels = {gemm::patches<float>(), gemm::patches<double>(),
                                                gemm::patches<uint32_t>(), gemm::patches<uint64_t>()};
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
