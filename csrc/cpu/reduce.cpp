#include "cpu/reduce.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/casts.h"
#include "cpu/elementwise.h"
#include "dispatch/native.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kLanes = 128;        // independent accumulators along a contiguous run
constexpr int64_t kBlock = 512;        // outputs that are reduced side by side
constexpr int64_t kGather = 1024;      // elements a gather buffer holds
constexpr int64_t kFewReduced = 16;    // shorter runs are reduced side by side even if strided
constexpr int64_t kPartWork = 1 << 16; // elements that make a part of a split reduction worth while
constexpr int64_t kMaxParts = 16;
constexpr int kMaxDims = 64;

struct Dim {
  int64_t size, in;      // in: byte stride
  int64_t out[2];        // byte strides of the outputs; for kept dims
};

struct Plan {
  const ReductionOp* op;
  const ReduceLoops* loops;
  const char* params;
  CastLoop cast;         // input's dtype to the loop's
  const char* in;
  int64_t item, loop_item;  // bytes per element in memory and in the loop
  bool fits;             // no conversion needed
  char* outs[2];
  CastLoop out_cast[2];
  int64_t out_item[2];   // bytes per element as finish writes it
  int64_t state_item[kMaxStates];
  int nkept = 0, nreduced = 0;
  Dim kept[kMaxDims], reduced[kMaxDims];  // innermost first
  int64_t outputs = 1, count = 1;
  bool side_by_side;     // lanes are outputs (else lanes run along the reduced dim)
};

using States = char* [kMaxStates];

int64_t state_bytes(const Plan& p) {
  int64_t n = 0;
  for (int k = 0; k < p.op->nstates; ++k) n += p.state_item[k];
  return n;
}

// Points a set of states at `memory`, which has room for m lanes of each.
void place(const Plan& p, char* memory, int64_t m, char** states) {
  for (int k = 0; k < p.op->nstates; ++k) {
    states[k] = memory;
    memory += m * p.state_item[k];
  }
}

void shift(const Plan& p, char* const* states, int64_t lanes, char** out) {
  for (int k = 0; k < p.op->nstates; ++k) out[k] = states[k] + lanes * p.state_item[k];
}

// Calls f(input pointer, position) for every index of the reduced dims but the innermost; the outermost
// dim only runs over [begin, end).
template <class F>
void for_reduced_rows(const Plan& p, const char* base, int64_t begin, int64_t end, F f) {
  int outer = p.nreduced - 1;
  if (p.nreduced == 1) {
    f(base, int64_t{0});
    return;
  }
  int64_t index[kMaxDims] = {};
  int64_t weight[kMaxDims];  // position step of each dim
  weight[0] = 1;
  for (int d = 1; d < p.nreduced; ++d) weight[d] = weight[d - 1] * p.reduced[d - 1].size;
  index[outer] = begin;
  const char* ptr = base + begin * p.reduced[outer].in;
  int64_t position = begin * weight[outer];
  for (;;) {
    f(ptr, position);
    int d = 1;
    for (; d < p.nreduced; ++d) {
      int64_t limit = d == outer ? end : p.reduced[d].size;
      ptr += p.reduced[d].in;
      position += weight[d];
      if (++index[d] < limit) break;
      int64_t start = d == outer ? begin : 0;
      ptr -= (index[d] - start) * p.reduced[d].in;
      position -= (index[d] - start) * weight[d];
      index[d] = start;
    }
    if (d == p.nreduced) return;
  }
}

void fold_run(const Plan& p, char* const* states, const char* x, int64_t n, int64_t position) {
  int64_t rows = n / kLanes, tail = n % kLanes;
  if (rows) p.loops->fold(states, x, rows, kLanes * p.loop_item, kLanes, position, kLanes, 1, p.params);
  if (tail) p.loops->fold(states, x + rows * kLanes * p.loop_item, 1, 0, tail, position + rows * kLanes, 0, 1, p.params);
}

void merge_lanes(const Plan& p, char* const* states, int64_t m) {
  while (m > 1) {
    int64_t half = (m + 1) / 2;
    States upper;
    shift(p, states, half, upper);
    p.loops->merge(states, upper, m - half, p.params);
    m = half;
  }
}

// Reduces [begin, end) of the outermost reduced dim for one output; the result is lane 0.
void reduce_along(const Plan& p, const char* base, int64_t begin, int64_t end, char* const* lanes, char* buffer) {
  const Dim& inner = p.reduced[0];
  int64_t from = p.nreduced == 1 ? begin : 0, to = p.nreduced == 1 ? end : inner.size;
  int64_t used = std::min<int64_t>(kLanes, to - from);
  p.loops->init(lanes, used, p.params);
  for_reduced_rows(p, base, begin, end, [&](const char* row, int64_t position) {
    const char* x = row + from * inner.in;
    if (p.fits && inner.in == p.item) {
      fold_run(p, lanes, x, to - from, position + from);
      return;
    }
    for (int64_t i = from; i < to; i += kGather) {
      int64_t n = std::min(kGather, to - i);
      p.cast(buffer, p.loop_item, row + i * inner.in, inner.in, n);
      fold_run(p, lanes, buffer, n, position + i);
    }
  });
  merge_lanes(p, lanes, used);
}

