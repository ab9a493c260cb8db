// The kernels of tocha/operators/convolution.py: convolutions of rank one to three, their transposes and their
// gradients as correlations and weight gradients on pictures of rank three.
#include "cpu/convolution/convolution.h"

#include <cstring>

#include "core/gil.h"
#include "cpu/convolution/planes.h"
#include "cpu/convolution/prepared.h"
#include "cpu/engine/layout.h"
#include "cpu/gemm/gemm.h"
#include "kernels/convolution.h"

namespace tocha::native {
namespace {

using cpu::Correlation;
using cpu::Extent;
using cpu::Field;
using cpu::Tap;

// What every form of convolution is given, as extents of rank three.
struct Geometry {
  Extent stride, padding, dilation, kernel;
  int64_t groups;
};

// The last dims, with `missing` in front where there are fewer than three.
Extent extent(IntsView values, int64_t missing) {
  Extent e{missing, missing, missing};
  for (int64_t i = 0; i < values.size(); ++i) e[static_cast<size_t>(3 - values.size() + i)] = values[i];
  return e;
}
IntsView spatial(IntsView sizes) { return {sizes.data() + 2, sizes.size() - 2}; }

Field field(const Tensor& t) {
  return {t.bytes(), t.stride(0), t.stride(1), extent(spatial(t.strides()), 0), extent(spatial(t.sizes()), 1)};
}

// t, or a copy when its memory does not hold its values.
Tensor plain(const Tensor& t) { return t.is_neg() || t.is_conj() ? cpu::dense(t) : t; }

template <class F>
void for_positions(const Extent& size, F&& f) {
  Extent at{};
  for (at[0] = 0; at[0] < size[0]; ++at[0])
    for (at[1] = 0; at[1] < size[1]; ++at[1])
      for (at[2] = 0; at[2] < size[2]; ++at[2]) f(at);
}

std::vector<Tap> forward_taps(const Geometry& g) {
  std::vector<Tap> taps;
  for_positions(g.kernel, [&](const Extent& k) {
    Tap tap{{}, static_cast<int64_t>(taps.size())};
    for (size_t d = 0; d < 3; ++d) tap.offset[d] = k[d] * g.dilation[d] - g.padding[d];
    taps.push_back(tap);
  });
  return taps;
}

// One tap: a plain matrix product for every image and group. Pixels side by side are for correlate(), but for a unit.
bool is_product(const Correlation& c) {
  return c.taps.size() == 1 && c.taps[0].offset == Extent{0, 0, 0} && c.step == Extent{1, 1, 1} &&
         c.in.size == c.out.size && c.in.evenly_spaced() && c.out.evenly_spaced() && c.out.pixels() >= 32 &&
         ((c.in.channel_stride == 1 && c.out.channel_stride == 1) || cpu::unit_serves(c));
}

void multiply(const Correlation& c, const Tensor& out, const Tensor& bias) {
  if (bias) {
    Ints strides(out.dim(), 0);
    strides[1] = bias.stride(0);
    cpu::copy(out, view_of(bias, out.sizes(), strides, bias.offset()));
  }
  const int64_t size = itemsize(c.dtype);
  ReleaseGil unlocked(c.batch * c.groups * c.rows * c.channels * c.out.pixels());
  for (int64_t g = 0; g < c.groups; ++g) {
    auto at = [&](const Field& f, int64_t channels) { return f.data + g * channels * f.channel_stride * size; };
    char* weight = const_cast<char*>(c.weight) + (g * c.weight_group + c.taps[0].weight) * size;
    cpu::gemm_batched(c.dtype, c.batch, c.rows, c.out.pixels(), c.channels, 1, {weight, c.weight_row, c.weight_channel},
                      0, {at(c.in, c.channels), c.in.channel_stride, c.in.stride[2]}, c.in.batch_stride, bias ? 1 : 0,
                      {at(c.out, c.rows), c.out.channel_stride, c.out.stride[2]}, c.out.batch_stride);
  }
}

void run(const Correlation& c, const Tensor& out, const Tensor& bias) {
  const bool empty = c.out.pixels() * c.batch * c.rows == 0;
  if (empty || is_product(c)) {
    if (!empty) multiply(c, out, bias);
    return cpu::tell_of_all_planes(c);
  }
  ReleaseGil unlocked(c.batch * c.groups * c.rows * c.channels * c.out.pixels());
  cpu::correlate(c);
}

// A kernel that is one pixel wide along a dim meets every stride-th pixel of it: those alone are the input.
void drop_unmet_pixels(Correlation& c, const Geometry& g) {
  for (size_t d = 0; d < 3; ++d) {
    if (g.kernel[d] != 1 || g.padding[d] != 0) continue;
    c.in.stride[d] *= c.step[d];
    c.in.size[d] = c.out.size[d];
    c.step[d] = 1;
  }
}

// The convolution of in; in the group, weight is [out channels, in channels, kernel].
Correlation correlation_of(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias,
                           const Geometry& g) {
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  Correlation c{.dtype = out.dtype(),
                .batch = out.size(0),
                .groups = g.groups,
                .rows = out.size(1) / g.groups,
                .channels = in.size(1) / g.groups,
                .in = field(in),
                .out = field(out),
                .step = g.stride,
                .taps = forward_taps(g),
                .weight = weight.bytes(),
                .weight_group = 0,
                .weight_row = 0,
                .weight_channel = taps,
                .bias = bias ? bias.bytes() : nullptr};
  c.weight_row = c.channels * taps;
  c.weight_group = c.rows * c.weight_row;
  drop_unmet_pixels(c, g);
  return c;
}

void convolve(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias, const Geometry& g) {
  run(correlation_of(out, in, weight, bias, g), out, bias);
}

// The transposed convolution: what each pixel of in spreads over out. The pixels of out that have the same
// remainder by the stride meet the same taps, so each remainder is a correlation with steps of one.
void convolve_transposed(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias,
                         const Geometry& g) {
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const Field whole = field(out);
  const cpu::Spreading s{.dtype = out.dtype(),
                         .batch = out.size(0),
                         .rows = out.size(1),
                         .channels = in.size(1),
                         .in = field(in),
                         .out = whole,
                         .stride = g.stride,
                         .taps = forward_taps(g),
                         .weight = weight.bytes(),
                         .bias = bias ? bias.bytes() : nullptr};
  const bool spreads = g.groups == 1 && !cpu::unit_serves(s);
  if (spreads && cpu::lines_serve(s)) {
    ReleaseGil unlocked(weight.numel() * s.batch * s.in.pixels());
    return cpu::spread_lines(s);
  }
  if (spreads && cpu::spreads_well(s)) {
    ReleaseGil unlocked(weight.numel() * s.batch * s.in.pixels());
    return cpu::few_serves(s) ? cpu::spread_few(s) : cpu::spread(s);
  }
  for_positions(g.stride, [&](const Extent& rest) {
    Correlation c{.dtype = out.dtype(),
                  .batch = out.size(0),
                  .groups = g.groups,
                  .rows = out.size(1) / g.groups,
                  .channels = in.size(1) / g.groups,
                  .in = field(in),
                  .out = whole,
                  .step = {1, 1, 1},
                  .taps = {},
                  .weight = weight.bytes(),
                  .weight_group = 0,
                  .weight_row = taps,
                  .weight_channel = 0,
                  .bias = bias ? bias.bytes() : nullptr};
    c.weight_channel = c.rows * taps;
    c.weight_group = c.channels * c.weight_channel;
    int64_t weight_tap = 0;
    for_positions(g.kernel, [&](const Extent& k) {
      Tap tap{{}, weight_tap++};
      for (size_t d = 0; d < 3; ++d) {
        const int64_t from = rest[d] + g.padding[d] - k[d] * g.dilation[d];
        if (from % g.stride[d] != 0) return;
        tap.offset[d] = from / g.stride[d];
      }
      c.taps.push_back(tap);
    });
    for (size_t d = 0; d < 3; ++d) {
      c.out.size[d] = std::max<int64_t>(0, (whole.size[d] - rest[d] + g.stride[d] - 1) / g.stride[d]);
      c.out.data += rest[d] * whole.stride[d] * out.itemsize();
      c.out.stride[d] *= g.stride[d];
    }
    run(c, out, bias);
  });
}

Geometry geometry(IntsView stride, IntsView padding, IntsView dilation, IntsView weight_sizes, int64_t groups) {
  return {extent(stride, 1), extent(padding, 0), extent(dilation, 1), extent(spatial(weight_sizes), 1), groups};
}

// rows_field meets in through the kernel: the gradient for the weight [rows, channels, kernel].
void convolve_for_weight(const Tensor& out, const Tensor& grad, const Tensor& in, const Geometry& g) {
  if (out.numel() == 0) return;
  if (grad.numel() == 0) {
    std::memset(out.bytes(), 0, static_cast<size_t>(out.numel() * out.itemsize()));
    return;
  }
  const cpu::WeightGradient w{.dtype = out.dtype(),
                              .batch = grad.size(0),
                              .groups = g.groups,
                              .rows = out.size(0) / g.groups,
                              .channels = out.size(1),
                              .grad = field(grad),
                              .in = field(in),
                              .step = g.stride,
                              .taps = forward_taps(g),
                              .out = out.bytes()};
  ReleaseGil unlocked(out.numel() * grad.numel() / std::max<int64_t>(grad.size(1), 1));
  cpu::weight_gradient(w);
}

}  // namespace

void convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias, IntsView stride,
                 IntsView padding, IntsView dilation, bool transposed, IntsView, int64_t groups) {
  if (out.numel() == 0) return;
  const Geometry g = geometry(stride, padding, dilation, weight.sizes(), groups);
  const Tensor in = plain(input), w = cpu::dense(weight), b = bias ? cpu::dense(bias) : bias;
  transposed ? convolve_transposed(out, in, w, b, g) : convolve(out, in, w, b, g);
}

