// Makes plans and keeps the last ones used.
#include "cpu/fft/plan.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <tuple>
#include <typeindex>

namespace tocha::cpu {
namespace {

struct Root {
  double re, im;
};

// exp(-2 pi i k / n) from an angle of at most an eighth of a turn, which is known to twice the precision of a double.
Root root_of_unity(uint64_t k, uint64_t n) {
  constexpr double kTau = 6.283185307179586, kTauRest = 2.4492935982947064e-16;
  k %= n;
  const bool below = 2 * k > n;  // the lower half plane is the mirror image of the upper one
  if (below) k = n - k;
  const bool left = 4 * k > n;            // and its left the image of its right
  uint64_t a = left ? n - 2 * k : 2 * k;  // a / 2n of a turn, at most a quarter
  const bool steep = 4 * a > n;
  if (steep) a = n - 2 * a;  // from the other axis: a / 4n of a turn
  const double over = static_cast<double>(n) * (steep ? 4 : 2), x = static_cast<double>(a);
  const double high = kTau * x / over;
  const double rest = std::fma(-high, over, kTau * x) + std::fma(kTau, x, -(kTau * x)) + kTauRest * x;
  const double low = rest / over;
  double c = std::cos(high), s = std::sin(high);
  const double c0 = c;
  c -= low * s;
  s += low * c0;
  if (steep) std::swap(c, s);
  if (left) c = -c;
  return {c, below ? s : -s};
}

template <class T>
void put(std::vector<T>& table, Root r) {
  table.push_back(static_cast<T>(r.re));
  table.push_back(static_cast<T>(r.im));
}

// The radices of n; none if it has a factor that is too great.
std::vector<int64_t> radices(int64_t n) {
  std::vector<int64_t> found;
  int64_t rest = n;
  int twos = 0;
  while (rest % 2 == 0) rest /= 2, ++twos;
  // Eights and fours; a single two only where nothing else is left.
  while (twos > 4 || twos == 3) found.push_back(8), twos -= 3;
  while (twos >= 2) found.push_back(4), twos -= 2;
  if (twos == 1) found.push_back(2);
  for (int64_t p = 3; p * p <= rest; p += 2) {
    while (rest % p == 0) found.push_back(p), rest /= p;
  }
  if (rest > 1) found.push_back(rest);
  if (found.empty() || *std::max_element(found.begin(), found.end()) >= kFftLargestRadix) return {};
  // Small ones first and last: those passes can work on memory directly.
  std::stable_partition(found.begin() + 1, found.end(), [](int64_t r) { return r > 8; });
  return found;
}

template <class T>
void add_passes(FftPlan<T>& plan, const std::vector<int64_t>& factors) {
  int64_t done = 1;
  for (int64_t radix : factors) {
    FftPass<T> pass{radix, plan.n / (done * radix), done, nullptr, nullptr};
    std::vector<T> table;
    for (int64_t p = 0; p < pass.rest; ++p)
      for (int64_t j = 1; j < radix; ++j)
        put(table, root_of_unity(static_cast<uint64_t>(p * j), static_cast<uint64_t>(radix * pass.rest)));
    plan.tables.push_back(std::move(table));
    pass.factors = plan.tables.back().data();
    if (radix % 2 == 1) {
      std::vector<T> roots;
      for (int64_t k = 0; k < radix; ++k) {
        const Root r = root_of_unity(static_cast<uint64_t>(k), static_cast<uint64_t>(radix));
        put(roots, {r.re, -r.im});
      }
      plan.tables.push_back(std::move(roots));
      pass.roots = plan.tables.back().data();
    }
    plan.passes.push_back(pass);
    done *= radix;
  }
}

// What a point takes, roughly: a pass through memory and its share of a butterfly.
double cost_of(int64_t n) {
  double cost = 0;
  for (int64_t r : radices(n)) cost += r == 8 ? 1.3 : r == 2 ? 0.8 : 0.55 + 0.15 * static_cast<double>(r);
  return cost * static_cast<double>(n);
}

// The cheapest length of small factors from least on.
int64_t convolution_length(int64_t least) {
  int64_t best = 1;
  while (best < least) best *= 2;
  for (int64_t odd : {3, 5, 7, 9, 15, 21, 25, 27, 35, 45, 49, 63}) {
    int64_t n = odd;
    while (n < least) n *= 2;
    if (cost_of(n) < cost_of(best)) best = n;
  }
  return best;
}

// One complex transform of a single line, for making plans: butterflies by their definition.
std::vector<double> transformed(std::vector<double> a) {
  const auto plan = fft_plan<double>(static_cast<int64_t>(a.size()) / 2);
  std::vector<double> b(a.size());
  for (const FftPass<double>& pass : plan->passes) {
    const int64_t radix = pass.radix, rest = pass.rest, done = pass.done;
    std::vector<Root> roots;
    for (int64_t k = 0; k < radix; ++k)
      roots.push_back(root_of_unity(static_cast<uint64_t>(k), static_cast<uint64_t>(radix)));
    for (int64_t p = 0; p < rest; ++p)
      for (int64_t j = 0; j < radix; ++j) {
        const double* factor = pass.factors + 2 * (p * (radix - 1) + j - 1);
        const Root twist = j == 0 ? Root{1, 0} : Root{factor[0], factor[1]};
        for (int64_t q = 0; q < done; ++q) {
          double re = 0, im = 0;
          for (int64_t k = 0; k < radix; ++k) {
            const Root w = roots[static_cast<size_t>(j * k % radix)];
            const double* v = &a[static_cast<size_t>(2 * (q + done * (p + rest * k)))];
            re += v[0] * w.re - v[1] * w.im;
            im += v[0] * w.im + v[1] * w.re;
          }
          double* out = &b[static_cast<size_t>(2 * (q + done * (radix * p + j)))];
          out[0] = re * twist.re - im * twist.im;
          out[1] = re * twist.im + im * twist.re;
        }
      }
    std::swap(a, b);
  }
  return a;
}

// Bluestein: j k = (j^2 + k^2 - (j - k)^2) / 2 makes a convolution with exp(pi i k^2 / n) of the transform.
template <class T>
void add_convolution(FftPlan<T>& plan) {
  const int64_t n = plan.n, m = convolution_length(2 * n - 1);
  plan.convolution = fft_plan<T>(m);
  std::vector<double> wave(static_cast<size_t>(2 * m), 0.0);
  const uint64_t turn = 2 * static_cast<uint64_t>(n);
  uint64_t square = 0;  // k^2 mod 2n
  for (int64_t k = 0; k < n; ++k) {
    const Root r = root_of_unity(square, turn);
    put(plan.chirp, r);
    const double scale = 1.0 / static_cast<double>(m);
    for (int64_t at : {k, k == 0 ? 0 : m - k}) {
      wave[static_cast<size_t>(2 * at)] = r.re * scale;
      wave[static_cast<size_t>(2 * at + 1)] = -r.im * scale;
    }
    square = (square + 2 * static_cast<uint64_t>(k) + 1) % turn;
  }
  for (double x : transformed(std::move(wave))) plan.filter.push_back(static_cast<T>(x));
}

template <class T>
std::shared_ptr<const FftPlan<T>> make_plan(int64_t n) {
  auto plan = std::make_shared<FftPlan<T>>();
  plan->n = n;
  const std::vector<int64_t> factors = radices(n);
  if (factors.empty() && n > 1)
    add_convolution(*plan);
  else
    add_passes(*plan, factors);
  if (n % 2 == 1 && !plan->passes.empty()) plan->rest = fft_plan<T>(n / factors[0]);
  return plan;
}

// The last plans used, most recent first.
class PlanCache {
 public:
  using Key = std::tuple<std::type_index, int64_t, int64_t>;

