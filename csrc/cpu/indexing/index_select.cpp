// Slices along one dim and flat positions: the kernels of index_select, index_add, take, embedding and their relatives
// in tocha/operators/indexing.py.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/dtype_messages.h"
#include "cpu/engine/elementwise.h"
#include "cpu/engine/iterate.h"
#include "cpu/indexing/offset_slices.h"
#include "dispatch/native.h"
#include "ops/arithmetic.h"
#include "ops/copies.h"

namespace tocha::native {
namespace {

using cpu::Merge;
using cpu::Picks;
using cpu::Target;

// A 0-d tensor as one of one element.
Tensor with_dim(const Tensor& t) { return t.dim() ? t : view_of(t, Ints{1}, Ints{1}, t.offset()); }

Tensor flat(const Tensor& t) { return view_of(t, Ints{t.numel()}, Ints{1}, t.offset()); }

// The value of a fill as a 0-d tensor of self's dtype.
Tensor fill_value(const Tensor& self, const Tensor& value, const char* op) {
  TOCHA_CHECK(value.dim() == 0, Runtime, "[", op, "] ", op,
              "_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(), " dimension(s).");
  TOCHA_CHECK(!value.is_complex() || self.is_complex(), Runtime, "[", op, "] ", op,
              "_(): Converting complex Scalar to non-complex type is not supported: ", value.dtype(), " for ",
              self.dtype());
  return cpu::plain(tocha::fill_value(value, self.dtype()));
}

// The arguments of index_add and its kind, checked: dim from the front, index as int64, source with self's dims.
struct SliceWrite {
  Tensor self, index, source;
  int64_t dim;

  SliceWrite(const Tensor& self_in, int64_t dim_in, const Tensor& index_in, const Tensor& source_in, const char* op,
             bool only_int64)
      : self(with_dim(self_in)), source(with_dim(source_in)), dim(wrap_dim(dim_in, self_in.dim(), op)) {
    cpu::check_together(op, {self_in, index_in, source_in});
    if (only_int64)
      check_copy(self_in, index_in, source_in, op);
    else
      check_merge(self_in, index_in, source_in, op);
    index = with_dim(cpu::to_int64(index_in));
  }

  bool same_slices() const {
    bool same = self.dim() == source.dim();
    for (int64_t i = 0; same && i < self.dim(); ++i) same = i == dim || self.size(i) == source.size(i);
    return same;
  }

  // index_copy, and the sums, have words of their own for the same mistakes.
  void check_copy(const Tensor& self_in, const Tensor& index_in, const Tensor& source_in, const char* op) const {
    TOCHA_CHECK(index_in.dim() <= 1, Index, "[", op, "] ", op, "_(): Index should have dimension 1 or 0 (got ",
                index_in.dim(), ")");
    TOCHA_CHECK(index_in.dtype() == DType::Int64, Runtime, "[", op, "] ", op,
                "_(): Expected a long tensor for index, but got ", index_in.dtype());
    TOCHA_CHECK(self.dtype() == source.dtype(), Runtime, "[", op, "] ", op,
                "_(): self and source expected to have the same dtype, but got (self) ", self.dtype(), " and (source) ",
                source.dtype());
    TOCHA_CHECK(source_in.dim() || index_in.numel() == 1, Index, "[", op, "] ", op,
                "_(): When source is scalar, index should have one element (got ", index_in.numel(), ")");
    TOCHA_CHECK(source_in.dim() == self_in.dim() || !source_in.dim() || !self_in.dim(), Index, "[", op, "] ", op,
                "_(): When source and destination are not scalars, their dimensionality must match. Source "
                "dimensionality (",
                source_in.dim(), "), destination dimensionality (", self_in.dim(), ")");
    TOCHA_CHECK(
        same_slices(), Runtime, "[", op, "] ", op,
        "_(): Source/destination tensor must have same slice shapes. Destination slice shape: ", self_in.sizes(),
        " at dimension ", dim, " and source slice shape: ", source_in.sizes(), " at dimension ", dim, ".");
    TOCHA_CHECK(source.size(dim) == index_in.numel(), Index, "[", op, "] ", op, "_(): Number of indices (",
                index_in.numel(), ") should be equal to source.size(dim) (", source.size(dim), ")");
  }

  void check_merge(const Tensor& self_in, const Tensor& index_in, const Tensor& source_in, const char* op) const {
    DType d = index_in.dtype();
    TOCHA_CHECK(index_in.dim() <= 1, Index, "[", op, "] ", op,
                "_(): Index is supposed to be a vector, but got dim: ", index_in.dim(), " with type: ", d,
                " and size: ", index_in.sizes());
    TOCHA_CHECK(d == DType::Int64 || d == DType::Int32, Runtime, "[", op, "] ", op,
                "_(): Expected dtype int32/int64 for index but got: ", d);
    TOCHA_CHECK(self.dtype() == source.dtype(), Runtime, "[", op, "] ", op, "_(): self (", self.dtype(),
                ") and source (", source.dtype(), ") must have the same scalar type");
    TOCHA_CHECK(dim < source.dim(), Runtime, "[", op, "] ", op, "_(): Indexing dim ", dim,
                " is out of bounds of the source tensor with dim ", source_in.dim());
    TOCHA_CHECK(source.size(dim) == index_in.numel(), Runtime, "[", op, "] ", op, "_(): Number of indices (",
                index_in.numel(), ") should be equal to source.size(dim): (", source.size(dim), "), for dim: ", dim);
    TOCHA_CHECK(
        same_slices(), Runtime, "[", op,
        "] source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
        self_in.sizes(), " source.shape = ", source_in.sizes());
  }

  void run(Merge merge, const char* op) { run(merge, self.dtype(), op); }
  void run(Merge merge, DType dtype, const char* op) {
    cpu::merge_loops(merge, self.dtype(), op);
    Tensor from = ops::to_dtype(source, dtype, false, false, std::nullopt);
    from = cpu::plain(cpu::apart_from(from, self));
    Target target(self, dtype);
    Picks p = cpu::picks_along(target.tensor(), dim, index, from);
    cpu::write_picks(p, target.bytes(), from.bytes(), dtype, merge);
    target.finish();
  }
};

}  // namespace

void index_select(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  cpu::check_together("index_select", {self, index});
  Tensor source = with_dim(cpu::plain(self)), indices = with_dim(cpu::to_int64(index)), to = with_dim(out);
  int64_t d = wrap_dim(dim, self.dim());
  cpu::check_range(indices, source.size(d), "index_select");
  if (out.numel() == 0) return;
  cpu::read_picks(cpu::picks_along(source, d, indices, to), source.bytes(), to.bytes(), self.dtype());
}

void index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  SliceWrite w(self, dim, index, source, "index_add", false);
  if (!computes(self) || self.numel() == 0) return;
  const int64_t rows = w.self.size(w.dim);
  // As in PyTorch: whole slices at an outer or inner end are summed in float32, others step by step, where what is
  // out of range is refused in other words.
  bool end = self.dim() > 1 && (w.dim == 0 || w.dim == self.dim() - 1);
  bool wide = end && alpha.equals(1) && index.dtype() == DType::Int64;
  if (wide)
    cpu::check_range(w.index, 0, rows, w.dim, rows, ErrorKind::Runtime, "index_add");
  else
    cpu::check_range(w.index, rows, "index_add");
  if (!alpha.equals(1)) w.source = ops::mul(w.source, scalar_tensor(alpha, self.dtype()));
  w.run(Merge::add, wide ? cpu::merge_dtype(Merge::add, self.dtype()) : self.dtype(), "index_add");
}

void index_copy_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  SliceWrite w(self, dim, index, source, "index_copy", true);
  if (!computes(self)) return;
  int64_t n = w.self.size(w.dim);
  cpu::check_range(w.index, 0, n, w.dim, n, ErrorKind::Index, "index_copy");
  w.run(Merge::assign, "index_copy");
}

