// batch_norm and its gradients: the kernels of tocha/operators/batch_norm.py. Statistics are per channel. Where planes
// are contiguous a thread takes a channel through all passes while it is in the cache; where channels are last, blocks
// of rows give partial sums. Half types are computed in float.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/images/images.h"
#include "cpu/normalization/batch_norm_kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 1 << 13;      // elements a thread should have
constexpr int64_t kLongestPiece = 8192;  // elements that are summed in one go; pieces add up in double
constexpr int64_t kBlockRows = 256;      // rows whose sums stay in the compute type

template <class T>
const cpu::BatchNormLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::batch_norm_kernels().f32;
  else
    return cpu::batch_norm_kernels().f64;
}

using cpu::Runs;

// samples x channels x spatial in memory, or rows of channels.
struct Batch {
  int64_t samples, channels, spatial;
  bool channels_last;  // the order of dims in memory
  bool by_rows;        // rows of channels: that order, or nothing but channels
  int64_t together;    // planes of a channel that are summed in one go
  int64_t rows() const { return samples * spatial; }
  Runs whole() const { return {samples, channels * spatial, spatial}; }
};
Batch batch_of(const Tensor& t) {
  Batch b{t.size(0), t.size(1), 1, suggested_format(t) != MemoryFormat::Contiguous, false, 1};
  for (int64_t d = 2; d < t.dim(); ++d) b.spatial *= t.size(d);
  b.by_rows = b.channels_last || b.spatial == 1;
  b.together = std::max<int64_t>(1, kLongestPiece / std::max<int64_t>(1, b.spatial));
  return b;
}

// A vector of parameters in the compute type; a constant where there is none.
template <class T>
std::vector<T> parameters(const Tensor& t, int64_t n, T otherwise) {
  std::vector<T> values(static_cast<size_t>(n), otherwise);
  if (t) {
    Tensor plain = cpu::dense(t, DTypeOf<T>::value);
    std::copy_n(plain.data<T>(), n, values.begin());
  }
  return values;
}
template <class T>
void store(const Tensor& out, const std::vector<T>& values) {
  if (!out || out.numel() == 0) return;
  Tensor plain = out.dtype() == DTypeOf<T>::value && out.is_contiguous()
                     ? out
                     : empty(out.sizes(), DTypeOf<T>::value, out.device());
  std::copy_n(values.data(), plain.numel(), plain.data<T>());
  if (!plain.is(out)) cpu::copy(out, plain);
}

struct Moments {
  double count = 0, mean = 0, deviation = 0;  // deviation: the sum of squares of what is beyond the mean
  void merge(double n, double m, double d) {
    if (count == 0) {
      *this = {n, m, d};
      return;
    }
    const double total = count + n, apart = m - mean;
    mean += apart * n / total;
    deviation += d + apart * apart * count * n / total;
    count = total;
  }
};

// f(start, runs) for pieces of a channel of a planar batch: several whole planes, or a part of one.
template <class F>
void for_pieces(const Batch& b, int64_t c, F f) {
  const int64_t stride = b.channels * b.spatial, first = c * b.spatial;
  if (b.spatial > kLongestPiece) {
    for (int64_t n = 0; n < b.samples; ++n) {
      for (int64_t i = 0; i < b.spatial; i += kLongestPiece)
        f(first + n * stride + i, Runs{1, 0, std::min(kLongestPiece, b.spatial - i)});
    }
    return;
  }
  for (int64_t n = 0; n < b.samples; n += b.together)
    f(first + n * stride, Runs{std::min(b.together, b.samples - n), stride, b.spatial});
}

// f(first channel, end) for all channels, in parallel.
template <class F>
void for_channels(const Batch& b, F f) {
  ReleaseGil unlocked(b.rows() * b.channels);
  parallel_for(b.channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(b.rows(), 1)), f);
}

