// Losses that read by class index or look at values first: the kernels of tocha/operators/losses.py.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/random/dispatch.h"
#include "dispatch/native.h"
#include "ops/copies.h"

namespace tocha::native {

namespace {

constexpr int64_t kGrain = 4096;

Tensor contiguous(const Tensor& t) { return ops::contiguous(t, MemoryFormat::Contiguous); }

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Where the scores of one target after the other begin, for scores (N, C, ...) and targets (N, ...).
class ScoreOffsets {
 public:
  explicit ScoreOffsets(const Tensor& scores) {
    for (int64_t d = 0; d < scores.dim(); ++d) {
      if (d == (scores.dim() == 1 ? 0 : 1)) continue;
      sizes_.push_back(scores.size(d));
      strides_.push_back(scores.stride(d));
    }
  }
  int64_t operator()(int64_t position) const {
    int64_t offset = 0;
    for (int64_t d = sizes_.size() - 1; d >= 0; --d) {
      offset += position % sizes_[d] * strides_[d];
      position /= sizes_[d];
    }
    return offset;
  }

 private:
  Ints sizes_, strides_;
};

template <class T, class Index>
void pick_scores(const Tensor& out, const Tensor& weights, const Tensor& self, const Index* target,
                 const T* class_weight, int64_t ignored) {
  const int64_t class_dim = self.dim() == 1 ? 0 : 1;
  const int64_t classes = self.size(class_dim), step = self.stride(class_dim);
  const ScoreOffsets offsets(self);
  const T* scores = self.data<T>();
  T* to = out.data<T>();
  T* weight_to = weights.data<T>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    int64_t c = static_cast<int64_t>(target[i]);
    TOCHA_CHECK(c == ignored || (c >= 0 && c < classes), Index, "[nll_loss] Target ", c, " is out of bounds for ",
                classes, " classes");
  }
  ReleaseGil others(out.numel());
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t c = static_cast<int64_t>(target[i]);
      if (c == ignored) {
        to[i] = weight_to[i] = T(0.0f);
        continue;
      }
      Wide<T> w = class_weight ? static_cast<Wide<T>>(class_weight[c]) : Wide<T>(1);
      to[i] = T(-static_cast<Wide<T>>(scores[offsets(i) + c * step]) * w);
      weight_to[i] = T(w);
    }
  });
}

// The gradient of pick_scores: minus the gradient of each loss, weighted, where its score was read.
template <class T, class Index>
void put_scores(const Tensor& out, const T* grad, const Index* target, const T* class_weight, int64_t ignored,
                int64_t count) {
  const int64_t step = out.stride(out.dim() == 1 ? 0 : 1);
  const ScoreOffsets offsets(out);
  T* to = out.data<T>();
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t c = static_cast<int64_t>(target[i]);
      if (c == ignored) continue;
      Wide<T> w = class_weight ? static_cast<Wide<T>>(class_weight[c]) : Wide<T>(1);
      to[offsets(i) + c * step] = T(-static_cast<Wide<T>>(grad[i]) * w);
    }
  });
}

// One sample: hinge losses of every target class, up to the first -1, against every class that is no target.
template <class T>
T margin_of_sample(const T* x, const int64_t* target, int64_t classes, std::vector<bool>& is_target) {
  int64_t count = 0;
  is_target.assign(static_cast<size_t>(classes), false);
  for (; count < classes && target[count] >= 0; ++count) is_target[static_cast<size_t>(target[count])] = true;
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    T own = x[target[k]];
    for (int64_t c = 0; c < classes; ++c) {
      if (!is_target[static_cast<size_t>(c)]) sum += std::max(T(0), T(1) - own + x[c]);
    }
  }
  return static_cast<T>(sum / static_cast<double>(classes));
}

// The derivatives of margin_of_sample by x.
template <class T>
void slopes_of_sample(T* out, const T* x, const int64_t* target, int64_t classes, std::vector<bool>& is_target) {
  int64_t count = 0;
  is_target.assign(static_cast<size_t>(classes), false);
  for (; count < classes && target[count] >= 0; ++count) is_target[static_cast<size_t>(target[count])] = true;
  const T step = T(1) / static_cast<T>(classes);
  std::fill(out, out + classes, T(0));
  for (int64_t k = 0; k < count; ++k) {
    const int64_t own = target[k];
    for (int64_t c = 0; c < classes; ++c) {
      if (is_target[static_cast<size_t>(c)] || !(T(1) - x[own] + x[c] > 0)) continue;
      out[c] += step;
      out[own] -= step;
    }
  }
}

