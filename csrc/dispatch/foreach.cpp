#include "dispatch/foreach.h"

#include <algorithm>

#include "core/gil.h"
#include "core/isa.h"
#include "core/parallel.h"
#include "dispatch/native.h"
#include "ops/copies.h"

namespace tocha::foreach {
namespace {

constexpr int64_t kGrain = 1 << 14;

// The elements of one tensor and what goes with them, as the loop takes them.
struct Piece {
  char* pointers[kMaxOperands];
  int64_t numel;
};

bool is_flat(const Tensor& first, const Tensor& t) {
  if (t.dtype() != first.dtype() || !t.is_cpu() || t.is_conj() || t.is_neg()) return false;
  if (!(t.sizes() == first.sizes())) return false;
  return (t.is_contiguous() && first.is_contiguous()) || t.strides() == first.strides();
}

// Results may lie where an operand lies, but not half way across it.
bool crosses(const char* a, const char* b, int64_t bytes) { return a != b && a < b + bytes && b < a + bytes; }

// One operator over lists: tensors that are flat are put together, the others run one by one.
class Walk {
 public:
  Walk(const PointwiseOp& op, const Tensors* const* lists, const Scalar* params)
      : op_(op), lists_(lists), params_(params), loops_(op.cpu_loops[static_cast<int>(cpu_isa())]) {}

  void run() {
    size_t n = lists_[0]->size();
    pieces_.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      if (!add(i)) {
        finish();
        run_alone(i);
      }
    }
    finish();
  }

 private:
  bool add(size_t i) {
    const Tensor& first = (*lists_[0])[i];
    if (!first.is_contiguous() && !first.is_non_overlapping_and_dense()) return false;
    for (int k = 0; k < op_.nin; ++k)
      if (!is_flat(first, (*lists_[k])[i])) return false;
    if (!set_dtype(first.dtype())) return false;
    int64_t bytes = first.numel() * first.itemsize();
    Piece& p = pieces_.emplace_back();
    p.numel = first.numel();
    for (int k = 0; k < op_.nin; ++k) p.pointers[op_.nout + k] = (*lists_[k])[i].bytes();
    for (int k = 0; k < op_.nout; ++k) p.pointers[k] = p.pointers[op_.nout + k];
    for (int k = 0; k < op_.nout; ++k) {
      for (int j = 0; j < op_.nin; ++j) {
        bool twice = j < op_.nout && j != k && p.pointers[j] == p.pointers[k];
        if (!twice && !crosses(p.pointers[k], p.pointers[op_.nout + j], bytes)) continue;
        pieces_.pop_back();
        return false;
      }
    }
    numel_ += p.numel;
    for (int k = 0; k < op_.nout; ++k) (*lists_[k])[i].bump_version();
    return true;
  }

  // Pieces share a dtype; the loop must compute in it.
  bool set_dtype(DType d) {
    if (d == dtype_) return true;
    if (!(op_.dtypes >> static_cast<int>(d) & 1) || !loops_[static_cast<int>(d)]) return false;
    if (op_.promote == Promote::int_to_float && !is_floating(d) && !is_complex(d)) return false;
    for (int k = 0; k < op_.nout + op_.nin; ++k)
      if (op_.types[k].resolve(d) != d) return false;
    finish();
    dtype_ = d;
    const TypeCode* types = op_.types + op_.nout + op_.nin;
    for (int k = 0; k < op_.nparams; ++k) types[k].store(params_[k], d, stored_ + k * kParamBytes);
    return true;
  }

  void run_alone(size_t i) {
    Tensor operands[kMaxOperands];
    for (int k = 0; k < op_.nin; ++k) operands[k] = (*lists_[k])[i];
    pointwise_out(op_, operands, operands, params_, true);
  }

