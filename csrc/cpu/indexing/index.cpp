// Advanced indexing: the kernels of index, index_put and their relatives in tocha/operators/indexing.py.
#include <algorithm>
#include <atomic>

#include "core/memory_order.h"
#include "cpu/engine/iterate.h"
#include "cpu/indexing/offset_slices.h"
#include "dispatch/native.h"
#include "kernels/masks.h"
#include "ops/arithmetic.h"
#include "ops/blend.h"
#include "ops/complex.h"
#include "ops/masks.h"

namespace tocha::native {
namespace {

using cpu::Merge;
using cpu::Picks;

// Integer indices by dim of self, masks made into coordinates; null where a dim is taken whole.
Tensors by_dim(const Tensor& self, const Tensors& indices, const char* op) {
  Tensors out;
  for (const Tensor& t : indices) {
    if (!t) {
      out.emplace_back();
      continue;
    }
    cpu::check_together(op, {self, t});
    DType d = t.dtype();
    if (d == DType::Int64 || d == DType::Int32) {
      out.push_back(t);
      continue;
    }
    TOCHA_CHECK(d == DType::Bool || d == DType::UInt8, Index, "[", op,
                "] tensors used as indices must be long, int, byte or bool tensors, got ", d);
    if (d == DType::UInt8 &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "indexing with dtype tocha.uint8 is now deprecated, please use a dtype tocha.bool instead.",
                     1) < 0)
      throw PythonError();
    int64_t first = static_cast<int64_t>(out.size());
    for (int64_t j = 0; j < t.dim(); ++j)
      TOCHA_CHECK(first + j < self.dim() && self.size(first + j) == t.size(j), Index, "[", op,
                  "] The shape of the mask ", t.sizes(), " at index ", j,
                  " does not match the shape of the indexed tensor ", self.sizes(), " at index ", first + j);
    TOCHA_CHECK(t.dim() > 0, Index, "[", op, "] a mask of no dimensions; give it one");
    for (Tensor& column : ops::_nonzero_tuple(t)) out.push_back(std::move(column));
  }
  TOCHA_CHECK(static_cast<int64_t>(out.size()) <= self.dim(), Index, "[", op,
              "] too many indices for tensor of dimension ", self.dim(), " (got ", out.size(), ")");
  out.resize(static_cast<size_t>(self.dim()));
  return out;
}

Ints common_shape(const Tensors& indices, const char* op) {
  Ints shape;
  for (const Tensor& t : indices) {
    if (!t) continue;
    Ints grown(std::max(shape.size(), t.dim()), 1);
    bool fits = true;
    for (int64_t i = 0; i < grown.size(); ++i) {
      int64_t a = i < shape.size() ? shape[shape.size() - 1 - i] : 1, b = i < t.dim() ? t.size(t.dim() - 1 - i) : 1;
      fits = fits && (a == b || a == 1 || b == 1);
      grown[grown.size() - 1 - i] = a == 1 ? b : a;
    }
    if (!fits) {
      std::string shapes;
      for (const Tensor& x : indices)
        if (x) shapes += (shapes.empty() ? "" : ", ") + str(x.sizes());
      fail(ErrorKind::Index, "[", op, "] shape mismatch: indexing tensors could not be broadcast together with shapes ",
           shapes);
    }
    shape = grown;
  }
  return shape;
}

// What self[indices] looks like: where the picked dims go, and which dims of self are left.
struct Selected {
  Tensors indices;    // by dim of self
  Ints picked;        // the broadcast shape of the indices
  Ints rest;          // dims of self that are taken whole
  int64_t place = 0;  // rest dims before the picked ones in the result
  Ints sizes;         // of the result

  Selected(const Tensor& self, const Tensors& given, const char* op) : indices(by_dim(self, given, op)) {
    picked = common_shape(indices, op);
    int64_t first = -1, last = -1, count = 0;
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (indices[static_cast<size_t>(d)]) {
        if (first < 0) first = d;
        last = d;
        ++count;
      } else {
        rest.push_back(d);
      }
    }
    // Neighbouring indices put their dims where they stand; scattered ones put them first.
    place = count && last - first + 1 == count ? first : 0;
    for (int64_t i = 0; i < place; ++i) sizes.push_back(self.size(rest[i]));
    for (int64_t s : picked) sizes.push_back(s);
    for (int64_t i = place; i < rest.size(); ++i) sizes.push_back(self.size(rest[i]));
  }
  bool empty() const { return product(sizes) == 0; }

