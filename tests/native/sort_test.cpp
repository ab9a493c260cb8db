// Sorting, searching and scanning kernels against plain reference code. A program of its own: prints what
// failed and exits non-zero.
// sources: core/parallel.cpp core/fork.cpp core/dtype.cpp core/dtype_messages.cpp
// sources: cpu/sort/[rsu]*.cpp cpu/sort/isa/*.cpp cpu/search/nonzero.cpp cpu/search/search.cpp cpu/search/isa/*.cpp
// sources: cpu/scan/extrema.cpp cpu/scan/logsumexp.cpp cpu/scan/scan.cpp cpu/scan/isa/*.cpp
#include "cpu/sort/sort.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "core/dtype.h"
#include "core/parallel.h"
#include "cpu/scan/scan.h"
#include "cpu/search/search.h"

namespace {

using namespace tocha;

int failures = 0;
int checks = 0;
std::mt19937_64 source(7);

void check(bool ok, const char* what, int dtype, int64_t a = 0, int64_t b = 0) {
  ++checks;
  if (ok) return;
  if (++failures <= 20) std::printf("FAILED %s dtype %d, %lld, %lld\n", what, dtype, (long long)a, (long long)b);
}

template <class T>
constexpr bool kFloat = !std::is_integral_v<T>;

// Vectors of bool are not arrays, so elements live in plain buffers.
template <class T>
struct Buffer {
  std::vector<unsigned char> bytes;
  explicit Buffer(int64_t n) : bytes(n * sizeof(T) + 1) {}
  T* data() { return reinterpret_cast<T*>(bytes.data()); }
  T& operator[](int64_t i) { return data()[i]; }
};

// Few distinct values, so that there are ties; zeros of both signs, infinities and NaNs of both signs.
template <class T>
T element(int kind) {
  int r = static_cast<int>(source() % 16);
  if constexpr (kFloat<T>) {
    if (kind == 1) return T(std::normal_distribution<float>()(source));
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    float some[16] = {0.f, -0.f, inf, -inf, nan, -nan, 1, -1, 2, -2, 3, -3, 0.5f, -0.5f, 0.f, -0.f};
    return T(some[r]);
  } else if constexpr (std::is_same_v<T, bool>) {
    return r & 1;
  } else {
    return kind == 1 ? static_cast<T>(source()) : static_cast<T>(r - 5);
  }
}

template <class T>
Buffer<T> elements(int64_t n, int kind) {
  Buffer<T> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = element<T>(kind);
  return x;
}

template <class T>
bool is_nan(T x) {
  if constexpr (kFloat<T>)
    return std::isnan(static_cast<double>(x));
  else
    return false;
}

template <class T>
bool less(T a, T b) {
  if constexpr (kFloat<T>)
    return (!is_nan(a) && is_nan(b)) || static_cast<double>(a) < static_cast<double>(b);
  else
    return a < b;
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
std::vector<int64_t> reference_order(const T* x, int64_t n, bool descending) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return descending ? less(x[b], x[a]) : less(x[a], x[b]); });
  return order;
}

template <class T>
void test_sort(int64_t rows, int64_t n, int kind) {
  DType dtype = DTypeOf<T>::value;
  int id = static_cast<int>(dtype);
  Buffer<T> in = elements<T>(rows * n, kind), values(rows * n), one(rows);
  std::vector<int64_t> indices(rows * n), where(rows);
  for (bool descending : {false, true}) {
    cpu::sort(dtype, in.data(), values.data(), indices.data(), rows, n, descending);
    bool ok = true;
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<int64_t> order = reference_order(in.data() + r * n, n, descending);
      for (int64_t i = 0; i < n; ++i) {
        ok &= indices[r * n + i] == order[i] && same_bits(values[r * n + i], in[r * n + order[i]]);
      }
      for (int64_t k : {int64_t{1}, n / 10, n / 2, n}) {
        if (k < 1 || k > n || r > 0) continue;
        Buffer<T> best(k);
        std::vector<int64_t> places(k);
        cpu::topk(dtype, in.data(), best.data(), places.data(), 1, n, k, descending);
        bool same = std::equal(places.begin(), places.end(), order.begin());
        for (int64_t i = 0; i < k; ++i) same &= same_bits(best[i], in[order[i]]);
        check(same, "topk", id, n, k);
      }
    }
    check(ok, "sort", id, rows, n);
  }
  if (n == 0) return;
  for (bool skip_nan : {false, true}) {
    cpu::median(dtype, in.data(), one.data(), where.data(), rows, n, skip_nan);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = in.data() + r * n;
      std::vector<int64_t> order = reference_order(row, n, false);
      int64_t nans = std::count_if(row, row + n, [](T x) { return is_nan(x); });
      int64_t expected = nans == n ? 0 : nans > 0 && !skip_nan ? order[n - nans] : order[(n - nans - 1) / 2];
      check(where[r] == expected && same_bits(one[r], row[expected]), "median", id, n, r);
    }
  }
  int64_t k = static_cast<int64_t>(source() % n);
  cpu::kthvalue(dtype, in.data(), one.data(), where.data(), rows, n, k);
  for (int64_t r = 0; r < rows; ++r) {
    check(where[r] == reference_order(in.data() + r * n, n, false)[k], "kthvalue", id, n, k);
  }
  cpu::mode(dtype, in.data(), one.data(), where.data(), rows, n);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = in.data() + r * n;
    std::vector<int64_t> order = reference_order(row, n, false);
    int64_t best = 0, length = 0;
    for (int64_t i = 0; i < n;) {
      int64_t end = i + 1;
      while (end < n && !is_nan(row[order[i]]) && !less(row[order[i]], row[order[end]])) ++end;
      if (end - i > length) length = end - i, best = order[end - 1];
      i = end;
    }
    check(where[r] == best && same_bits(one[r], row[best]), "mode", id, n, r);
  }
}