void index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  int64_t d = wrap_dim(dim, self.dim(), "index_fill");
  TOCHA_CHECK(index.dtype() == DType::Int64, Index, "[index_fill] index_fill_(): Expected dtype int64 for index. Got ",
              index.dtype());
  TOCHA_CHECK(index.dim() <= 1, Runtime, "[index_fill] Index has to be a vector/scalar, got ", index.sizes());
  cpu::check_together("index_fill", {self, index, value.is_wrapped_number() ? Tensor() : value});
  Tensor v = fill_value(self, value, "index_fill");
  check_no_overlap(self, index, "index_fill_", false);
  cpu::warn_expanded(self, "index_fill_", " This also applies to advanced indexing e.g. tensor[mask] = scalar");
  if (!computes(self)) return;
  Target target(self);
  Tensor to = with_dim(target.tensor());
  int64_t n = to.size(d);
  cpu::check_range(index, -n, n, d, n, ErrorKind::Index, "index_fill");
  Tensor wrapped = clone_dense(with_dim(index));
  for (int64_t i = 0; i < wrapped.numel(); ++i)
    if (wrapped.data<int64_t>()[i] < 0) wrapped.data<int64_t>()[i] += n;
  cpu::write_picks(cpu::picks_along(to, d, wrapped, v), to.bytes(), v.bytes(), self.dtype(), Merge::assign);
  target.finish();
}