  // Of the result: the order of dims that self has, and then each of the indices, which stand for all dims with sizes
  // of one around their own.
  Ints strides(const Tensor& self) const {
    Tensors present;
    for (const Tensor& t : indices)
      if (t) present.push_back(t);
    auto in_order = [](const Tensor& t) { return t.strides() == IntsView(contiguous_strides(t.sizes())); };
    const bool plain = in_order(self) && std::all_of(present.begin(), present.end(), in_order);
    if (plain) return contiguous_strides(sizes);
    const int64_t end = place + picked.size();
    return strides_by_operands(sizes, 1 + static_cast<int>(present.size()), [&](int i, int64_t d) -> int64_t {
      const bool before = d < place, within = !before && d < end;
      if (i == 0) return within ? 0 : self.stride(rest[before ? d : d - picked.size()]);
      const Tensor& t = present[static_cast<size_t>(i - 1)];
      const int64_t own = d - end + t.dim();
      if (within) return own < 0 || (t.size(own) == 1 && sizes[d] != 1) ? 0 : t.stride(own);
      if (sizes[d] != 1 || t.dim() == 0) return 0;
      return before ? t.size(0) * t.stride(0) : t.stride(t.dim() - 1);
    });
  }
};

// Indices into dims of no size are wrong, also where nothing is picked.
void check_empty(const Tensor& self, const Selected& s, const char* op) {
  for (int64_t d = 0; d < self.dim(); ++d) {
    const Tensor& index = s.indices[static_cast<size_t>(d)];
    TOCHA_CHECK(!index || self.size(d) != 0 || product(s.picked) == 0, Index, "[", op,
                "] index is out of bounds for dimension with size 0: dimension ", d, " of ", self.sizes());
  }
}

std::unique_ptr<int64_t[]> offsets_of(const Tensor& self, const Selected& s, const char* op) {
  int64_t count = product(s.picked);
  std::unique_ptr<int64_t[]> offsets(new int64_t[static_cast<size_t>(count)]);
  Ints packed = contiguous_strides(s.picked);
  for (int64_t& x : packed) x *= 8;
  bool plus = false;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!s.indices[static_cast<size_t>(d)]) continue;
    Tensor index = cpu::to_int64(s.indices[static_cast<size_t>(d)]);
    const char* from = index.bytes();
    char* to = reinterpret_cast<char*>(offsets.get());
    int64_t size = self.size(d), step = self.stride(d) * self.itemsize();
    std::atomic<const char*> bad{nullptr};
    const Ints operands[2] = {packed, cpu::byte_strides(index, s.picked)};
    cpu::Walk<2>(s.picked, operands).run([&](const int64_t* at, const int64_t* stride, int64_t n) {
      int64_t done = cpu::pick_loops().offsets(reinterpret_cast<int64_t*>(to + at[0]), from + at[1], stride[1], size,
                                               step, plus, n);
      if (done < n) bad.store(from + at[1] + done * stride[1], std::memory_order_relaxed);
    });
    if (bad.load())
      fail(ErrorKind::Index, "[", op, "] index ", *reinterpret_cast<const int64_t*>(bad.load()),
           " is out of bounds for dimension ", d, " with size ", size);
    plus = true;
  }
  return offsets;
}

// One step for the picked dims of the other tensor, if its strides allow one.
std::optional<int64_t> single_step(const Ints& strides, const Selected& s) {
  std::optional<int64_t> step;
  int64_t next = 0;
  for (int64_t i = s.picked.size() - 1; i >= 0; --i) {
    if (s.picked[i] == 1) continue;
    int64_t stride = strides[s.place + i];
    if (step && stride != next) return std::nullopt;
    if (!step) step = stride;
    next = stride * s.picked[i];
  }
  return step.value_or(0);
}

