#include "cpu/engine/elementwise.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/casts.h"
#include "cpu/engine/grain.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kChunk = 1024;  // elements a buffer holds
constexpr int64_t kGrainCheap = 32768;
constexpr int64_t kGrainExpensive = 4096;
constexpr int64_t kShortRow = 64;  // inner rows shorter than this are gathered many at a time
constexpr int kMaxDims = 64;

// One buffer of kChunk elements per operand and thread.
char* buffer(int operand) {
  struct Buffers {
    char* memory = static_cast<char*>(std::aligned_alloc(64, kMaxOperands * kChunk * 16));
    ~Buffers() { std::free(memory); }
  };
  thread_local Buffers buffers;
  return buffers.memory + operand * kChunk * 16;
}

struct Operand {
  char* data;
  int64_t strides[kMaxDims];  // bytes, innermost first
  DType dtype;                // in memory
  DType loop_dtype;
  CastLoop cast;  // memory -> loop for inputs, loop -> memory for outputs
  bool conj, neg;
  bool fits;      // the loop can read this dtype as it lies
  bool linear;    // contiguous in iteration order
  bool constant;  // every stride is 0
};

// The iteration space after sorting dims by stride and merging those that run together.
struct Plan {
  int ndim = 0;
  int64_t sizes[kMaxDims];  // innermost first
  int64_t numel = 1;
  int nops = 0;
  Operand ops[kMaxOperands];
};

void make_plan(const Elementwise& call, Plan& plan) {
  const Tensor& shape = *call.operands[0];
  int nd = static_cast<int>(shape.dim());
  plan.nops = call.nout + call.nin;
  plan.numel = shape.numel();
  // Outermost-first raw strides with broadcasting.
  int64_t raw[kMaxOperands][kMaxDims];
  for (int k = 0; k < plan.nops; ++k) {
    const Tensor& t = *call.operands[k];
    Operand& op = plan.ops[k];
    op.data = t.bytes();
    op.dtype = t.dtype();
    op.loop_dtype = call.dtypes[k];
    op.conj = t.is_conj() && is_complex(op.loop_dtype);
    op.neg = t.is_neg();
    bool is_out = k < call.nout;
    op.cast = is_out ? cast_table().loops[static_cast<int>(op.loop_dtype)][static_cast<int>(op.dtype)]
                     : cast_table().loops[static_cast<int>(op.dtype)][static_cast<int>(op.loop_dtype)];
    op.fits = op.dtype == op.loop_dtype && !op.conj && !op.neg;
    int64_t lead = nd - t.dim();
    for (int d = 0; d < nd; ++d) {
      int64_t own = d - lead;
      raw[k][d] = own < 0 || (t.size(own) == 1 && shape.size(d) != 1) ? 0 : t.stride(own) * t.itemsize();
    }
  }
  // Innermost first: the dim with the smallest strides of the first operands goes inside.
  int order[kMaxDims];
  int n = 0;
  for (int d = nd - 1; d >= 0; --d)
    if (shape.size(d) != 1) order[n++] = d;
  auto goes_inside = [&](int a, int b) {  // a strictly more inner than b
    for (int k = 0; k < plan.nops; ++k) {
      int64_t sa = raw[k][a], sb = raw[k][b];
      if (sa == 0 || sb == 0 || sa == sb) continue;
      return sa < sb;
    }
    return false;
  };
  for (int i = 1; i < n; ++i)
    for (int j = i; j > 0 && goes_inside(order[j], order[j - 1]); --j) std::swap(order[j], order[j - 1]);
  plan.ndim = 0;
  for (int i = 0; i < n; ++i) {
    int d = order[i];
    bool merges = plan.ndim > 0;
    for (int k = 0; k < plan.nops && merges; ++k)
      merges = raw[k][d] == plan.ops[k].strides[plan.ndim - 1] * plan.sizes[plan.ndim - 1];
    if (merges) {
      plan.sizes[plan.ndim - 1] *= shape.size(d);
    } else {
      plan.sizes[plan.ndim] = shape.size(d);
      for (int k = 0; k < plan.nops; ++k) plan.ops[k].strides[plan.ndim] = raw[k][d];
      ++plan.ndim;
    }
  }
  if (plan.ndim == 0) {
    plan.ndim = 1;
    plan.sizes[0] = 1;
    for (int k = 0; k < plan.nops; ++k) plan.ops[k].strides[0] = itemsize(plan.ops[k].dtype);
  }
  for (int k = 0; k < plan.nops; ++k) {
    Operand& op = plan.ops[k];
    int64_t expected = itemsize(op.dtype);
    op.linear = true;
    op.constant = true;
    for (int d = 0; d < plan.ndim; ++d) {
      op.linear = op.linear && op.strides[d] == expected;
      op.constant = op.constant && op.strides[d] == 0;
      expected *= plan.sizes[d];
    }
  }
}

