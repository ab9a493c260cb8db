// Reductions of consecutive segments: the kernel of segment_reduce in tocha/operators/scatter.py.
#include <cmath>
#include <limits>

#include "core/dtype_messages.h"
#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/indexing/offset_slices.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

enum class Fold { sum, mean, product, maximum, minimum };

Fold fold_named(const std::string& reduce) {
  if (reduce == "sum") return Fold::sum;
  if (reduce == "mean") return Fold::mean;
  if (reduce == "prod") return Fold::product;
  if (reduce == "max" || reduce == "amax") return Fold::maximum;
  if (reduce == "min" || reduce == "amin") return Fold::minimum;
  fail(ErrorKind::Runtime, "[segment_reduce] reduce argument must be either sum, prod, mean, max or min, got ", reduce);
}

// Where the segments of every row begin and end: rows of (segments + 1) bounds.
std::vector<int64_t> bounds_of(const Tensor& lengths, const Tensor& offsets, int64_t rows, int64_t segments, int64_t n,
                               bool unsafe) {
  Tensor given = lengths ? lengths : offsets;
  TOCHA_CHECK(given.dtype() == DType::Int64 || given.dtype() == DType::Int32, NotImplemented,
              "[segment_reduce] \"segment_reduce_cpu\" not implemented for '", given.dtype(), "' lengths");
  given = cpu::dense(cpu::to_int64(given));
  const int64_t* p = given.data<int64_t>();
  std::vector<int64_t> bounds(static_cast<size_t>(rows * (segments + 1)));
  for (int64_t r = 0; r < rows; ++r) {
    int64_t* b = bounds.data() + r * (segments + 1);
    if (!lengths) {
      std::copy_n(p + r * (segments + 1), segments + 1, b);
    } else {
      b[0] = 0;
      for (int64_t s = 0; s < segments; ++s) {
        int64_t length = p[r * segments + s];
        TOCHA_CHECK(length >= 0, Runtime, "[segment_reduce] lengths contains negative value: ", length);
        TOCHA_CHECK(length <= n - b[s], Runtime, "[segment_reduce] the lengths of row ", r, " sum to more than the ", n,
                    " elements along axis");
        b[s + 1] = b[s] + length;
      }
      TOCHA_CHECK(unsafe || b[segments] == n, Runtime,
                  "[segment_reduce] Expected all rows of lengths along axis to sum to ", n, ", got ", b[segments]);
    }
    for (int64_t s = 0; s < segments; ++s)
      TOCHA_CHECK(b[s] >= 0 && b[s] <= b[s + 1] && b[s + 1] <= n, Runtime, "[segment_reduce] bad segment from ", b[s],
                  " to ", b[s + 1], " of ", n, " elements");
  }
  return bounds;
}

template <class A>
A folded(Fold fold, A a, A x) {
  switch (fold) {
    case Fold::product:
      return a * x;
    case Fold::maximum:
      return a != a || a > x ? a : x;
    case Fold::minimum:
      return a != a || a < x ? a : x;
    default:
      return a + x;
  }
}

template <class T>
void reduce_segments(Fold fold, const T* data, T* out, const std::vector<int64_t>& bounds, int64_t rows,
                     int64_t segments, int64_t n, int64_t inner, std::optional<double> initial) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const A inf = std::numeric_limits<A>::infinity();
  A start = initial                 ? static_cast<A>(*initial)
            : fold == Fold::product ? A(1)
            : fold == Fold::maximum ? -inf
            : fold == Fold::minimum ? inf
                                    : A(0);
  parallel_for(
      rows * segments, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, inner * n / std::max<int64_t>(1, segments))),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          int64_t r = i / segments, s = i % segments;
          int64_t first = bounds[static_cast<size_t>(r * (segments + 1) + s)],
                  last = bounds[static_cast<size_t>(r * (segments + 1) + s + 1)];
          for (int64_t j = 0; j < inner; ++j) {
            A a = start;
            for (int64_t k = first; k < last; ++k)
              a = static_cast<A>(static_cast<T>(folded<A>(fold, a, static_cast<A>(data[(r * n + k) * inner + j]))));
            if (fold == Fold::mean && first < last) a /= static_cast<A>(last - first);
            if (fold == Fold::mean && first == last && !initial) a = std::numeric_limits<A>::quiet_NaN();
            out[i * inner + j] = static_cast<T>(a);
          }
        }
      });
}

}  // namespace

void segment_reduce(const Tensor& out, const Tensor& data, const std::string& reduce, const Tensor& lengths,
                    const Tensor&, const Tensor& offsets, int64_t axis, bool unsafe,
                    const std::optional<Scalar>& initial) {
  cpu::check_together("segment_reduce", {data, lengths, offsets});
  Fold fold = fold_named(reduce);
  int64_t d = wrap_dim(axis, data.dim()), n = data.size(d), segments = out.size(d), rows = 1, inner = 1;
  for (int64_t i = 0; i < data.dim(); ++i) (i < d ? rows : inner) *= i == d ? 1 : data.size(i);
  std::vector<int64_t> bounds = bounds_of(lengths, offsets, rows, segments, n, unsafe);
  std::optional<double> start;
  if (initial) start = initial->to_double();
  Tensor in = cpu::dense(data);
  ReleaseGil unlocked(data.numel());
  switch (data.dtype()) {
#define CASE(D, T) \
  case DType::D:   \
    return reduce_segments(fold, in.data<T>(), out.data<T>(), bounds, rows, segments, n, inner, start);
    CASE(Float32, float)
    CASE(Float64, double)
    CASE(Float16, Half)
    CASE(BFloat16, BFloat16)
#undef CASE
    default:
      refuse_dtype("segment_reduce", data.dtype());
  }
}

}  // namespace tocha::native
