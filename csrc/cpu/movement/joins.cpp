// Joins: the kernels of tocha/operators/joins.py.
#include <cstring>

#include "core/gil.h"
#include "core/parallel.h"
#include "dispatch/native.h"
#include "ops/splits.h"

namespace tocha::native {
namespace {

bool is_skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

template <class Word>
void copy_rows_of_one(char* out, int64_t out_step, const char* in, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(out + r * out_step, in + r * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
}

// `rows` rows of `bytes` that lie behind each other in `in`, out_step apart in `out`.
void copy_rows(char* out, int64_t out_step, const char* in, int64_t bytes, int64_t rows) {
  switch (bytes) {
    case 1:
      return copy_rows_of_one<uint8_t>(out, out_step, in, rows);
    case 2:
      return copy_rows_of_one<uint16_t>(out, out_step, in, rows);
    case 4:
      return copy_rows_of_one<uint32_t>(out, out_step, in, rows);
    case 8:
      return copy_rows_of_one<uint64_t>(out, out_step, in, rows);
    default:
      for (int64_t r = 0; r < rows; ++r) std::memcpy(out + r * out_step, in + r * bytes, static_cast<size_t>(bytes));
  }
}

bool is_plain(const Tensor& t, const Tensor& out) {
  return t.is_contiguous() && t.dtype() == out.dtype() && !t.is_conj() && !t.is_neg() && t.is_cpu();
}

constexpr int64_t kGrainBytes = 1 << 17;

// Everything contiguous and of one dtype: rows of bytes.
void cat_plain(const Tensor& out, const Tensors& tensors, int64_t dim) {
  int64_t outer = product(IntsView(out.sizes().begin(), dim));
  int64_t inner = product(IntsView(out.sizes().begin() + dim + 1, out.dim() - dim - 1)) * out.itemsize();
  int64_t step = out.size(dim) * inner;
  char* at = out.bytes();
  ReleaseGil unlocked(out.numel());
  for (const Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    int64_t bytes = t.size(dim) * inner;
    const char* in = t.bytes();
    if (outer == 1) {
      parallel_for(bytes, kGrainBytes,
                   [&](int64_t b, int64_t e) { std::memcpy(at + b, in + b, static_cast<size_t>(e - b)); });
    } else {
      int64_t grain = std::max<int64_t>(1, kGrainBytes / bytes);
      parallel_for(outer, grain,
                   [&](int64_t b, int64_t e) { copy_rows(at + b * step, step, in + b * bytes, bytes, e - b); });
    }
    at += bytes;
  }
}

}  // namespace

void cat(const Tensor& out, const Tensors& tensors, int64_t dim) {
  if (out.numel() == 0) return;
  dim = wrap_dim(dim, out.dim());
  bool plain = out.is_contiguous();
  for (const Tensor& t : tensors) plain = plain && (is_plain(t, out) || is_skipped(t));
  if (plain) return cat_plain(out, tensors, dim);
  int64_t start = out.offset();
  Ints sizes(out.sizes());
  for (const Tensor& t : tensors) {
    if (is_skipped(t)) continue;
    sizes[dim] = t.size(dim);
    backend(out.device().type).copy(view_of(out, sizes, out.strides(), start), t);
    start += t.size(dim) * out.stride(dim);
  }
}

void _combination_indices(const Tensor& out, int64_t n, int64_t r, bool with_replacement, Device) {
  if (out.numel() == 0) return;
  auto* p = out.data<int64_t>();
  int64_t rows = out.size(0);
  std::vector<int64_t> pick(static_cast<size_t>(r));
  for (int64_t i = 0; i < r; ++i) pick[static_cast<size_t>(i)] = with_replacement ? 0 : i;
  for (int64_t row = 0; row < rows; ++row, p += r) {
    std::copy(pick.begin(), pick.end(), p);
    // Advance the last place that can still grow; those after it start over.
    int64_t i = r - 1;
    while (i >= 0 && pick[static_cast<size_t>(i)] == (with_replacement ? n - 1 : n - r + i)) --i;
    if (i < 0) break;
    int64_t next = pick[static_cast<size_t>(i)] + 1;
    for (int64_t k = i; k < r; ++k) pick[static_cast<size_t>(k)] = with_replacement ? next : next + k - i;
  }
}

Tensors tensor_split_tensor(const Tensor& self, const Tensor& indices, int64_t dim) {
  TOCHA_CHECK(indices.is_cpu(), Runtime,
              "[tensor_split] tensor_split expected tensor_indices_or_sections to be on cpu, but it's on ",
              indices.device());
  TOCHA_CHECK(indices.dtype() == DType::Int64, Runtime,
              "[tensor_split] tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
              indices.dtype());
  TOCHA_CHECK(indices.dim() <= 1, Runtime,
              "[tensor_split] tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
              "one-dimensional tensor, "
              "but got a tensor with ",
              indices.dim(), " dims");
  Tensor plain = readable(indices);
  IntsView values(plain.data<int64_t>(), plain.numel());
  return indices.dim() == 0 ? ops::tensor_split(self, values[0], dim) : ops::tensor_split_indices(self, values, dim);
}

}  // namespace tocha::native
