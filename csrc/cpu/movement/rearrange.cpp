// Flips, rolls, repetitions, padding and triangles: the kernels of tocha/operators/rearrange.py and triangles.py.
#include <cstring>

#include "core/gil.h"
#include "core/parallel.h"
#include "dispatch/native.h"
#include "ops/copies.h"
#include "ops/views.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;

// [start, start + n) of one dim.
Tensor part(const Tensor& t, int64_t dim, int64_t start, int64_t n) {
  Ints sizes(t.sizes());
  sizes[dim] = n;
  return view_of(t, sizes, t.strides(), t.offset() + start * t.stride(dim));
}

}  // namespace

void flip(const Tensor& out, const Tensor& self, IntsView dims) {
  if (out.numel() == 0) return;
  // Read from the far end with negative strides: only the copy below ever sees them.
  Ints strides(self.strides());
  int64_t start = self.offset();
  for (int64_t d : dims) {
    if (self.dim() == 0) break;
    d = wrap_dim(d, self.dim());
    start += (self.size(d) - 1) * strides[d];
    strides[d] = -strides[d];
  }
  backend(self.device().type).copy(out, view_of(self, self.sizes(), strides, start));
}

void _roll_dims(const Tensor& out, const Tensor& self, IntsView shifts, IntsView dims) {
  if (out.numel() == 0) return;
  int64_t dim = dims[0], n = self.size(dim);
  int64_t shift = floor_mod(shifts[0], n);
  const Backend& device = backend(self.device().type);
  device.copy(part(out, dim, shift, n - shift), part(self, dim, 0, n - shift));
  if (shift) device.copy(part(out, dim, 0, shift), part(self, dim, n - shift, shift));
}

namespace {

template <class T>
Tensor repeated_indices(const Tensor& repeats, std::optional<int64_t> output_size) {
  Tensor counts = readable(repeats);
  const T* p = counts.data<T>();
  int64_t total = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    TOCHA_CHECK(p[i] >= 0, Runtime, "[repeat_interleave] repeats can not be negative, got ", static_cast<int64_t>(p[i]),
                " at ", i);
    total += p[i];
  }
  TOCHA_CHECK(
      !output_size || *output_size == total, Runtime,
      "[repeat_interleave] repeat_interleave: Invalid output_size: allocated size does not match required size: ",
      output_size.value_or(0), " and ", total);
  Tensor out = empty(Ints{total}, repeats.dtype(), repeats.device());
  T* o = out.data<T>();
  for (int64_t i = 0; i < counts.numel(); ++i) o = std::fill_n(o, p[i], static_cast<T>(i));
  return out;
}

}  // namespace

Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  TOCHA_CHECK(repeats.dim() == 1, Runtime, "[repeat_interleave] only accepts 1D vector as repeats, got ",
              repeats.sizes());
  TOCHA_CHECK(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32, NotImplemented,
              "[repeat_interleave] repeats has to be Long or Int tensor, got ", repeats.dtype());
  if (!computes(repeats)) {
    TOCHA_CHECK(output_size, NotImplemented, "[repeat_interleave] a meta tensor needs output_size");
    return empty(Ints{*output_size}, repeats.dtype(), repeats.device());
  }
  return repeats.dtype() == DType::Int64 ? repeated_indices<int64_t>(repeats, output_size)
                                         : repeated_indices<int32_t>(repeats, output_size);
}

Tensor _in_format_of(const Tensor& self, const Tensor& model) {
  MemoryFormat f = suggested_format(model);
  return self.strides() == format_strides(self.sizes(), f) ? self : ops::clone(self, f);
}

Tensor _empty_padded(const Tensor& self, IntsView sizes) {
  return empty_strided(sizes, format_strides(sizes, suggested_format(self)), self.dtype(), self.device());
}

