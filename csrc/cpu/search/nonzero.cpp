// nonzero, masked_select and masked_scatter: count per chunk, then let every chunk write its own part.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "cpu/search/kernels.h"
#include "cpu/search/nonzero_tests.h"
#include "cpu/search/search.h"

namespace tocha::cpu {
namespace {

using namespace searching;

constexpr int64_t kChunk = Selection::kChunk;
constexpr int kMaxDims = 64;

struct Bytes16 {
  uint64_t low, high;
};

// f(begin of chunk, first selected slot, last selected slot + 1)
template <class F>
void for_chunks(int64_t n, const Selection& selection, F&& f) {
  parallel_for((n + kChunk - 1) / kChunk, 4, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) f(c * kChunk, selection.offsets[c], selection.offsets[c + 1]);
  });
}

// Calls put(slot, i) for the selected i of a chunk in order. It may be called again for the same slot with a
// later i: writing before testing costs no branch, and `stop` keeps it inside the chunk's own slots.
template <class Test, class Put>
void compact(const typename Test::type* flags, int64_t i, int64_t slot, int64_t stop, Put&& put) {
  for (; slot < stop; ++i) {
    put(slot, i);
    slot += Test::nonzero(flags[i]);
  }
}

// Coordinates of increasing positions: steps from one to the next, dividing only where a dimension overflows.
class Coordinates {
 public:
  Coordinates(const int64_t* sizes, int ndim, int64_t position) : sizes_(sizes), ndim_(ndim), position_(position) {
    for (int d = ndim - 1; d >= 0; --d) {
      at_[d] = position % sizes[d];
      position /= sizes[d];
    }
  }

  void advance(int64_t position) {
    int d = ndim_ - 1;
    at_[d] += position - position_;
    position_ = position;
    for (; d > 0 && at_[d] >= sizes_[d]; --d) {
      int64_t carry = at_[d] / sizes_[d];
      at_[d] -= carry * sizes_[d];
      at_[d - 1] += carry;
    }
  }

  int64_t operator[](int d) const { return at_[d]; }

 private:
  const int64_t* sizes_;
  int ndim_;
  int64_t position_;
  int64_t at_[kMaxDims];
};

template <class F>
void with_item(int64_t itemsize, F&& f) {
  switch (itemsize) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    case 8:
      return f(uint64_t());
    case 16:
      return f(Bytes16());
    default:
      fail(ErrorKind::Runtime, "[masked_select] no elements of ", itemsize, " bytes");
  }
}

}  // namespace

Selection select_nonzero(DType dtype, const void* in, int64_t n) {
  Selection selection;
  int64_t chunks = (n + kChunk - 1) / kChunk;
  selection.offsets.assign(chunks + 1, 0);
  const char* bytes = static_cast<const char*>(in);
  int64_t step = itemsize(dtype) * kChunk;
  parallel_for(chunks, 4, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      int64_t count = std::min(kChunk, n - c * kChunk);
      selection.offsets[c + 1] = search_kernels().count_nonzero(dtype, bytes + c * step, count);
    }
  });
  for (int64_t c = 0; c < chunks; ++c) selection.offsets[c + 1] += selection.offsets[c];
  return selection;
}

void nonzero(DType dtype, const void* in, const int64_t* sizes, int ndim, const Selection& selection, int64_t* out,
             int64_t row_stride, int64_t column_stride) {
  if (ndim == 0) return;
  if (ndim > kMaxDims) fail(ErrorKind::Runtime, "[nonzero] ", ndim, " dimensions; at most 64 are supported");
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  with_zero_test(dtype, [&](auto test) {
    using Test = decltype(test);
    const auto* x = static_cast<const typename Test::type*>(in);
    for_chunks(n, selection, [&](int64_t begin, int64_t slot, int64_t stop) {
      if (slot == stop) return;
      if (ndim == 1) {
        return compact<Test>(x, begin, slot, stop, [&](int64_t s, int64_t i) { out[s * row_stride] = i; });
      }
      int64_t positions[kChunk];
      compact<Test>(x, begin, 0, stop - slot, [&](int64_t s, int64_t i) { positions[s] = i; });
      Coordinates at(sizes, ndim, positions[0]);
      for (int64_t s = slot; s < stop; ++s) {
        at.advance(positions[s - slot]);
        for (int d = 0; d < ndim; ++d) out[s * row_stride + d * column_stride] = at[d];
      }
    });
  });
}

void masked_select(int64_t itemsize, const void* in, const bool* mask, int64_t n, const Selection& selection,
                   void* out) {
  using Test = BitsTest<uint8_t, 0xff>;
  const uint8_t* flags = reinterpret_cast<const uint8_t*>(mask);
  with_item(itemsize, [&](auto item) {
    using U = decltype(item);
    const U* from = static_cast<const U*>(in);
    U* to = static_cast<U*>(out);
    for_chunks(n, selection, [&](int64_t begin, int64_t slot, int64_t stop) {
      compact<Test>(flags, begin, slot, stop, [&](int64_t s, int64_t i) { to[s] = from[i]; });
    });
  });
}

void masked_scatter(int64_t itemsize, void* inout, const bool* mask, int64_t n, const Selection& selection,
                    const void* source) {
  using Test = BitsTest<uint8_t, 0xff>;
  const uint8_t* flags = reinterpret_cast<const uint8_t*>(mask);
  with_item(itemsize, [&](auto item) {
    using U = decltype(item);
    U* to = static_cast<U*>(inout);
    const U* from = static_cast<const U*>(source);
    for_chunks(n, selection, [&](int64_t begin, int64_t slot, int64_t stop) {
      for (int64_t i = begin; slot < stop; ++i) {
        bool set = Test::nonzero(flags[i]);
        to[i] = set ? from[slot] : to[i];
        slot += set;
      }
    });
  });
}

}  // namespace tocha::cpu
