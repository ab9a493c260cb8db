// Layers of LSTM, GRU and plain recurrent cells, in one direction: the kernels of tocha/operators/recurrent.py.
//
// The inputs of all steps are multiplied at once, then the steps follow each other with one small product and the
// gates each. Samples do not meet within a layer, so that every thread takes some of them through all steps; only when
// there are too few is each step's product cut for the threads. Gradients of the weights are products over all steps.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/lanes.h"
#include "cpu/engine/layout.h"
#include "cpu/gemm/tile_products.h"
#include "cpu/recurrent/kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

using cpu::RightOperand;

enum class Cell { lstm, gru, tanh, relu };  // as tocha/operators/recurrent.py numbers them

template <class T>
const cpu::RecurrentLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::recurrent_kernels().f32;
  else
    return cpu::recurrent_kernels().f64;
}

// The steps in the order they are taken: where each one's samples begin in the packed data, and how many there are.
struct Steps {
  Steps(IntsView batch_sizes, bool reverse) : rows(batch_sizes.begin(), batch_sizes.end()), first(rows.size()) {
    int64_t at = 0;
    for (size_t t = 0; t < rows.size(); at += rows[t++]) first[t] = at;
    if (!reverse) return;
    std::reverse(rows.begin(), rows.end());
    std::reverse(first.begin(), first.end());
  }
  int64_t count() const { return static_cast<int64_t>(rows.size()); }
  // The row of the state of sample r before step s, or -1 where that is the initial one.
  int64_t before(int64_t s, int64_t r) const {
    return s > 0 && r < rows[static_cast<size_t>(s - 1)] ? first[static_cast<size_t>(s - 1)] + r : -1;
  }

  std::vector<int64_t> rows, first;
};

// A result as an array of T, which is copied over at the end where the result is of another dtype.
template <class T>
class Result {
 public:
  explicit Result(const Tensor& out)
      : out_(out), own_(out.dtype() == DTypeOf<T>::value ? out : empty(out.sizes(), DTypeOf<T>::value, out.device())) {}
  T* data() const { return own_.template data<T>(); }
  const Tensor& tensor() const { return own_; }
  void finish() const {
    if (!own_.is(out_)) cpu::copy(out_, own_);
  }

 private:
  Tensor out_, own_;
};

template <class T>
Tensor scratch(int64_t n) {
  return empty(Ints{n}, DTypeOf<T>::value, Device{});
}

template <class T>
Tensor given(const Tensor& t) {
  return t ? cpu::dense(t, DTypeOf<T>::value) : Tensor();
}

// A matrix whose rows are some columns of the packed gates.
template <class T>
cpu::MatrixRef matrix(const T* data, int64_t row, int64_t col = 1) {
  return {const_cast<T*>(data), row, col};
}

// What both directions of a layer's calculation share.
template <class T>
struct Layer {
  Layer(Cell cell, const Tensor& input, const Tensor& h0, const Tensor& w_ih, const Tensor& w_hh, const Tensor& w_hr,
        IntsView batch_sizes, bool reverse)
      : cell(cell),
        steps(batch_sizes, reverse),
        x(given<T>(input)),
        w_ih(given<T>(w_ih)),
        w_hh(given<T>(w_hh)),
        w_hr(given<T>(w_hr)),
        total(input.size(0)),
        samples(h0.size(0)),
        inputs(input.size(1)),
        outputs(h0.size(1)),
        hidden(cell == Cell::lstm ? w_hh.size(0) / 4 : outputs),
        width(hidden * (cell == Cell::lstm || cell == Cell::gru ? 4 : 1)),
        from_input(w_ih.size(0)) {}

  // One thread takes a range of samples; `split` when each step is to be cut instead.
  int lanes() const {
    const int64_t work = total * width * outputs;
    const int64_t by_work = std::max<int64_t>(1, work / cpu::kWorkPerThread);
    return cpu::lane_count(std::min(samples, by_work * kFewRows), kFewRows);
  }
  bool split() const { return lanes() == 1 && samples * width * outputs >= 2 * cpu::kWorkPerThread; }