// Calls f(position in the chunk, run length, memory addresses) for the inner runs of a chunk of `count` operands. The
// dims inside of `inner` are left to f.
template <class F>
void for_runs(const Plan& plan, const Operand* ops, int count, int64_t begin, int64_t n, F f, int inner = 0) {
  char* p[kMaxOperands];
  int64_t row = plan.sizes[inner];
  int64_t index[kMaxDims];
  int64_t rest = begin;
  auto move = [&](int d, int64_t by) {
    for (int k = 0; k < count; ++k) p[k] += by * ops[k].strides[d];
  };
  for (int k = 0; k < count; ++k) p[k] = ops[k].data;
  for (int d = inner; d < plan.ndim; ++d) {
    index[d] = rest % plan.sizes[d];
    rest /= plan.sizes[d];
    move(d, index[d]);
  }
  for (int64_t done = 0; done < n;) {
    int64_t run = std::min(row - index[inner], n - done);
    f(done, run, static_cast<char* const*>(p));
    done += run;
    move(inner, -index[inner]);
    index[inner] = 0;
    for (int d = inner + 1; d < plan.ndim; ++d) {
      move(d, 1);
      if (++index[d] < plan.sizes[d]) break;
      move(d, -index[d]);
      index[d] = 0;
    }
  }
}

// What the bits of a view say about the elements that were loaded, or will be stored.
void apply_bits(const Operand& op, char* elements, int64_t n) {
  if (op.conj) cast_table().conj(op.loop_dtype, elements, n);
  if (op.neg) cast_table().negate(op.loop_dtype, elements, n);
}

void load_chunk(const Plan& plan, const Operand& op, int64_t begin, int64_t n, char* out) {
  int64_t size = itemsize(op.loop_dtype);
  if (op.linear)
    op.cast(out, size, op.data + begin * itemsize(op.dtype), itemsize(op.dtype), n);
  else
    for_runs(plan, &op, 1, begin, n,
             [&](int64_t at, int64_t run, char* const* p) { op.cast(out + at * size, size, *p, op.strides[0], run); });
  apply_bits(op, out, n);
}

void store_chunk(const Plan& plan, const Operand& op, int64_t begin, int64_t n, char* in) {
  int64_t size = itemsize(op.loop_dtype);
  apply_bits(op, in, n);
  if (op.linear)
    op.cast(op.data + begin * itemsize(op.dtype), itemsize(op.dtype), in, size, n);
  else
    for_runs(plan, &op, 1, begin, n,
             [&](int64_t at, int64_t run, char* const* p) { op.cast(*p, op.strides[0], in + at * size, size, run); });
}

// One thread's share of the elements, in chunks of whole or broken inner rows.
unsigned run_chunks(const Elementwise& call, const Plan& plan, int64_t begin, int64_t end) {
  unsigned faults = 0;
  char* pointers[kMaxOperands];
  for (int64_t at = begin; at < end; at += kChunk) {
    int64_t n = std::min(kChunk, end - at);
    for (int k = 0; k < plan.nops; ++k) {
      const Operand& op = plan.ops[k];
      const bool direct = op.fits && op.linear, is_out = k < call.nout;
      pointers[k] = direct ? op.data + at * itemsize(op.dtype) : buffer(k);
      if (!direct && !is_out && !(op.constant && at > begin)) load_chunk(plan, op, at, n, pointers[k]);
    }
    faults |= call.loop(pointers, n, call.params);
    for (int k = 0; k < call.nout; ++k)
      if (pointers[k] == buffer(k)) store_chunk(plan, plan.ops[k], at, n, pointers[k]);
  }
  return faults;
}