namespace {

// Where each place of a padded dim comes from.
std::vector<int64_t> padded_sources(int64_t n, int64_t before, int64_t after, const std::string& mode) {
  std::vector<int64_t> from(static_cast<size_t>(n + before + after));
  // Circular padding repeats what is left after cutting; where that is nothing, any place inside will do.
  int64_t skipped = std::min(std::max<int64_t>(-before, 0), std::max<int64_t>(n - 1, 0));
  int64_t kept = std::max<int64_t>(n - skipped - std::max<int64_t>(-after, 0), 1);
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t at = static_cast<int64_t>(i) - before;
    if (mode == "replicate")
      at = std::clamp<int64_t>(at, 0, n - 1);
    else if (mode == "circular")
      at = skipped + floor_mod(at - skipped, kept);
    else if (at < 0)
      at = -at;
    else if (at >= n)
      at = 2 * (n - 1) - at;
    from[i] = at;
  }
  return from;
}

// How far the run goes in which one place after the other is shown.
int64_t end_of_run(const std::vector<int64_t>& from, int64_t begin) {
  int64_t end = begin;
  while (end < static_cast<int64_t>(from.size()) &&
         from[static_cast<size_t>(end)] == from[static_cast<size_t>(begin)] + end - begin)
    ++end;
  return end;
}

// One row of the last dim: the middle is a run, the ends are picked one by one.
template <class Word>
void pick_row(char* out, const char* in, const std::vector<int64_t>& from, int64_t run_begin, int64_t run_end) {
  auto* o = reinterpret_cast<Word*>(out);
  const auto* x = reinterpret_cast<const Word*>(in);
  for (int64_t i = 0; i < run_begin; ++i) o[i] = x[from[static_cast<size_t>(i)]];
  if (run_end > run_begin)
    std::memcpy(o + run_begin, x + from[static_cast<size_t>(run_begin)],
                static_cast<size_t>(run_end - run_begin) * sizeof(Word));
  for (int64_t i = std::max(run_begin, run_end); i < static_cast<int64_t>(from.size()); ++i)
    o[i] = x[from[static_cast<size_t>(i)]];
}

struct TwoWords {
  int64_t a, b;
};
using PickRow = void (*)(char*, const char*, const std::vector<int64_t>&, int64_t, int64_t);
PickRow pick_row_of(int64_t size) {
  switch (size) {
    case 1:
      return pick_row<uint8_t>;
    case 2:
      return pick_row<uint16_t>;
    case 4:
      return pick_row<uint32_t>;
    case 8:
      return pick_row<uint64_t>;
    default:
      return pick_row<TwoWords>;
  }
}

}  // namespace

void _pad_wrapped(const Tensor& out, const Tensor& self, IntsView pad, const std::string& mode) {
  if (out.numel() == 0) return;
  // The dims in the order in which they lie in out, outermost first.
  int64_t nd = self.dim(), size = self.itemsize();
  Ints order = range_list(0, nd);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return out.stride(a) > out.stride(b); });
  Tensor in = readable(ops::permute(self, order));
  std::vector<std::vector<int64_t>> from(static_cast<size_t>(nd));
  int64_t lead = 0;
  for (int64_t i = 0; i < nd; ++i) {
    int64_t k = 2 * (nd - 1 - order[i]);
    bool padded = k < pad.size();
    lead = padded ? std::max<int64_t>(pad[k], 0) : 0;
    from[static_cast<size_t>(i)] =
        padded_sources(in.size(i), padded ? pad[k] : 0, padded ? pad[k + 1] : 0, padded ? mode : "replicate");
  }
  const auto& last = from.back();
  int64_t width = static_cast<int64_t>(last.size());
  int64_t run_begin = std::min(lead, width - 1), run_end = end_of_run(last, run_begin);
  PickRow pick = pick_row_of(size);
  char* to = out.bytes();
  const char* source = in.bytes();
  int64_t rows = out.numel() / width;
  ReleaseGil unlocked(out.numel());
  parallel_for(rows, std::max<int64_t>(1, kGrainBytes / (width * size)), [&](int64_t b, int64_t e) {
    std::vector<size_t> place(static_cast<size_t>(nd));  // of the row, in all dims but the last
    auto rest = static_cast<size_t>(b);
    for (auto d = place.size() - 1; d-- > 0; rest /= from[d].size()) place[d] = rest % from[d].size();
    for (int64_t row = b; row < e; ++row) {
      int64_t offset = 0;
      for (size_t d = 0; d + 1 < place.size(); ++d) offset += from[d][place[d]] * in.stride(static_cast<int64_t>(d));
      pick(to + row * width * size, source + offset * size, last, run_begin, run_end);
      for (auto d = place.size() - 1; d-- > 0 && ++place[d] == from[d].size();) place[d] = 0;
    }
  });
}