// The moments of the channels from `first`: at once where a channel is short, else piece by piece.
template <class T>
void channel_moments(const Batch& b, int64_t first, int64_t end, const T* x, Moments* into) {
  if (b.samples <= b.together) {
    std::vector<T> mean(static_cast<size_t>(end - first)), deviation(mean.size());
    loops<T>().moments(x + first * b.spatial, end - first, b.whole(), mean.data(), deviation.data());
    for (size_t i = 0; i < mean.size(); ++i) into[i] = {static_cast<double>(b.rows()), mean[i], deviation[i]};
    return;
  }
  for (int64_t c = first; c < end; ++c) {
    for_pieces(b, c, [&](int64_t start, Runs r) {
      T mean, deviation;
      loops<T>().moments(x + start, 1, r, &mean, &deviation);
      into[c - first].merge(static_cast<double>(r.samples * r.n), mean, deviation);
    });
  }
}

// f(first row, end) for blocks of rows, in parallel; returns how many blocks there were. f gets its block's number.
template <class F>
int64_t for_row_blocks(const Batch& b, F f) {
  const int64_t blocks = (b.rows() + kBlockRows - 1) / kBlockRows;
  ReleaseGil unlocked(b.rows() * b.channels);
  parallel_for(blocks, std::max<int64_t>(1, kGrain / (kBlockRows * std::max<int64_t>(b.channels, 1))),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) f(i, i * kBlockRows, std::min(b.rows(), (i + 1) * kBlockRows));
               });
  return blocks;
}

// Sums per channel of what add(first row, end, sums) adds up, `columns` sums for each block.
template <class T, class F>
std::vector<double> summed_rows(const Batch& b, int64_t columns, F add) {
  const int64_t most = (b.rows() + kBlockRows - 1) / kBlockRows;
  std::vector<T> partial(static_cast<size_t>(most * columns));
  const int64_t blocks =
      for_row_blocks(b, [&](int64_t i, int64_t first, int64_t end) { add(first, end, partial.data() + i * columns); });
  std::vector<double> sums(static_cast<size_t>(columns));
  for (int64_t i = 0; i < blocks; ++i) {
    for (int64_t c = 0; c < columns; ++c) sums[static_cast<size_t>(c)] += partial[static_cast<size_t>(i * columns + c)];
  }
  return sums;
}

// Each block of rows is read twice while it is in the cache: for its own means, and for what is beyond them.
template <class T>
std::vector<Moments> row_moments(const Batch& b, const T* x) {
  const int64_t channels = b.channels, most = (b.rows() + kBlockRows - 1) / kBlockRows;
  std::vector<T> means(static_cast<size_t>(most * channels)), deviations(means.size());
  const int64_t blocks = for_row_blocks(b, [&](int64_t i, int64_t first, int64_t end) {
    T *mean = means.data() + i * channels, *deviation = deviations.data() + i * channels;
    loops<T>().add_rows(x + first * channels, end - first, channels, mean);
    for (int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<T>(end - first);
    loops<T>().add_deviations(x + first * channels, end - first, channels, mean, deviation);
  });
  std::vector<Moments> result(static_cast<size_t>(channels));
  for (int64_t i = 0; i < blocks; ++i) {
    const double n = static_cast<double>(std::min(kBlockRows, b.rows() - i * kBlockRows));
    for (size_t c = 0; c < result.size(); ++c) {
      const size_t at = static_cast<size_t>(i) * result.size() + c;
      result[c].merge(n, means[at], deviations[at]);
    }
  }
  return result;
}

// A running statistic: old + momentum * (new - old), written where it is kept.
template <class T, class F>
void update(const Tensor& running, double momentum, int64_t channels, F value) {
  if (!running) return;
  std::vector<T> kept = parameters<T>(running, channels, T(0));
  for (int64_t c = 0; c < channels; ++c) {
    T& old = kept[static_cast<size_t>(c)];
    old = static_cast<T>((1 - momentum) * static_cast<double>(old) + momentum * value(c));
  }
  store(running, kept);
}

// y = x * scale + shift per channel.
template <class T>
void scale_batch(const Batch& b, const T* x, T* y, const std::vector<T>& scale, const std::vector<T>& shift) {
  if (b.by_rows) {
    for_row_blocks(b, [&](int64_t, int64_t first, int64_t end) {
      loops<T>().apply(x + first * b.channels, y + first * b.channels, end - first, b.channels, scale.data(),
                       shift.data());
    });
    return;
  }
  ReleaseGil unlocked(b.rows() * b.channels);
  parallel_for(b.samples * b.channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(b.spatial, 1)),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) {
                   const size_t c = static_cast<size_t>(i % b.channels);
                   loops<T>().affine(x + i * b.spatial, y + i * b.spatial, 1, {1, 0, b.spatial}, &scale[c], &shift[c]);
                 }
               });
}