// One thread's share of the elements, inner row by inner row: what has no gaps along them is read and written in place.
unsigned run_rows(const Elementwise& call, const Plan& plan, int64_t begin, int64_t end) {
  unsigned faults = 0;
  char* pointers[kMaxOperands];
  bool direct[kMaxOperands];
  for (int k = 0; k < plan.nops; ++k) {
    const Operand& op = plan.ops[k];
    direct[k] = op.fits && op.strides[0] == itemsize(op.dtype);
    if (direct[k]) continue;
    pointers[k] = buffer(k);
    if (op.constant && k >= call.nout) load_chunk(plan, op, 0, std::min(kChunk, end - begin), pointers[k]);
  }
  for_runs(plan, plan.ops, plan.nops, begin, end - begin, [&](int64_t, int64_t run, char* const* p) {
    for (int64_t at = 0; at < run; at += kChunk) {
      const int64_t n = std::min(kChunk, run - at);
      for (int k = 0; k < plan.nops; ++k) {
        const Operand& op = plan.ops[k];
        char* place = p[k] + at * op.strides[0];
        if (direct[k]) {
          pointers[k] = place;
        } else if (k >= call.nout && !op.constant && !(op.strides[0] == 0 && at > 0)) {
          op.cast(pointers[k], itemsize(op.loop_dtype), place, op.strides[0], n);
          apply_bits(op, pointers[k], n);
        }
      }
      faults |= call.loop(pointers, n, call.params);
      for (int k = 0; k < call.nout; ++k) {
        if (direct[k]) continue;
        const Operand& op = plan.ops[k];
        apply_bits(op, pointers[k], n);
        op.cast(p[k] + at * op.strides[0], op.strides[0], pointers[k], itemsize(op.loop_dtype), n);
      }
    }
  });
  return faults;
}

unsigned run_range(const Elementwise& call, const Plan& plan, int64_t begin, int64_t end) {
  const bool by_rows = plan.ndim == 1 || plan.sizes[0] >= kShortRow;
  return by_rows ? run_rows(call, plan, begin, end) : run_chunks(call, plan, begin, end);
}

// t can be walked together with `first` as one run of the loop's dtype.
bool is_flat(const Tensor& first, const Tensor& t, DType dtype) {
  if (t.dtype() != dtype || t.is_conj() || t.is_neg() || t.numel() != first.numel()) return false;
  return (t.is_contiguous() && first.is_contiguous()) || (t.sizes() == first.sizes() && t.strides() == first.strides());
}

// A number or other single element, converted and repeated n times.
char* spread(const Tensor& t, DType dtype, int operand, int64_t n) {
  char* out = buffer(operand);
  int64_t size = itemsize(dtype);
  cast_loop(t.dtype(), dtype)(out, size, t.bytes(), 0, 1);
  for (int64_t done = 1; done < n; done *= 2)
    std::memcpy(out + done * size, out, static_cast<size_t>(std::min(done, n - done) * size));
  return out;
}

