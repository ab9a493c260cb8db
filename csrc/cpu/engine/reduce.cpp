#include "cpu/engine/reduce.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/dtype_messages.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/casts.h"
#include "cpu/engine/elementwise.h"
#include "dispatch/native.h"

namespace tocha::cpu {
namespace {

constexpr int64_t kChunk = 8192;          // elements of a run that are summed before they join the total
constexpr int64_t kBlock = 512;           // outputs that are reduced side by side
constexpr int64_t kGather = 2048;         // elements a gather buffer holds
constexpr int64_t kChunkRows = 64;        // rows that one accumulator takes before it is merged
constexpr int64_t kFewReduced = 16;       // shorter runs are reduced side by side even if strided
constexpr int64_t kBlockWork = 1 << 14;   // elements of a block of runs
constexpr int64_t kSharedWork = 1 << 15;  // elements that are worth a second thread
constexpr int64_t kPartWork = 1 << 16;    // elements that make a part of a split reduction worth while
constexpr int64_t kMaxParts = 16;
constexpr int kMaxDims = 64;

struct Dim {
  int64_t size, in;  // in: byte stride
  int64_t out[2];    // byte strides of the outputs; for kept dims
};

struct Plan {
  const ReductionOp* op;
  const ReduceLoops* loops;
  const char* params;
  CastLoop cast;  // input's dtype to the loop's
  const char* in;
  int64_t item, loop_item;  // bytes per element in memory and in the loop
  bool fits;                // no conversion needed
  char* outs[2];
  CastLoop out_cast[2];
  int64_t out_item[2];  // bytes per element as finish writes it
  int64_t state_item[kMaxStates];
  int nkept = 0, nreduced = 0;
  Dim kept[kMaxDims], reduced[kMaxDims];  // innermost first
  int64_t outputs = 1, count = 1;
  int64_t block = 1;  // outputs of the innermost kept dim that are reduced together
  bool side_by_side;  // lanes are outputs (else lanes run along the reduced dim)
};

using States = char* [kMaxStates];

// What one thread works in; lanes of states hold kBlock each.
struct Scratch {
  alignas(64) char buffer[kGather * 16];
  alignas(64) char memory[2][kBlock * 16 * kMaxStates];
  States totals, part;
};

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

void prepare(const Plan& p, Scratch& s) {
  place(p, s.memory[0], kBlock, s.totals);
  place(p, s.memory[1], kBlock, s.part);
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

// Sums stay accurate when no accumulator takes too many terms: rows go into `part`, which is merged into `totals`
// and starts afresh every kChunkRows rows.
class Cascade {
 public:
  Cascade(const Plan& p, char* const* totals, char* const* part, int64_t lanes, int64_t rows)
      : p_(p), totals_(totals), part_(part), lanes_(lanes), used_(rows > kChunkRows ? part : totals) {
    p.loops->init(totals, lanes, p.params);
    if (used_ == part) p.loops->init(part, lanes, p.params);
  }
  char* const* states() const { return used_; }
  // How many of `rows` may be folded into states() now.
  int64_t room(int64_t rows) {
    if (used_ == totals_) return rows;
    if (filled_ == kChunkRows) flush();
    int64_t n = std::min(rows, kChunkRows - filled_);
    filled_ += n;
    return n;
  }
  void finish() {
    if (used_ == part_ && filled_) flush();
  }

 private:
  void flush() {
    p_.loops->merge(totals_, part_, lanes_, p_.params);
    p_.loops->init(part_, lanes_, p_.params);
    filled_ = 0;
  }

  const Plan& p_;
  char* const* totals_;
  char* const* part_;
  int64_t lanes_, filled_ = 0;
  char* const* used_;
};

// lanes [0, groups * m) become lanes [0, m): lane j takes j + m, j + 2 m, ...
void merge_groups(const Plan& p, char* const* states, int64_t groups, int64_t m) {
  while (groups > 1) {
    int64_t half = (groups + 1) / 2;
    States upper;
    shift(p, states, half * m, upper);
    p.loops->merge(states, upper, (groups - half) * m, p.params);
    groups = half;
  }
}

// Folds [begin, end) of the outermost reduced dim into one output's state.
void reduce_along(const Plan& p, const char* base, int64_t begin, int64_t end, char* const* state, char* buffer) {
  const Dim& inner = p.reduced[0];
  int64_t from = p.nreduced == 1 ? begin : 0, to = p.nreduced == 1 ? end : inner.size;
  bool direct = p.fits && inner.in == p.item;
  int64_t chunk = direct ? kChunk : kGather;
  for_reduced_rows(p, base, begin, end, [&](const char* row, int64_t position) {
    for (int64_t i = from; i < to; i += chunk) {
      int64_t n = std::min(chunk, to - i);
      const char* x = row + i * inner.in;
      if (!direct) p.cast(buffer, p.loop_item, x, inner.in, n);
      p.loops->row(state, direct ? x : buffer, n, position + i, p.params);
    }
  });
}

// Reduces [begin, end) of the outermost reduced dim for m neighbouring outputs, one lane each.
void reduce_block(const Plan& p, const char* base, int64_t step, int64_t m, int64_t begin, int64_t end, Scratch& s) {
  const Dim& inner = p.reduced[0];
  int64_t from = p.nreduced == 1 ? begin : 0, to = p.nreduced == 1 ? end : inner.size;
  bool direct = p.fits && step == p.item;
  // Short rows that follow each other in memory are taken several at a time; positions would not be lane + row then.
  int64_t groups = direct && !p.op->ordered && inner.in == m * p.item ? std::min(kBlock / m, to - from) : 1;
  int64_t lanes = groups * m;
  Cascade sums(p, s.totals, s.part, lanes, p.count / groups);
  for_reduced_rows(p, base, begin, end, [&](const char* row, int64_t position) {
    const char* x = row + from * inner.in;
    int64_t at = position + from, rows = (to - from) / groups, tail = (to - from) % groups;
    for (int64_t r = 0; r < rows;) {
      int64_t now = sums.room(direct ? rows - r : 1);
      if (direct) {
        p.loops->fold(sums.states(), x, now, groups * inner.in, lanes, at, 1, 0, p.params);
      } else {
        p.cast(s.buffer, p.loop_item, x, step, m);
        p.loops->fold(sums.states(), s.buffer, 1, 0, m, at, 0, 0, p.params);
      }
      x += now * groups * inner.in;
      at += now;
      r += now;
    }
    if (tail) {
      sums.room(1);
      p.loops->fold(sums.states(), x, 1, 0, tail * m, at, 0, 0, p.params);
    }
  });
  sums.finish();
  merge_groups(p, s.totals, groups, m);
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

void make_plan(const ReductionOp& op, DType math, const ReduceLoops& loops, const ReductionCall& call, const Tensor& in,
               Plan& p) {
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
  Dim kept[kMaxDims], reduced[kMaxDims];
  int n = 0, nreduced = 0;
  int64_t place = nkept;
  for (int64_t d = in.dim() - 1; d >= 0; --d) {
    if (call.reduced[d]) {
      if (in.size(d) != 1) reduced[nreduced++] = {in.size(d), in.stride(d) * p.item, {0, 0}};
      continue;
    }
    --place;
    int64_t out_dim = keepdim ? d : place;
    if (in.size(d) == 1) continue;
    Dim dim{in.size(d), in.stride(d) * p.item, {0, 0}};
    for (int i = 0; i < op.nout; ++i) dim.out[i] = call.outs[i]->stride(out_dim) * call.outs[i]->itemsize();
    kept[n++] = dim;
  }
  // Which output comes first does not matter, nor which element unless its position counts: walk memory in order.
  auto nearer = [](const Dim& a, const Dim& b) { return a.in < b.in; };
  std::stable_sort(kept, kept + n, nearer);
  if (!op.ordered) std::stable_sort(reduced, reduced + nreduced, nearer);
  for (int i = 0; i < n; ++i) add_kept(p, kept[i]);
  for (int i = 0; i < nreduced; ++i) add_reduced(p, reduced[i]);
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

// Outputs that are reduced one after the other need no more company than makes a block worth a thread's while, and
// their blocks are dealt out evenly.
int64_t block_size(const Plan& p) {
  const int64_t size = p.kept[0].size;
  if (p.side_by_side) return std::min(kBlock, size);
  const int64_t most = std::clamp<int64_t>(kBlockWork / std::max<int64_t>(p.count, 1), 1, kBlock);
  if (size <= most) return size;
  const int64_t even = 2 * num_threads(), blocks = ((size + most - 1) / most + even - 1) / even * even;
  return (size + blocks - 1) / blocks;
}

Block block_at(const Plan& p, int64_t number) {
  int64_t size = p.block;
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

// The block's partial result over part `part` of `parts`, in states (m lanes).
void reduce_part(const Plan& p, const Block& b, int64_t part, int64_t parts, Scratch& s, char* const* states) {
  const Dim& outer = p.reduced[p.nreduced - 1];
  int64_t begin = outer.size * part / parts, end = outer.size * (part + 1) / parts;
  if (p.side_by_side && p.count > 0) {
    reduce_block(p, b.in, p.kept[0].in, b.m, begin, end, s);
    for (int k = 0; k < p.op->nstates; ++k)
      std::memcpy(states[k], s.totals[k], static_cast<size_t>(b.m * p.state_item[k]));
    return;
  }
  p.loops->init(states, b.m, p.params);
  if (p.count == 0) return;
  const bool one_run = p.nreduced == 1 && p.fits && outer.in == p.item && end - begin <= kChunk;
  for (int64_t j = 0; j < b.m; ++j) {
    States one;
    shift(p, states, j, one);
    if (one_run) {
      p.loops->row(one, b.in + j * p.kept[0].in + begin * p.item, end - begin, begin, p.params);
      continue;
    }
    reduce_along(p, b.in + j * p.kept[0].in, begin, end, one, s.buffer);
  }
}

void run_whole(const Plan& p, int64_t blocks, int64_t work) {
  const int64_t block_work = std::max<int64_t>(1, work / blocks);
  const int64_t grain = p.side_by_side || work < kSharedWork ? kSharedWork / block_work : kBlockWork / 2 / block_work;
  parallel_for(blocks, std::max<int64_t>(1, grain), [&](int64_t b, int64_t e) {
    Scratch scratch;
    prepare(p, scratch);
    alignas(64) char memory[kBlock * 16 * kMaxStates];
    States states;
    place(p, memory, kBlock, states);
    for (int64_t i = b; i < e; ++i) {
      Block block = block_at(p, i);
      reduce_part(p, block, 0, 1, scratch, states);
      finish_block(p, block, states);
    }
  });
}

// Few outputs over much input: the input is cut into parts, merged in order at the end.
void run_parts(const Plan& p, int64_t blocks, int64_t parts) {
  int64_t size = p.block, bytes = state_bytes(p) * size;
  std::unique_ptr<char[]> memory(new char[static_cast<size_t>(bytes * parts * blocks)]);
  parallel_for(blocks * parts, 1, [&](int64_t b, int64_t e) {
    Scratch scratch;
    prepare(p, scratch);
    for (int64_t i = b; i < e; ++i) {
      States states;
      place(p, memory.get() + i * bytes, size, states);
      reduce_part(p, block_at(p, i / parts), i % parts, parts, scratch, states);
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

void run_plan(Plan& p) {
  const int64_t size = p.block = block_size(p);
  int64_t blocks = (p.kept[0].size + size - 1) / size * (p.outputs / p.kept[0].size);
  int64_t work = p.outputs * p.count;
  int64_t parts = 1;
  if (blocks < 8) parts = std::clamp<int64_t>(work / blocks / kPartWork, 1, kMaxParts);
  parts = std::min(parts, p.reduced[p.nreduced - 1].size);
  if (parts > 1)
    run_parts(p, blocks, parts);
  else
    run_whole(p, blocks, work);
}

// The dtype whose loop serves `compute`: small integers and half floats are widened as they are read.
DType loop_dtype(const ReduceLoops* table, DType compute) {
  if (table[static_cast<int>(compute)].fold) return compute;
  return is_reduced(compute) ? math_dtype(compute) : DType::Int64;
}

}  // namespace

void reduce(const ReductionOp& op, DType compute, const ReductionCall& call) {
  const ReduceLoops* table = op.cpu_loops[static_cast<int>(cpu_isa())];
  DType math = loop_dtype(table, compute);
  const ReduceLoops& loops = table[static_cast<int>(math)];
  if (!loops.fold) [[unlikely]]
    refuse_dtype(op.name, compute);
  Tensor in = *call.in;
  if (in.is_conj() || in.is_neg()) {
    Tensor plain = empty(in.sizes(), in.dtype(), in.device());
    copy(plain, in);
    in = plain;
  }
  Plan plan;
  make_plan(op, math, loops, call, in, plan);
  ReleaseGil unlocked(in.numel());
  run_plan(plan);
}

}  // namespace tocha::cpu