  // c = a @ right + beta * c
  void product(int64_t rows, const T* a, int64_t a_row, const RightOperand<T>& right, T* c, int64_t c_row, T beta,
               bool cut) const {
    if (!cut) return cpu::multiply<T>(rows, a, a_row, 1, right, c, c_row, 1, beta);
    const int64_t nr = cpu::tile_kernels<T>().nr;
    const int64_t grain = std::max<int64_t>(1, cpu::kWorkPerThread / (rows * right.k * nr + 1));
    parallel_for(cpu::ceil_div(right.n, nr), grain, [&](int64_t begin, int64_t end) {
      const int64_t column = begin * nr, count = std::min(right.n, end * nr) - column;
      cpu::multiply<T>(rows, a, a_row, 1, right.columns(column, count), c + column, c_row, 1, beta);
    });
  }

  template <class Run>
  void over_samples(Run run) const {
    cpu::for_lanes(samples, lanes(), [&](int, int64_t first, int64_t last) { run(first, last); });
  }

  static constexpr int64_t kFewRows = 4;  // fewer samples leave the registers of a product empty

  Cell cell;
  Steps steps;
  Tensor x, w_ih, w_hh, w_hr;
  int64_t total, samples, inputs, outputs, hidden, width, from_input;
};

// A bias per gate: the sum of both, except for the GRU's new state, whose parts stay apart.
template <class T>
std::vector<T> gate_bias(const Layer<T>& layer, const Tensor& b_ih, const Tensor& b_hh) {
  std::vector<T> bias;
  if (!b_ih) return bias;
  Tensor a = given<T>(b_ih), b = given<T>(b_hh);
  bias.assign(a.data<T>(), a.data<T>() + layer.from_input);
  bias.resize(static_cast<size_t>(layer.width));
  const int64_t common = layer.cell == Cell::gru ? 2 * layer.hidden : layer.width;
  for (int64_t i = 0; i < common; ++i) bias[static_cast<size_t>(i)] += b.data<T>()[i];
  if (layer.cell == Cell::gru) std::copy_n(b.data<T>() + common, layer.hidden, bias.begin() + 3 * layer.hidden);
  return bias;
}

template <class T>
class Forward {
 public:
  Forward(const Layer<T>& layer, const std::vector<T>& bias, T* gates, T* output, T* h, T* c, T* cells, T* raw)
      : l_(layer),
        bias_(bias.empty() ? nullptr : bias.data()),
        gates_(gates),
        output_(output),
        h_(h),
        c_(c),
        cells_(cells),
        raw_(raw),
        room_(scratch<T>(2 * cpu::packed_size<T>(l_.outputs, l_.width) + cpu::packed_size<T>(l_.hidden, l_.outputs))) {
    // b[k, n] is w[n, k].
    const T* w = l_.w_hh.template data<T>();
    T* room = room_.template data<T>();
    const int64_t joined = l_.cell == Cell::gru ? 2 * l_.hidden : l_.width;
    recur_ = cpu::packed<T>(DTypeOf<T>::value, w, 1, l_.outputs, l_.outputs, joined, room);
    room += cpu::packed_size<T>(l_.outputs, l_.width);
    if (l_.cell == Cell::gru)
      inner_ = cpu::packed<T>(DTypeOf<T>::value, w + joined * l_.outputs, 1, l_.outputs, l_.outputs, l_.hidden, room);
    room += cpu::packed_size<T>(l_.outputs, l_.width);
    if (l_.w_hr)
      project_ =
          cpu::packed<T>(DTypeOf<T>::value, l_.w_hr.template data<T>(), 1, l_.hidden, l_.hidden, l_.outputs, room);
  }

  void run() const {
    const bool split = l_.split();
    cpu::gemm(DTypeOf<T>::value, l_.total, l_.from_input, l_.inputs, 1, matrix(l_.x.template data<T>(), l_.inputs),
              matrix(l_.w_ih.template data<T>(), 1, l_.inputs), 0, matrix(gates_, l_.width));
    l_.over_samples([&](int64_t first, int64_t last) {
      for (int64_t s = 0; s < l_.steps.count(); ++s) {
        const int64_t n = std::min(l_.steps.rows[static_cast<size_t>(s)], last) - first;
        if (n > 0) step(l_.steps.first[static_cast<size_t>(s)] + first, first, n, split);
      }
    });
  }