// All operands dense with the same layout and the loop's dtypes, or single elements: one flat run, in chunks where
// an element is repeated.
bool run_flat(const Elementwise& call, unsigned* faults) {
  const Tensor& first = *call.operands[0];
  int nops = call.nout + call.nin;
  bool single[kMaxOperands] = {};
  bool any_single = false;
  for (int k = 0; k < nops; ++k) {
    const Tensor& t = *call.operands[k];
    if (is_flat(first, t, call.dtypes[k])) continue;
    if (k < call.nout || t.numel() != 1 || t.is_conj() || t.is_neg()) return false;
    single[k] = any_single = true;
  }
  if (!first.is_contiguous() && !first.is_non_overlapping_and_dense()) return false;
  int64_t n = first.numel();
  char* base[kMaxOperands];
  int64_t step[kMaxOperands];
  for (int k = 0; k < nops; ++k) {
    base[k] = single[k] ? spread(*call.operands[k], call.dtypes[k], k, std::min(n, kChunk)) : call.operands[k]->bytes();
    step[k] = single[k] ? 0 : itemsize(call.dtypes[k]);
  }
  int64_t grain = call.expensive ? kGrainExpensive : kGrainCheap;
  int64_t longest = any_single ? kChunk : n;
  auto range = [&](int64_t begin, int64_t end) {
    unsigned found = 0;
    for (int64_t at = begin; at < end; at += longest) {
      char* pointers[kMaxOperands];
      for (int k = 0; k < nops; ++k) pointers[k] = base[k] + at * step[k];
      found |= call.loop(pointers, std::min(longest, end - at), call.params);
    }
    return found;
  };
  if (n <= grain) {
    *faults = range(0, n);
    return true;
  }
  ReleaseGil unlocked(n);
  std::atomic<unsigned> all{0};
  parallel_for(n, even_grain(n, grain), [&](int64_t b, int64_t e) {
    if (unsigned f = range(b, e)) all |= f;
  });
  *faults = all;
  return true;
}

}  // namespace

CastLoop cast_loop(DType from, DType to) { return cast_table().loops[static_cast<int>(from)][static_cast<int>(to)]; }

unsigned run(const Elementwise& call) {
  if (call.operands[0]->numel() == 0) return 0;
  unsigned faults = 0;
  if (run_flat(call, &faults)) return faults;
  auto plan = std::make_unique_for_overwrite<Plan>();
  make_plan(call, *plan);
  ReleaseGil unlocked(plan->numel);
  std::atomic<unsigned> all{0};
  const int64_t grain = call.expensive ? kGrainExpensive : kGrainCheap;
  parallel_for(plan->numel, even_grain(plan->numel, grain), [&](int64_t b, int64_t e) {
    if (unsigned f = run_range(call, *plan, b, e)) all |= f;
  });
  return all;
}

namespace {

unsigned copy_loop(char* const* p, int64_t n, const void* params) {
  std::memcpy(p[0], p[1], static_cast<size_t>(n * *static_cast<const int64_t*>(params)));
  return 0;
}

// Goes through dims that src has backwards from their other end, except where that would turn dst's runs around.
void turn_backward_dims(Plan& plan) {
  Operand &dst = plan.ops[0], &src = plan.ops[1];
  for (int d = 1; d < plan.ndim; ++d) {
    if (src.strides[d] >= 0) continue;
    for (Operand* op : {&dst, &src}) {
      op->data += (plan.sizes[d] - 1) * op->strides[d];
      op->strides[d] = -op->strides[d];
      op->linear = false;
    }
  }
}

// Two dims, each side contiguous along a different one: copy in tiles that stay in cache.
bool copy_transposed(const Plan& plan) {
  const Operand& dst = plan.ops[0];
  const Operand& src = plan.ops[1];
  int64_t size = itemsize(dst.dtype);
  if (dst.dtype != src.dtype || !src.fits || !dst.fits || plan.ndim < 2 || dst.strides[0] != size) return false;
  int other = 0;
  for (int d = 1; d < plan.ndim; ++d)
    if (src.strides[d] == size) other = d;
  if (!other || plan.sizes[0] < 8 || plan.sizes[other] < 8) return false;
  int64_t rows = plan.sizes[0], cols = plan.sizes[other];  // src is [rows][cols]
  int64_t outer = plan.numel / (rows * cols);
  constexpr int64_t kTile = 64;
  int64_t col_tiles = (cols + kTile - 1) / kTile;
  parallel_for(outer * col_tiles, std::max<int64_t>(1, kGrainCheap / (rows * kTile)), [&](int64_t b, int64_t e) {
    for (int64_t job = b; job < e; ++job) {
      int64_t rest = job / col_tiles, c0 = job % col_tiles * kTile;
      char* d = dst.data;
      const char* s = src.data;
      for (int k = 1; k < plan.ndim; ++k) {
        if (k == other) continue;
        int64_t i = rest % plan.sizes[k];
        rest /= plan.sizes[k];
        d += i * dst.strides[k];
        s += i * src.strides[k];
      }
      for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
        cast_table().transpose(static_cast<int>(size), d + c0 * dst.strides[other] + r0 * size, dst.strides[other],
                               s + r0 * src.strides[0] + c0 * size, src.strides[0], std::min(kTile, rows - r0),
                               std::min(kTile, cols - c0));
      }
    }
  });
  return true;
}