template <class T>
class Forward {
 public:
  // `kept`: the dtype that statistics are kept in; backward will read them so, and forward uses the same.
  Forward(const Batch& b, const Tensor& weight, const Tensor& bias, double eps, DType kept)
      : b_(b),
        eps_(eps),
        kept_(kept),
        weight_(parameters<T>(weight, b.channels, T(1))),
        bias_(parameters<T>(bias, b.channels, T(0))),
        mean_(weight_.size()),
        scale_(weight_.size()),
        factor_(weight_.size()),
        shift_(weight_.size()),
        moments_(weight_.size()) {}

  void train(const T* x, T* y) {
    if (b_.by_rows) {
      moments_ = row_moments(b_, x);
      settle(0, b_.channels);
      scale_batch(b_, x, y, factor_, shift_);
      return;
    }
    for_channels(b_, [&](int64_t first, int64_t end) { channels(first, end, x, y); });
  }

  void evaluate(const T* x, T* y, const std::vector<T>& mean, const std::vector<T>& variance) {
    mean_ = mean;
    for (size_t c = 0; c < mean.size(); ++c) {
      scale_[c] = T(1) / std::sqrt(variance[c] + static_cast<T>(eps_));
      factors(c);
    }
    scale_batch(b_, x, y, factor_, shift_);
  }

  const std::vector<T>& mean() const { return mean_; }
  const std::vector<T>& scale() const { return scale_; }
  const std::vector<Moments>& moments() const { return moments_; }

 private:
  void settle(int64_t first, int64_t end) {
    for (size_t c = static_cast<size_t>(first); c < static_cast<size_t>(end); ++c) {
      mean_[c] = as_kept(moments_[c].mean);
      scale_[c] = as_kept(1 / std::sqrt(moments_[c].deviation / moments_[c].count + eps_));
      factors(c);
    }
  }
  T as_kept(double x) const {
    if (kept_ == DType::BFloat16) return static_cast<T>(static_cast<float>(BFloat16(static_cast<float>(x))));
    if (kept_ == DType::Float16) return static_cast<T>(static_cast<float>(Half(static_cast<float>(x))));
    return static_cast<T>(x);
  }
  void factors(size_t c) {
    factor_[c] = scale_[c] * weight_[c];
    shift_[c] = bias_[c] - mean_[c] * factor_[c];
  }
  void channels(int64_t first, int64_t end, const T* x, T* y) {
    channel_moments(b_, first, end, x, moments_.data() + first);
    settle(first, end);
    if (b_.samples <= b_.together) {
      const int64_t at = first * b_.spatial;
      loops<T>().affine(x + at, y + at, end - first, b_.whole(), &factor_[first], &shift_[first]);
      return;
    }
    for (int64_t c = first; c < end; ++c) {
      for_pieces(b_, c, [&](int64_t i, Runs r) { loops<T>().affine(x + i, y + i, 1, r, &factor_[c], &shift_[c]); });
    }
  }

  const Batch& b_;
  double eps_;
  DType kept_;
  std::vector<T> weight_, bias_, mean_, scale_, factor_, shift_;
  std::vector<Moments> moments_;
};