void index_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                   const std::string& reduce, bool include_self) {
  warn_once("index_reduce() is in beta and the API may change at any time.");
  bool mean = reduce == "mean", extreme = reduce == "amax" || reduce == "amin";
  TOCHA_CHECK(mean || extreme || reduce == "prod", Runtime,
              "[index_reduce] index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ", reduce,
              ".");
  SliceWrite w(self, dim, index, source, "index_reduce", false);
  if (self.is_complex()) refuse_dtype("index_reduce", self.dtype());
  if (!computes(self) || w.index.numel() == 0) return;
  int64_t n = w.self.size(w.dim);
  cpu::check_range(w.index, n, "index_reduce");
  auto divide = cpu::pick_loops().divide[static_cast<int>(self.dtype())];
  if (mean && !divide) refuse_dtype("index_reduce", self.dtype());
  Merge merge = mean               ? Merge::add
                : reduce == "prod" ? Merge::multiply
                : reduce == "amax" ? Merge::maximum
                                   : Merge::minimum;
  cpu::merge_loops(merge, self.dtype(), "index_reduce");
  if (!include_self) {  // what is there gives way: to the neutral element, or to any of the sources
    if (extreme)
      w.run(Merge::assign, "index_reduce");
    else
      index_fill_(w.self, w.dim, w.index, wrapped_number(Scalar(mean ? 0 : 1)));
  }
  w.run(merge, "index_reduce");
  if (!mean) return;
  Tensor counts = empty(Ints{n}, DType::Int64, self.device());
  int64_t* count = counts.data<int64_t>();
  std::fill_n(count, n, include_self ? 1 : 0);
  for (int64_t i = 0; i < w.index.numel(); ++i) ++count[w.index.data<int64_t>()[i * w.index.stride(0)]];
  Target target(w.self);
  Ints by_row(w.self.dim(), 0);
  by_row[w.dim] = 8;
  const Ints operands[2] = {cpu::byte_strides(target.tensor()), by_row};
  cpu::Walk<2>(w.self.sizes(), operands).run([&](const int64_t* at, const int64_t* step, int64_t m) {
    divide(target.bytes() + at[0], step[0], reinterpret_cast<char*>(count) + at[1], step[1], m);
  });
  target.finish();
}

namespace {

// Byte offsets of flat positions, which may count from the end.
Picks flat_picks(const Tensor& indices, int64_t numel, int64_t itemsize, int64_t other_step, const char* op) {
  Picks p;
  p.count = indices.numel();
  p.other_step = other_step;
  p.offsets.reset(new int64_t[static_cast<size_t>(p.count)]);
  int64_t done = cpu::pick_loops().offsets(p.offsets.get(), indices.bytes(), 8, numel, itemsize, false, p.count);
  TOCHA_CHECK(done == p.count, Index, "[", op, "] out of range: tried to access index ", indices.data<int64_t>()[done],
              " on a tensor of ", numel, " elements.");
  return p;
}

// Offsets into the elements of self one after the other, as offsets into its memory.
void follow_strides(Picks& p, const Tensor& self) {
  const int64_t size = self.itemsize();
  for (int64_t i = 0; i < p.count; ++i) {
    int64_t rest = p.offsets[static_cast<size_t>(i)] / size, at = 0;
    for (int64_t d = self.dim() - 1; d >= 0; --d) {
      at += rest % self.size(d) * self.stride(d);
      rest /= self.size(d);
    }
    p.offsets[static_cast<size_t>(i)] = at * size;
  }
}

}  // namespace

void take(const Tensor& out, const Tensor& self, const Tensor& index) {
  cpu::check_together("take", {self, index});
  if (out.numel() == 0) return;
  Tensor source = cpu::dense(self);
  Picks p = flat_picks(cpu::dense(index), self.numel(), self.itemsize(), self.itemsize(), "take");
  cpu::read_picks(p, source.bytes(), out.bytes(), self.dtype());
}