// dst[i * times + j] = src[i] for every j < times; step: bytes between elements of src.
template <class T, class Times, class Step>
void repeat_elements(T* dst, const char* src, int64_t n, Times times, Step step) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, src + i * step(), sizeof(T));
    for (int64_t j = 0; j < times(); ++j) dst[i * times() + j] = v;
  }
}

template <class T>
void repeat_each(char* dst, const char* src, int64_t step, int64_t n, int64_t times) {
  auto run = [&](auto count) {
    auto* to = reinterpret_cast<T*>(dst);
    if (step == sizeof(T)) return repeat_elements(to, src, n, count, [] { return int64_t{sizeof(T)}; });
    repeat_elements(to, src, n, count, [step] { return step; });
  };
  if (times == 2) return run([] { return int64_t{2}; });
  if (times == 3) return run([] { return int64_t{3}; });
  if (times == 4) return run([] { return int64_t{4}; });
  run([times] { return times; });
}

// f(run length, memory addresses) for the runs along dim `inner`, on all threads; each step of them is `width`
// elements.
template <class F>
void copy_runs(const Plan& plan, int inner, int64_t width, F f) {
  const int64_t steps = plan.numel / width;
  parallel_for(steps, even_grain(steps, std::max<int64_t>(1, kGrainCheap / width)), [&](int64_t b, int64_t e) {
    for_runs(plan, plan.ops, 2, b, e - b, [&](int64_t, int64_t run, char* const* p) { f(run, p); }, inner);
  });
}

constexpr int64_t kFewElements = 8;      // rows of fewer are copied by columns
constexpr int64_t kLongRowBytes = 4096;  // rows of more are worth a call each

// Elements, or blocks of those that lie side by side (the channels of an image), in the opposite order.
bool copy_reversed(const Plan& plan) {
  const Operand &dst = plan.ops[0], &src = plan.ops[1];
  if (!src.fits || !dst.fits) return false;
  const int64_t size = itemsize(dst.dtype);
  const int inner = dst.strides[0] == size && src.strides[0] == size ? 1 : 0;
  const int64_t width = inner ? plan.sizes[0] : 1, block = width * size;
  if (inner >= plan.ndim || block > kMostBlockBytes) return false;
  if (dst.strides[inner] != -src.strides[inner] || std::abs(dst.strides[inner]) != block) return false;
  const int outer = inner + 1;
  const int64_t n = plan.sizes[inner], piece = kLongRowBytes / 4 / block;
  const bool short_rows = outer < plan.ndim && n * block <= kLongRowBytes;
  if (short_rows && inner == 0 && n < kFewElements) return false;
  const auto reverse = cast_table().reverse_rows[block - 1];
  // Of `count` steps along `inner` that begin at `first`, where the lowest lies.
  auto lowest = [&](const Operand& op, char* first, int64_t count) {
    return op.strides[inner] < 0 ? first + (count - 1) * op.strides[inner] : first;
  };
  if (short_rows) {
    copy_runs(plan, outer, n * width, [&](int64_t rows, char* const* p) {
      reverse(lowest(dst, p[0], n), dst.strides[outer], lowest(src, p[1], n), src.strides[outer], rows, n);
    });
    return true;
  }
  copy_runs(plan, inner, width, [&](int64_t run, char* const* p) {  // the first pieces of src are the last ones of dst
    char *to = lowest(dst, p[0], run), *from = lowest(src, p[1], run);
    const int64_t pieces = run / piece, rest = run % piece, bytes = piece * block;
    reverse(to + (run - piece) * block, -bytes, from, bytes, pieces, piece);
    reverse(to, 0, from + pieces * bytes, 0, 1, rest);
  });
  return true;
}