Picks picks_of(const Tensor& self, const Selected& s, const Ints& other_strides, int64_t step, const char* op) {
  Picks p;
  p.offsets = offsets_of(self, s, op);
  p.count = product(s.picked);
  p.other_step = step;
  for (int64_t i = 0; i < s.rest.size(); ++i) {
    p.sizes.push_back(self.size(s.rest[i]));
    p.self_strides.push_back(self.stride(s.rest[i]) * self.itemsize());
    p.other_strides.push_back(other_strides[i < s.place ? i : i + s.picked.size()]);
  }
  return p;
}

bool no_indices(const Selected& s, const Tensor& self) { return s.rest.size() == self.dim(); }

bool is_full_mask(const Tensor& self, const Tensors& indices) {
  return indices.size() == 1 && indices[0] && indices[0].dtype() == DType::Bool && self.dim() > 0 &&
         indices[0].sizes() == self.sizes();
}

// The only index is a mask: where it stands; null otherwise.
const Tensor* only_mask(const Tensor& self, const Tensors& indices, int64_t* place) {
  const Tensor* mask = nullptr;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (mask || indices[i].dtype() != DType::Bool) return nullptr;
    mask = &indices[i];
    *place = static_cast<int64_t>(i);
  }
  if (!mask || mask->dim() == 0 || *place + mask->dim() > self.dim()) return nullptr;
  for (int64_t d = 0; d < mask->dim(); ++d)
    if (mask->size(d) != self.size(*place + d)) return nullptr;
  return mask;
}

// A mask over dims of self that begin at `place`, as one over all dims.
Tensor spread_mask(const Tensor& mask, int64_t place, int64_t ndim) {
  Ints sizes, strides;
  for (int64_t d = 0; d < ndim; ++d) {
    const bool within = d >= place && d < place + mask.dim();
    sizes.push_back(within ? mask.size(d - place) : 1);
    strides.push_back(within ? mask.stride(d - place) : 0);
  }
  return view_of(mask, sizes, strides, mask.offset());
}

// The only element of `values` as self can take it: a complex number whose imaginary part is zero is a real one.
Tensor filling(const Tensor& self, const Tensor& values) {
  Tensor value = values.dim() ? view_of(values, Ints{}, Ints{}, values.offset()) : values;
  if (!value.is_complex() || self.is_complex()) return value;
  return Scalar::load(value.dtype(), value.bytes()).to_complex().im == 0 ? ops::real(value) : value;
}

// One number may have any dtype where a mask says where it goes.
void check_put_dtype(const Tensor& self, const Tensor& values, const Tensor* mask) {
  TOCHA_CHECK(mask || self.dtype() == values.dtype(), Runtime,
              "[index_put] Index put requires the source and destination dtypes match, got ", self.dtype(),
              " for the destination and ", values.dtype(), " for the source.");
}

bool has_mask(const Tensors& indices) {
  return std::any_of(indices.begin(), indices.end(), [](const Tensor& t) { return t && t.dtype() == DType::Bool; });
}

Tensor clamped(const Tensor& index, int64_t size) {
  if (!computes(index)) return index;
  Tensor out = clone_dense(cpu::to_int64(index));
  int64_t* p = out.data<int64_t>();
  for (int64_t i = 0; i < out.numel(); ++i) p[i] = std::clamp<int64_t>(p[i], -size, std::max<int64_t>(size - 1, -size));
  return out;
}

Tensors clamped(const Tensor& self, const Tensors& indices, const char* op) {
  Tensors out = by_dim(self, indices, op);
  for (size_t d = 0; d < out.size(); ++d)
    if (out[d]) out[d] = clamped(out[d], self.size(static_cast<int64_t>(d)));
  return out;
}

}  // namespace