Tensor prepare_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, IntsView stride,
                           IntsView padding, IntsView dilation, int64_t groups) {
  const Geometry g = geometry(stride, padding, dilation, weight.sizes(), groups);
  if (out.numel() == 0 || !weight.is_contiguous() || weight.is_neg() || weight.is_conj()) return {};
  const Correlation c = correlation_of(out, input, weight, Tensor(), g);
  const int64_t size = is_product(c) ? 0 : cpu::winograd_prepared_size(c);
  if (size == 0) return {};
  Tensor made = empty({&size, 1}, DType::Float32, out.device());
  cpu::winograd_prepare(c, reinterpret_cast<float*>(made.bytes()));
  return made;
}

void followed_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          const Tensor& prepared, IntsView stride, IntsView padding, IntsView dilation, int64_t groups,
                          cpu::RowsDone done) {
  const Geometry g = geometry(stride, padding, dilation, weight.sizes(), groups);
  const Tensor in = plain(input), w = cpu::dense(weight), b = bias ? cpu::dense(bias) : bias;
  Correlation c = correlation_of(out, in, w, b, g);
  c.done = done;
  if (prepared && cpu::winograd_prepared_size(c) == prepared.numel())
    c.prepared = reinterpret_cast<float*>(prepared.bytes());
  run(c, out, b);
}

void convolution_input_gradient(const Tensor& out, const Tensor& grad_output, const Tensor& weight, IntsView,
                                IntsView stride, IntsView padding, IntsView dilation, bool transposed, IntsView,
                                int64_t groups) {
  if (out.numel() == 0) return;
  const Geometry g = geometry(stride, padding, dilation, weight.sizes(), groups);
  const Tensor grad = plain(grad_output), w = cpu::dense(weight);
  transposed ? convolve(out, grad, w, Tensor(), g) : convolve_transposed(out, grad, w, Tensor(), g);
}

void convolution_weight_gradient(const Tensor& out, const Tensor& grad_output, const Tensor& input, IntsView,
                                 IntsView stride, IntsView padding, IntsView dilation, bool transposed, IntsView,
                                 int64_t groups) {
  const Geometry g = geometry(stride, padding, dilation, out.sizes(), groups);
  const Tensor grad = plain(grad_output), in = plain(input);
  const Tensor target = out.is_contiguous() ? out : empty(out.sizes(), out.dtype(), out.device());
  transposed ? convolve_for_weight(target, in, grad, g) : convolve_for_weight(target, grad, in, g);
  if (!target.is(out)) cpu::copy(out, target);
}

}  // namespace tocha::native
