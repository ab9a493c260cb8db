// Random operators: the kernels of tocha/operators/random.py and dropout.py. They check arguments, find the
// order in which elements are filled, and call random.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/gil.h"
#include "cpu/random/dispatch.h"
#include "cpu/random/random.h"
#include "dispatch/native.h"
#include "kernels/random.h"
#include "ops/arithmetic.h"
#include "ops/copies.h"
#include "ops/views.h"

namespace tocha::native {

namespace {

bool is_drawable(DType d) { return is_floating(d) && !is_float8(d); }

void require_drawable(const char* op, DType d) {
  if (!is_drawable(real_dtype(d))) refuse_dtype(op, d);
}

// bool, the first integers and floats: all but complex, uint16 and wider, float8.
void require_classic(const char* op, DType d) {
  bool wide_unsigned = d == DType::UInt16 || d == DType::UInt32 || d == DType::UInt64;
  if (is_complex(d) || is_float8(d) || wide_unsigned) refuse_dtype(op, d);
}

double largest_finite(DType d) {
  switch (d) {
    case DType::Float16:
      return 65504.0;
    case DType::BFloat16:
      return 0x1.fep127;
    case DType::Float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

// The dims from the largest stride to the smallest: elements are filled in the order of their addresses.
Ints address_order(const Tensor& t) {
  Ints order(t.dim());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return t.stride(a) > t.stride(b); });
  return order;
}

Tensor permuted(const Tensor& t, IntsView order) {
  Ints sizes, strides;
  for (int64_t d : order) {
    sizes.push_back(t.size(d));
    strides.push_back(t.stride(d));
  }
  return view_of(t, sizes, strides, t.offset());
}

// Calls fill(memory, n), which writes n elements of self's dtype one after the other.
template <class Fill>
void fill_elements(const Tensor& self, const Fill& fill) {
  int64_t n = self.numel();
  if (!computes(self) || n == 0) return;
  if (self.is_non_overlapping_and_dense() && !self.is_conj() && !self.is_neg()) {
    ReleaseGil others(n);
    fill(self.bytes(), n);
    return;
  }
  Tensor ordered = permuted(self, address_order(self));
  Tensor buffer = empty(ordered.sizes(), self.dtype(), self.device());
  {
    ReleaseGil others(n);
    fill(buffer.bytes(), n);
  }
  backend(self.device().type).copy(ordered, buffer);
}

// The same, with complex elements as pairs of real ones.
template <class Fill>
void fill_parts(const Tensor& self, const Fill& fill) {
  DType part = real_dtype(self.dtype());
  int64_t parts = self.is_complex() ? 2 : 1;
  fill_elements(self, [&](char* memory, int64_t n) { fill(part, memory, n * parts); });
}

void fill_uniform(const Tensor& self, double from, double to, const GeneratorRef& generator) {
  fill_parts(self, [&](DType d, char* memory, int64_t n) { cpu::uniform(generator.get(), d, memory, n, from, to); });
}

void fill_normal(const Tensor& self, double mean, double std, const GeneratorRef& generator) {
  if (self.is_complex()) std /= std::sqrt(2.0);
  bool blocks = self.is_contiguous();
  fill_parts(self, [&](DType d, char* memory, int64_t n) {
    (blocks ? cpu::normal : cpu::normal_one_by_one)(generator.get(), d, memory, n, mean, std);
  });
}

// The smallest and largest integers that random_ may put into a dtype.
struct Bounds {
  double low, high;
};

Bounds bounds_of(DType d) {
  if (is_floating(d)) return {-largest_finite(d), largest_finite(d)};
  if (d == DType::Bool) return {0, 1};
  int bits = static_cast<int>(8 * itemsize(d)) - info(d).is_signed;
  double high = std::ldexp(1.0, bits) - (bits < 53 ? 1 : 0);
  return {info(d).is_signed ? -std::ldexp(1.0, bits) : 0, high};
}

void check_bound(const char* op, const char* what, int64_t value, DType d) {
  Bounds b = bounds_of(d);
  double v = static_cast<double>(value);
  TOCHA_CHECK(v >= b.low && v <= b.high, Runtime, "[", op, "] ", what, " is out of bounds for ", c_name(d), ", got ",
              value);
}

void check_counts(const char* op, DType d) {
  TOCHA_CHECK(!is_complex(d), Runtime, "[", op,
              "] check_random_bounds handles only integral, floating-point and boolean types, got ", d);
  if (is_float8(d)) refuse_dtype(op, d);
}

void fill_integers(const char* op, const Tensor& self, int64_t from, int64_t to, const GeneratorRef& generator) {
  DType d = self.dtype();
  check_counts(op, d);
  TOCHA_CHECK(from < to, Runtime, "[", op, "] random_ expects 'from' to be less than 'to', but got from=", from,
              " >= to=", to);
  check_bound(op, "from", from, d);
  check_bound(op, "to - 1", to - 1, d);
  cpu::fit_bounds(d, from, to);
  uint64_t range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  fill_elements(self, [&](char* memory, int64_t n) { cpu::random_range(generator.get(), d, memory, n, from, range); });
}

void check_probability(const char* op, double p) {
  TOCHA_CHECK(p >= 0 && p <= 1, Runtime, "[", op, "] bernoulli_ expects p to be in [0, 1], but got p=", p);
}

void fill_bernoulli(const char* op, const Tensor& self, double p, const GeneratorRef& generator) {
  check_probability(op, p);
  require_classic(op, self.dtype());
  fill_elements(self, [&](char* memory, int64_t n) { cpu::bernoulli(generator.get(), self.dtype(), memory, n, p); });
}

void fill_bernoulli(const char* op, const Tensor& self, const Tensor& p, const GeneratorRef& generator) {
  cpu::require_floating(op, p.dtype());
  require_classic(op, self.dtype());
  Tensor odds = ops::expand(p, self.sizes(), false);
  if (!computes(self)) return;
  odds = ops::contiguous(permuted(odds, address_order(self)), MemoryFormat::Contiguous);
  fill_elements(self, [&](char* memory, int64_t n) {
    cpu::bernoulli_from(generator.get(), self.dtype(), memory, n, p.dtype(), odds.bytes());
  });
}

Tensor contiguous(const Tensor& t) { return ops::contiguous(t, MemoryFormat::Contiguous); }

// A contiguous copy in double, for checks.
Tensor as_doubles(const Tensor& t) { return contiguous(ops::to_dtype(t, DType::Float64, false, false, std::nullopt)); }

void check_std(const Tensor& std) {
  Tensor values = as_doubles(std);
  const double* v = values.data<double>();
  for (int64_t i = 0; i < values.numel(); ++i)
    TOCHA_CHECK(v[i] >= 0, Runtime, "[normal] normal expects all elements of std >= 0.0, but found ", v[i]);
}

// Rows of probabilities: no negative, infinite or NaN entry, and none that is zero throughout.
void check_distributions(const Tensor& probabilities, int64_t rows, int64_t columns) {
  Tensor values = as_doubles(probabilities);
  const double* p = values.data<double>();
  for (int64_t r = 0; r < rows; ++r, p += columns) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      TOCHA_CHECK(p[c] >= 0 && std::isfinite(p[c]), Runtime,
                  "[multinomial] probability tensor contains either `inf`, `nan` or element < 0: ", p[c], " in row ",
                  r);
      sum += p[c];
    }
    TOCHA_CHECK(sum > 0, Runtime, "[multinomial] invalid multinomial distribution (sum of probabilities <= 0) in row ",
                r);
  }
}