template <class T>
bool equal(T a, T b) {
  return !is_nan(a) && !is_nan(b) && !less(a, b) && !less(b, a);
}

template <class T>
void test_unique(int64_t n, int kind) {
  DType dtype = DTypeOf<T>::value;
  int id = static_cast<int>(dtype);
  Buffer<T> in = elements<T>(n, kind), values(n);
  std::vector<int64_t> inverse(n), counts(n), firsts(n);
  std::vector<int64_t> order = reference_order(in.data(), n, false);
  for (bool sorted : {true, false}) {
    if (!sorted) std::iota(order.begin(), order.end(), 0);
    std::vector<int64_t> heads, sizes;
    bool ok = true;
    int64_t found = sorted ? cpu::unique(dtype, in.data(), n, values.data(), inverse.data(), counts.data())
                           : cpu::unique_consecutive(dtype, in.data(), n, values.data(), inverse.data(), counts.data());
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || !equal(in[order[i]], in[order[i - 1]])) heads.push_back(order[i]), sizes.push_back(0);
      ++sizes.back();
      ok &= inverse[order[i]] == static_cast<int64_t>(heads.size()) - 1;
    }
    ok &= found == static_cast<int64_t>(heads.size());
    for (int64_t g = 0; ok && g < found; ++g) ok &= same_bits(values[g], in[heads[g]]) && counts[g] == sizes[g];
    check(ok, sorted ? "unique" : "unique_consecutive", id, n);
    // Rows of one element are the elements.
    int64_t groups = sorted ? cpu::unique_rows(dtype, in.data(), n, 1, firsts.data(), inverse.data(), counts.data())
                            : cpu::unique_consecutive_rows(dtype, in.data(), n, 1, firsts.data(), nullptr, nullptr);
    check(groups == found && std::equal(heads.begin(), heads.end(), firsts.begin()), "unique_rows", id, n);
  }
}

template <class T>
void test_searchsorted(int64_t length, int64_t n, int kind) {
  DType dtype = DTypeOf<T>::value;
  Buffer<T> raw = elements<T>(length, kind), sequence(length), values = elements<T>(n, kind);
  std::vector<int64_t> order = reference_order(raw.data(), length, false), out(n), with_sorter(n);
  std::vector<int32_t> narrow(n);
  for (int64_t i = 0; i < length; ++i) sequence[i] = raw[order[i]];
  for (bool right : {false, true}) {
    cpu::SearchSorted job{dtype, sequence.data(), nullptr, values.data(), 1, length, n, true, right};
    cpu::searchsorted(job, out.data(), false);
    cpu::searchsorted(job, narrow.data(), true);
    job.sequence = raw.data();
    job.sorter = order.data();
    cpu::searchsorted(job, with_sorter.data(), false);
    bool ok = true;
    for (int64_t i = 0; i < n; ++i) {
      int64_t lo = 0, hi = length;
      while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        double probe = static_cast<double>(sequence[mid]), value = static_cast<double>(values[i]);
        bool below = right ? !(probe > value) : !(probe >= value);
        (below ? lo : hi) = below ? mid + 1 : mid;
      }
      ok &= out[i] == lo && narrow[i] == lo && with_sorter[i] == lo;
    }
    check(ok, "searchsorted", static_cast<int>(dtype), length, n);
  }
}