template <class T>
void batch_norm_as(const Tensor& out, const Tensor& mean, const Tensor& invstd, const Tensor& self,
                   const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                   bool training, double momentum, double eps) {
  const Batch b = batch_of(self);
  const int64_t channels = b.channels;
  Tensor in = cpu::arranged(self, DTypeOf<T>::value, b.channels_last);
  cpu::Arranged result(out, DTypeOf<T>::value, b.channels_last);
  Forward<T> forward(b, weight, bias, eps, mean.dtype());
  if (!training) {
    forward.evaluate(in.data<T>(), result.data<T>(), parameters<T>(running_mean, channels, T(0)),
                     parameters<T>(running_var, channels, T(1)));
    result.finish();
    return;
  }
  forward.train(in.data<T>(), result.data<T>());
  result.finish();
  store(mean, forward.mean());
  store(invstd, forward.scale());
  const std::vector<Moments>& m = forward.moments();
  update<T>(running_mean, momentum, channels, [&](int64_t c) { return m[static_cast<size_t>(c)].mean; });
  update<T>(running_var, momentum, channels, [&](int64_t c) {
    const Moments& own = m[static_cast<size_t>(c)];
    return own.deviation / (own.count - 1);
  });
}

// The gradients of one batch; statistics of its own in training, given ones else.
template <class T>
class Backward {
 public:
  Backward(const Batch& b, std::vector<T> weight, std::vector<T> mean, std::vector<T> scale, bool training)
      : b_(b),
        training_(training),
        weight_(std::move(weight)),
        mean_(std::move(mean)),
        scale_(std::move(scale)),
        factor_(weight_.size()),
        slope_(weight_.size()),
        shift_(weight_.size()),
        dweight(weight_.size()),
        dbias(weight_.size()) {}

  // dx may be null.
  void run(const T* g, const T* x, T* dx) {
    if (b_.samples * b_.channels * b_.spatial == 0) return;  // the parameters' gradients are 0
    if (b_.by_rows)
      rows(g, x, dx);
    else
      for_channels(b_, [&](int64_t first, int64_t end) { channels(first, end, g, x, dx); });
  }

 private:
  // With sums over the channel of g and of g * y: dx = scale * weight * (g - mean(g) - y * mean(g * y)).
  T mean_of(double sum) const { return training_ ? static_cast<T>(sum / static_cast<double>(b_.rows())) : T(0); }

  // The gradients of the parameters of channel c, and dx = g * factor + (x - mean) * slope + shift.
  void settle(size_t c, double sum, double product) {
    const double along = product * static_cast<double>(scale_[c]);
    dbias[c] = static_cast<T>(sum);
    dweight[c] = static_cast<T>(along);
    factor_[c] = scale_[c] * weight_[c];
    slope_[c] = -factor_[c] * scale_[c] * mean_of(along);
    shift_[c] = -factor_[c] * mean_of(sum);
  }

  void rows(const T* g, const T* x, T* dx) {
    const int64_t channels = b_.channels;
    const std::vector<double> sums = summed_rows<T>(b_, 2 * channels, [&](int64_t first, int64_t end, T* into) {
      loops<T>().add_products(g + first * channels, x + first * channels, end - first, channels, mean_.data(), into,
                              into + channels);
    });
    for (size_t c = 0; c < weight_.size(); ++c) settle(c, sums[c], sums[c + weight_.size()]);
    if (!dx) return;
    for_row_blocks(b_, [&](int64_t, int64_t first, int64_t end) {
      const int64_t at = first * channels;
      loops<T>().apply_backward(g + at, x + at, dx + at, end - first, channels, mean_.data(), factor_.data(),
                                slope_.data(), shift_.data());
    });
  }