// The `samples` largest of each row of p / q, in descending order, where q is exponential: sampling without
// replacement.
template <class T>
void largest_ratios(const T* p, const T* q, int64_t rows, int64_t columns, int64_t samples, int64_t* out) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<Wide> ratio(static_cast<size_t>(columns));
  std::vector<int64_t> index(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r, p += columns, q += columns, out += samples) {
    for (int64_t c = 0; c < columns; ++c)
      ratio[static_cast<size_t>(c)] = static_cast<Wide>(T(static_cast<Wide>(p[c]) / static_cast<Wide>(q[c])));
    std::iota(index.begin(), index.end(), int64_t{0});
    std::partial_sort(index.begin(), index.begin() + samples, index.end(), [&](int64_t a, int64_t b) {
      Wide x = ratio[static_cast<size_t>(a)], y = ratio[static_cast<size_t>(b)];
      return x > y || (x == y && a < b);
    });
    std::copy_n(index.begin(), samples, out);
  }
}

// normal(0, 1) * std + mean, each step rounded.
void shift_and_scale(const Tensor& out, const Tensor& mean, const Tensor& std, const GeneratorRef& generator) {
  require_drawable("normal", out.dtype());
  check_std(std);
  fill_normal(out, 0, 1, generator);
  ops::mul_(out, std);
  ops::add_(out, mean, Scalar(int64_t{1}));
}

}  // namespace