 private:
  // Samples from `sample` on, n of them, whose rows in the data begin at `row`.
  void step(int64_t row, int64_t sample, int64_t n, bool split) const {
    const int64_t H = l_.hidden, P = l_.outputs, W = l_.width;
    T *g = gates_ + row * W, *h = h_ + sample * P, *out = output_ + row * P;
    l_.product(n, h, P, recur_, g, W, 1, split);
    if (l_.cell == Cell::gru) l_.product(n, h, P, inner_, g + 3 * H, W, 0, split);
    for (int64_t r = 0; r < n; ++r) {
      switch (l_.cell) {
        case Cell::lstm:
          loops<T>().lstm(g + r * W, bias_, c_ + (sample + r) * H, cells_ + (row + r) * H,
                          l_.w_hr ? raw_ + (row + r) * H : out + r * P, H);
          break;
        case Cell::gru:
          loops<T>().gru(g + r * W, bias_, h + r * P, out + r * P, H);
          break;
        default:
          loops<T>().simple(g + r * W, bias_, out + r * P, H, l_.cell == Cell::relu);
      }
    }
    if (l_.w_hr) l_.product(n, raw_ + row * H, H, project_, out, P, 0, split);
    std::memcpy(h, out, static_cast<size_t>(n * P) * sizeof(T));
  }

  const Layer<T>& l_;
  const T* bias_;
  T *gates_, *output_, *h_, *c_, *cells_, *raw_;
  Tensor room_;
  RightOperand<T> recur_, inner_, project_;
};

template <class T>
void forward(const Layer<T>& layer, const Tensor& output, const Tensor& h_n, const Tensor& c_n, const Tensor& gates,
             const Tensor& cells, const Tensor& raw, const Tensor& h0, const Tensor& c0, const Tensor& b_ih,
             const Tensor& b_hh) {
  Result<T> out(output), h(h_n), c(c_n);
  cpu::copy(h.tensor(), h0);
  if (layer.cell == Cell::lstm) cpu::copy(c.tensor(), c0);
  const std::vector<T> bias = gate_bias(layer, b_ih, b_hh);
  const bool simple =
      layer.cell == Cell::tanh || layer.cell == Cell::relu;  // the sums become the output where they are
  Forward<T> pass(layer, bias, simple ? out.data() : gates.data<T>(), out.data(), h.data(), c.data(), cells.data<T>(),
                  raw.data<T>());
  {
    ReleaseGil released(layer.total * layer.width * (layer.inputs + layer.outputs) / 16);
    pass.run();
  }
  out.finish();
  h.finish();
  c.finish();
}

// What backward reads besides the layer itself.
template <class T>
struct Kept {
  const T *output, *gates, *cells, *raw, *h0, *c0, *grad_output;
};

template <class T>
class Backward {
 public:
  Backward(const Layer<T>& layer, const Kept<T>& kept, T* dh, T* dc)
      : l_(layer),
        kept_(kept),
        dh_(dh),
        dc_(dc),
        dgates_tensor_(scratch<T>(l_.total * l_.width)),
        before_tensor_(scratch<T>(l_.total * l_.outputs)),
        through_tensor_(scratch<T>(l_.w_hr ? l_.total * l_.outputs + l_.samples * l_.hidden : 0)),
        room_(scratch<T>(2 * cpu::packed_size<T>(l_.width, l_.outputs) + cpu::packed_size<T>(l_.outputs, l_.hidden))) {
    const T* w = l_.w_hh.template data<T>();
    T* room = room_.template data<T>();
    const int64_t joined = l_.cell == Cell::gru ? 2 * l_.hidden : l_.width;
    recur_ = cpu::packed<T>(DTypeOf<T>::value, w, l_.outputs, 1, joined, l_.outputs, room);
    room += cpu::packed_size<T>(l_.width, l_.outputs);
    if (l_.cell == Cell::gru)
      inner_ = cpu::packed<T>(DTypeOf<T>::value, w + joined * l_.outputs, l_.outputs, 1, l_.hidden, l_.outputs, room);
    room += cpu::packed_size<T>(l_.width, l_.outputs);
    if (l_.w_hr)
      project_ =
          cpu::packed<T>(DTypeOf<T>::value, l_.w_hr.template data<T>(), l_.hidden, 1, l_.outputs, l_.hidden, room);
  }

  T* dgates() const { return dgates_tensor_.template data<T>(); }
  T* before() const { return before_tensor_.template data<T>(); }    // the state before each step
  T* through() const { return through_tensor_.template data<T>(); }  // the gradients of the projected outputs

  void run() const {
    const bool split = l_.split();
    l_.over_samples([&](int64_t first, int64_t last) {
      for (int64_t s = l_.steps.count() - 1; s >= 0; --s) {
        const int64_t n = std::min(l_.steps.rows[static_cast<size_t>(s)], last) - first;
        if (n > 0) step(s, l_.steps.first[static_cast<size_t>(s)] + first, first, n, split);
      }
    });
  }