template <class T>
void test_nonzero(std::vector<int64_t> sizes) {
  DType dtype = DTypeOf<T>::value;
  int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
  int ndim = static_cast<int>(sizes.size());
  Buffer<T> in = elements<T>(n, 0), picked(n), filled = in;
  Buffer<bool> mask(n);
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < n; ++i) {
    mask[i] = is_nan(in[i]) || in[i] != T(0);
    if (mask[i]) expected.push_back(i);
  }
  cpu::Selection selection = cpu::select_nonzero(dtype, in.data(), n);
  int64_t count = selection.count();
  bool ok = count == static_cast<int64_t>(expected.size());
  std::vector<int64_t> out(count * ndim + 1, -7);
  cpu::nonzero(dtype, in.data(), sizes.data(), ndim, selection, out.data(), ndim, 1);
  for (int64_t j = 0; ok && j < count; ++j) {
    int64_t position = 0;
    for (int d = 0; d < ndim; ++d) position = position * sizes[d] + out[j * ndim + d];
    ok &= position == expected[j];
  }
  check(ok && out.back() == -7, "nonzero", static_cast<int>(dtype), n, ndim);
  cpu::masked_select(sizeof(T), in.data(), mask.data(), n, selection, picked.data());
  for (int64_t j = 0; ok && j < count; ++j) ok &= same_bits(picked[j], in[expected[j]]);
  check(ok, "masked_select", static_cast<int>(dtype), n, ndim);
  Buffer<T> fresh = elements<T>(n, 1);
  cpu::masked_scatter(sizeof(T), filled.data(), mask.data(), n, selection, fresh.data());
  for (int64_t i = 0, j = 0; i < n; ++i) ok &= same_bits(filled[i], mask[i] ? fresh[j++] : in[i]);
  check(ok, "masked_scatter", static_cast<int>(dtype), n, ndim);
}

template <class T>
double tolerance() {
  return kFloat<T> ? (sizeof(T) == 2 ? 2e-2 : sizeof(T) == 4 ? 1e-5 : 1e-10) : 0;
}

template <class T>
bool near(T a, double b) {
  double x = static_cast<double>(a);
  if (std::isnan(b) || std::isinf(b)) return std::isnan(b) ? std::isnan(x) : x == b;
  return std::abs(x - b) <= tolerance<T>() * (1 + std::abs(b));
}

template <class T>
void test_scan(cpu::ScanShape shape, int kind) {
  DType dtype = DTypeOf<T>::value;
  int id = static_cast<int>(dtype);
  int64_t n = shape.outer * shape.n * shape.inner;
  Buffer<T> in = elements<T>(n, kind), high(n), low(n), logs(n);
  std::vector<int64_t> high_at(n), low_at(n);
  cpu::cummax(dtype, in.data(), high.data(), high_at.data(), shape);
  cpu::cummin(dtype, in.data(), low.data(), low_at.data(), shape);
  if constexpr (kFloat<T>) cpu::logcumsumexp(dtype, in.data(), logs.data(), shape);
  bool extrema_ok = true, logs_ok = true;
  for (int64_t o = 0; o < shape.outer; ++o) {
    for (int64_t c = 0; c < shape.inner; ++c) {
      int64_t best_high = 0, best_low = 0;
      double total = 0;
      for (int64_t i = 0; i < shape.n; ++i) {
        int64_t at = (o * shape.n + i) * shape.inner + c;
        auto value = [&](int64_t j) { return in[(o * shape.n + j) * shape.inner + c]; };
        T x = in[at];
        if (is_nan(x) || (!is_nan(value(best_high)) && !less(x, value(best_high)))) best_high = i;
        if (is_nan(x) || (!is_nan(value(best_low)) && !less(value(best_low), x))) best_low = i;
        extrema_ok &= high_at[at] == best_high && same_bits(high[at], value(best_high));
        extrema_ok &= low_at[at] == best_low && same_bits(low[at], value(best_low));
        total += std::exp(static_cast<double>(x));
        if constexpr (kFloat<T>) logs_ok &= near(logs[at], std::log(total));
      }
    }
  }
  check(extrema_ok, "cummax/cummin", id, shape.n, shape.inner);
  check(logs_ok, "logcumsumexp", id, shape.n, shape.inner);
}

// Sums and products of zeros and ones: exact but for the roundings of large sums in small floats.
template <class T>
void test_sums(cpu::ScanShape shape) {
  DType dtype = DTypeOf<T>::value;
  int64_t n = shape.outer * shape.n * shape.inner;
  Buffer<T> in(n), sums(n), products(n);
  for (int64_t i = 0; i < n; ++i) in[i] = static_cast<T>(source() % 2);
  cpu::cumsum(dtype, in.data(), dtype, sums.data(), shape);
  cpu::cumprod(dtype, in.data(), dtype, products.data(), shape);
  bool ok = true;
  for (int64_t o = 0; o < shape.outer; ++o) {
    for (int64_t c = 0; c < shape.inner; ++c) {
      int64_t total = 0, product = 1;
      for (int64_t i = 0; i < shape.n; ++i) {
        int64_t at = (o * shape.n + i) * shape.inner + c;
        total += static_cast<int64_t>(static_cast<double>(in[at]));
        product *= static_cast<int64_t>(static_cast<double>(in[at]));
        if constexpr (kFloat<T>)
          ok &= near(sums[at], static_cast<double>(total));
        else
          ok &= sums[at] == static_cast<T>(total);
        ok &= static_cast<double>(products[at]) == static_cast<double>(product);
      }
    }
  }
  check(ok, "cumsum/cumprod", static_cast<int>(dtype), shape.n, shape.inner);
}