// Lengths of sequences, one per batch entry and none above `limit` (where that is not negative).
std::vector<int64_t> lengths_of(const char* name, const Tensor& lengths, int64_t batch, int64_t limit) {
  TOCHA_CHECK(is_integral(lengths.dtype()), Runtime, "[ctc_loss] ", name, " must be integral, got ", lengths.dtype());
  TOCHA_CHECK(lengths.numel() == batch && lengths.dim() <= 1, Runtime, "[ctc_loss] ", name,
              " must be of size batch_size ", batch, ", got ", lengths.sizes());
  Tensor values = contiguous(ops::to_dtype(lengths, DType::Int64, false, false, std::nullopt));
  std::vector<int64_t> out(values.data<int64_t>(), values.data<int64_t>() + batch);
  for (int64_t n : out) {
    TOCHA_CHECK(n >= 0 && (limit < 0 || n <= limit), Runtime, "[ctc_loss] Expected ", name, " to have value at most ",
                limit, " and not below 0, but got ", n);
  }
  return out;
}

// log(exp(a) + exp(b) + exp(c)), also of minus infinities.
template <class T>
T log_sum(T a, T b, T c) {
  T most = std::max({a, b, c});
  if (most == -std::numeric_limits<T>::infinity()) return most;
  return std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most)) + most;
}

// One sequence of the CTC recursion (Graves et al. 2006): alpha[t, s] is the log probability of having reached
// symbol s of the target, with blanks around every label, at time t. Returns minus the log likelihood.
template <class T>
T ctc_forward(const T* scores, int64_t time_step, int64_t class_step, int64_t times, const int64_t* target,
              int64_t labels, int64_t blank, T* alpha, int64_t width) {
  constexpr T none = -std::numeric_limits<T>::infinity();
  if (times == 0) return labels == 0 ? T(0) : -none;
  auto symbol = [&](int64_t s) { return s % 2 == 0 ? blank : target[s / 2]; };
  const int64_t symbols = 2 * labels + 1;
  alpha[0] = scores[blank * class_step];
  if (labels > 0) alpha[1] = scores[target[0] * class_step];
  for (int64_t t = 1; t < times; ++t) {
    const T* before = alpha + (t - 1) * width;
    T* now = alpha + t * width;
    for (int64_t s = 0; s < symbols; ++s) {
      bool may_skip = s > 1 && symbol(s) != symbol(s - 2);
      T sum = log_sum(before[s], s > 0 ? before[s - 1] : none, may_skip ? before[s - 2] : none);
      now[s] = sum + scores[t * time_step + symbol(s) * class_step];
    }
  }
  const T* last = alpha + (times - 1) * width;
  return -log_sum(last[2 * labels], labels > 0 ? last[2 * labels - 1] : none, none);
}

// The gradient of one sequence, times `scale`. beta[t, s] is the log probability of finishing from symbol s at time t;
// with it alpha + beta - score is that of all alignments that pass there. `now` and `next` are rows of beta.
template <class T>
void ctc_backward(T* out, const T* scores, int64_t time_step, int64_t class_step, int64_t classes, int64_t times,
                  const int64_t* target, int64_t labels, int64_t blank, const T* alpha, int64_t width, T loss, T scale,
                  std::vector<T>& now, std::vector<T>& next, std::vector<T>& passing, int64_t out_step) {
  constexpr T none = -std::numeric_limits<T>::infinity();
  auto symbol = [&](int64_t s) { return s % 2 == 0 ? blank : target[s / 2]; };
  const int64_t symbols = 2 * labels + 1;
  next.assign(static_cast<size_t>(symbols + 2), none);
  now = next;
  for (int64_t t = times - 1; t >= 0; --t) {
    const T* row = scores + t * time_step;
    passing.assign(static_cast<size_t>(classes), none);
    for (int64_t s = 0; s < symbols; ++s) {
      size_t at = static_cast<size_t>(s);
      T rest = none;
      if (t == times - 1) {
        rest = s >= symbols - 2 ? T(0) : none;
      } else {
        bool may_skip = s + 2 < symbols && symbol(s) != symbol(s + 2);
        rest = log_sum(next[at], next[at + 1], may_skip ? next[at + 2] : none);
      }
      now[at] = rest + row[symbol(s) * class_step];
      T& total = passing[static_cast<size_t>(symbol(s))];
      total = log_sum(total, alpha[t * width + s] + now[at], none);
    }
    for (int64_t c = 0; c < classes; ++c) {
      T score = row[c * class_step];
      out[t * out_step + c] = scale * (std::exp(score) - std::exp(passing[static_cast<size_t>(c)] + loss - score));
    }
    std::swap(now, next);
  }
}

