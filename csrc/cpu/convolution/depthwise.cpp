// Depthwise convolution: every channel has a kernel of its own, so there is no matrix to multiply. A block of pixels is
// staged for some channels at a time; each tap then adds its weight times a shifted view of it.
#include <atomic>

#include "core/parallel.h"
#include "cpu/convolution/patches.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kChannels = 8;  // at a time

template <class T>
ChannelJob<T> channel_job(const PixelPlan& plan, const PixelBlock& b, int64_t channels, Moves& moves) {
  ChannelJob<T> job{};
  job.taps = static_cast<int64_t>(plan.taps().size());
  job.tap = plan.taps().data();
  job.moves = moves.data();
  job.move_count = plan.moves(b, 0, b.count(), channels, KernelsOf<T>::patches().lanes, moves.data());
  job.columns = b.count();
  return job;
}

template <class T>
class ChannelCorrelator {
 public:
  explicit ChannelCorrelator(const Correlation& c)
      : c_(c),
        kernels_(KernelsOf<T>::patches()),
        packing_(KernelsOf<T>::packing()),
        plan_(c.out.size, c.batch, c.step, c.taps, 1, kMostPixels),
        taps_(static_cast<int64_t>(c.taps.size())),
        direct_(itemsize(c.dtype) == sizeof(T) && plan_.contiguous_in(c.out)) {}

  void run() {
    weights_ = allocate<T>(c_.groups * taps_ + kPackSlack);
    load_weights();
    if (c_.bias) {
      bias_ = allocate<T>(c_.groups + kPackSlack);
      packing_.pack_a(c_.dtype, c_.bias, c_.groups, 1, 1, 1, c_.groups, bias_.get());
    }
    const int64_t shares = ceil_div(c_.groups, kChannels);
    parallel_for(plan_.blocks() * shares, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i / plan_.blocks() * kChannels;
        run_block(plan_.block(i % plan_.blocks()), first, std::min(kChannels, c_.groups - first));
      }
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  void load_weights() {
    std::vector<int64_t> places;
    for (const Tap& t : c_.taps) places.push_back(t.weight);
    kernels_.pack_taps({c_.dtype, c_.weight, 1, c_.weight_group, c_.groups, taps_, places.data(), 1, weights_.get()});
  }

  void run_block(const PixelBlock& b, int64_t first, int64_t channels) {
    Moves moves;
    T* staged = scratch<T>(Purpose::staged, staged_elements(plan_, kChannels));
    T* aside = scratch<T>(Purpose::accumulator, b.count());
    if (!staged || !aside) return ok_.store(false, std::memory_order_relaxed);
    ChannelJob<T> job = channel_job<T>(plan_, b, channels, moves);
    if (taps_ > 0) plan_.stage(c_.dtype, c_.in, first, channels, b, staged);
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t channel = first + i;
      job.staged = staged + i * plan_.staged_channel();
      T* out = direct_ ? reinterpret_cast<T*>(out_at(channel, plan_.run_at(b.begin, 0, 0))) : aside;
      kernels_.combine(job, weights_.get() + channel * taps_, bias_ ? bias_.get()[channel] : T(0), out);
      if (!direct_) distribute(channel, b, aside);
    }
  }

  char* out_at(int64_t channel, const PixelRun& p) const {
    const Field& f = c_.out;
    return f.data + (p.image * f.batch_stride + channel * f.channel_stride + p.z * f.stride[0] + p.y * f.stride[1] +
                     p.x * f.stride[2]) *
                        itemsize(c_.dtype);
  }

  void distribute(int64_t channel, const PixelBlock& b, const T* values) const {
    plan_.for_runs(b, c_.out.evenly_spaced(), [&](const PixelRun& r) {
      packing_.finish(c_.dtype, 1, r.count, values + r.begin, r.count, 1, out_at(channel, r), 1, c_.out.stride[2], T(1),
                      T(0));
    });
  }

