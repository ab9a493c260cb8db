// Sorting, selection by rank and distinct elements: the kernels of tocha/operators/sorting.py on sort.h.
#include "core/dtype_messages.h"
#include "core/gil.h"
#include "cpu/indexing/offset_slices.h"
#include "cpu/sort/sort.h"
#include "dispatch/native.h"
#include "ops/indexing.h"

namespace tocha::native {
namespace {

// t with dim moved last.
Tensor dim_last(const Tensor& t, int64_t dim) {
  if (t.dim() == 0 || dim == t.dim() - 1) return t;
  Ints sizes(t.sizes()), strides(t.strides());
  int64_t n = sizes[dim], s = strides[dim];
  sizes.erase(dim);
  strides.erase(dim);
  sizes.push_back(n);
  strides.push_back(s);
  return view_of(t, sizes, strides, t.offset());
}

// An output as contiguous rows along dim: the tensor itself, or a stand-in that finish() copies over.
class Rows {
 public:
  Rows(const Tensor& out, int64_t dim) : view_(dim_last(out, dim)) {
    work_ = view_.is_contiguous() ? view_ : empty(view_.sizes(), out.dtype(), out.device());
  }
  char* bytes() const { return work_.bytes(); }
  int64_t* indices() const { return work_.data<int64_t>(); }
  void finish() const {
    if (!work_.is(view_)) backend(view_.device().type).copy(view_, work_);
  }

 private:
  Tensor view_, work_;
};

int64_t length(const Tensor& t, int64_t dim) { return t.dim() ? t.size(dim) : 1; }

}  // namespace

void sort(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim, bool descending,
          std::optional<bool>) {
  if (self.numel() == 0) return;
  int64_t d = wrap_dim(dim, self.dim()), n = length(self, d);
  Tensor in = cpu::dense(dim_last(self, d));
  Rows v(values, d), i(indices, d);
  {
    ReleaseGil unlocked(self.numel());
    cpu::sort(self.dtype(), in.bytes(), v.bytes(), i.indices(), self.numel() / n, n, descending);
  }
  v.finish();
  i.finish();
}

void topk(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t k, int64_t dim, bool largest, bool) {
  if (values.numel() == 0) return;
  int64_t d = wrap_dim(dim, self.dim()), n = length(self, d);
  if (self.dim() == 0) k = 1;  // a number is its own top, whatever k
  Tensor in = cpu::dense(dim_last(self, d));
  Rows v(values, d), i(indices, d);
  {
    ReleaseGil unlocked(self.numel());
    cpu::topk(self.dtype(), in.bytes(), v.bytes(), i.indices(), self.numel() / n, n, k, largest);
  }
  v.finish();
  i.finish();
}

void kthvalue(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t k, int64_t dim, bool) {
  if (values.numel() == 0) return;
  int64_t d = wrap_dim(dim, self.dim()), n = length(self, d);
  Tensor in = cpu::dense(dim_last(self, d));
  ReleaseGil unlocked(self.numel());
  // The outputs lack dim, or have it with size one: contiguous they are the rows in order.
  cpu::kthvalue(self.dtype(), in.bytes(), values.bytes(), indices.data<int64_t>(), self.numel() / n, n, k - 1);
}

namespace {

using Distinct = std::tuple<Tensor, Tensor, Tensor>;

Tensor first_of_list(const Tensor& t, int64_t n) {
  if (t.size(0) == n) return t;
  return clone_dense(view_of(t, Ints{n}, Ints{1}, t.offset()));
}

Tensor longs(IntsView sizes, const Tensor& like) { return empty(sizes, DType::Int64, like.device()); }

void check_distinct(const Tensor& self, const char* op) {
  TOCHA_CHECK(computes(self), NotImplemented, "[", op,
              "] the size of the result depends on values, which meta tensors do not have");
  if (self.is_complex()) refuse_dtype(op, self.dtype());
}

template <class F>
Distinct distinct_elements(const Tensor& self, bool want_inverse, bool want_counts, F find) {
  Tensor in = cpu::dense(self);
  int64_t n = in.numel();
  Tensor values = empty(Ints{n}, self.dtype(), self.device());
  Tensor inverse = want_inverse ? longs(self.sizes(), self) : longs(Ints{0}, self);
  Tensor counts = longs(Ints{want_counts ? n : 0}, self);
  int64_t found = 0;
  if (n) {
    ReleaseGil unlocked(n);
    found = find(self.dtype(), in.bytes(), n, values.bytes(), want_inverse ? inverse.data<int64_t>() : nullptr,
                 want_counts ? counts.data<int64_t>() : nullptr);
  }
  return {first_of_list(values, found), inverse, want_counts ? first_of_list(counts, found) : counts};
}

template <class F>
Distinct distinct_slices(const Tensor& self, int64_t dim, bool want_inverse, bool want_counts, const char* op, F find) {
  TOCHA_CHECK(self.dim() > 0, Index, "[", op, "] Dimension specified as ", dim, " but tensor has no dimensions");
  int64_t d = wrap_dim(dim, self.dim(), op), rows = self.size(d);
  if (self.numel() == 0) {
    int64_t empties = 0;
    for (int64_t s : self.sizes()) empties += s == 0;
    TOCHA_CHECK(
        rows == 0 && empties == 1, Runtime, "[", op,
        "] There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: ", self.sizes());
    return {clone_dense(self), longs(Ints{0}, self), longs(Ints{0}, self)};
  }
  // dim first: a slice is a row.
  Ints sizes(self.sizes()), strides(self.strides());
  sizes.erase(d);
  strides.erase(d);
  sizes.insert(0, rows);
  strides.insert(0, self.stride(d));
  Tensor in = cpu::dense(view_of(self, sizes, strides, self.offset()));
  Tensor firsts = longs(Ints{rows}, self);
  Tensor inverse = longs(Ints{want_inverse ? rows : 0}, self), counts = longs(Ints{want_counts ? rows : 0}, self);
  int64_t found;
  {
    ReleaseGil unlocked(self.numel());
    found = find(self.dtype(), in.bytes(), rows, self.numel() / rows, firsts.data<int64_t>(),
                 want_inverse ? inverse.data<int64_t>() : nullptr, want_counts ? counts.data<int64_t>() : nullptr);
  }
  // dim was the outermost one, and stays so.
  Tensor values = ops::index_select(in, 0, first_of_list(firsts, found));
  sizes = Ints(self.sizes());
  sizes[d] = found;
  strides = Ints(values.strides());
  strides.erase(0);
  strides.insert(d, values.stride(0));
  set_sizes_and_strides(values, sizes, strides, 0);
  return {values, inverse, want_counts ? first_of_list(counts, found) : counts};
}

}  // namespace

Distinct unique_all(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  check_distinct(self, "unique2");
  return distinct_elements(self, return_inverse, return_counts, cpu::unique);
}

Distinct unique_dim(const Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  check_distinct(self, "unique_dim");
  return distinct_slices(self, dim, return_inverse, return_counts, "unique_dim", cpu::unique_rows);
}

Distinct unique_runs(const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  check_distinct(self, "unique_consecutive");
  // A 1-d tensor's slices are its elements.
  if (!dim || (self.dim() == 1 && wrap_dim(*dim, 1) == 0))
    return distinct_elements(self, return_inverse, return_counts, cpu::unique_consecutive);
  return distinct_slices(self, *dim, return_inverse, return_counts, "unique_consecutive", cpu::unique_consecutive_rows);
}

}  // namespace tocha::native