// Rows that lie side by side in both: one call for many of them.
bool copy_rows(const Plan& plan) {
  const Operand &dst = plan.ops[0], &src = plan.ops[1];
  const int64_t size = itemsize(dst.dtype), bytes = plan.sizes[0] * size;
  if (!src.fits || !dst.fits || plan.ndim < 2 || bytes > kLongRowBytes) return false;
  if (dst.strides[0] != size || src.strides[0] != size) return false;
  copy_runs(plan, 1, plan.sizes[0], [&](int64_t rows, char* const* p) {
    cast_table().copy_rows(p[0], dst.strides[1], p[1], src.strides[1], rows, bytes);
  });
  return true;
}

// Elements that are each repeated a few times, side by side: too short to be runs of their own.
bool copy_repeated(const Plan& plan) {
  const Operand &dst = plan.ops[0], &src = plan.ops[1];
  const int64_t size = itemsize(dst.dtype), times = plan.sizes[0];
  constexpr int64_t kMostTimes = 16;
  if (!src.fits || !dst.fits || plan.ndim < 2 || times > kMostTimes || size > 8) return false;
  if (src.strides[0] != 0 || dst.strides[0] != size || dst.strides[1] != times * size) return false;
  auto repeat = size == 1   ? repeat_each<uint8_t>
                : size == 2 ? repeat_each<uint16_t>
                : size == 4 ? repeat_each<uint32_t>
                            : repeat_each<uint64_t>;
  copy_runs(plan, 1, times, [&](int64_t run, char* const* p) { repeat(p[0], p[1], src.strides[1], run, times); });
  return true;
}

// Rows of a few elements: their first elements, their second ones, ..., for as many rows as stay in cache. A run of
// its own for each row costs more than its elements do. Rows of dst that overlap are left alone: the last one wins.
bool copy_short_rows(const Plan& plan) {
  constexpr int64_t kRows = 256;
  const int64_t width = plan.sizes[0];
  if (plan.ndim < 2 || width >= kFewElements || plan.sizes[1] <= width) return false;
  const Operand &dst = plan.ops[0], &src = plan.ops[1];
  if (std::abs(dst.strides[1]) < width * std::abs(dst.strides[0])) return false;
  copy_runs(plan, 1, width, [&](int64_t run, char* const* p) {
    for (int64_t at = 0; at < run; at += kRows)
      for (int64_t i = 0; i < width; ++i)
        src.cast(p[0] + at * dst.strides[1] + i * dst.strides[0], dst.strides[1],
                 p[1] + at * src.strides[1] + i * src.strides[0], src.strides[1], std::min(kRows, run - at));
  });
  return true;
}

}  // namespace

void copy(const Tensor& dst, const Tensor& src) {
  if (dst.numel() == 0) return;
  int64_t size = dst.itemsize();
  Elementwise call{copy_loop, &size, 1, 1, {&dst, &src}, {dst.dtype(), dst.dtype()}, false};
  // A change of dtype happens in the gather; the loop itself only moves bytes.
  unsigned faults = 0;
  if (run_flat(call, &faults)) return;
  auto plan = std::make_unique_for_overwrite<Plan>();
  make_plan(call, *plan);
  ReleaseGil unlocked(plan->numel);
  turn_backward_dims(*plan);
  if (copy_transposed(*plan) || copy_repeated(*plan) || copy_reversed(*plan)) return;
  const Operand& to = plan->ops[0];
  const Operand& from = plan->ops[1];
  if (!to.conj && !to.neg && !from.conj && !from.neg) {
    // Straight from place to place, without a buffer between.
    if (copy_short_rows(*plan) || copy_rows(*plan)) return;
    copy_runs(*plan, 0, 1,
              [&](int64_t run, char* const* p) { from.cast(p[0], to.strides[0], p[1], from.strides[0], run); });
    return;
  }
  parallel_for(plan->numel, even_grain(plan->numel, kGrainCheap),
               [&](int64_t b, int64_t e) { run_range(call, *plan, b, e); });
}

}  // namespace tocha::cpu
