// Pictures read at the points of a grid, with first and second derivatives: kernels of tocha/operators/resampling.py.
// Blocks of points become tables of places and weights, which all channels then share.
#include <array>

#include "cpu/images/threads.h"
#include "cpu/resampling/grid_sampling_taps.h"
#include "cpu/resampling/kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using cpu::Arranged;
using cpu::GridSampler;
using cpu::GridTaps;
using cpu::kGridBlock;

constexpr int64_t kSharedTable = 8;  // channels that one pass over the tables scatters

template <class T>
const cpu::ResampleLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::resample_kernels().f32;
  else
    return cpu::resample_kernels().f64;
}

struct Modes {
  int64_t interpolation, padding;
  bool align_corners;
};

// One call: pictures (N, C, plane), points (N, points, dims), samples (N, C, points).
template <class T>
class Job {
 public:
  Job(const Tensor& input, const Tensor& grid, Modes modes)
      : n(input.size(0)),
        c(input.size(1)),
        dims(static_cast<int>(input.dim() - 2)),
        modes(modes),
        picture(cpu::arranged(input, DTypeOf<T>::value, false)),
        at(cpu::dense(grid, DTypeOf<T>::value)),
        plane(n * c != 0 ? input.numel() / (n * c) : 0),
        points(n != 0 ? grid.numel() / (n * dims) : 0),
        sampler(std::array<int64_t, 3>{input.size(dims + 1), input.size(dims), dims == 3 ? input.size(2) : 1}.data(),
                dims, modes.interpolation, modes.padding, modes.align_corners) {}

  const T* picture_of(int64_t sample, int64_t channel) const {
    return picture.template data<T>() + (sample * c + channel) * plane;
  }
  const T* grid_of(int64_t sample, int64_t point) const {
    return at.template data<T>() + (sample * points + point) * dims;
  }
  cpu::GridRows rows(int64_t count) const { return {count, c, plane, points}; }
  int64_t blocks() const { return (points + kGridBlock - 1) / kGridBlock; }

  // f(sample, first point, how many, tables) for all blocks of points, in parallel.
  template <class F>
  void for_blocks(int orders, F f) const {
    ReleaseGil unlocked(n * points * c);
    parallel_for(n * blocks(), 1, [&](int64_t begin, int64_t end) {
      GridTaps<T> taps;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = i / blocks(), first = i % blocks() * kGridBlock;
        const int64_t count = std::min(kGridBlock, points - first);
        fill(grid_of(sample, first), count, orders, &taps);
        f(sample, first, count, taps);
      }
    });
  }

  // f(sample, channel, first point, how many, tables) such that no two threads have the same plane.
  template <class F>
  void for_planes(int orders, F f) const {
    const int64_t groups = (c + kSharedTable - 1) / kSharedTable;
    ReleaseGil unlocked(n * points * c);
    parallel_for(n * groups, 1, [&](int64_t begin, int64_t end) {
      GridTaps<T> taps;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = i / groups, from = i % groups * kSharedTable, to = std::min(c, from + kSharedTable);
        for (int64_t first = 0; first < points; first += kGridBlock) {
          const int64_t count = std::min(kGridBlock, points - first);
          fill(grid_of(sample, first), count, orders, &taps);
          for (int64_t channel = from; channel < to; ++channel) f(sample, channel, first, count, taps);
        }
      }
    });
  }

  // Bilinear pictures are what most grids read: their taps come in vectors.
  void fill(const T* grid, int64_t count, int orders, GridTaps<T>* t) const {
    if (dims != 2 || modes.interpolation != 0 || orders == 2) return sampler.fill(grid, count, orders, t);
    sampler.prepare(count, orders, t);
    const cpu::GridPlane p{picture.size(3), picture.size(2), modes.padding, modes.align_corners};
    loops<T>().bilinear_taps(grid, count, p, t->place.data(), t->weight.data(), orders ? t->slope[0].data() : nullptr,
                             orders ? t->slope[1].data() : nullptr);
  }

  int64_t n, c;
  int dims;
  Modes modes;
  Tensor picture, at;
  int64_t plane, points;
  GridSampler<T> sampler;
};

template <class T>
void sample_as(const Tensor& out, const Tensor& input, const Tensor& grid, Modes modes) {
  const Job<T> job(input, grid, modes);
  Arranged result(out, DTypeOf<T>::value, false);
  T* y = result.data<T>();
  job.for_blocks(0, [&](int64_t s, int64_t first, int64_t count, const GridTaps<T>& t) {
    loops<T>().gather(job.picture_of(s, 0), y + s * job.c * job.points + first, job.rows(count), t.count,
                      t.place.data(), t.weight.data(), false);
  });
  result.finish();
}

// For each tap of a block, the sum over channels of g times what the picture x has there.
template <class T>
void add_products(const Job<T>& job, const T* x, const T* g, int64_t sample, int64_t first, const GridTaps<T>& t,
                  std::vector<T>* products) {
  products->assign(t.weight.size(), T(0));
  const int64_t at = sample * job.c;
  loops<T>().gather_products(x + at * job.plane, g + at * job.points + first, products->data(), job.rows(t.points),
                             t.count, t.place.data());
}

// to[point][d] += the products weighed by `weights`.
template <class T>
void add_weighed(const std::vector<T>& products, const std::vector<T>& weights, const GridTaps<T>& t, int d, T* to) {
  loops<T>().weigh(products.data(), weights.data(), t.points, t.count, to + d, t.dims);
}

