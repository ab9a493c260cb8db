// First-order linear recurrences along a dim: the kernel of _recurrence in tocha/operators/scans.py, which gradients
// of the other scans are made of.
#include <algorithm>
#include <type_traits>

#include "core/dtype_messages.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/engine/layout.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

// Rows that advance together: one alone waits for its own last result. Rows of 4096 bytes fall on the same places of
// the first cache, which holds eight of them: so many are four to read and four to write.
constexpr int64_t kStreams = 4;
constexpr int64_t kTile = 64;
constexpr int64_t kGrain = 1 << 14;

// What sums are carried in.
template <class T>
struct Carry {
  using type = double;
};
template <>
struct Carry<Half> {
  using type = float;
};
template <>
struct Carry<BFloat16> {
  using type = float;
};
template <class R>
struct Carry<Complex<R>> {
  using type = Complex<double>;
};

// `width` recurrences side by side: element k of number j is at [k * pitch + j * apart].
template <bool factored, class T, class A, class Width>
void advance(const T* x, const T* factors, T* y, int64_t n, int64_t pitch, int64_t apart, Width width, bool reverse,
             A* carry) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t k = reverse ? n - 1 - i : i;
    const T* in = x + k * pitch;
    T* out = y + k * pitch;
    const T* f = factored && i ? factors + (reverse ? k + 1 : k) * pitch : in;
    for (int64_t j = 0; j < width; ++j) {
      A before = carry[j];
      if constexpr (factored) before = i ? static_cast<A>(f[j * apart]) * before : A{};
      carry[j] = static_cast<A>(in[j * apart]) + before;
      out[j * apart] = static_cast<T>(carry[j]);
    }
  }
}

// The same for a width of at most W, which is the common one.
template <class T, int64_t W, bool factored>
void run(const T* x, const T* factors, T* y, int64_t n, int64_t pitch, int64_t apart, int64_t width, bool reverse,
         const typename Carry<T>::type* start = nullptr) {
  typename Carry<T>::type carry[W] = {};
  if (start) std::copy_n(start, width, carry);
  if (width == W)
    advance<factored>(x, factors, y, n, pitch, apart, std::integral_constant<int64_t, W>(), reverse, carry);
  else
    advance<factored>(x, factors, y, n, pitch, apart, width, reverse, carry);
}

// Sums along one long row, in stretches that start from the sums of those before them.
template <class T>
void sum_row(const T* x, T* y, int64_t n, bool reverse) {
  using A = typename Carry<T>::type;
  int64_t length = n / kStreams, odd = n % kStreams;
  const T* body = reverse ? x : x + odd;  // the odd ones are summed first
  const T* rest = reverse ? x + n - odd : x;
  A total{}, start[kStreams] = {};
  run<T, 1, false>(rest, nullptr, y + (rest - x), odd, 1, 1, 1, reverse);
  for (int64_t i = 0; i < odd; ++i) total = total + static_cast<A>(rest[i]);
  A sums[kStreams] = {};
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j < kStreams; ++j) sums[j] = sums[j] + static_cast<A>(body[j * length + i]);
  for (int64_t k = 0; k < kStreams; ++k) {
    int64_t j = reverse ? kStreams - 1 - k : k;
    start[j] = total;
    total = total + sums[j];
  }
  run<T, kStreams, false>(body, nullptr, y + (body - x), length, 1, length, kStreams, reverse, start);
}

template <class T, bool factored>
void recur(const T* x, const T* factors, T* y, cpu::Split s, bool reverse) {
  if constexpr (!factored) {
    if (s.inner == 1 && s.outer < kStreams && s.n >= kGrain) {
      parallel_for(s.outer, 1, [&](int64_t b, int64_t e) {
        for (int64_t r = b; r < e; ++r) sum_row(x + r * s.n, y + r * s.n, s.n, reverse);
      });
      return;
    }
  }
  bool rows = s.inner == 1;
  int64_t tile = rows ? kStreams : kTile, across = rows ? s.outer : s.inner;
  int64_t tiles = (across + tile - 1) / tile;
  parallel_for((rows ? 1 : s.outer) * tiles, std::max<int64_t>(1, kGrain / (s.n * tile)), [&](int64_t b, int64_t e) {
    for (int64_t t = b; t < e; ++t) {
      int64_t first = t % tiles * tile, width = std::min(tile, across - first);
      int64_t at = rows ? first * s.n : t / tiles * s.n * s.inner + first;
      const T* f = factored ? factors + at : nullptr;
      if (rows)
        run<T, kStreams, factored>(x + at, f, y + at, s.n, 1, s.n, width, reverse);
      else
        run<T, kTile, factored>(x + at, f, y + at, s.n, s.inner, 1, width, reverse);
    }
  });
}

}  // namespace

void _recurrence(const Tensor& out, const Tensor& self, const Tensor& factors, int64_t dim, bool reverse) {
  if (out.numel() == 0) return;
  TOCHA_CHECK(!factors || (factors.sizes() == self.sizes() && factors.dtype() == self.dtype()), Runtime,
              "[_recurrence] factors must be like self, got ", factors.sizes(), " and ", self.sizes());
  Tensor in = cpu::dense(self), by = factors ? cpu::dense(factors) : Tensor();
  cpu::Split split = cpu::split_at(self.sizes(), wrap_dim(dim, self.dim()));
  ReleaseGil unlocked(self.numel());
  switch (out.dtype()) {
#define CASE(D, T)                                                                        \
  case DType::D:                                                                          \
    return by ? recur<T, true>(in.data<T>(), by.data<T>(), out.data<T>(), split, reverse) \
              : recur<T, false>(in.data<T>(), nullptr, out.data<T>(), split, reverse);
    CASE(Float32, float)
    CASE(Float64, double)
    CASE(Float16, Half)
    CASE(BFloat16, BFloat16)
    CASE(Complex64, Complex<float>)
    CASE(Complex128, Complex<double>)
#undef CASE
    default:
      refuse_dtype("_recurrence", out.dtype());
  }
}

}  // namespace tocha::native
