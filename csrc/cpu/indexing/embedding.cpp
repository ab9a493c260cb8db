// Sums and maxima of rows that indices name: the kernels of tocha/operators/embedding.py. Every thread owns a range of
// result rows, so that sums are the same however many threads there are.
#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "core/gil.h"
#include "cpu/engine/lanes.h"
#include "cpu/engine/layout.h"
#include "cpu/indexing/embedding_kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements a thread should have

template <class T>
const cpu::EmbeddingLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::embedding_kernels().f32;
  else
    return cpu::embedding_kernels().f64;
}

// Numbers that a tensor gives, or the positions themselves.
struct Indices {
  explicit Indices(const Tensor& t) : held(t ? cpu::dense(t, DType::Int64) : Tensor()) {
    if (held) data = held.data<int64_t>();
  }
  int64_t operator[](int64_t i) const { return data ? data[i] : i; }
  void check(int64_t count, int64_t limit) const { check(0, count, limit); }
  void check(int64_t first, int64_t count, int64_t limit) const {
    for (int64_t i = first; data && i < first + count; ++i)
      TOCHA_CHECK(data[i] >= 0 && data[i] < limit, Runtime, "[embedding_bag] Index ", i, " of input takes value ",
                  data[i], " which is not in the valid range [0, ", limit, ")");
  }

  Tensor held;
  const int64_t* data = nullptr;
};

// The rows of a matrix as T; those of another dtype pass through a buffer.
template <class T>
class RowReader {
 public:
  explicit RowReader(const Tensor& t)
      : t_(t),
        plain_(t.dtype() == DTypeOf<T>::value && (t.stride(1) == 1 || t.size(1) == 1)),
        buffer_(plain_ ? nullptr : new T[static_cast<size_t>(t.size(1))]) {}
  const T* row(int64_t i) const {
    const char* from = t_.bytes() + i * t_.stride(0) * t_.itemsize();
    if (plain_) return reinterpret_cast<const T*>(from);
    cpu::cast_loop(t_.dtype(), DTypeOf<T>::value)(reinterpret_cast<char*>(buffer_.get()), sizeof(T), from,
                                                  t_.stride(1) * t_.itemsize(), t_.size(1));
    return buffer_.get();
  }

 private:
  const Tensor& t_;
  bool plain_;
  std::unique_ptr<T[]> buffer_;
};

// Rows of a table, of any dtype and layout, in T: the table itself where it has them so.
template <class T>
Tensor as_table(const Tensor& t) {
  const bool fits = t.dtype() == DTypeOf<T>::value && (t.stride(1) == 1 || t.size(1) == 1) && !t.is_neg();
  return fits ? t : cpu::dense(t, DTypeOf<T>::value);
}

// Whether it costs little to bring all rows into T, beside reading those that indices name.
template <class T>
bool reads_table(const Tensor& source, int64_t count) {
  return source.dtype() == DTypeOf<T>::value || source.size(0) <= 2 * count;
}

bool never_falls(const int64_t* p, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    if (p[i] < p[i - 1]) return false;
  return true;
}

// f(bag, first, count) for the indices of every bag, where each bag's stand together.
template <class F>
void for_bags(const int64_t* bag_of, int64_t count, int64_t bags, int64_t work, F f) {
  const int lanes = cpu::lane_count(std::min(bags, work / kGrain + 1), 1);
  cpu::for_lanes(bags, lanes, [&](int, int64_t first, int64_t last) {
    int64_t i = std::lower_bound(bag_of, bag_of + count, first) - bag_of;
    for (int64_t bag = first; bag < last; ++bag) {
      int64_t end = i;
      while (end < count && bag_of[end] == bag) ++end;
      f(bag, i, end - i);
      i = end;
    }
  });
}

// Sums of rows that go to the same place one after the other; threads check the indices as they come to them.
template <class T>
void sum_bags(const Tensor& sums, const Tensor& table, const Indices& from, const int64_t* bag_of, int64_t count,
              const T* factors) {
  const int64_t n = table.size(1), rows = table.size(0);
  for_bags(bag_of, count, sums.size(0), count * n + sums.numel(), [&](int64_t bag, int64_t first, int64_t some) {
    from.check(first, some, rows);
    loops<T>().sum_bag({table.data<T>(), table.stride(0), from.data + first, factors ? factors + first : nullptr, some,
                        n, count - first},
                       sums.data<T>() + bag * n);
  });
}

// Rows that go anywhere: each thread has some of the places, and looks through all rows for them.
template <class T>
void scatter_rows(const Tensor& sums, const Tensor& source, const Indices& from, const Indices& target, int64_t count,
                  const T* factors) {
  const int64_t n = source.size(1), rows = sums.size(0);
  const int lanes = cpu::lane_count(std::min(rows, (count * n + sums.numel()) / kGrain + 1), 1);
  cpu::for_lanes(rows, lanes, [&](int, int64_t first, int64_t last) {
    RowReader<T> reader(source);
    T* y = sums.data<T>();
    std::fill(y + first * n, y + last * n, T(0));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = target[i];
      const T f = factors ? factors[i] : T(1);
      if (row >= first && row < last && f != T(0)) loops<T>().add_scaled(y + row * n, reader.row(from[i]), f, n);
    }
  });
}