template <class T>
void test_ordered() {
  for (int kind : {0, 1}) {
    for (int64_t n = 0; n <= 70; n += 7) test_sort<T>(3, n, kind);
    for (int64_t n : {1, 2, 65, 200, 1000, 9000}) test_sort<T>(2, n, kind), test_unique<T>(n, kind);
    test_sort<T>(1, 70000, kind);
    test_unique<T>(70000, kind);
    if constexpr (!std::is_same_v<T, bool>) {
      test_scan<T>({2, 50, 1}, kind);
      test_scan<T>({1, 40000, 1}, kind);
      test_scan<T>({2, 30, 70}, kind);
    }
  }
  if constexpr (!std::is_same_v<T, bool>) {
    test_sums<T>({3, 300, 1});
    test_sums<T>({1, 70001, 1});
    test_sums<T>({2, 100, 67});
  }
  test_nonzero<T>({100001});
  test_nonzero<T>({7, 3, 11});
  test_nonzero<T>({300, 101});
  test_nonzero<T>({4, 0, 2});
}

template <class T>
void test_searchable() {
  for (int kind : {0, 1}) {
    for (int64_t length : {0, 1, 5, 100, 5000}) {
      for (int64_t n : {1, 31, 3000}) test_searchsorted<T>(length, n, kind);
    }
  }
}

void test_counting() {
  for (int64_t n : {1, 50, 100000}) {
    std::vector<int32_t> in(n);
    std::vector<double> weights(n);
    std::vector<int64_t> expected(10), counts(10);
    std::vector<double> sums(10), expected_sums(10);
    for (int64_t i = 0; i < n; ++i) {
      in[i] = static_cast<int32_t>(source() % 10);
      weights[i] = static_cast<double>(source() % 100);
      ++expected[in[i]];
      expected_sums[in[i]] += weights[i];
    }
    cpu::bincount(DType::Int32, in.data(), n, counts.data(), 10);
    cpu::bincount_weighted(DType::Int32, in.data(), n, DType::Float64, weights.data(), sums.data(), 10);
    cpu::IntegerRange range = cpu::integer_range(DType::Int32, in.data(), n);
    auto ends = std::minmax_element(in.begin(), in.end());
    check(counts == expected && sums == expected_sums, "bincount", static_cast<int>(DType::Int32), n);
    check(range.low == *ends.first && range.high == *ends.second, "integer_range", static_cast<int>(DType::Int32), n);
  }
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> in = {0, 0.25f, 0.5f, 0.75f, 1, -0.1f, 1.1f, inf, -inf, nan}, counts(4);
  cpu::histc(DType::Float32, in.data(), static_cast<int64_t>(in.size()), 4, 0, 1, counts.data());
  check(counts == std::vector<float>{1, 1, 1, 2}, "histc", static_cast<int>(DType::Float32));
}

// Keys that agree in their upper half, in short and in long runs.
void test_close_keys() {
  for (int64_t n : {1000, 200000}) {
    for (uint64_t upper : {uint64_t{1}, uint64_t{3}, uint64_t{5000}}) {
      std::vector<int64_t> in(n), values(n), indices(n);
      for (int64_t& x : in) {
        x = static_cast<int64_t>((source() % upper) << 34 | (source() & 0x3ffffffff)) - (int64_t{1} << 40);
      }
      cpu::sort(DType::Int64, in.data(), values.data(), indices.data(), 1, n, false);
      check(indices == reference_order(in.data(), n, false), "close keys", static_cast<int>(DType::Int64), n,
            static_cast<int64_t>(upper));
    }
  }
}

}  // namespace

int main() {
  for (int threads : {2, 1}) {
    set_num_threads(threads);
    test_ordered<bool>();
    test_ordered<uint8_t>();
    test_ordered<int8_t>();
    test_ordered<int16_t>();
    test_ordered<int32_t>();
    test_ordered<int64_t>();
    test_ordered<uint16_t>();
    test_ordered<uint32_t>();
    test_ordered<uint64_t>();
    test_ordered<Half>();
    test_ordered<BFloat16>();
    test_ordered<float>();
    test_ordered<double>();
    test_searchable<uint8_t>();
    test_searchable<int16_t>();
    test_searchable<int32_t>();
    test_searchable<int64_t>();
    test_searchable<Half>();
    test_searchable<BFloat16>();
    test_searchable<float>();
    test_searchable<double>();
    test_counting();
    test_close_keys();
  }
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