// -- new tensors -------------------------------------------------------------------------------------

void rand(const Tensor& out, IntsView, const GeneratorRef& generator, std::optional<DType>, std::optional<Device>) {
  uniform_(out, 0, 1, generator);
}

void randn(const Tensor& out, IntsView, const GeneratorRef& generator, std::optional<DType>, std::optional<Device>) {
  normal_(out, 0, 1, generator);
}

void randint(const Tensor& out, int64_t high, IntsView, const GeneratorRef& generator, std::optional<DType>,
             std::optional<Device>) {
  fill_integers("randint", out, 0, high, generator);
}

void randint(const Tensor& out, int64_t low, int64_t high, IntsView, const GeneratorRef& generator,
             std::optional<DType>, std::optional<Device>) {
  fill_integers("randint", out, low, high, generator);
}

void randperm(const Tensor& out, int64_t n, const GeneratorRef& generator, std::optional<DType>,
              std::optional<Device>) {
  DType d = out.dtype();
  require_classic("randperm", d);
  if (d == DType::Bool) refuse_dtype("randperm", d);
  int64_t most = d == DType::Float16   ? (1 << 11) + 1
                 : d == DType::Float32 ? (1 << 24) + 1
                 : is_integral(d)      ? static_cast<int64_t>(std::min(bounds_of(d).high, 0x1p62)) + 1
                                       : int64_t{1} << 53;
  TOCHA_CHECK(n <= most, Runtime, "[randperm] n cannot be greater than ", most, " for ", d, ", got ", n);
  fill_elements(out, [&](char* memory, int64_t count) { cpu::randperm(generator.get(), d, memory, count); });
}

void rand_like(const Tensor& out, const Tensor&, const GeneratorRef& generator, std::optional<DType>,
               std::optional<Device>, std::optional<MemoryFormat>) {
  uniform_(out, 0, 1, generator);
}

void randn_like(const Tensor& out, const Tensor&, const GeneratorRef& generator, std::optional<DType>,
                std::optional<Device>, std::optional<MemoryFormat>) {
  normal_(out, 0, 1, generator);
}

void randint_like(const Tensor& out, const Tensor&, int64_t high, const GeneratorRef& generator, std::optional<DType>,
                  std::optional<Device>, std::optional<MemoryFormat>) {
  fill_integers("randint_like", out, 0, high, generator);
}

void randint_like(const Tensor& out, const Tensor&, int64_t low, int64_t high, const GeneratorRef& generator,
                  std::optional<DType>, std::optional<Device>, std::optional<MemoryFormat>) {
  fill_integers("randint_like", out, low, high, generator);
}

// -- normal with parameters --------------------------------------------------------------------------

void normal(const Tensor& out, const Tensor& mean, const Tensor& std, const GeneratorRef& generator) {
  shift_and_scale(out, mean, std, generator);
}

void normal(const Tensor& out, const Tensor& mean, double std, const GeneratorRef& generator) {
  normal_(out, 0, std, generator);
  ops::add_(out, mean, Scalar(int64_t{1}));
}

void normal(const Tensor& out, double mean, const Tensor& std, const GeneratorRef& generator) {
  shift_and_scale(out, scalar_tensor(Scalar(mean), out.dtype()), std, generator);
}

void normal(const Tensor& out, double mean, double std, IntsView, const GeneratorRef& generator, std::optional<DType>,
            std::optional<Device>) {
  normal_(out, mean, std, generator);
}

// -- tensors of samples ------------------------------------------------------------------------------

void bernoulli(const Tensor& out, const Tensor& self, const GeneratorRef& generator) {
  fill_bernoulli("bernoulli", out, self, generator);
}

void bernoulli(const Tensor& out, const Tensor&, double p, const GeneratorRef& generator) {
  fill_bernoulli("bernoulli", out, p, generator);
}

