#include "cpu/indexing/offset_slices.h"

#include <atomic>
#include <cstring>

#include "core/dtype_messages.h"
#include "cpu/engine/iterate.h"
#include "dispatch/native.h"
#include "ops/copies.h"

namespace tocha::cpu {

void check_together(const char* op, std::initializer_list<Tensor> tensors) {
  const Tensor& first = *tensors.begin();
  for (const Tensor& t : tensors)
    TOCHA_CHECK(!t || t.device() == first.device() || !computes(first), Runtime, "[", op,
                "] Expected all tensors to be on the same device, but found at least two devices, ", first.device(),
                " and ", t.device(), "!");
}

Tensor plain(const Tensor& t) { return t.is_conj() || t.is_neg() ? clone_dense(t) : t; }

Tensor dense(const Tensor& t) {
  if (t.is_contiguous() && !t.is_conj() && !t.is_neg()) return t;
  Tensor copy = empty(t.sizes(), t.dtype(), t.device());
  backend(t.device().type).copy(copy, t);
  return copy;
}

Tensor to_int64(const Tensor& t) {
  return t.dtype() == DType::Int64 ? t : ops::to_dtype(t, DType::Int64, false, false, std::nullopt);
}

void warn_expanded(const Tensor& self, const char* op, const char* more) {
  if (has_internal_overlap(self))
    warn_once(str("Use of ", op,
                  " on expanded tensors is deprecated. Please clone() the tensor before performing this operation.",
                  more));
}

Tensor apart_from(const Tensor& source, const Tensor& written) {
  return memory_overlap(source, written) == Overlap::none ? source : clone_dense(source);
}

Target::Target(const Tensor& self, DType dtype)
    : self_(self), tensor_(plain(ops::to_dtype(self, dtype, false, false, std::nullopt))) {}

DType merge_dtype(Merge merge, DType dtype) {
  bool sums = merge == Merge::add || merge == Merge::multiply;
  return sums && is_reduced_floating(dtype) ? DType::Float32 : dtype;
}

void Target::finish() const {
  if (!tensor_.is(self_)) backend(self_.device().type).copy(self_, tensor_);
}

std::optional<int64_t> outside(const Tensor& index, int64_t low, int64_t high) {
  // Dims that repeat need one look.
  Ints sizes, strides;
  for (int64_t d = 0; d < index.dim(); ++d) {
    if (index.stride(d) == 0 && index.size(d) > 0) continue;
    sizes.push_back(index.size(d));
    strides.push_back(index.stride(d) * index.itemsize());
  }
  const char* data = index.bytes();
  std::atomic<const char*> bad{nullptr};
  const Ints operands[1] = {strides};
  Walk<1>(sizes, operands).run([&](const int64_t* at, const int64_t* step, int64_t n) {
    int64_t i = pick_loops().first_outside(data + at[0], step[0], low, high, n);
    if (i < n) bad.store(data + at[0] + i * step[0], std::memory_order_relaxed);
  });
  if (!bad.load()) return std::nullopt;
  return *reinterpret_cast<const int64_t*>(bad.load());
}

void check_range(const Tensor& index, int64_t low, int64_t high, int64_t dim, int64_t size, ErrorKind kind,
                 const char* op) {
  if (auto bad = outside(index, low, high)) refuse_index(*bad, dim, size, kind, op);
}

void refuse_index(int64_t index, int64_t dim, int64_t size, ErrorKind kind, const char* op) {
  fail(kind, "[", op, "] ", std::strcmp(op, "index_copy") == 0 ? "index_copy_(): " : "", "index ", index,
       " is out of bounds for dimension ", dim, " with size ", size);
}

void check_range(const Tensor& index, int64_t size, const char* op) {
  if (auto bad = outside(index, 0, size))
    fail(ErrorKind::Index, "[", op, "] index out of range in self: ", *bad, " where the size is ", size);
}

const MergeLoops& merge_loops(Merge merge, DType dtype, const char* op) {
  const MergeLoops& loops = pick_loops().merge[static_cast<int>(merge)][static_cast<int>(dtype)];
  if (!loops.run) [[unlikely]]
    refuse_dtype(op, dtype);
  return loops;
}

Picks picks_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& other) {
  Picks p;
  p.count = index.numel();
  p.offsets.reset(new int64_t[static_cast<size_t>(p.count)]);
  int64_t step = self.dim() ? self.stride(dim) * self.itemsize() : 0;
  const int64_t* indices = index.data<int64_t>();
  int64_t stride = index.dim() ? index.stride(0) : 0;
  for (int64_t i = 0; i < p.count; ++i) p.offsets[i] = indices[i * stride] * step;
  bool single = other.dim() == 0;  // one element for all
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d == dim) {
      p.other_step = single ? 0 : other.stride(d) * other.itemsize();
      continue;
    }
    p.sizes.push_back(self.size(d));
    p.self_strides.push_back(self.stride(d) * self.itemsize());
    p.other_strides.push_back(single ? 0 : other.stride(d) * other.itemsize());
  }
  return p;
}

namespace {

constexpr int64_t kGrain = 16384;  // elements a thread gets at least

// How the picks are walked: rows of `run` elements along one dim, or element by element along the picks.
struct RowPlan {
  Ints sizes, self_strides, other_strides;  // the dims outside the row
  int64_t run = 1, self_step = 0, other_step = 0;
  int64_t outer = 1;
  bool by_rows = false;