// Reduces [begin, end) of the outermost reduced dim for m neighbouring outputs, one lane each.
void reduce_block(const Plan& p, const char* base, int64_t step, int64_t m, int64_t begin, int64_t end, char* const* lanes, char* buffer) {
  p.loops->init(lanes, m, p.params);
  const Dim& inner = p.reduced[0];
  int64_t from = p.nreduced == 1 ? begin : 0, to = p.nreduced == 1 ? end : inner.size;
  for_reduced_rows(p, base, begin, end, [&](const char* row, int64_t position) {
    if (p.fits && step == p.item) {
      p.loops->fold(lanes, row + from * inner.in, to - from, inner.in, m, position + from, 1, 0, p.params);
      return;
    }
    for (int64_t r = from; r < to; ++r) {
      p.cast(buffer, p.loop_item, row + r * inner.in, step, m);
      p.loops->fold(lanes, buffer, 1, 0, m, position + r, 0, 0, p.params);
    }
  });
}

void add_kept(Plan& p, const Dim& d) {
  p.outputs *= d.size;
  if (p.nkept > 0) {
    Dim& last = p.kept[p.nkept - 1];
    if (d.in == last.in * last.size && d.out[0] == last.out[0] * last.size && d.out[1] == last.out[1] * last.size) {
      last.size *= d.size;
      return;
    }
  }
  p.kept[p.nkept++] = d;
}

void add_reduced(Plan& p, const Dim& d) {
  p.count *= d.size;
  if (p.nreduced > 0) {
    Dim& last = p.reduced[p.nreduced - 1];
    if (d.in == last.in * last.size) {
      last.size *= d.size;
      return;
    }
  }
  p.reduced[p.nreduced++] = d;
}

void make_plan(const ReductionOp& op, DType math, const ReduceLoops& loops, const ReductionCall& call, const Tensor& in, Plan& p) {
  p.op = &op;
  p.loops = &loops;
  p.params = call.params;
  p.cast = cast_loop(in.dtype(), math);
  p.in = in.bytes();
  p.item = in.itemsize();
  p.loop_item = itemsize(math);
  p.fits = in.dtype() == math;
  for (int i = 0; i < op.nout; ++i) {
    DType written = op.types[i].resolve(math);
    p.outs[i] = call.outs[i]->bytes();
    p.out_cast[i] = cast_loop(written, call.outs[i]->dtype());
    p.out_item[i] = itemsize(written);
  }
  for (int k = 0; k < op.nstates; ++k) p.state_item[k] = itemsize(op.types[op.nout + k].resolve(math));
  int64_t nkept = 0;
  for (int64_t d = 0; d < in.dim(); ++d) nkept += !call.reduced[d];
  bool keepdim = call.outs[0]->dim() == in.dim();
  Dim kept[kMaxDims];
  int n = 0;
  int64_t place = nkept;
  for (int64_t d = in.dim() - 1; d >= 0; --d) {
    if (call.reduced[d]) {
      if (in.size(d) != 1) add_reduced(p, {in.size(d), in.stride(d) * p.item, {0, 0}});
      continue;
    }
    --place;
    int64_t out_dim = keepdim ? d : place;
    if (in.size(d) == 1) continue;
    Dim dim{in.size(d), in.stride(d) * p.item, {0, 0}};
    for (int i = 0; i < op.nout; ++i) dim.out[i] = call.outs[i]->stride(out_dim) * call.outs[i]->itemsize();
    kept[n++] = dim;
  }
  // Which output comes first does not matter: walk the input's memory in order.
  std::stable_sort(kept, kept + n, [](const Dim& a, const Dim& b) { return a.in < b.in; });
  for (int i = 0; i < n; ++i) add_kept(p, kept[i]);
  if (p.nreduced == 0) p.reduced[p.nreduced++] = {1, p.item, {0, 0}};
  if (p.nkept == 0) p.kept[p.nkept++] = {1, p.item, {0, 0}};
  bool along = p.reduced[0].in == p.item && p.reduced[0].size >= kFewReduced;
  p.side_by_side = !along && p.kept[0].size > 1;
}

// One block: outputs [first, first + m) of the innermost kept dim, at `outer` of the other kept dims.
struct Block {
  const char* in;
  char* outs[2];
  int64_t m;
};

int64_t block_size(const Plan& p) { return std::min(kBlock, p.kept[0].size); }