 private:
  void step(int64_t s, int64_t row, int64_t sample, int64_t n, bool split) const {
    const int64_t H = l_.hidden, P = l_.outputs, W = l_.width;
    T *dh = dh_ + sample * P, *dg = dgates() + row * W;
    if (kept_.grad_output) loops<T>().add(dh, kept_.grad_output + row * P, n * P);
    const T* draw = dh;
    if (l_.w_hr) {
      std::memcpy(through() + row * P, dh, static_cast<size_t>(n * P) * sizeof(T));
      T* unprojected = through() + l_.total * P + sample * H;
      l_.product(n, dh, P, project_, unprojected, H, 0, split);
      draw = unprojected;
    }
    for (int64_t r = 0; r < n; ++r) {
      const int64_t at = l_.steps.before(s, sample + r);
      const T* h = at < 0 ? kept_.h0 + (sample + r) * P : kept_.output + at * P;
      std::memcpy(before() + (row + r) * P, h, static_cast<size_t>(P) * sizeof(T));
      switch (l_.cell) {
        case Cell::lstm:
          loops<T>().lstm_backward(kept_.gates + (row + r) * W,
                                   at < 0 ? kept_.c0 + (sample + r) * H : kept_.cells + at * H,
                                   kept_.cells + (row + r) * H, draw + r * H, dc_ + (sample + r) * H, dg + r * W, H);
          break;
        case Cell::gru:
          loops<T>().gru_backward(kept_.gates + (row + r) * W, h, dh + r * P, dg + r * W, dh + r * P, H);
          break;
        default:
          loops<T>().simple_backward(kept_.output + (row + r) * P, dh + r * P, dg + r * W, H, l_.cell == Cell::relu);
      }
    }
    l_.product(n, dg, W, recur_, dh, P, l_.cell == Cell::gru ? 1 : 0, split);
    if (l_.cell == Cell::gru) l_.product(n, dg + 3 * H, W, inner_, dh, P, 1, split);
  }

  const Layer<T>& l_;
  const Kept<T>& kept_;
  T *dh_, *dc_;
  Tensor dgates_tensor_, before_tensor_, through_tensor_, room_;
  RightOperand<T> recur_, inner_, project_;
};

template <class T>
void start_from(const Tensor& state, const Tensor& grad) {
  if (grad)
    cpu::copy(state, grad);
  else
    cpu::fill(state, 0);
}

struct LayerGradients {
  const Tensor &x, &h, &c, &w_ih, &w_hh, &b_ih, &b_hh, &w_hr;
  bool for_x, for_w_ih, for_w_hh, for_bias, for_w_hr;
};

// Everything that is a product over all steps, once the gradients of the gates are known.
template <class T>
void weight_gradients(const Layer<T>& l, const Backward<T>& pass, const Kept<T>& kept, const T* ones,
                      const LayerGradients& wanted, T* x, T* w_ih, T* w_hh, T* b_ih, T* b_hh, T* w_hr) {
  const DType dtype = DTypeOf<T>::value;
  const int64_t N = l.total, W = l.width, F = l.from_input, H = l.hidden, P = l.outputs;
  const int64_t joined = l.cell == Cell::gru ? 2 * H : W;
  const T* dg = pass.dgates();
  if (wanted.for_x)
    cpu::gemm(dtype, N, l.inputs, F, 1, matrix(dg, W), matrix(l.w_ih.template data<T>(), l.inputs), 0,
              matrix(x, l.inputs));
  if (wanted.for_w_ih)
    cpu::gemm(dtype, F, l.inputs, N, 1, matrix(dg, 1, W), matrix(l.x.template data<T>(), l.inputs), 0,
              matrix(w_ih, l.inputs));
  if (wanted.for_w_hh) {
    cpu::gemm(dtype, joined, P, N, 1, matrix(dg, 1, W), matrix(pass.before(), P), 0, matrix(w_hh, P));
    if (l.cell == Cell::gru)
      cpu::gemm(dtype, H, P, N, 1, matrix(dg + 3 * H, 1, W), matrix(pass.before(), P), 0, matrix(w_hh + joined * P, P));
  }
  if (wanted.for_bias) {
    cpu::gemm(dtype, 1, F, N, 1, matrix(ones, N), matrix(dg, W), 0, matrix(b_ih, F));
    if (l.cell == Cell::gru) {
      std::copy_n(b_ih, joined, b_hh);
      cpu::gemm(dtype, 1, H, N, 1, matrix(ones, N), matrix(dg + 3 * H, W), 0, matrix(b_hh + joined, H));
    }
  }
  if (wanted.for_w_hr)
    cpu::gemm(dtype, P, H, N, 1, matrix(pass.through(), 1, P), matrix(kept.raw, H), 0, matrix(w_hr, H));
}

