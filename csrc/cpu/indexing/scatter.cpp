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

// Nobody but one tensor holds the memory.
bool is_held_once(const Storage& memory) {
  return memory.refs == 1 && !memory.context && !memory.wrapper && !memory.from_shared_memory;
}

// The arguments of a scatter, checked against each other; `source` may be null (a value).
struct Scatter {
  Tensor self, index, source;
  int64_t dim;
  const char* op;
  bool nothing;         // an empty index
  bool checked = true;  // the indices are; else each is when its turn comes

  Scatter(const Tensor& self_in, int64_t dim_in, const Tensor& index_in, const Tensor& source_in, const char* op_in)
      : dim(wrap_dim(dim_in, self_in.dim(), op_in)), op(op_in), nothing(index_in.numel() == 0) {
    const bool alone = Py_REFCNT(self_in.object()) == 1;
    self = with_dim(self_in);
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
    // What a refused call leaves in a tensor that only the caller holds, a copy for one, nobody will see.
    checked = !(alone && is_held_once(self.storage()) && is_shared_out());
    if (checked) cpu::check_range(index, 0, self.size(dim), dim, self.size(dim), ErrorKind::Runtime, op);
  }

  // Threads share out lines of different indices, and may as well check them then.
  bool is_shared_out() const { return index.is_contiguous() && index.numel() >= 2 * num_threads() * index.size(dim); }

  // One long line of indices, which are not shared out: each thread has some of the places instead, and goes through
  // all indices for those that are its own. What comes to a place comes in the order of the indices.
  bool is_long_line(int64_t itemsize) const {
    constexpr int64_t kLong = 1 << 15;
    const int64_t least = cpu::pick_loops().selects_vectors && itemsize == 4 ? 2 : 4;
    return index.numel() == index.size(dim) && index.numel() >= kLong && index.stride(dim) == 1 &&
           num_threads() >= least && self.size(dim) >= num_threads() && !in_parallel_region();
  }
  void run_by_places(const cpu::MergeLoops& loops, char* to, int64_t step, const char* from, int64_t by,
                     int64_t size) const {
    constexpr int64_t kMostParts = 8, few = 1024;  // each thread looks at all indices
    const int64_t parts = std::min<int64_t>(num_threads(), kMostParts), places = self.size(dim), n = index.numel();
    const int64_t* at = index.data<int64_t>();
    ReleaseGil unlocked(n);
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      int64_t offsets[few + cpu::kSelectSlack];
      alignas(64) char elements[(few + cpu::kSelectSlack) * 16];
      const int64_t low = begin * places / parts, high = end * places / parts;
      for (int64_t i = 0; i < n; i += few) {
        const int64_t own = cpu::pick_loops().select(at + i, from + i * by, by, size, low, high, step,
                                                     std::min(few, n - i), offsets, elements);
        loops.at(to, offsets, elements, size, own);
      }
    });
  }

  bool idle() const { return nothing || !computes(self); }

  // given: the source, or one value for all.
  void run(Merge merge, const Tensor& given) {
    cpu::merge_loops(merge, self.dtype(), op);
    DType dtype = cpu::merge_dtype(merge, self.dtype());
    const cpu::MergeLoops& loops = cpu::merge_loops(merge, dtype, op);
    Target target(self, dtype);
    Tensor values = ops::to_dtype(given, dtype, false, false, std::nullopt);
    const int64_t step = target.tensor().stride(dim) * itemsize(dtype), size = self.size(dim);
    char* to = target.bytes();
    const char *at = index.bytes(), *from = values.bytes();
    const Ints from_strides = given.dim() ? cpu::byte_strides(values) : Ints(self.dim(), 0);
    const Ints operands[3] = {held_strides(target.tensor(), dim), cpu::byte_strides(index), from_strides};
    if (is_long_line(itemsize(dtype))) {
      run_by_places(loops, to, step, from, from_strides[dim], itemsize(dtype));
      return target.finish();
    }
    std::atomic<const char*> bad{nullptr};
    // Whether all of a few indices are inside.
    auto inside = [&](const char* first, int64_t by, int64_t n) {
      const int64_t good = checked ? n : cpu::pick_loops().first_outside(first, by, 0, size, n);
      if (good < n) bad.store(first + good * by, std::memory_order_relaxed);
      return good == n;
    };
    // The places a thread writes differ from another's in the dims beside `dim`.
    cpu::Walk<3>(index.sizes(), operands, dim).run([&](const int64_t* offset, const int64_t* by, int64_t n) {
      constexpr int64_t few = 1024;  // checked, they are in the nearest cache when they are used
      char* dst = to + offset[0];
      const char *indices = at + offset[1], *src = from + offset[2];
      if (by[1] == 0) {
        if (inside(indices, 0, 1))
          loops.run(dst + *reinterpret_cast<const int64_t*>(indices) * step, by[0], src, by[2], n);
        return;
      }
      for (int64_t i = 0; i < n; i += few) {
        const int64_t some = std::min(few, n - i);
        if (!inside(indices + i * by[1], by[1], some)) return;
        loops.along(dst + i * by[0], by[0], step, indices + i * by[1], by[1], src + i * by[2], by[2], some);
      }
    });
    if (bad.load()) cpu::refuse_index(*reinterpret_cast<const int64_t*>(bad.load()), dim, size, ErrorKind::Runtime, op);
    checked = true;
    target.finish();
  }
  void run(Merge merge) { run(merge, source); }
  void run(Merge merge, const Scalar& value) { run(merge, scalar_tensor(value, self.dtype())); }
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
  if (!s.idle()) s.run(Merge::assign);
}

void scatter_value_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  Scatter s(self, dim, index, Tensor(), "scatter");
  if (!s.idle()) s.run(Merge::assign, value);
}

void scatter_src_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                         const std::string& reduce) {
  Merge merge = merge_named(reduce);
  Scatter s(self, dim, index, src, "scatter");
  warn_reduce();
  if (!s.idle()) s.run(merge);
}

void scatter_value_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                           const std::string& reduce) {
  Merge merge = merge_named(reduce);
  Scatter s(self, dim, index, Tensor(), "scatter");
  if (!s.idle()) s.run(merge, value);
}

void scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  Scatter s(self, dim, index, src, "scatter_add");
  if (!s.idle()) s.run(Merge::add);
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
      s.run(Merge::assign);
    else
      s.run(Merge::assign, Scalar(reduce == "prod" ? 1 : 0));
  }
  s.run(merge);
  if (!mean) return;
  Tensor counts = empty(s.self.sizes(), DType::Int64, self.device());
  backend(self.device().type).fill(counts, Scalar(include_self ? 1 : 0));
  Scatter c(counts, dim, index, Tensor(), "scatter_reduce");
  c.run(Merge::add, Scalar(1));
  Target target(s.self);
  const Ints operands[2] = {cpu::byte_strides(target.tensor()), cpu::byte_strides(counts)};
  cpu::Walk<2>(s.self.sizes(), operands).run([&](const int64_t* at, const int64_t* by, int64_t n) {
    divide(target.bytes() + at[0], by[0], counts.bytes() + at[1], by[1], n);
  });
  target.finish();
}

}  // namespace tocha::native
