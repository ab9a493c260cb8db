// Losses that read by class index or look at values first: the kernels of tocha/operators/losses.py.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/random_dispatch.h"
#include "dispatch/native.h"
#include "ops.h"

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
void pick_scores(const Tensor& out, const Tensor& weights, const Tensor& self, const Index* target, const T* class_weight,
                 int64_t ignored) {
  const int64_t class_dim = self.dim() == 1 ? 0 : 1;
  const int64_t classes = self.size(class_dim), step = self.stride(class_dim);
  const ScoreOffsets offsets(self);
  const T* scores = self.data<T>();
  T* to = out.data<T>();
  T* weight_to = weights.data<T>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    int64_t c = static_cast<int64_t>(target[i]);
    TOCHA_CHECK(c == ignored || (c >= 0 && c < classes), Index, "[nll_loss] Target ", c, " is out of bounds for ", classes, " classes");
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

}  // namespace

void _check_probabilities(const Tensor& self) {
  if (!computes(self)) return;
  Tensor values = contiguous(self);
  cpu::visit_floating("binary_cross_entropy", self.dtype(), [&]<class T>(cpu::Type<T>) {
    const T* v = values.data<T>();
    bool fine = true;
    for (int64_t i = 0; i < values.numel(); ++i) fine &= (v[i] >= T(0.0f)) & (v[i] <= T(1.0f));
    TOCHA_CHECK(fine, Runtime, "[binary_cross_entropy] all elements of input should be between 0 and 1");
  });
}

void _nll(const Tensor& out, const Tensor& weights, const Tensor& self, const Tensor& target, const Tensor& weight,
          int64_t ignore_index) {
  Tensor indices = contiguous(target);
  Tensor class_weight = weight ? contiguous(weight) : Tensor();
  cpu::visit_floating("nll_loss", self.dtype(), [&]<class T>(cpu::Type<T>) {
    const T* w = class_weight ? class_weight.data<T>() : nullptr;
    if (target.dtype() == DType::UInt8) pick_scores<T>(out, weights, self, indices.data<uint8_t>(), w, ignore_index);
    else pick_scores<T>(out, weights, self, indices.data<int64_t>(), w, ignore_index);
  });
}

void _multilabel_margin(const Tensor& out, const Tensor& self, const Tensor& target) {
  DType d = self.dtype();
  if (d != DType::Float32 && d != DType::Float64) cpu::no_such_dtype("multilabel_margin_loss", d);
  Tensor x = contiguous(self), t = contiguous(target);
  int64_t classes = self.dim() == 0 ? 1 : self.size(self.dim() - 1);
  const int64_t* indices = t.data<int64_t>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    TOCHA_CHECK(indices[i] >= -1 && indices[i] < classes, Runtime, "[multilabel_margin_loss] target ", indices[i], " is out of range for ",
                classes, " classes");
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