  RowPlan(const Picks& p, int64_t itemsize) {
    for (int64_t d = 0; d < p.sizes.size(); ++d) {  // merge dims that run together
      int64_t last = sizes.size() - 1;
      if (p.sizes[d] == 1) continue;
      if (last >= 0 && self_strides[last] == p.self_strides[d] * p.sizes[d] &&
          other_strides[last] == p.other_strides[d] * p.sizes[d]) {
        sizes[last] *= p.sizes[d];
        self_strides[last] = p.self_strides[d];
        other_strides[last] = p.other_strides[d];
      } else {
        sizes.push_back(p.sizes[d]);
        self_strides.push_back(p.self_strides[d]);
        other_strides.push_back(p.other_strides[d]);
      }
    }
    int64_t best = -1;
    for (int64_t d = 0; d < sizes.size(); ++d) {
      bool packed = self_strides[d] == itemsize && (other_strides[d] == itemsize || other_strides[d] == 0);
      if (packed && sizes[d] >= 4 && (best < 0 || sizes[d] > sizes[best])) best = d;
    }
    for (int64_t d = 0; best < 0 && d < sizes.size(); ++d)
      if (sizes[d] > p.count) best = d;
    if (best >= 0) {
      by_rows = true;
      run = sizes[best];
      self_step = self_strides[best];
      other_step = other_strides[best];
      sizes.erase(best);
      self_strides.erase(best);
      other_strides.erase(best);
    }
    for (int64_t s : sizes) outer *= s;
  }

  void place(int64_t i, int64_t* self, int64_t* other) const {
    *self = *other = 0;
    for (int64_t d = sizes.size() - 1; d >= 0; --d) {
      int64_t at = i % sizes[d];
      i /= sizes[d];
      *self += at * self_strides[d];
      *other += at * other_strides[d];
    }
  }
};

// Cuts [begin, end) of outer x count into pieces of one outer position: f(outer position, first pick, last pick).
template <class F>
void for_pieces(int64_t count, int64_t begin, int64_t end, F&& f) {
  while (begin < end) {
    int64_t o = begin / count, first = begin - o * count;
    int64_t last = std::min(count, first + end - begin);
    f(o, first, last);
    begin += last - first;
  }
}

}  // namespace

void read_picks(const Picks& p, const char* self, char* other, DType dtype) {
  int64_t size = itemsize(dtype);
  RowPlan plan(p, size);
  int64_t total = plan.outer * p.count;
  if (total == 0 || plan.run == 0) return;
  ReleaseGil unlocked(total * plan.run);
  const auto& move = pick_loops().merge[static_cast<int>(Merge::assign)][static_cast<int>(dtype)];
  const auto& take = pick_loops().take[static_cast<int>(dtype)];
  const int64_t* offsets = p.offsets.get();
  parallel_for(total, std::max<int64_t>(1, kGrain / plan.run), [&](int64_t begin, int64_t end) {
    for_pieces(p.count, begin, end, [&](int64_t o, int64_t first, int64_t last) {
      int64_t from, to;
      plan.place(o, &from, &to);
      char* out = other + to + first * p.other_step;
      if (!plan.by_rows) return take.at(out, p.other_step, self + from, offsets + first, last - first);
      for (int64_t i = first; i < last; ++i, out += p.other_step)
        move.run(out, plan.other_step, self + from + offsets[i], plan.self_step, plan.run);
    });
  });
}

void write_picks(const Picks& p, char* self, const char* other, DType dtype, Merge merge) {
  RowPlan plan(p, itemsize(dtype));
  if (plan.outer * p.count == 0 || plan.run == 0) return;
  ReleaseGil unlocked(plan.outer * p.count * plan.run);
  const auto& loops = pick_loops().merge[static_cast<int>(merge)][static_cast<int>(dtype)];
  const int64_t* offsets = p.offsets.get();
  // Two picks may be the same place: a thread takes all picks for its part of the other dims.
  auto outer = [&](int64_t begin, int64_t end, int64_t row_begin, int64_t row_end) {
    for (int64_t o = begin; o < end; ++o) {
      int64_t to, from;
      plan.place(o, &to, &from);
      if (!plan.by_rows) {
        loops.at(self + to, offsets, other + from, p.other_step, p.count);
        continue;
      }
      const char* source = other + from + row_begin * plan.other_step;
      char* target = self + to + row_begin * plan.self_step;
      for (int64_t i = 0; i < p.count; ++i)
        loops.run(target + offsets[i], plan.self_step, source + i * p.other_step, plan.other_step, row_end - row_begin);
    }
  };
  if (plan.outer >= num_threads() || !plan.by_rows) {
    int64_t grain = std::max<int64_t>(1, kGrain / (p.count * plan.run));
    parallel_for(plan.outer, grain, [&](int64_t b, int64_t e) { outer(b, e, 0, plan.run); });
    return;
  }
  int64_t grain = std::max<int64_t>(64, kGrain / (p.count * plan.outer));
  parallel_for(plan.run, (grain + 63) / 64 * 64, [&](int64_t b, int64_t e) { outer(0, plan.outer, b, e); });
}

}  // namespace tocha::cpu