// What a batch of sequences and their targets is: checked, and in plain arrays.
struct Sequences {
  std::vector<int64_t> input_of, target_of, starts;  // per sequence: its length, its number of labels, where they begin
  Tensor labels;
  int64_t width;  // symbols of the longest target with blanks

  Sequences(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
            int64_t blank);
};
}  // namespace

void _nll(const Tensor& out, const Tensor& weights, const Tensor& self, const Tensor& target, const Tensor& weight,
          int64_t ignore_index) {
  Tensor indices = contiguous(target);
  Tensor class_weight = weight ? contiguous(weight) : Tensor();
  cpu::visit_floating("nll_loss", self.dtype(), [&]<class T>(cpu::Type<T>) {
    const T* w = class_weight ? class_weight.data<T>() : nullptr;
    if (target.dtype() == DType::UInt8)
      pick_scores<T>(out, weights, self, indices.data<uint8_t>(), w, ignore_index);
    else
      pick_scores<T>(out, weights, self, indices.data<int64_t>(), w, ignore_index);
  });
}

Sequences::Sequences(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                     const Tensor& target_lengths, int64_t blank) {
  const int64_t times = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  TOCHA_CHECK(targets.dtype() == DType::Int64 || targets.dtype() == DType::Int32, Runtime,
              "[ctc_loss] targets must be int32 or int64, got ", targets.dtype());
  TOCHA_CHECK(blank >= 0 && blank < classes, Runtime, "[ctc_loss] blank must be in label range [0, ", classes,
              "), got ", blank);
  const bool padded = targets.dim() == 2;
  TOCHA_CHECK(padded || targets.dim() == 1, Runtime,
              "[ctc_loss] targets must be (N, S) or all targets in one row, got ", targets.sizes());
  TOCHA_CHECK(!padded || targets.size(0) == batch, Runtime, "[ctc_loss] Expected targets of batch size ", batch,
              ", got ", targets.sizes());
  input_of = lengths_of("input_lengths", input_lengths, batch, times);
  target_of = lengths_of("target_lengths", target_lengths, batch, padded ? targets.size(1) : -1);
  labels = contiguous(ops::to_dtype(targets, DType::Int64, false, false, std::nullopt));
  int64_t longest = 0, total = 0;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t n = target_of[static_cast<size_t>(b)];
    starts.push_back(padded ? b * targets.size(1) : total);
    longest = std::max(longest, n);
    total += n;
  }
  TOCHA_CHECK(padded || total == targets.numel(), Runtime, "[ctc_loss] Expected targets to have ", total,
              " elements in all, got ", targets.numel());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < target_of[static_cast<size_t>(b)]; ++i) {
      int64_t c = labels.data<int64_t>()[starts[static_cast<size_t>(b)] + i];
      TOCHA_CHECK(c >= 0 && c < classes, Runtime, "[ctc_loss] target ", c, " is out of range for ", classes,
                  " classes");
    }
  }
  width = 2 * longest + 1;
}

std::tuple<Tensor, Tensor> _ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                                     const Tensor& target_lengths, int64_t blank) {
  const int64_t times = log_probs.size(0), batch = log_probs.size(1);
  DType d = log_probs.dtype();
  if (d != DType::Float32 && d != DType::Float64) refuse_dtype("ctc_loss", d);
  const Sequences q(log_probs, targets, input_lengths, target_lengths, blank);
  Tensor losses = empty(Ints{batch}, d, log_probs.device());
  Tensor alphas = empty(Ints{batch, times, q.width}, d, log_probs.device());
  backend(alphas.device().type).fill(alphas, Scalar(-std::numeric_limits<double>::infinity()));
  cpu::visit_floating("ctc_loss", d, [&]<class T>(cpu::Type<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      ReleaseGil others(batch * times * q.width);
      parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          size_t at = static_cast<size_t>(b);
          losses.data<T>()[b] =
              ctc_forward(log_probs.data<T>() + b * log_probs.stride(1), log_probs.stride(0), log_probs.stride(2),
                          q.input_of[at], q.labels.data<int64_t>() + q.starts[at], q.target_of[at], blank,
                          alphas.data<T>() + b * times * q.width, q.width);
        }
      });
    }
  });
  return {losses, alphas};
}