  const Correlation& c_;
  const PatchKernels<T>& kernels_;
  const PackKernels<T>& packing_;
  const PixelPlan plan_;
  const int64_t taps_;
  const bool direct_;
  Memory<T> weights_, bias_;
  std::atomic<bool> ok_{true};
};

template <class T>
class ChannelWeightSum {
 public:
  explicit ChannelWeightSum(const WeightGradient& w)
      : w_(w),
        kernels_(KernelsOf<T>::patches()),
        packing_(KernelsOf<T>::packing()),
        plan_(w.grad.size, w.batch, w.step, w.taps, 1, kMostPixels),
        taps_(static_cast<int64_t>(w.taps.size())) {}

  void run() {
    const int64_t shares = std::max(ceil_div(w_.groups, kChannels), std::min<int64_t>(w_.groups, num_threads()));
    parallel_for(shares, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i * w_.groups / shares;
        add_up(first, (i + 1) * w_.groups / shares - first);
      }
    });
    if (!ok_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

 private:
  void add_up(int64_t first, int64_t channels) {
    Moves moves;
    const int64_t vector = kernels_.lanes * taps_;
    T* staged = scratch<T>(Purpose::staged, staged_elements(plan_, channels));
    T* sums = scratch<T>(Purpose::accumulator, channels * vector);
    T* grad = scratch<T>(Purpose::gathered, plan_.largest_block() + kPackSlack);
    if (!staged || !sums || !grad) return ok_.store(false, std::memory_order_relaxed);
    std::fill_n(sums, channels * vector, T(0));
    for (int64_t i = 0; i < plan_.blocks(); ++i) {
      const PixelBlock b = plan_.block(i);
      ChannelJob<T> job = channel_job<T>(plan_, b, channels, moves);
      plan_.stage(w_.dtype, w_.in, first, channels, b, staged);
      for (int64_t c = 0; c < channels; ++c) {
        load_grad(first + c, b, grad);
        job.staged = staged + c * plan_.staged_channel();
        kernels_.correlate(job, grad, sums + c * vector);
      }
    }
    for (int64_t c = 0; c < channels; ++c) finish(first + c, sums + c * vector);
  }

  // Widens the gradient of a block's pixels, side by side.
  void load_grad(int64_t channel, const PixelBlock& b, T* out) const {
    const Field& f = w_.grad;
    plan_.for_runs(b, f.evenly_spaced(), [&](const PixelRun& r) {
      const char* from = f.data + (r.image * f.batch_stride + channel * f.channel_stride + r.z * f.stride[0] +
                                   r.y * f.stride[1] + r.x * f.stride[2]) *
                                      itemsize(w_.dtype);
      packing_.pack_a(w_.dtype, from, 1, f.stride[2], 1, 1, r.count, out + r.begin);
    });
  }

  void finish(int64_t channel, T* sums) const {
    for (int64_t t = 0; t < taps_; ++t) {
      T total(0);
      for (int64_t i = 0; i < kernels_.lanes; ++i) total += sums[t * kernels_.lanes + i];
      sums[t] = total;  // the vectors before this tap's are read already
    }
    packing_.finish(w_.dtype, 1, taps_, sums, taps_, 1, w_.out + channel * taps_ * itemsize(w_.dtype), 1, 1, T(1),
                    T(0));
  }

  const WeightGradient& w_;
  const PatchKernels<T>& kernels_;
  const PackKernels<T>& packing_;
  const PixelPlan plan_;
  const int64_t taps_;
  std::atomic<bool> ok_{true};
};

}  // namespace

void correlate_channels(const Correlation& c) {
  with_compute_type(c.dtype, [&](auto t) { ChannelCorrelator<decltype(t)>(c).run(); });
}

void weight_gradient_of_channels(const WeightGradient& w) {
  with_compute_type(w.dtype, [&](auto t) { ChannelWeightSum<decltype(t)>(w).run(); });
}

}  // namespace tocha::cpu
