// Gather and scatter along a dim: the kernels of tocha/operators/scatter.py.
#include <atomic>

#include "core/dtype_messages.h"
#include "cpu/engine/iterate.h"
#include "cpu/indexing/offset_slices.h"
#include "dispatch/native.h"
#include "ops/copies.h"

namespace tocha::native {
namespace {

using cpu::Merge;
using cpu::Target;

Tensor with_dim(const Tensor& t) { return t.dim() ? t : view_of(t, Ints{1}, Ints{1}, t.offset()); }

// Strides of t with dim standing still: an index moves along it.
Ints held_strides(const Tensor& t, int64_t dim) {
  Ints s = cpu::byte_strides(t);
  s[dim] = 0;
  return s;
}

// The arguments of a scatter, checked against each other; `source` may be null (a value).
struct Scatter {
  Tensor self, index, source;
  int64_t dim;
  bool nothing;  // an empty index

  Scatter(const Tensor& self_in, int64_t dim_in, const Tensor& index_in, const Tensor& source_in, const char* op)
      : self(with_dim(self_in)), dim(wrap_dim(dim_in, self_in.dim(), op)), nothing(index_in.numel() == 0) {
    cpu::check_together(op, {self_in, index_in, source_in});
    TOCHA_CHECK(nothing || index_in.dtype() == DType::Int64 || index_in.dtype() == DType::Int32, Runtime, "[", op,
                "] scatter(): Expected dtype int32/int64 for index, got ", index_in.dtype());
    if (source_in)
      TOCHA_CHECK(self.dtype() == source_in.dtype(), Runtime, "[", op,
                  "] scatter(): Expected self.dtype to be equal to src.dtype, got ", self.dtype(), " and ",
                  source_in.dtype());
    if (nothing) return;
    index = with_dim(index_in);
    TOCHA_CHECK(index.dim() == self.dim(), Runtime, "[", op,
                "] Index tensor must have the same number of dimensions as self tensor, got ", index_in.sizes(),
                " and ", self_in.sizes());
    if (source_in) {
      source = with_dim(source_in);
      TOCHA_CHECK(index.dim() == source.dim(), Runtime, "[", op,
                  "] Index tensor must have the same number of dimensions as src tensor, got ", index_in.sizes(),
                  " and ", source_in.sizes());
    }
    for (int64_t d = 0; d < index.dim(); ++d) {
      bool fits = d == dim || index.size(d) <= self.size(d);
      if (source) fits = fits && index.size(d) <= source.size(d);
      TOCHA_CHECK(fits, Runtime, "[", op, "] Expected index ", index.sizes(), " to be no larger than self ",
                  self.sizes(), " apart from dimension ", dim,
                  source_in ? str(" and to be no larger size than src ", source_in.sizes()) : std::string());
    }
    if (!computes(self)) return;
    index = cpu::apart_from(cpu::to_int64(index), self);
    if (source) source = cpu::plain(cpu::apart_from(source, self));
    int64_t n = self.size(dim);
    cpu::check_range(index, 0, n, dim, n, ErrorKind::Runtime, op);
  }

  bool idle() const { return nothing || !computes(self); }