template <class T>
void backward_as(const Tensor& dinput, const Tensor& dgrid, const Tensor& grad, const Tensor& input, const Tensor& grid,
                 Modes modes) {
  const Job<T> job(input, grid, modes);
  Tensor gradient = cpu::arranged(grad, DTypeOf<T>::value, false);
  const T* g = gradient.data<T>();
  if (dinput) {
    Arranged result(dinput, DTypeOf<T>::value, false);
    T* dx = result.data<T>();
    std::fill_n(dx, job.n * job.c * job.plane, T(0));
    job.for_planes(0, [&](int64_t s, int64_t c, int64_t first, int64_t count, const GridTaps<T>& t) {
      const int64_t at = s * job.c + c;
      loops<T>().scatter(g + at * job.points + first, dx + at * job.plane, count, t.count, t.place.data(),
                         t.weight.data());
    });
    result.finish();
  }
  Arranged result(dgrid, DTypeOf<T>::value, false);
  T* dg = result.data<T>();
  job.for_blocks(1, [&](int64_t s, int64_t first, int64_t count, const GridTaps<T>& t) {
    std::vector<T> products;
    add_products(job, job.picture_of(0, 0), g, s, first, t, &products);
    T* to = dg + (s * job.points + first) * job.dims;
    std::fill_n(to, count * job.dims, T(0));
    for (int d = 0; d < job.dims; ++d) add_weighed(products, t.slope[d], t, d, to);
  });
  result.finish();
}

// Of L = <u, dinput> + <v, dgrid>, the derivatives by grad, input and grid. In direction v a tap's weight changes by
// slope . v, and its slopes by curve . v; u takes the input's place where dinput is linear in the weights.
template <class T>
void backward_twice_as(const Tensor& to_grad, const Tensor& to_input, const Tensor& to_grid, const Tensor& u,
                       const Tensor& v, const Tensor& grad, const Tensor& input, const Tensor& grid, Modes modes) {
  const Job<T> job(input, grid, modes);
  const DType math = DTypeOf<T>::value;
  Tensor gradient = cpu::arranged(grad, math, false), du = cpu::arranged(u, math, false), dv = cpu::dense(v, math);
  const T *g = gradient.data<T>(), *pu = du.data<T>(), *pv = dv.data<T>(), *x = job.picture_of(0, 0);
  Arranged result_grad(to_grad, math, false), result_input(to_input, math, false), result_grid(to_grid, math, false);
  T *dg = result_grad.data<T>(), *dx = result_input.data<T>(), *dgrid = result_grid.data<T>();
  job.for_blocks(2, [&](int64_t s, int64_t first, int64_t count, const GridTaps<T>& t) {
    const T* direction = pv + (s * job.points + first) * job.dims;
    std::vector<T> along, bend, of_u, of_x;
    t.along(direction, &along);
    const int64_t at = s * job.c;
    T* y = dg + at * job.points + first;
    loops<T>().gather(pu + at * job.plane, y, job.rows(count), t.count, t.place.data(), t.weight.data(), false);
    loops<T>().gather(x + at * job.plane, y, job.rows(count), t.count, t.place.data(), along.data(), true);
    add_products(job, pu, g, s, first, t, &of_u);
    add_products(job, x, g, s, first, t, &of_x);
    T* to = dgrid + (s * job.points + first) * job.dims;
    std::fill_n(to, count * job.dims, T(0));
    for (int d = 0; d < job.dims; ++d) {
      t.bend(d, direction, &bend);
      add_weighed(of_u, t.slope[d], t, d, to);
      add_weighed(of_x, bend, t, d, to);
    }
  });
  std::fill_n(dx, job.n * job.c * job.plane, T(0));
  job.for_planes(1, [&](int64_t s, int64_t c, int64_t first, int64_t count, const GridTaps<T>& t) {
    const int64_t at = s * job.c + c;
    std::vector<T> along;
    t.along(pv + (s * job.points + first) * job.dims, &along);
    loops<T>().scatter(g + at * job.points + first, dx + at * job.plane, count, t.count, t.place.data(), along.data());
  });
  result_grad.finish();
  result_input.finish();
  result_grid.finish();
}

}  // namespace

void _grid_sample(const Tensor& out, const Tensor& self, const Tensor& grid, int64_t interpolation, int64_t padding,
                  bool align_corners) {
  if (out.numel() == 0) return;
  auto run = self.dtype() == DType::Float64 ? sample_as<double> : sample_as<float>;
  run(out, self, grid, {interpolation, padding, align_corners});
}

void _grid_sample_backward(const Tensor& dinput, const Tensor& dgrid, const Tensor& grad, const Tensor& self,
                           const Tensor& grid, int64_t interpolation, int64_t padding, bool align_corners,
                           bool for_input) {
  auto run = self.dtype() == DType::Float64 ? backward_as<double> : backward_as<float>;
  run(for_input ? dinput : Tensor(), dgrid, grad, self, grid, {interpolation, padding, align_corners});
}

void _grid_sample_backward_twice(const Tensor& to_grad, const Tensor& to_input, const Tensor& to_grid, const Tensor& u,
                                 const Tensor& v, const Tensor& grad, const Tensor& self, const Tensor& grid,
                                 int64_t interpolation, int64_t padding, bool align_corners) {
  auto run = self.dtype() == DType::Float64 ? backward_twice_as<double> : backward_twice_as<float>;
  run(to_grad, to_input, to_grid, u, v, grad, self, grid, {interpolation, padding, align_corners});
}

}  // namespace tocha::native