namespace {

// Adds a padded row to the row it shows: the middle as a run, the ends one by one.
template <class T>
void add_row(T* out, const T* in, const std::vector<int64_t>& from, int64_t run_begin, int64_t run_end) {
  auto add = [&](int64_t i) {
    T& shown = out[from[static_cast<size_t>(i)]];
    shown = static_cast<T>(shown + in[i]);
  };
  for (int64_t i = 0; i < run_begin; ++i) add(i);
  T* to = out + from[static_cast<size_t>(run_begin)];
  const T* middle = in + run_begin;
  for (int64_t i = 0; i < run_end - run_begin; ++i) to[i] = static_cast<T>(to[i] + middle[i]);
  for (int64_t i = std::max(run_begin, run_end); i < static_cast<int64_t>(from.size()); ++i) add(i);
}

template <class T>
void add_padded(const Tensor& out, const Tensor& in, IntsView pad, const std::string& mode) {
  int64_t nd = out.dim(), first = std::max<int64_t>(nd - pad.size() / 2, 0), lead = 1, rows = 1;
  std::vector<std::vector<int64_t>> from(static_cast<size_t>(nd));
  for (int64_t d = 0; d < nd; ++d) {
    int64_t k = 2 * (nd - 1 - d);
    if (d >= first) from[static_cast<size_t>(d)] = padded_sources(out.size(d), pad[k], pad[k + 1], mode);
    if (d < first)
      lead *= out.size(d);
    else if (d < nd - 1)
      rows *= in.size(d);
  }
  const auto& last = from.back();
  int64_t width = in.size(nd - 1), run_begin = std::min(std::max<int64_t>(pad[0], 0), width - 1);
  int64_t run_end = end_of_run(last, run_begin), block = out.numel() / lead;
  // What is not padded is independent; inside, several rows may end up in one.
  parallel_for(lead, std::max<int64_t>(1, kGrainBytes / (rows * width * out.itemsize())), [&](int64_t b, int64_t e) {
    for (int64_t row = b * rows; row < e * rows; ++row) {
      int64_t rest = row % rows, offset = row / rows * block;
      for (int64_t d = nd - 2; d >= first; --d) {
        const auto& f = from[static_cast<size_t>(d)];
        auto n = static_cast<int64_t>(f.size());
        offset += f[static_cast<size_t>(rest % n)] * out.stride(d);
        rest /= n;
      }
      add_row(out.data<T>() + offset, in.data<T>() + row * width, last, run_begin, run_end);
    }
  });
}

}  // namespace

void _unpad_wrapped(const Tensor& out, const Tensor& self, IntsView, IntsView pad, const std::string& mode) {
  if (out.numel() == 0) return;
  std::memset(out.bytes(), 0, static_cast<size_t>(out.numel() * out.itemsize()));
  if (self.numel() == 0) return;
  Tensor in = readable(self);
  ReleaseGil unlocked(in.numel());
  switch (out.dtype()) {
#define CASE(D, T) \
  case DType::D:   \
    return add_padded<T>(out, in, pad, mode);
    CASE(Float32, float)
    CASE(Float64, double)
    CASE(Float16, Half)
    CASE(BFloat16, BFloat16)
    CASE(Complex64, Complex<float>)
    CASE(Complex128, Complex<double>)
#undef CASE
    default:
      fail(ErrorKind::NotImplemented, "[_unpad_wrapped] \"_unpad_wrapped_cpu\" not implemented for '",
           info(out.dtype()).name, "'");
  }
}