  // Short channels at once.
  void short_channels(int64_t first, int64_t end, const T* g, const T* x, T* dx) {
    const int64_t at = first * b_.spatial, count = end - first;
    std::vector<T> sums(static_cast<size_t>(count)), products(sums.size());
    loops<T>().products(g + at, x + at, count, b_.whole(), &mean_[first], sums.data(), products.data());
    for (size_t i = 0; i < sums.size(); ++i) settle(static_cast<size_t>(first) + i, sums[i], products[i]);
    if (!dx) return;
    loops<T>().affine_backward(g + at, x + at, dx + at, count, b_.whole(), &mean_[first], &factor_[first],
                               &slope_[first], &shift_[first]);
  }

  void channels(int64_t first, int64_t end, const T* g, const T* x, T* dx) {
    if (b_.samples <= b_.together) return short_channels(first, end, g, x, dx);
    for (int64_t at = first; at < end; ++at) {
      const size_t c = static_cast<size_t>(at);
      double sum = 0, product = 0;
      for_pieces(b_, at, [&](int64_t i, Runs r) {
        T s, p;
        loops<T>().products(g + i, x + i, 1, r, &mean_[c], &s, &p);
        sum += s;
        product += p;
      });
      settle(c, sum, product);
      if (!dx) continue;
      for_pieces(b_, at, [&](int64_t i, Runs r) {
        loops<T>().affine_backward(g + i, x + i, dx + i, 1, r, &mean_[c], &factor_[c], &slope_[c], &shift_[c]);
      });
    }
  }

  const Batch& b_;
  bool training_;
  std::vector<T> weight_, mean_, scale_, factor_, slope_, shift_;

 public:
  std::vector<T> dweight, dbias;
};

template <class T>
void backward_as(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& grad, const Tensor& self,
                 const Tensor& weight, const Tensor& mean, const Tensor& spread, bool training, double eps,
                 bool for_input) {
  const Batch b = batch_of(self);
  Tensor g = cpu::arranged(grad, DTypeOf<T>::value, b.channels_last),
         x = cpu::arranged(self, DTypeOf<T>::value, b.channels_last);
  std::vector<T> scale = parameters<T>(spread, b.channels, T(1));
  if (!training) {
    for (T& s : scale) s = T(1) / std::sqrt(s + static_cast<T>(eps));
  }
  Backward<T> backward(b, parameters<T>(weight, b.channels, T(1)), parameters<T>(mean, b.channels, T(0)),
                       std::move(scale), training);
  if (for_input) {
    cpu::Arranged result(dx, DTypeOf<T>::value, b.channels_last);
    backward.run(g.data<T>(), x.data<T>(), result.data<T>());
    result.finish();
  } else {
    backward.run(g.data<T>(), x.data<T>(), nullptr);
  }
  store(dweight, backward.dweight);
  store(dbias, backward.dbias);
}

}  // namespace

void native_batch_norm(const Tensor& out, const Tensor& mean, const Tensor& invstd, const Tensor& self,
                       const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                       bool training, double momentum, double eps) {
  auto run = self.dtype() == DType::Float64 ? batch_norm_as<double> : batch_norm_as<float>;
  run(out, mean, invstd, self, weight, bias, running_mean, running_var, training, momentum, eps);
}

void _native_batch_norm_legit_functional(const Tensor& out, const Tensor& mean, const Tensor& invstd,
                                         const Tensor& mean_after, const Tensor& var_after, const Tensor& self,
                                         const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                                         const Tensor& running_var, bool training, double momentum, double eps) {
  copy_across(mean_after, running_mean);
  copy_across(var_after, running_var);
  native_batch_norm(out, mean, invstd, self, weight, bias, mean_after, var_after, training, momentum, eps);
}

void batch_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& grad,
                         const Tensor& self, const Tensor& weight, const Tensor& mean, const Tensor& spread,
                         bool training, double eps, bool for_input, bool) {
  auto run = self.dtype() == DType::Float64 ? backward_as<double> : backward_as<float>;
  run(dx, dweight, dbias, grad, self, weight, mean, spread, training, eps, for_input);
}

}  // namespace tocha::native