Block block_at(const Plan& p, int64_t number) {
  int64_t size = block_size(p);
  int64_t per_row = (p.kept[0].size + size - 1) / size;
  int64_t rest = number / per_row, first = number % per_row * size;
  Block b{p.in + first * p.kept[0].in, {}, std::min(size, p.kept[0].size - first)};
  for (int i = 0; i < p.op->nout; ++i) b.outs[i] = p.outs[i] + first * p.kept[0].out[i];
  for (int d = 1; d < p.nkept; ++d) {
    int64_t at = rest % p.kept[d].size;
    rest /= p.kept[d].size;
    b.in += at * p.kept[d].in;
    for (int i = 0; i < p.op->nout; ++i) b.outs[i] += at * p.kept[d].out[i];
  }
  return b;
}

void finish_block(const Plan& p, const Block& b, char* const* states) {
  alignas(64) char memory[2][kBlock * 16];
  char* results[2] = {memory[0], memory[1]};
  p.loops->finish(results, states, b.m, p.count, p.params);
  for (int i = 0; i < p.op->nout; ++i) p.out_cast[i](b.outs[i], p.kept[0].out[i], results[i], p.out_item[i], b.m);
}

// Fills `states` (m lanes) with the block's partial result over part `part` of `parts`.
void reduce_part(const Plan& p, const Block& b, int64_t part, int64_t parts, char* const* states) {
  const Dim& outer = p.reduced[p.nreduced - 1];
  int64_t begin = outer.size * part / parts, end = outer.size * (part + 1) / parts;
  alignas(64) char buffer[kGather * 16];
  if (p.side_by_side) {
    reduce_block(p, b.in, p.kept[0].in, b.m, begin, end, states, buffer);
    return;
  }
  alignas(64) char memory[kLanes * 16 * kMaxStates];
  States lanes;
  place(p, memory, kLanes, lanes);
  for (int64_t j = 0; j < b.m; ++j) {
    reduce_along(p, b.in + j * p.kept[0].in, begin, end, lanes, buffer);
    for (int k = 0; k < p.op->nstates; ++k) std::memcpy(states[k] + j * p.state_item[k], lanes[k], static_cast<size_t>(p.state_item[k]));
  }
}

void run_plan(const Plan& p) {
  int64_t size = block_size(p);
  int64_t per_row = (p.kept[0].size + size - 1) / size;
  int64_t blocks = per_row * (p.outputs / p.kept[0].size);
  int64_t work = p.outputs * p.count;
  // Few outputs over much input: cut the input.
  int64_t parts = 1;
  if (blocks < 8) parts = std::clamp<int64_t>(work / blocks / kPartWork, 1, kMaxParts);
  parts = std::min(parts, p.reduced[p.nreduced - 1].size);
  if (parts == 1) {
    int64_t block_work = std::max<int64_t>(1, work / blocks);
    parallel_for(blocks, std::max<int64_t>(1, 32768 / block_work), [&](int64_t b, int64_t e) {
      alignas(64) char memory[kBlock * 16 * kMaxStates];
      States states;
      place(p, memory, kBlock, states);
      for (int64_t i = b; i < e; ++i) {
        Block block = block_at(p, i);
        reduce_part(p, block, 0, 1, states);
        finish_block(p, block, states);
      }
    });
    return;
  }
  int64_t bytes = state_bytes(p) * size;
  std::unique_ptr<char[]> memory(new char[static_cast<size_t>(bytes * parts * blocks)]);
  parallel_for(blocks * parts, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      States states;
      place(p, memory.get() + i * bytes, size, states);
      reduce_part(p, block_at(p, i / parts), i % parts, parts, states);
    }
  });
  for (int64_t i = 0; i < blocks; ++i) {
    Block block = block_at(p, i);
    States first;
    place(p, memory.get() + i * parts * bytes, size, first);
    for (int64_t k = 1; k < parts; ++k) {
      States next;
      place(p, memory.get() + (i * parts + k) * bytes, size, next);
      p.loops->merge(first, next, block.m, p.params);
    }
    finish_block(p, block, first);
  }
}

}  // namespace

void reduce(const ReductionOp& op, DType compute, const ReductionCall& call) {
  const ReduceLoops* table = op.cpu_loops[static_cast<int>(cpu_isa())];
  DType math = compute;
  if (!table[static_cast<int>(math)].fold && is_reduced_floating(compute)) math = DType::Float32;
  const ReduceLoops& loops = table[static_cast<int>(math)];
  TOCHA_CHECK(loops.fold, NotImplemented, "[", op.name, "] not implemented for '", compute, "'");
  Tensor in = *call.in;
  if (in.is_conj() || in.is_neg()) {
    Tensor plain = empty(in.sizes(), in.dtype(), in.device());
    copy(plain, in);
    in = plain;
  }
  auto plan = std::make_unique<Plan>();
  make_plan(op, math, loops, call, in, *plan);
  ReleaseGil unlocked(in.numel());
  run_plan(*plan);
}

}  // namespace tocha::cpu