template <class T>
void add_rows(const Tensor& out, const Tensor& source, const Tensor& origin, const Tensor& to, const Tensor& factors) {
  const int64_t count = origin ? origin.numel() : to ? to.numel() : source.size(0);
  Tensor sums = out.dtype() == DTypeOf<T>::value ? out : empty(out.sizes(), DTypeOf<T>::value, out.device());
  const Indices from(origin), target(to);
  const Tensor given = factors ? cpu::dense(factors, DTypeOf<T>::value) : Tensor();
  const T* factor = given ? given.data<T>() : nullptr;
  const bool bags = origin && to && reads_table<T>(source, count) && never_falls(target.data, count);
  if (bags && count > 0) {  // they do not fall: the ends tell of all
    target.check(0, 1, out.size(0));
    target.check(count - 1, 1, out.size(0));
  } else {
    from.check(count, source.size(0));
    target.check(count, out.size(0));
  }
  const Tensor table = bags ? as_table<T>(source) : source;
  {
    ReleaseGil released(count * source.size(1) + sums.numel());
    if (bags)
      sum_bags<T>(sums, table, from, target.data, count, factor);
    else
      scatter_rows<T>(sums, source, from, target, count, factor);
  }
  if (!sums.is(out)) cpu::copy(out, sums);
}

template <class T>
void bag_max(const Tensor& out, const Tensor& places, const Tensor& weight, const Tensor& indices, const Tensor& bags,
             int64_t padding) {
  const int64_t n = weight.size(1), count = indices.numel();
  Tensor best = out.dtype() == DTypeOf<T>::value ? out : empty(out.sizes(), DTypeOf<T>::value, out.device());
  const Indices index(indices), bag(bags);
  index.check(count, weight.size(0));
  const Tensor table = as_table<T>(weight);
  std::unique_ptr<T[]> kept;
  if (padding >= 0) {
    kept.reset(new T[static_cast<size_t>(count)]);
    for (int64_t i = 0; i < count; ++i) kept[static_cast<size_t>(i)] = T(index[i] != padding);
  }
  {
    ReleaseGil released(count * n + best.numel());
    for_bags(bag.data, count, out.size(0), count * n + best.numel(), [&](int64_t b, int64_t first, int64_t some) {
      loops<T>().max_bag({table.data<T>(), table.stride(0), index.data + first, kept ? kept.get() + first : nullptr,
                          some, n, count - first},
                         best.data<T>() + b * n, places.data<int64_t>() + b * n);
    });
  }
  if (!best.is(out)) cpu::copy(out, best);
}

}  // namespace

void _add_rows(const Tensor& out, const Tensor& source, const Tensor& origin, const Tensor& to, const Tensor& factors,
               int64_t) {
  if (source.dtype() == DType::Float64)
    add_rows<double>(out, source, origin, to, factors);
  else
    add_rows<float>(out, source, origin, to, factors);
}

void _sum_bags(const Tensor& out, const Tensor& weight, const Tensor& indices, const Tensor& bags,
               const Tensor& factors, int64_t count, bool, bool, int64_t) {
  _add_rows(out, weight, indices, bags, factors, count);
}

std::tuple<Tensor, Tensor> _merge_indices(const Tensor& a, const Tensor& b) {
  for (const Tensor& t : {a, b})
    TOCHA_CHECK(t.dim() == 1 && t.dtype() == DType::Int64, Runtime, "[_merge_indices] expected vectors of int64, got ",
                t);
  const Indices first(a), second(b);
  const int64_t n = a.numel(), m = b.numel();
  std::vector<int64_t> in_a, in_b;
  for (int64_t i = 0, k = 0; i < n || k < m;) {
    const bool take_a = k == m || (i < n && first[i] <= second[k]), take_b = i == n || (k < m && second[k] <= first[i]);
    in_a.push_back(take_a ? i++ : -1);
    in_b.push_back(take_b ? k++ : -1);
  }
  auto tensor = [&](const std::vector<int64_t>& places) {
    Tensor t = empty(Ints{static_cast<int64_t>(places.size())}, DType::Int64, a.device());
    std::copy(places.begin(), places.end(), t.data<int64_t>());
    return t;
  };
  return {tensor(in_a), tensor(in_b)};
}

void _bag_of_each(const Tensor& out, const Tensor& offsets, int64_t count, bool include_last_offset) {
  const Indices start(offsets);
  const int64_t given = offsets.numel(), bags = include_last_offset ? given - 1 : given;
  if (given == 0) {
    std::fill_n(out.data<int64_t>(), count, 0);
    return;
  }
  TOCHA_CHECK(start[0] == 0, Runtime, "[embedding_bag] offsets[0] has to be 0, i.e., the first sequence in the ",
              "mini-batch has to start from position 0. However, got ", start[0]);
  TOCHA_CHECK(start[given - 1] <= count, Runtime, "[embedding_bag] offsets[-1] can not be greater than input's length ",
              count, " but got offsets[-1] of ", start[given - 1]);
  for (int64_t b = 1; b < given; ++b)
    TOCHA_CHECK(start[b] >= start[b - 1], Runtime, "[embedding_bag] offsets must not fall, but got ", start[b - 1],
                " before ", start[b]);
  for (int64_t b = 0; b < bags; ++b) {
    const int64_t end = b + 1 < given ? start[b + 1] : count;
    std::fill(out.data<int64_t>() + start[b], out.data<int64_t>() + end, b);
  }
  if (include_last_offset) std::fill(out.data<int64_t>() + start[given - 1], out.data<int64_t>() + count, bags - 1);
}

void _bag_max(const Tensor& out, const Tensor& places, const Tensor& weight, const Tensor& indices, const Tensor& bags,
              int64_t, int64_t padding_idx) {
  if (weight.dtype() == DType::Float64)
    bag_max<double>(out, places, weight, indices, bags, padding_idx);
  else
    bag_max<float>(out, places, weight, indices, bags, padding_idx);
}

}  // namespace tocha::native