namespace {

// Keeps columns [keep_begin, keep_end) of every row, which depend on the row alone.
template <class Range>
void keep_triangle(const Tensor& out, const Tensor& self, Range kept) {
  if (out.numel() == 0) return;
  Tensor in = readable(self);
  int64_t height = in.size(in.dim() - 2), width = in.size(in.dim() - 1), size = in.itemsize();
  ReleaseGil unlocked(in.numel());
  parallel_for(in.numel() / width, std::max<int64_t>(1, kGrainBytes / (width * size)), [&](int64_t b, int64_t e) {
    for (int64_t row = b; row < e; ++row) {
      auto [begin, end] = kept(row % height, width);
      char* o = out.bytes() + row * width * size;
      const char* x = in.bytes() + row * width * size;
      std::memset(o, 0, static_cast<size_t>(begin * size));
      std::memmove(o + begin * size, x + begin * size, static_cast<size_t>((end - begin) * size));
      std::memset(o + end * size, 0, static_cast<size_t>((width - end) * size));
    }
  });
}

// Diagonals beyond a matrix are all alike.
int64_t within_matrix(const Tensor& self, int64_t diagonal) {
  return std::clamp(diagonal, -self.size(self.dim() - 2), self.size(self.dim() - 1));
}

using Columns = std::pair<int64_t, int64_t>;

Columns lower(int64_t row, int64_t width, int64_t diagonal) {
  return {0, std::clamp<int64_t>(row + diagonal + 1, 0, width)};
}
Columns upper(int64_t row, int64_t width, int64_t diagonal) {
  return {std::clamp<int64_t>(row + diagonal, 0, width), width};
}

// From the first row that has elements on: every row has some until all are found.
template <class Range>
void triangle_indices(const Tensor& out, int64_t row, int64_t columns, int64_t offset, Range range) {
  Tensor found = out.dtype() == DType::Int64 ? out : empty(out.sizes(), DType::Int64, Device{});
  auto* r = found.data<int64_t>();
  auto* const all = r + found.size(1);
  auto* c = all;
  for (; r < all; ++row) {
    auto [begin, end] = range(row, columns, offset);
    for (int64_t column = begin; column < end; ++column) {
      *r++ = row;
      *c++ = column;
    }
  }
  if (!found.is(out)) backend(out.device().type).copy(out, found);
}

}  // namespace

void tril(const Tensor& out, const Tensor& self, int64_t diagonal) {
  diagonal = within_matrix(self, diagonal);
  keep_triangle(out, self, [&](int64_t row, int64_t width) { return lower(row, width, diagonal); });
}
void triu(const Tensor& out, const Tensor& self, int64_t diagonal) {
  diagonal = within_matrix(self, diagonal);
  keep_triangle(out, self, [&](int64_t row, int64_t width) { return upper(row, width, diagonal); });
}

void tril_indices(const Tensor& out, int64_t row, int64_t col, int64_t offset, std::optional<DType>,
                  std::optional<Device>) {
  offset = std::clamp(offset, -row, col);
  if (out.numel()) triangle_indices(out, std::max<int64_t>(0, -offset), col, offset, lower);
}
void triu_indices(const Tensor& out, int64_t row, int64_t col, int64_t offset, std::optional<DType>,
                  std::optional<Device>) {
  if (out.numel()) triangle_indices(out, 0, col, std::clamp(offset, -row, col), upper);
}

}  // namespace tocha::native