template <class T>
void backward(const Layer<T>& layer, const LayerGradients& to, const Tensor& grad_output, const Tensor& grad_h,
              const Tensor& grad_c, const Tensor& h0, const Tensor& c0, const Tensor& output, const Tensor& gates,
              const Tensor& cells, const Tensor& raw) {
  const Tensor first = given<T>(h0), cell = given<T>(c0), out = given<T>(output), grads = given<T>(grad_output);
  Result<T> x(to.x), h(to.h), c(to.c), w_ih(to.w_ih), w_hh(to.w_hh), b_ih(to.b_ih), b_hh(to.b_hh), w_hr(to.w_hr);
  start_from<T>(h.tensor(), grad_h);
  if (layer.cell == Cell::lstm) start_from<T>(c.tensor(), grad_c);
  const Kept<T> kept{out.data<T>(),
                     gates.data<T>(),
                     cells.data<T>(),
                     raw.data<T>(),
                     first.data<T>(),
                     cell ? cell.data<T>() : nullptr,
                     grads ? grads.data<T>() : nullptr};
  Backward<T> pass(layer, kept, h.data(), c.data());
  const std::vector<T> ones(to.for_bias ? static_cast<size_t>(layer.total) : 0, T(1));
  {
    ReleaseGil released(layer.total * layer.width * (layer.inputs + layer.outputs) / 16);
    pass.run();
    weight_gradients(layer, pass, kept, ones.data(), to, x.data(), w_ih.data(), w_hh.data(), b_ih.data(), b_hh.data(),
                     w_hr.data());
  }
  for (const Result<T>* r : {&x, &h, &c, &w_ih, &w_hh, &b_ih, &b_hh, &w_hr}) r->finish();
}

}  // namespace

void _recurrent_layer(const Tensor& output, const Tensor& h_n, const Tensor& c_n, const Tensor& gates,
                      const Tensor& cells, const Tensor& raw, const Tensor& input, const Tensor& h0, const Tensor& c0,
                      const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh,
                      const Tensor& w_hr, IntsView batch_sizes, int64_t cell, bool reverse) {
  auto run = [&](auto zero) {
    using T = decltype(zero);
    const Layer<T> layer(static_cast<Cell>(cell), input, h0, w_ih, w_hh, w_hr, batch_sizes, reverse);
    forward<T>(layer, output, h_n, c_n, gates, cells, raw, h0, c0, b_ih, b_hh);
  };
  if (input.dtype() == DType::Float64)
    run(0.0);
  else
    run(0.0f);
}

void _recurrent_layer_backward(const Tensor& to_x, const Tensor& to_h, const Tensor& to_c, const Tensor& to_w_ih,
                               const Tensor& to_w_hh, const Tensor& to_b_ih, const Tensor& to_b_hh,
                               const Tensor& to_w_hr, const Tensor& grad_output, const Tensor& grad_h,
                               const Tensor& grad_c, const Tensor& input, const Tensor& h0, const Tensor& c0,
                               const Tensor& w_ih, const Tensor& w_hh, const Tensor& w_hr, const Tensor& output,
                               const Tensor& gates, const Tensor& cells, const Tensor& raw, IntsView batch_sizes,
                               int64_t cell, bool reverse, const std::vector<bool>& wanted) {
  const LayerGradients to{to_x,     to_h,    to_c,      to_w_ih,   to_w_hh,   to_b_ih,
                          to_b_hh,  to_w_hr, wanted[0], wanted[3], wanted[4], wanted[5] || wanted[6],
                          wanted[7]};
  auto run = [&](auto zero) {
    using T = decltype(zero);
    const Layer<T> layer(static_cast<Cell>(cell), input, h0, w_ih, w_hh, w_hr, batch_sizes, reverse);
    backward<T>(layer, to, grad_output, grad_h, grad_c, h0, c0, output, gates, cells, raw);
  };
  if (input.dtype() == DType::Float64)
    run(0.0);
  else
    run(0.0f);
}

}  // namespace tocha::native
