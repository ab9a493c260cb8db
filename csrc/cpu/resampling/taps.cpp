// Places and weights for resampling along one dim: nearest, linear, cubic, and filters that widen when shrinking.
#include "cpu/resampling/taps.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tocha::cpu {
namespace {

// How many input places one output place stands for.
template <class T>
T places_per_output(int64_t in, int64_t out, bool align_corners, std::optional<double> scale) {
  if (align_corners) return out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
  return scale && *scale > 0 ? static_cast<T>(1 / *scale) : static_cast<T>(in) / static_cast<T>(out);
}

template <class T>
T cubic_near(T x, T a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <class T>
T cubic_far(T x, T a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

// Places with their weights, at most `most` per output place.
template <class T>
class Builder {
 public:
  Builder(int64_t in, int64_t out, int64_t most)
      : in_(in), most_(most), used_(static_cast<size_t>(out)), places_(used_.size() * most), weights_(places_.size()) {}
  // Weights that fall on one place add up; places beyond the edge count as the edge.
  void add(int64_t i, int64_t place, T weight) {
    place = std::clamp<int64_t>(place, 0, in_ - 1);
    int64_t& n = used_[static_cast<size_t>(i)];
    int32_t* places = places_.data() + i * most_;
    T* weights = weights_.data() + i * most_;
    int64_t k = 0;
    while (k < n && places[k] != place) ++k;
    if (k == n) {
      places[n++] = static_cast<int32_t>(place);
      weights[k] = 0;
    }
    weights[k] += weight;
  }
  Taps<T> finish() const {
    Taps<T> t;
    t.in = in_, t.out = static_cast<int64_t>(used_.size());
    for (int64_t n : used_) t.count = std::max(t.count, n);
    t.place.resize(static_cast<size_t>(t.count * t.out));
    t.weight.resize(t.place.size());
    for (int64_t i = 0; i < t.out; ++i) {
      const int64_t n = used_[static_cast<size_t>(i)];
      for (int64_t k = 0; k < t.count; ++k) {
        const size_t from = static_cast<size_t>(i * most_ + (k < n ? k : 0)), to = static_cast<size_t>(k * t.out + i);
        t.place[to] = places_[from];
        t.weight[to] = k < n ? weights_[from] : T(0);
      }
    }
    return t;
  }

 private:
  int64_t in_, most_;
  std::vector<int64_t> used_;
  std::vector<int32_t> places_;
  std::vector<T> weights_;
};

// Places are rounded down from float, whatever T: that decides ties as PyTorch's users know them.
template <class T>
Taps<T> nearest(int64_t in, int64_t out, T step, T half, bool shortcuts) {
  Builder<T> taps(in, out, 1);
  for (int64_t i = 0; i < out; ++i) {
    int64_t place = static_cast<int64_t>(std::floor(static_cast<float>((static_cast<T>(i) + half) * step)));
    if (shortcuts && out == in) place = i;
    if (shortcuts && out == 2 * in) place = i / 2;
    taps.add(i, place, T(1));
  }
  return taps.finish();
}

template <class T>
Taps<T> linear(int64_t in, int64_t out, T step, bool align_corners) {
  Builder<T> taps(in, out, 2);
  for (int64_t i = 0; i < out; ++i) {
    T at = align_corners ? step * static_cast<T>(i) : step * (static_cast<T>(i) + T(0.5)) - T(0.5);
    at = std::max(at, T(0));
    const int64_t low = std::min(static_cast<int64_t>(at), in - 1);
    const T beyond = std::clamp(at - static_cast<T>(low), T(0), T(1));
    taps.add(i, low, T(1) - beyond);
    taps.add(i, low + 1, beyond);
  }
  return taps.finish();
}

template <class T>
Taps<T> cubic(int64_t in, int64_t out, T step, bool align_corners) {
  constexpr T a = T(-0.75);
  Builder<T> taps(in, out, 4);
  for (int64_t i = 0; i < out; ++i) {
    const T at = align_corners ? step * static_cast<T>(i) : step * (static_cast<T>(i) + T(0.5)) - T(0.5);
    const T floor = std::floor(at), t = at - floor;
    const int64_t low = static_cast<int64_t>(floor);
    taps.add(i, low - 1, cubic_far(t + 1, a));
    taps.add(i, low, cubic_near(t, a));
    taps.add(i, low + 1, cubic_near(1 - t, a));
    taps.add(i, low + 2, cubic_far(2 - t, a));
  }
  return taps.finish();
}

template <class T>
T filter_value(Filter f, T x) {
  x = std::abs(x);
  if (f == Filter::linear_aa) return std::max(T(0), 1 - x);
  if (f == Filter::cubic_aa) return x < 1 ? cubic_near(x, T(-0.5)) : x < 2 ? cubic_far(x, T(-0.5)) : T(0);
  if (x >= 3) return T(0);
  if (x == 0) return T(1);
  const T p = static_cast<T>(M_PI) * x;
  return 3 * std::sin(p) * std::sin(p / 3) / (p * p);
}

// A filter as wide as the places an output stands for, at least as wide as itself; weights sum to one.
template <class T>
Taps<T> antialiased(Filter f, int64_t in, int64_t out, T step) {
  const T reach = f == Filter::linear_aa ? T(1) : f == Filter::cubic_aa ? T(2) : T(3);
  const T support = step >= 1 ? reach * step : reach, narrow = step >= 1 ? 1 / step : T(1);
  Builder<T> taps(in, out, static_cast<int64_t>(2 * support) + 3);
  for (int64_t i = 0; i < out; ++i) {
    const T center = step * (static_cast<T>(i) + T(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + T(0.5)), in);
    T total = 0;
    for (int64_t p = first; p < end; ++p) total += filter_value(f, (static_cast<T>(p) - center + T(0.5)) * narrow);
    for (int64_t p = first; p < end; ++p) {
      const T w = filter_value(f, (static_cast<T>(p) - center + T(0.5)) * narrow);
      taps.add(i, p, total != 0 ? w / total : w);
    }
    if (first >= end) taps.add(i, first, T(0));
  }
  return taps.finish();
}

}  // namespace

Filter filter_of(const std::string& kind) {
  if (kind == "nearest") return Filter::nearest;
  if (kind == "nearest-exact") return Filter::nearest_exact;
  if (kind == "linear") return Filter::linear;
  if (kind == "cubic") return Filter::cubic;
  if (kind == "linear-aa") return Filter::linear_aa;
  if (kind == "cubic-aa") return Filter::cubic_aa;
  TOCHA_CHECK(kind == "lanczos-aa", Value, "[resample] no filter ", kind);
  return Filter::lanczos_aa;
}

template <class T>
Taps<T> make_taps(Filter filter, int64_t in, int64_t out, bool align_corners, std::optional<double> scale,
                  bool shortcuts) {
  const T step = places_per_output<T>(in, out, align_corners, scale);
  switch (filter) {
    case Filter::nearest:
      return nearest<T>(in, out, step, T(0), shortcuts);
    case Filter::nearest_exact:
      return nearest<T>(in, out, step, T(0.5), false);
    case Filter::linear:
      return in == out ? nearest<T>(in, out, T(1), T(0), true) : linear<T>(in, out, step, align_corners);
    case Filter::cubic:
      return cubic<T>(in, out, step, align_corners);
    default:
      return antialiased<T>(filter, in, out, step);
  }
}

template Taps<float> make_taps(Filter, int64_t, int64_t, bool, std::optional<double>, bool);
template Taps<double> make_taps(Filter, int64_t, int64_t, bool, std::optional<double>, bool);

}  // namespace tocha::cpu