Tensor index(const Tensor& self, const Tensors& indices) {
  if (is_full_mask(self, indices) && computes(self) && computes(indices[0]))
    return ops::masked_select(self, indices[0]);
  Selected s(self, indices, "index");
  Tensor out = empty_strided(s.sizes, s.strides(self), self.dtype(), self.device());
  if (computes(self) && s.empty()) check_empty(self, s, "index");
  if (!computes(self) || s.empty()) return out;
  Tensor source = cpu::plain(self);
  if (no_indices(s, self)) {
    backend(out.device().type).copy(out, source);
    return out;
  }
  // The picked dims may lie in an order that one step does not walk through.
  Tensor target = single_step(cpu::byte_strides(out), s) ? out : empty(s.sizes, self.dtype(), self.device());
  Ints strides = cpu::byte_strides(target);
  Picks p = picks_of(source, s, strides, *single_step(strides, s), "index");
  cpu::read_picks(p, source.bytes(), target.bytes(), self.dtype());
  if (!target.is(out)) backend(out.device().type).copy(out, target);
  return out;
}

void index_put_(const Tensor& self, const Tensors& indices, const Tensor& values, bool accumulate) {
  int64_t place = 0;
  const Tensor* mask = accumulate || values.numel() != 1 ? nullptr : only_mask(self, indices, &place);
  if (mask && computes(self)) {
    masked_fill_(self, spread_mask(*mask, place, self.dim()), filling(self, values));
    return;
  }
  cpu::check_together("index_put", {self, values});
  cpu::warn_expanded(self, "index_put_", " This also applies to advanced indexing e.g. tensor[indices] = tensor");
  check_no_overlap(self, values, "index_put_", false);
  for (const Tensor& t : indices)
    if (t) check_no_overlap(self, t, "index_put_", false);
  const bool known = computes(self) || !has_mask(indices);  // how many places are picked
  if (!known) return check_put_dtype(self, values, mask);
  Selected s(self, indices, "index_put");
  bool fits = values.dim() <= s.sizes.size();
  for (int64_t i = 1; fits && i <= values.dim(); ++i)
    fits = values.size(values.dim() - i) == 1 || values.size(values.dim() - i) == s.sizes[s.sizes.size() - i];
  TOCHA_CHECK(fits, Runtime, "[index_put] shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", s.sizes);
  if (computes(self)) check_empty(self, s, "index_put");
  check_put_dtype(self, values, mask);
  if (!computes(self) || s.empty()) return;
  Tensor source = cpu::plain(cpu::apart_from(values, self));
  Ints strides = cpu::byte_strides(source, s.sizes);
  std::optional<int64_t> step = single_step(strides, s);
  if (!step || no_indices(s, self)) {
    Tensor spread = empty(s.sizes, self.dtype(), self.device());
    backend(self.device().type).copy(spread, source);
    source = spread;
    strides = cpu::byte_strides(source);
    step = single_step(strides, s);
  }
  if (no_indices(s, self)) {
    backend(self.device().type).copy(self, accumulate ? ops::add(self, source, Scalar(1)) : source);
    return;
  }
  cpu::Target target(self);
  Picks p = picks_of(target.tensor(), s, strides, *step, "index_put");
  cpu::write_picks(p, target.bytes(), source.bytes(), self.dtype(), accumulate ? Merge::add : Merge::assign);
  target.finish();
}

Tensor _unsafe_masked_index(const Tensor& self, const Tensor& mask, const Tensors& indices, const Scalar& fill) {
  cpu::check_together("_unsafe_masked_index", {self, mask});
  Tensors safe = clamped(self, indices, "_unsafe_masked_index");
  Tensor value = scalar_tensor(fill, self.dtype(), self.device());
  if (self.numel() == 0) {
    Tensor out = empty(mask.sizes(), self.dtype(), self.device());
    backend(out.device().type).copy(out, value);
    return out;
  }
  return ops::where(mask, index(self, safe), value);
}

void _unsafe_masked_index_put_accumulate_(const Tensor& self, const Tensor& mask, const Tensors& indices,
                                          const Tensor& values) {
  if (self.numel() == 0) return;
  Tensor zero = scalar_tensor(Scalar(0), values.dtype(), values.device());
  index_put_(self, clamped(self, indices, "_unsafe_masked_index_put_accumulate"), ops::where(mask, values, zero), true);
}

}  // namespace tocha::native