void put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  TOCHA_CHECK(index.dtype() == DType::Int64, Runtime, "[put] put_(): Expected a long tensor for index, but got ",
              index.dtype());
  TOCHA_CHECK(self.dtype() == source.dtype(), Runtime,
              "[put] put_(): self and source expected to have the same dtype, but got self.dtype = ", self.dtype(),
              " and source.dtype = ", source.dtype());
  TOCHA_CHECK(index.numel() == source.numel(), Index,
              "[put] put_(): Expected source and index to have the same number of elements, but got source.numel() = ",
              source.numel(), ", index.numel() = ", index.numel());
  TOCHA_CHECK(self.numel() || !index.numel(), Index, "[put] put_(): Tried to put elements into an empty tensor");
  cpu::check_together("put", {self, index, source});
  if (!computes(self) || index.numel() == 0) return;
  Tensor from = cpu::dense(cpu::apart_from(source, self)), indices = cpu::dense(cpu::apart_from(index, self));
  Tensor to = cpu::plain(self);
  Picks p = flat_picks(indices, self.numel(), self.itemsize(), self.itemsize(), "put");
  if (!to.is_contiguous()) follow_strides(p, to);
  cpu::write_picks(p, to.bytes(), from.bytes(), self.dtype(), accumulate ? Merge::add : Merge::assign);
  if (!to.is(self)) backend(self.device().type).copy(self, to);
}

Tensor _wrapped_indices(const Tensor& indices, int64_t size) {
  if (!computes(indices) || !cpu::outside(indices, 0, size)) return indices;
  Tensor index = clone_dense(indices);
  for (int64_t i = 0; i < index.numel(); ++i) index.data<int64_t>()[i] = floor_mod(index.data<int64_t>()[i], size);
  return index;
}

void _take_along(const Tensor& out, const Tensor& self, const Tensor& indices, int64_t dim) {
  cpu::check_together("take_along_dim", {self, indices});
  if (out.numel() == 0) return;
  int64_t size = self.size(dim);
  TOCHA_CHECK(size > 0, Runtime, "[take_along_dim] cannot take from dimension ", dim, " of size 0");
  Tensor index = _wrapped_indices(indices, size), source = cpu::plain(self);
  Ints strides = cpu::byte_strides(source, out.sizes());
  int64_t step = source.stride(dim) * source.itemsize();
  strides[dim] = 0;
  const Ints operands[3] = {cpu::byte_strides(out), cpu::byte_strides(index, out.sizes()), strides};
  auto along = cpu::pick_loops().take[static_cast<int>(self.dtype())].along;
  cpu::Walk<3>(out.sizes(), operands).run([&](const int64_t* at, const int64_t* by, int64_t n) {
    along(out.bytes() + at[0], by[0], source.bytes() + at[2], by[2], step, size, index.bytes() + at[1], by[1], n);
  });
}

void embedding(const Tensor& out, const Tensor& weight, const Tensor& indices, int64_t, bool, bool) {
  cpu::check_together("embedding", {weight, indices});
  Tensor index = flat(cpu::dense(cpu::to_int64(indices)));
  cpu::check_range(index, weight.size(0), "embedding");
  if (out.numel() == 0) return;
  Tensor rows = view_of(out, Ints{index.numel(), weight.size(1)}, Ints{weight.size(1), 1}, out.offset());
  Tensor table = cpu::plain(weight);
  cpu::read_picks(cpu::picks_along(table, 0, index, rows), table.bytes(), rows.bytes(), weight.dtype());
}

namespace {

template <class T>
void renorm_row(T* row, int64_t stride, int64_t n, double max_norm, double p) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    double x = std::fabs(static_cast<double>(row[i * stride]));
    if (p == 2)
      sum += x * x;
    else if (p == 1)
      sum += x;
    else if (std::isinf(p))
      sum = std::max(sum, x);
    else
      sum += std::pow(x, p);
  }
  double norm = p == 2 ? std::sqrt(sum) : p == 1 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
  if (norm <= max_norm) return;
  double scale = max_norm / (norm + 1e-7);
  for (int64_t i = 0; i < n; ++i) {
    double x = static_cast<double>(row[i * stride]) * scale;
    if constexpr (std::is_same_v<T, double>)
      row[i * stride] = x;
    else
      row[i * stride] = static_cast<T>(static_cast<float>(x));
  }
}

}  // namespace

void embedding_renorm_(const Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  TOCHA_CHECK(self.dim() == 2, Runtime, "[embedding_renorm_] 'self' must be 2-D, got ", self.sizes());
  TOCHA_CHECK(indices.dtype() == DType::Int64 || indices.dtype() == DType::Int32, Runtime,
              "[embedding_renorm_] Expected 'indices' to be Long or Int, but got ", indices.dtype());
  cpu::check_together("embedding_renorm_", {self, indices});
  if (!computes(self)) return;
  Tensor index = cpu::dense(cpu::to_int64(indices));
  cpu::check_range(index, self.size(0), "embedding_renorm_");
  std::vector<int64_t> rows(index.data<int64_t>(), index.data<int64_t>() + index.numel());
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  auto each = [&](auto* data) {
    for (int64_t r : rows) renorm_row(data + r * self.stride(0), self.stride(1), self.size(1), max_norm, norm_type);
  };
  switch (self.dtype()) {
    case DType::Float32:
      return each(self.data<float>());
    case DType::Float64:
      return each(self.data<double>());
    case DType::Float16:
      return each(self.data<Half>());
    case DType::BFloat16:
      return each(self.data<BFloat16>());
    default:
      refuse_dtype("embedding_renorm_", self.dtype());
  }
}