  template <class P, class Make>
  std::shared_ptr<const P> get(int64_t a, int64_t b, Make&& make) {
    const Key key{typeid(P), a, b};
    std::lock_guard<std::recursive_mutex> lock(mutex_);
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (at->first != key) continue;
      kept_.splice(kept_.begin(), kept_, at);
      return std::static_pointer_cast<const P>(at->second);
    }
    std::shared_ptr<const P> made = make();
    kept_.emplace_front(key, made);
    if (kept_.size() > kMost) kept_.pop_back();
    return made;
  }

 private:
  static constexpr size_t kMost = 64;
  std::recursive_mutex mutex_;
  std::list<std::pair<Key, std::shared_ptr<const void>>> kept_;
};

// Taken only while the GIL is held, so a fork never finds it locked. Never destroyed: threads may outlive main.
PlanCache& cache() {
  static auto* plans = new PlanCache;
  return *plans;
}

template <class T>
std::shared_ptr<const FftSplit<T>> make_split(int64_t n, int64_t lanes) {
  // The divisor nearest to the root, from below.
  int64_t rows = 1;
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) rows = d;
  }
  if (rows < 4) return nullptr;
  const int64_t columns = n / rows;
  auto split = std::make_shared<FftSplit<T>>();
  split->columns = fft_plan<T>(rows);
  split->rows = fft_plan<T>(columns);
  const int64_t groups = (columns + lanes - 1) / lanes;
  split->factors.resize(static_cast<size_t>(groups * rows * lanes * 2));
  T* to = split->factors.data();
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t k = 0; k < rows; ++k, to += 2 * lanes)
      for (int64_t l = 0; l < lanes; ++l) {
        const Root r = root_of_unity(static_cast<uint64_t>(k * (g * lanes + l)), static_cast<uint64_t>(n));
        to[l] = static_cast<T>(r.re);
        to[lanes + l] = static_cast<T>(r.im);
      }
  return split;
}

}  // namespace

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n) {
  return cache().get<FftPlan<T>>(n, 0, [&] { return make_plan<T>(n); });
}

template <class T>
std::shared_ptr<const std::vector<T>> fft_real_factors(int64_t n) {
  return cache().get<std::vector<T>>(n, 0, [&] {
    auto table = std::make_shared<std::vector<T>>();
    for (int64_t k = 0; k <= n / 4; ++k) put(*table, root_of_unity(static_cast<uint64_t>(k), static_cast<uint64_t>(n)));
    return table;
  });
}

template <class T>
std::shared_ptr<const FftSplit<T>> fft_split(int64_t n, int64_t lanes) {
  return cache().get<FftSplit<T>>(n, lanes, [&] { return make_split<T>(n, lanes); });
}

template std::shared_ptr<const FftPlan<float>> fft_plan<float>(int64_t);
template std::shared_ptr<const FftPlan<double>> fft_plan<double>(int64_t);
template std::shared_ptr<const std::vector<float>> fft_real_factors<float>(int64_t);
template std::shared_ptr<const std::vector<double>> fft_real_factors<double>(int64_t);
template std::shared_ptr<const FftSplit<float>> fft_split<float>(int64_t, int64_t);
template std::shared_ptr<const FftSplit<double>> fft_split<double>(int64_t, int64_t);

}  // namespace tocha::cpu