void multinomial(const Tensor& out, const Tensor& self, int64_t samples, bool replacement,
                 const GeneratorRef& generator) {
  int64_t columns = self.size(self.dim() - 1), rows = self.dim() == 2 ? self.size(0) : 1;
  TOCHA_CHECK(columns > 0, Runtime, "[multinomial] there is nothing to choose from in ", self.sizes());
  DType d = self.dtype();
  Tensor p = contiguous(self);
  if (replacement && samples > 1) {
    ReleaseGil others(rows * (columns + samples));
    cpu::multinomial_with_replacement(generator.get(), d, p.bytes(), rows, columns, samples, out.data<int64_t>());
    return;
  }
  check_distributions(p, rows, columns);
  Tensor q = empty_strided(self.sizes(), like_strides(self, MemoryFormat::Preserve), d, self.device());
  exponential_(q, 1, generator);
  q = contiguous(q);
  cpu::visit_floating("multinomial", d, [&]<class T>(cpu::Type<T>) {
    largest_ratios(p.data<T>(), q.data<T>(), rows, columns, samples, out.data<int64_t>());
  });
}

void poisson(const Tensor& out, const Tensor& self, const GeneratorRef& generator) {
  cpu::require_floating("poisson", self.dtype());
  Tensor rate = contiguous(self);
  fill_elements(out,
                [&](char* memory, int64_t n) { cpu::poisson(generator.get(), self.dtype(), rate.bytes(), memory, n); });
}

void binomial(const Tensor& out, const Tensor& count, const Tensor& prob, const GeneratorRef& generator) {
  DType d = out.dtype();
  if (d != DType::Float32 && d != DType::Float64) refuse_dtype("binomial", d);
  Tensor n_trials = contiguous(ops::expand(count, out.sizes(), false));
  Tensor p = contiguous(ops::expand(prob, out.sizes(), false));
  fill_elements(
      out, [&](char* memory, int64_t n) { cpu::binomial(generator.get(), d, n_trials.bytes(), p.bytes(), memory, n); });
}

void _standard_gamma(const Tensor& out, const Tensor& self, const GeneratorRef& generator) {
  DType d = out.dtype();
  if (d != DType::Float32 && d != DType::Float64) refuse_dtype("_standard_gamma", d);
  Tensor alpha = contiguous(self);
  fill_elements(out,
                [&](char* memory, int64_t n) { cpu::standard_gamma(generator.get(), d, alpha.bytes(), memory, n); });
}

void _sample_dirichlet(const Tensor& out, const Tensor& self, const GeneratorRef& generator) {
  DType d = out.dtype();
  if (d != DType::Float32 && d != DType::Float64) refuse_dtype("_sample_dirichlet", d);
  Tensor alpha = as_doubles(self);
  Tensor gamma = empty(self.sizes(), DType::Float64, self.device());
  _standard_gamma(gamma, alpha, generator);
  int64_t columns = self.dim() == 0 ? 1 : self.size(self.dim() - 1);
  cpu::visit_floating("_sample_dirichlet", d, [&]<class T>(cpu::Type<T>) {
    const T least =
        std::is_same_v<T, double> ? T(std::numeric_limits<double>::min()) : T(std::numeric_limits<float>::min());
    const T most = std::is_same_v<T, double> ? T(1.0 - 0x1p-53) : T(1.0f - 0x1p-24f);
    const double* g = gamma.data<double>();
    T* to = out.data<T>();
    for (int64_t at = 0; at < self.numel(); at += columns, g += columns, to += columns) {
      double sum = std::accumulate(g, g + columns, 0.0);
      for (int64_t c = 0; c < columns; ++c) {
        T share = cpu::to_number<T>(g[c] / sum);
        to[c] = share < least ? least : most < share ? most : share;
      }
    }
  });
}

// -- in place ----------------------------------------------------------------------------------------

void uniform_(const Tensor& self, double from, double to, const GeneratorRef& generator) {
  require_drawable("uniform_", self.dtype());
  double limit = largest_finite(real_dtype(self.dtype()));
  TOCHA_CHECK(std::abs(from) <= limit, Runtime, "[uniform_] from is out of bounds for ", self.dtype(), ", got ", from);
  TOCHA_CHECK(std::abs(to) <= limit, Runtime, "[uniform_] to is out of bounds for ", self.dtype(), ", got ", to);
  TOCHA_CHECK(from <= to, Runtime, "[uniform_] uniform_ expects to return a [from, to) range, but found from=", from,
              " > to=", to);
  TOCHA_CHECK(to - from <= limit, Runtime, "[uniform_] expects to - from <= ", limit, ", the largest ", self.dtype(),
              ", but found to=", to, " and from=", from);
  fill_uniform(self, from, to, generator);
}