Tensor nn_one_hot(const Tensor& tensor, int64_t num_classes) {
  TOCHA_CHECK(tensor.dtype() == DType::Int64, Runtime,
              "[one_hot] one_hot is only applicable to index tensor of type LongTensor, got ", tensor.dtype());
  TOCHA_CHECK(tensor.numel() || num_classes > 0, Runtime,
              "[one_hot] Can not infer total number of classes from empty tensor.");
  TOCHA_CHECK(computes(tensor) || num_classes >= 0, NotImplemented,
              "[one_hot] the number of classes of a meta tensor is not known; give num_classes");
  const bool known = computes(tensor);
  Tensor index = known ? cpu::dense(tensor) : tensor;
  int64_t n = tensor.numel();
  const int64_t* classes = known ? index.data<int64_t>() : nullptr;
  if (known && n) {
    auto [low, high] = std::minmax_element(classes, classes + n);
    TOCHA_CHECK(*low >= 0, Runtime, "[one_hot] Class values must be non-negative, got ", *low);
    TOCHA_CHECK(num_classes < 0 || *high < num_classes, Runtime,
                "[one_hot] Class values must be smaller than num_classes: ", *high, " with ", num_classes);
    if (num_classes < 0) num_classes = *high + 1;
  }
  Ints sizes(tensor.sizes());
  sizes.push_back(num_classes);
  Tensor out = empty(sizes, DType::Int64, tensor.device());
  if (!known) return out;
  int64_t* p = out.data<int64_t>();
  std::fill_n(p, out.numel(), 0);
  for (int64_t i = 0; i < n; ++i) p[i * num_classes + classes[i]] = 1;
  return out;
}

Tensors _unravel_index(const Tensor& indices, IntsView shape) {
  Tensor flat64 = computes(indices) ? cpu::dense(cpu::to_int64(indices)) : indices;
  Tensors out;
  int64_t below = 1;  // elements one step along the dim spans
  for (int64_t d = shape.size() - 1; d >= 0; --d) {
    Tensor t = empty(indices.sizes(), DType::Int64, indices.device());
    TOCHA_CHECK(shape[d] > 0 || t.numel() == 0, Runtime, "[unravel_index] no position fits the shape ", shape);
    if (computes(indices)) {
      const int64_t* from = flat64.data<int64_t>();
      int64_t* to = t.data<int64_t>();
      for (int64_t i = 0; i < t.numel(); ++i) to[i] = floor_mod(floor_div(from[i], below), shape[d]);
    }
    out.insert(out.begin(), t);
    below *= shape[d];
  }
  return out;
}

namespace {

template <class T>
void find_all(const Tensor& elements, const Tensor& tests, bool invert, bool* out) {
  std::vector<T> sorted(tests.data<T>(), tests.data<T>() + tests.numel());
  std::erase_if(sorted, [](T x) { return x != x; });  // NaN equals nothing
  std::sort(sorted.begin(), sorted.end());
  const T* x = elements.data<T>();
  parallel_for(elements.numel(), 4096, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i)
      out[i] = (x[i] == x[i] && std::binary_search(sorted.begin(), sorted.end(), x[i])) != invert;
  });
}

}  // namespace

void isin(const Tensor& out, const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
  cpu::check_together("isin", {elements, test_elements.is_wrapped_number() ? Tensor() : test_elements});
  // float64 holds every float, int64 every integer up to the sign: equality is the same there.
  bool floating = elements.is_floating() || test_elements.is_floating();
  DType wide = floating ? DType::Float64 : DType::Int64;
  Tensor x = elements, y = test_elements;
  if (floating) {  // numbers are first rounded as promotion would
    DType common = result_type(elements, test_elements);
    x = ops::to_dtype(x, common, false, false, std::nullopt);
    y = ops::to_dtype(y, common, false, false, std::nullopt);
  }
  x = cpu::dense(ops::to_dtype(x, wide, false, false, std::nullopt));
  y = cpu::dense(ops::to_dtype(y, wide, false, false, std::nullopt));
  if (floating)
    find_all<double>(x, y, invert, out.data<bool>());
  else
    find_all<int64_t>(x, y, invert, out.data<bool>());
}

}  // namespace tocha::native