void _ctc_loss_backward(const Tensor& out, const Tensor& grad_output, const Tensor& log_probs, const Tensor& targets,
                        const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank, const Tensor& losses,
                        const Tensor& alphas) {
  const int64_t times = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  const Sequences q(log_probs, targets, input_lengths, target_lengths, blank);
  Tensor grad = contiguous(grad_output);
  backend(out.device().type).fill(out, 0);
  cpu::visit_floating("ctc_loss", out.dtype(), [&]<class T>(cpu::Type<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      ReleaseGil others(batch * times * (q.width + classes));
      parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
        std::vector<T> now, next, passing;
        for (int64_t b = begin; b < end; ++b) {
          size_t at = static_cast<size_t>(b);
          T scale = grad.data<T>()[b];
          if (scale == 0) continue;
          ctc_backward(out.data<T>() + b * classes, log_probs.data<T>() + b * log_probs.stride(1), log_probs.stride(0),
                       log_probs.stride(2), classes, q.input_of[at], q.labels.data<int64_t>() + q.starts[at],
                       q.target_of[at], blank, alphas.data<T>() + b * times * q.width, q.width, losses.data<T>()[b],
                       scale, now, next, passing, batch * classes);
        }
      });
    }
  });
}

void _nll_backward(const Tensor& out, const Tensor& grad_output, const Tensor& target, const Tensor& weight,
                   int64_t ignore_index, IntsView) {
  Tensor indices = contiguous(target), grad = contiguous(grad_output);
  Tensor class_weight = weight ? contiguous(weight) : Tensor();
  backend(out.device().type).fill(out, 0);
  cpu::visit_floating("nll_loss", out.dtype(), [&]<class T>(cpu::Type<T>) {
    const T* w = class_weight ? class_weight.data<T>() : nullptr;
    ReleaseGil others(grad.numel());
    if (target.dtype() == DType::UInt8)
      put_scores<T>(out, grad.data<T>(), indices.data<uint8_t>(), w, ignore_index, grad.numel());
    else
      put_scores<T>(out, grad.data<T>(), indices.data<int64_t>(), w, ignore_index, grad.numel());
  });
}

void _multilabel_margin_slopes(const Tensor& out, const Tensor& self, const Tensor& target) {
  Tensor x = contiguous(self), t = contiguous(target);
  int64_t classes = self.dim() == 0 ? 1 : self.size(self.dim() - 1);
  cpu::visit_floating("multilabel_margin_loss", self.dtype(), [&]<class T>(cpu::Type<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      std::vector<bool> is_target;
      for (int64_t i = 0; i + classes <= out.numel(); i += classes)
        slopes_of_sample(out.data<T>() + i, x.data<T>() + i, t.data<int64_t>() + i, classes, is_target);
    }
  });
}

void _multilabel_margin(const Tensor& out, const Tensor& self, const Tensor& target) {
  DType d = self.dtype();
  if (d != DType::Float32 && d != DType::Float64) refuse_dtype("multilabel_margin_loss", d);
  Tensor x = contiguous(self), t = contiguous(target);
  int64_t classes = self.dim() == 0 ? 1 : self.size(self.dim() - 1);
  const int64_t* indices = t.data<int64_t>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    TOCHA_CHECK(indices[i] >= -1 && indices[i] < classes, Runtime, "[multilabel_margin_loss] target ", indices[i],
                " is out of range for ", classes, " classes");
  }
  cpu::visit_floating("multilabel_margin_loss", d, [&]<class T>(cpu::Type<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      std::vector<bool> is_target;
      for (int64_t i = 0; i < out.numel(); ++i) {
        out.data<T>()[i] = margin_of_sample(x.data<T>() + i * classes, indices + i * classes, classes, is_target);
      }
    }
  });
}

}  // namespace tocha::native