void normal_(const Tensor& self, double mean, double std, const GeneratorRef& generator) {
  TOCHA_CHECK(std >= 0, Runtime, "[normal_] normal expects std >= 0.0, but found std ", std);
  require_drawable("normal_", self.dtype());
  fill_normal(self, mean, std, generator);
}

void random_(const Tensor& self, int64_t from, std::optional<int64_t> to, const GeneratorRef& generator) {
  if (to) return fill_integers("random_", self, from, *to, generator);
  DType d = self.dtype();
  check_counts("random_", d);
  check_bound("random_", "from", from, d);
  uint64_t range = cpu::range_up_from(d, from);
  fill_elements(self, [&](char* memory, int64_t n) { cpu::random_range(generator.get(), d, memory, n, from, range); });
}

void random_(const Tensor& self, int64_t to, const GeneratorRef& generator) {
  fill_integers("random_", self, 0, to, generator);
}

void random_(const Tensor& self, const GeneratorRef& generator) {
  require_classic("random_", self.dtype());
  fill_elements(self, [&](char* memory, int64_t n) { cpu::random_any(generator.get(), self.dtype(), memory, n); });
}

void bernoulli_(const Tensor& self, const Tensor& p, const GeneratorRef& generator) {
  fill_bernoulli("bernoulli_", self, p, generator);
}

void bernoulli_(const Tensor& self, double p, const GeneratorRef& generator) {
  fill_bernoulli("bernoulli_", self, p, generator);
}

void exponential_(const Tensor& self, double lambd, const GeneratorRef& generator) {
  TOCHA_CHECK(is_drawable(self.dtype()), Runtime,
              "[exponential_] Exponential distribution is a continuous probability distribution. dtype must be a "
              "floating point but you specified ",
              self.dtype());
  TOCHA_CHECK(lambd > 0, Runtime, "[exponential_] exponential_ expects lambda > 0.0, but found lambda=", lambd);
  fill_elements(self,
                [&](char* memory, int64_t n) { cpu::exponential(generator.get(), self.dtype(), memory, n, lambd); });
}

void cauchy_(const Tensor& self, double median, double sigma, const GeneratorRef& generator) {
  TOCHA_CHECK(is_drawable(self.dtype()), Runtime,
              "[cauchy_] Cauchy distribution is a continuous probability distribution. dtype must be a floating point "
              "but you specified ",
              self.dtype());
  TOCHA_CHECK(sigma > 0, Runtime, "[cauchy_] cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  fill_elements(self,
                [&](char* memory, int64_t n) { cpu::cauchy(generator.get(), self.dtype(), memory, n, median, sigma); });
}

void log_normal_(const Tensor& self, double mean, double std, const GeneratorRef& generator) {
  TOCHA_CHECK(std > 0, Runtime, "[log_normal_] log_normal_ expects std > 0.0, but found std=", std);
  cpu::require_floating("log_normal_", self.dtype());
  fill_elements(self,
                [&](char* memory, int64_t n) { cpu::log_normal(generator.get(), self.dtype(), memory, n, mean, std); });
}

void geometric_(const Tensor& self, double p, const GeneratorRef& generator) {
  TOCHA_CHECK(p > 0 && p < 1, Runtime, "[geometric_] geometric_ expects p to be in (0, 1), but got p=", p);
  require_classic("geometric_", self.dtype());
  if (self.dtype() == DType::Bool) refuse_dtype("geometric_", self.dtype());
  fill_elements(self, [&](char* memory, int64_t n) { cpu::geometric(generator.get(), self.dtype(), memory, n, p); });
}

// -- rrelu -------------------------------------------------------------------------------------------

void _rrelu_noise(const Tensor& out, const Tensor& self, double lower, double upper, const GeneratorRef& generator) {
  DType d = self.dtype();
  if (d == DType::BFloat16) {
    Tensor wide = empty(self.sizes(), DType::Float32, self.device());
    _rrelu_noise(wide, ops::to_dtype(self, DType::Float32, false, false, std::nullopt), lower, upper, generator);
    backend(out.device().type).copy(out, wide);
    return;
  }
  if (d != DType::Float32 && d != DType::Float64) refuse_dtype("rrelu", d);
  Tensor input = contiguous(self);
  fill_elements(out, [&](char* memory, int64_t n) {
    cpu::rrelu_noise(generator.get(), d, input.bytes(), memory, n, lower, upper);
  });
}

}  // namespace tocha::native