  // given: the source, or one value for all.
  void run(Merge merge, const Tensor& given, const char* op) const {
    cpu::merge_loops(merge, self.dtype(), op);
    DType dtype = cpu::merge_dtype(merge, self.dtype());
    const cpu::MergeLoops& loops = cpu::merge_loops(merge, dtype, op);
    Target target(self, dtype);
    Tensor values = ops::to_dtype(given, dtype, false, false, std::nullopt);
    int64_t step = target.tensor().stride(dim) * itemsize(dtype);
    char* to = target.bytes();
    const char *at = index.bytes(), *from = values.bytes();
    const Ints from_strides = given.dim() ? cpu::byte_strides(values) : Ints(self.dim(), 0);
    const Ints operands[3] = {held_strides(target.tensor(), dim), cpu::byte_strides(index), from_strides};
    // The places a thread writes differ from another's in the dims beside `dim`.
    cpu::Walk<3>(index.sizes(), operands, dim).run([&](const int64_t* offset, const int64_t* by, int64_t n) {
      char* dst = to + offset[0];
      const char* src = from + offset[2];
      if (by[1] == 0)
        loops.run(dst + *reinterpret_cast<const int64_t*>(at + offset[1]) * step, by[0], src, by[2], n);
      else
        loops.along(dst, by[0], step, at + offset[1], by[1], src, by[2], n);
    });
    target.finish();
  }
  void run(Merge merge, const char* op) const { run(merge, source, op); }
  void run(Merge merge, const Scalar& value, const char* op) const {
    run(merge, scalar_tensor(value, self.dtype()), op);
  }
};

Merge merge_named(const std::string& reduce) {
  TOCHA_CHECK(reduce == "add" || reduce == "multiply", Runtime,
              "[scatter] reduce argument must be either add or multiply. Got ", reduce);
  return reduce == "add" ? Merge::add : Merge::multiply;
}

void warn_reduce() {
  if (PyErr_WarnEx(PyExc_UserWarning,
                   "The reduce argument of tocha.scatter with Tensor src is deprecated. Use tocha.scatter_reduce "
                   "instead for more reduction options.",
                   1) < 0)
    throw PythonError();
}

}  // namespace

void gather(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, bool) {
  cpu::check_together("gather", {self, index});
  if (index.numel() == 0) return;
  Tensor source = with_dim(cpu::plain(self)), indices = with_dim(cpu::to_int64(index)), to = with_dim(out);
  int64_t d = wrap_dim(dim, self.dim()), size = source.size(d), step = source.stride(d) * source.itemsize();
  const cpu::TakeLoops& take = cpu::pick_loops().take[static_cast<int>(self.dtype())];
  const auto move = cpu::pick_loops().merge[static_cast<int>(Merge::assign)][static_cast<int>(self.dtype())].run;
  const char *from = source.bytes(), *at = indices.bytes();
  char* dst = to.bytes();
  std::atomic<const char*> bad{nullptr};
  const Ints operands[3] = {cpu::byte_strides(to), cpu::byte_strides(indices), held_strides(source, d)};
  cpu::Walk<3>(to.sizes(), operands).run([&](const int64_t* offset, const int64_t* by, int64_t n) {
    const char* index_at = at + offset[1];
    if (by[1] == 0) {  // one index for the whole run
      int64_t k = *reinterpret_cast<const int64_t*>(index_at);
      if (static_cast<uint64_t>(k) >= static_cast<uint64_t>(size))
        bad.store(index_at, std::memory_order_relaxed);
      else
        move(dst + offset[0], by[0], from + offset[2] + k * step, by[2], n);
      return;
    }
    int64_t done = take.along(dst + offset[0], by[0], from + offset[2], by[2], step, size, index_at, by[1], n);
    if (done < n) bad.store(index_at + done * by[1], std::memory_order_relaxed);
  });
  if (bad.load())
    fail(ErrorKind::Runtime, "[gather] index ", *reinterpret_cast<const int64_t*>(bad.load()),
         " is out of bounds for dimension ", d, " with size ", size);
}

void scatter_src_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  Scatter s(self, dim, index, src, "scatter");
  if (!s.idle()) s.run(Merge::assign, "scatter");
}

void scatter_value_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  Scatter s(self, dim, index, Tensor(), "scatter");
  if (!s.idle()) s.run(Merge::assign, value, "scatter");
}

void scatter_src_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                         const std::string& reduce) {
  Merge merge = merge_named(reduce);
  Scatter s(self, dim, index, src, "scatter");
  warn_reduce();
  if (!s.idle()) s.run(merge, "scatter");
}

void scatter_value_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                           const std::string& reduce) {
  Merge merge = merge_named(reduce);
  Scatter s(self, dim, index, Tensor(), "scatter");
  if (!s.idle()) s.run(merge, value, "scatter");
}

void scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  Scatter s(self, dim, index, src, "scatter_add");
  if (!s.idle()) s.run(Merge::add, "scatter_add");
}

void scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const std::string& reduce,
                     bool include_self) {
  bool mean = reduce == "mean", extreme = reduce == "amax" || reduce == "amin";
  TOCHA_CHECK(mean || extreme || reduce == "sum" || reduce == "prod", Runtime,
              "[scatter_reduce] reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
  Scatter s(self, dim, index, src, "scatter_reduce");
  if (s.idle()) return;
  auto divide = cpu::pick_loops().divide[static_cast<int>(self.dtype())];
  Merge merge = mean || reduce == "sum" ? Merge::add
                : reduce == "prod"      ? Merge::multiply
                : reduce == "amax"      ? Merge::maximum
                                        : Merge::minimum;
  const bool merges = cpu::pick_loops().merge[static_cast<int>(merge)][static_cast<int>(self.dtype())].run;
  TOCHA_CHECK(merges && (!mean || divide), NotImplemented, "[scatter_reduce] \"", kernel_word("scatter_reduce"), "_",
              reduce, "\" not implemented for '", self.dtype(), "'");
  if (!include_self) {  // what is there gives way: to the neutral element, or to any of the sources
    if (extreme)
      s.run(Merge::assign, "scatter_reduce");
    else
      s.run(Merge::assign, Scalar(reduce == "prod" ? 1 : 0), "scatter_reduce");
  }
  s.run(merge, "scatter_reduce");
  if (!mean) return;
  Tensor counts = empty(s.self.sizes(), DType::Int64, self.device());
  backend(self.device().type).fill(counts, Scalar(include_self ? 1 : 0));
  Scatter c(counts, dim, index, Tensor(), "scatter_reduce");
  c.run(Merge::add, Scalar(1), "scatter_reduce");
  Target target(s.self);
  const Ints operands[2] = {cpu::byte_strides(target.tensor()), cpu::byte_strides(counts)};
  cpu::Walk<2>(s.self.sizes(), operands).run([&](const int64_t* at, const int64_t* by, int64_t n) {
    divide(target.bytes() + at[0], by[0], counts.bytes() + at[1], by[1], n);
  });
  target.finish();
}

}  // namespace tocha::native
