// histogram and histogramdd: counts of points in a grid; kernels of tocha/operators/statistics.py.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/dtype_messages.h"
#include "core/gil.h"
#include "cpu/engine/lanes.h"
#include "cpu/engine/layout.h"
#include "dispatch/native.h"
#include "ops/factories.h"
#include "ops/reductions.h"
#include "ops/views.h"

namespace tocha::native {
namespace {

using Range = std::optional<std::vector<double>>;
constexpr int64_t kLanePoints = 1 << 15;

// One direction of the grid.
template <class T>
struct Axis {
  const T* edges;
  int64_t bins;
  bool even;  // equal bins: a first guess by arithmetic is off by one at most

  // The bin of x, or -1: bins include their lower edge, the last one its upper edge too.
  int64_t find(T x) const {
    if (!(x >= edges[0] && x <= edges[bins])) return -1;
    if (!even) return std::min<int64_t>(std::upper_bound(edges, edges + bins + 1, x) - edges - 1, bins - 1);
    int64_t i = static_cast<int64_t>((x - edges[0]) / (edges[bins] - edges[0]) * static_cast<T>(bins));
    i = std::clamp<int64_t>(i, 0, bins - 1);
    if (x < edges[i])
      --i;
    else if (i + 1 < bins && x >= edges[i + 1])
      ++i;
    return i;
  }
};

template <class T>
void count_points(const T* points, const T* weights, int64_t n, const std::vector<Axis<T>>& axes, T* hist,
                  int64_t cells) {
  int64_t d = static_cast<int64_t>(axes.size());
  int lanes = cpu::lane_count(n, std::max(kLanePoints, cells));
  std::vector<T> partial(static_cast<size_t>(cells * lanes), T(0));
  cpu::for_lanes(n, lanes, [&](int lane, int64_t from, int64_t to) {
    T* counts = partial.data() + lane * cells;
    for (int64_t i = from; i < to; ++i) {
      int64_t cell = 0;
      for (int64_t k = 0; k < d && cell >= 0; ++k) {
        int64_t bin = axes[static_cast<size_t>(k)].find(points[i * d + k]);
        cell = bin < 0 ? -1 : cell * axes[static_cast<size_t>(k)].bins + bin;
      }
      if (cell >= 0) counts[cell] += weights ? weights[i] : T(1);
    }
  });
  for (int64_t c = 0; c < cells; ++c) {
    T total = 0;
    for (int lane = 0; lane < lanes; ++lane) total += partial[static_cast<size_t>(lane * cells + c)];
    hist[c] = total;
  }
}

// Divides by the total and by each cell's volume.
template <class T>
void make_density(T* hist, int64_t cells, const std::vector<Axis<T>>& axes) {
  T total = 0;
  for (int64_t c = 0; c < cells; ++c) total += hist[c];
  for (int64_t c = 0; c < cells; ++c) {
    T volume = 1;
    int64_t rest = c;
    for (size_t k = axes.size(); k-- > 0;) {
      int64_t bin = rest % axes[k].bins;
      rest /= axes[k].bins;
      volume *= axes[k].edges[bin + 1] - axes[k].edges[bin];
    }
    hist[c] = hist[c] / (total * volume);
  }
}

template <class T>
void fill_grid(const Tensor& points, const Tensor& weight, const Tensors& edges, bool even, bool density,
               const Tensor& hist) {
  std::vector<Axis<T>> axes;
  for (const Tensor& e : edges) axes.push_back({e.data<T>(), e.numel() - 1, even});
  int64_t n = axes.empty() ? 0 : points.numel() / static_cast<int64_t>(axes.size());
  count_points(points.data<T>(), weight ? weight.data<T>() : nullptr, n, axes, hist.data<T>(), hist.numel());
  if (density) make_density(hist.data<T>(), hist.numel(), axes);
}

void check_points(const Tensor& self, const Tensor& weight, const char* op) {
  if (self.dtype() != DType::Float32 && self.dtype() != DType::Float64) refuse_dtype(op, self.dtype());
  if (!weight) return;
  TOCHA_CHECK(weight.dtype() == self.dtype(), Runtime, "[", op,
              "] torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
              "dtype, but got input(",
              c_name(self.dtype()), "), and weight(", c_name(weight.dtype()), ")");
  IntsView points = self.sizes();
  Ints wanted(IntsView(points.begin(), points.size() - 1));
  TOCHA_CHECK(weight.sizes() == wanted, Runtime, "[", op,
              "] torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
              "excluding its innermost dimension, but got input with shape ",
              self.sizes(), " and weight with shape ", weight.sizes());
}

// self is [..., d]; edges are d vectors.
Tensor histogram_of(const Tensor& self, const Tensors& edges, bool even, const Tensor& weight, bool density,
                    const char* op) {
  int64_t d = self.size(self.dim() - 1);
  TOCHA_CHECK(static_cast<int64_t>(edges.size()) == d, Runtime, "[", op, "] expected ", d,
              " sequences of bin edges, but got ", edges.size());
  Ints sizes;
  Tensors dense_edges;
  for (size_t k = 0; k < edges.size(); ++k) {
    const Tensor& e = edges[k];
    TOCHA_CHECK(
        e.dtype() == self.dtype(), Runtime, "[", op,
        "] torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype ",
        c_name(self.dtype()), " and bins for dimension ", k, " with dtype ", c_name(e.dtype()));
    TOCHA_CHECK(e.dim() == 1, Runtime, "[", op, "] torch.histogramdd: bins tensor should have one dimension, but got ",
                e.dim(), " dimensions in the bins tensor for dimension ", k);
    TOCHA_CHECK(e.numel() > 1, Runtime, "[", op,
                "] torch.histogramdd: bins tensor should have at least 1 element, but got ", e.numel(),
                " elements in the bins tensor for dimension ", k);
    sizes.push_back(e.numel() - 1);
    dense_edges.push_back(cpu::dense(e));
  }
  Tensor hist = empty(sizes, self.dtype(), self.device());
  if (self.is_meta()) return hist;
  Tensor points = cpu::dense(self), w = weight ? cpu::dense(weight) : Tensor();
  ReleaseGil unlocked(self.numel());
  if (self.dtype() == DType::Float64)
    fill_grid<double>(points, w, dense_edges, even, density, hist);
  else
    fill_grid<float>(points, w, dense_edges, even, density, hist);
  return hist;
}

// The ends of every axis: as given, or the extremes of the points; an empty interval is widened by a half each way.
std::vector<double> axis_ends(const Tensor& self, const Range& range, const char* op) {
  int64_t d = self.size(self.dim() - 1);
  std::vector<double> ends(static_cast<size_t>(2 * d));
  if (range) {
    TOCHA_CHECK(static_cast<int64_t>(range->size()) == 2 * d, Runtime, "[", op, "] for a ", d,
                "-dimensional histogram range should have ", 2 * d, " elements, but got ", range->size());
    ends = *range;
  } else {
    Tensor flat = d ? ops::reshape(self, Ints{-1, d}) : self;
    for (int64_t k = 0; k < d; ++k) {
      double low = 0, high = 1;
      if (flat.size(0) > 0) {
        auto [least, most] = ops::aminmax(ops::select(flat, 1, k), std::nullopt, false);
        low = Scalar::load(least.dtype(), least.bytes()).to_double();
        high = Scalar::load(most.dtype(), most.bytes()).to_double();
      }
      ends[static_cast<size_t>(2 * k)] = low;
      ends[static_cast<size_t>(2 * k + 1)] = high;
    }
  }
  for (int64_t k = 0; k < d; ++k) {
    double &low = ends[static_cast<size_t>(2 * k)], &high = ends[static_cast<size_t>(2 * k + 1)];
    TOCHA_CHECK(std::isfinite(low) && std::isfinite(high), Runtime, "[", op, "] dimension ", k, "'s range [", low, ", ",
                high, "] is not finite");
    TOCHA_CHECK(low <= high, Runtime, "[", op, "] min should not exceed max, but got min ", low, " max ", high,
                " for dimension ", k);
    if (low == high) low -= 0.5, high += 0.5;
  }
  return ends;
}

Tensors even_edges(const Tensor& self, IntsView bins, const Range& range, const char* op) {
  int64_t d = self.size(self.dim() - 1);
  TOCHA_CHECK(bins.size() == d, Runtime, "[", op,
              "] histogramdd: The size of bins must be equal to the innermost dimension of the input. Got ",
              bins.size(), " for ", d);
  for (int64_t k = 0; k < d; ++k)
    TOCHA_CHECK(bins[k] > 0, Runtime, "[", op, "] torch.histogram(): bins must be > 0, but got ", bins[k],
                " for dimension ", k);
  std::vector<double> ends = axis_ends(self, range, op);
  Tensors edges;
  for (int64_t k = 0; k < d; ++k) {
    edges.push_back(ops::linspace(Scalar(ends[static_cast<size_t>(2 * k)]),
                                  Scalar(ends[static_cast<size_t>(2 * k + 1)]), bins[k] + 1, self.dtype(),
                                  self.device()));
  }
  return edges;
}

// A vector of points in one dimension.
Tensor as_column(const Tensor& self) { return ops::reshape(self, Ints{-1, 1}); }
Tensor as_flat(const Tensor& weight, const Tensor& self) {
  if (!weight) return weight;
  TOCHA_CHECK(weight.sizes() == self.sizes(), Runtime,
              "[histogram] torch.histogramdd: if weight tensor is provided it should have the same shape as the input "
              "tensor excluding its innermost dimension, but got input with shape ",
              self.sizes(), " and weight with shape ", weight.sizes());
  return ops::reshape(weight, Ints{-1});
}

}  // namespace

std::tuple<Tensor, Tensor> histogram_edges(const Tensor& self, const Tensor& bins, const Tensor& weight, bool density) {
  Tensor points = as_column(self), w = as_flat(weight, self);
  check_points(points, w, "histogram");
  Tensor hist = histogram_of(points, {bins}, false, w, density, "histogram");
  return {hist, clone_dense(bins)};
}

std::tuple<Tensor, Tensor> histogram(const Tensor& self, int64_t bins, const Range& range, const Tensor& weight,
                                     bool density) {
  Tensor points = as_column(self), w = as_flat(weight, self);
  check_points(points, w, "histogram");
  Tensors edges = even_edges(points, IntsView(&bins, 1), range, "histogram");
  return {histogram_of(points, edges, true, w, density, "histogram"), edges[0]};
}

std::tuple<Tensor, Tensors> histogramdd_edges(const Tensor& self, const Tensors& bins, const Range&,
                                              const Tensor& weight, bool density) {
  TOCHA_CHECK(self.dim() >= 2, Runtime, "[histogramdd] input tensor should have at least 2 dimensions, but got shape ",
              self.sizes());
  check_points(self, weight, "histogramdd");
  Tensors edges;
  for (const Tensor& b : bins) edges.push_back(clone_dense(b));
  return {histogram_of(self, bins, false, weight, density, "histogramdd"), edges};
}

std::tuple<Tensor, Tensors> histogramdd(const Tensor& self, IntsView bins, const Range& range, const Tensor& weight,
                                        bool density) {
  TOCHA_CHECK(self.dim() >= 2, Runtime, "[histogramdd] input tensor should have at least 2 dimensions, but got shape ",
              self.sizes());
  check_points(self, weight, "histogramdd");
  Tensors edges = even_edges(self, bins, range, "histogramdd");
  return {histogram_of(self, edges, true, weight, density, "histogramdd"), edges};
}

std::tuple<Tensor, Tensors> histogramdd_bins(const Tensor& self, int64_t bins, const Range& range, const Tensor& weight,
                                             bool density) {
  TOCHA_CHECK(self.dim() >= 2, Runtime, "[histogramdd] input tensor should have at least 2 dimensions, but got shape ",
              self.sizes());
  return histogramdd(self, Ints(self.size(self.dim() - 1), bins), range, weight, density);
}

}  // namespace tocha::native