  void finish() {
    if (!pieces_.empty()) {
      int64_t grain = numel_ > kGrain && has_repeats() ? numel_ : kGrain;
      ReleaseGil unlocked(numel_);
      starts_.resize(pieces_.size());
      int64_t at = 0;
      for (size_t i = 0; i < pieces_.size(); ++i) {
        starts_[i] = at;
        at += pieces_[i].numel;
      }
      parallel_for(numel_, grain, [this](int64_t begin, int64_t end) { run_range(begin, end); });
    }
    pieces_.clear();
    numel_ = 0;
  }

  // The same memory written for two places of the list: in order, then.
  bool has_repeats() const {
    std::vector<const char*> written;
    written.reserve(pieces_.size() * op_.nout);
    for (const Piece& p : pieces_)
      for (int k = 0; k < op_.nout; ++k) written.push_back(p.pointers[k]);
    std::sort(written.begin(), written.end());
    return std::adjacent_find(written.begin(), written.end()) != written.end();
  }

  void run_range(int64_t begin, int64_t end) const {
    size_t i = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin()) - 1;
    int64_t size = itemsize(dtype_);
    Loop loop = loops_[static_cast<int>(dtype_)];
    for (; i < pieces_.size() && starts_[i] < end; ++i) {
      const Piece& p = pieces_[i];
      int64_t from = std::max<int64_t>(begin - starts_[i], 0);
      int64_t to = std::min(end - starts_[i], p.numel);
      if (from >= to) continue;
      char* pointers[kMaxOperands];
      for (int k = 0; k < op_.nout + op_.nin; ++k) pointers[k] = p.pointers[k] + from * size;
      loop(pointers, to - from, stored_);
    }
  }

  const PointwiseOp& op_;
  const Tensors* const* lists_;
  const Scalar* params_;
  const Loop* loops_;
  DType dtype_ = DType::Undefined;
  alignas(16) char stored_[kMaxParams * kParamBytes];
  std::vector<Piece> pieces_;
  std::vector<int64_t> starts_;
  int64_t numel_ = 0;
};

}  // namespace

void check_filled(const char* op, const Tensors& list) {
  TOCHA_CHECK(!list.empty(), Runtime, "[", op, "] Tensor list must have at least one tensor.");
}

void check_length(const char* op, const Tensors& list, const Tensors& other) {
  TOCHA_CHECK(list.size() == other.size(), Runtime, "[", op,
              "] Tensor lists must have the same number of tensors, got ", list.size(), " and ", other.size());
}

void check_length(const char* op, const Tensors& list, const std::vector<Scalar>& other) {
  TOCHA_CHECK(list.size() == other.size(), Runtime, "[", op,
              "] Tensor list must have same number of elements as scalar list, got ", list.size(), " and ",
              other.size());
}

void check_scalar_tensor(const char* op, const Tensor& t) {
  TOCHA_CHECK(t.dim() == 0 && t.numel() == 1, Runtime, "[", op, "] scalar tensor expected to be 0 dim but it has ",
              t.dim(), " dimensions and ", t.numel(), " elements.");
}

std::vector<Scalar> scalars_of(const char* op, const Tensor& t, size_t n) {
  TOCHA_CHECK(t.dim() == 1, Runtime, "[", op, "] Expected packed scalar Tensor to be of dimension 1. Got ", t.dim(),
              " instead.");
  TOCHA_CHECK(t.numel() == static_cast<int64_t>(n), Runtime, "[", op,
              "] Expected length of scalars to match input of length ", n, " but got ", t.numel(), " instead.");
  if (t.is_meta()) return std::vector<Scalar>(n, Scalar(1.0));  // only the form of the results counts
  std::vector<Scalar> out;
  for (int64_t i = 0; i < t.numel(); ++i)
    out.push_back(Scalar::load(t.dtype(), t.bytes() + i * t.stride(0) * t.itemsize()));
  return out;
}

void assign(const Tensor& t, const Tensor& value, const char* op) {
  check_inplace_result(t, value, op);
  ops::copy_(t, value, false);
}

void pointwise_(const PointwiseOp& op, const Tensors* const* lists, const Scalar* params) {
  Walk(op, lists, params).run();
}

}  // namespace tocha::foreach
