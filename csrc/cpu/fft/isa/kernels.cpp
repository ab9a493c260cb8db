// Blocks of lines: read into vectors, transformed (fft_passes.h), written. Where the lines lie well the first pass
// reads them from memory and the last one writes them there.
#include "cpu/fft/kernels.h"

#include "cpu/fft/isa/lines.h"
#include "cpu/fft/isa/odd.h"

TOCHA_ISA_BEGIN
namespace fft {
namespace {

using cpu::FftBlock;
using cpu::FftJob;
using cpu::FftKind;

template <class T>
TOCHA_INLINE Pair<T> conjugate(Pair<T> a) {
  return {a.re, -a.im};
}

// Of z[k] = x[2k] + i x[2k + 1], transformed, the frequencies 0 to half of x.
template <class T>
void frequencies_of_real(T* z, const T* factors, int64_t half, int64_t width) {
  const Vec<T> two = broadcast(T(0.5));
  const int64_t point = width * kPair<T>;
  for (int64_t g = 0; g < width; ++g) {
    T* at = z + g * kPair<T>;
    const Pair<T> zero = load_pair(at);
    store_pair(at, Pair<T>{zero.re + zero.im, Vec<T>{}});
    store_pair(at + half * point, Pair<T>{zero.re - zero.im, Vec<T>{}});
    for (int64_t k = 1; 2 * k <= half; ++k) {
      T *low = at + k * point, *high = at + (half - k) * point;
      const Pair<T> a = load_pair(low), b = conjugate(load_pair(high));
      const Pair<T> sum = a + b, rest = turned(a - b);
      const Pair<T> even{sum.re * two, sum.im * two};
      const Pair<T> odd = times(Pair<T>{rest.re * two, rest.im * two}, factors + 2 * k);
      store_pair(low, even + odd);
      store_pair(high, conjugate(even - odd));
    }
  }
}

// The way back: of the frequencies 0 to half of x, the conjugates of those of z.
template <class T>
void frequencies_of_pairs(T* x, const T* factors, int64_t half, int64_t width) {
  const int64_t point = width * kPair<T>;
  for (int64_t g = 0; g < width; ++g) {
    T* at = x + g * kPair<T>;
    const Vec<T> zero = load(at), last = load(at + half * point);
    store_pair(at, Pair<T>{zero + last, last - zero});
    for (int64_t k = 1; 2 * k <= half; ++k) {
      T *low = at + k * point, *high = at + (half - k) * point;
      const Pair<T> a = load_pair(low), b = conjugate(load_pair(high));
      const Pair<T> even = a + b;
      const Pair<T> odd = times(a - b, broadcast(factors[2 * k]), broadcast(-factors[2 * k + 1]));
      // the conjugates of even + i odd and of the conjugate of even - i odd
      store_pair(low, Pair<T>{even.re - odd.im, -(even.im + odd.re)});
      store_pair(high, Pair<T>{even.re + odd.im, even.im - odd.re});
    }
  }
}

// Points [from, n) as the conjugates of their mirror images.
template <class T>
void mirror(T* buffer, int64_t from, int64_t n, int64_t width) {
  const int64_t point = width * kPair<T>;
  for (int64_t k = from; k < n; ++k)
    for (int64_t g = 0; g < width; ++g)
      store_pair(buffer + k * point + g * kPair<T>, conjugate(load_pair(buffer + (n - k) * point + g * kPair<T>)));
}

constexpr int64_t kLongRow = 512;

// One block of lines, and the steps of its transform.
template <class T>
class Block {
 public:
  Block(const FftJob<T>& j, const FftBlock& k, T* work) : job(j), block(k), plan(*j.plan), width(k.width), a(work) {
    b = a + cpu::fft_buffer_size(j, kLanes<T>, k.width);
    c = b + cpu::fft_buffer_size(j, kLanes<T>, k.width);
    // Lanes without a line of their own compute the first one once more.
    for (int64_t i = 0; i < k.width * kLanes<T>; ++i) in_at[i] = k.in_at[i < k.count ? i : 0];
  }

  // The inverse transform is the conjugate of that of the conjugates.
  void complex() {
    const T sign = job.inverse ? T(-1) : T(1);
    T* found = read_and_transform(job.n, job.in_step, job.in_other, job.conjugate ? -sign : sign, !job.factors);
    if (!found) return;
    if (job.factors) twist(found);
    write(found, job.n, job.out_step, job.out_other, job.scale * sign);
  }

  void real_in() {
    const int64_t half = job.n / 2;
    T* found;
    if (job.n % 2 == 0) {
      found = read_and_transform(half, 2 * job.in_step, job.in_step, T(1), false);
      frequencies_of_real(found, job.real, half, width);
    } else if (plan.rest) {
      read(a, job.n, job.in_step, 0, T(1));
      found = c;
      transform_real_odd(plan, width, a, b, c, point());
    } else {
      found = read_and_transform(job.n, job.in_step, 0, T(1), false);
    }
    if (job.made > half + 1) mirror(found, half + 1, job.n, width);
    write(found, job.made, job.out_step, 1, job.scale);
  }

  void real_out() {
    const int64_t half = job.n / 2;
    const T sign = job.conjugate ? T(-1) : T(1);
    if (job.n % 2 == 0) {
      read(a, half + 1, job.in_step, 1, sign);
      frequencies_of_pairs(a, job.real, half, width);
      out_step = 2 * job.out_step;
      out_other = job.out_step;
      T* found = finish(a, b, 0, true, -job.scale);
      if (found) write(found, half, out_step, out_other, -job.scale);
    } else if (plan.rest) {
      read(c, half + 1, job.in_step, 1, -sign);
      transform_odd_to_real(plan, width, c, point(), a, b, c);
      write(c, job.n, job.out_step, 0, job.scale);
    } else {
      read(a, half + 1, job.in_step, 1, -sign);
      for (int64_t g = 0; g < width; ++g) store(a + g * kPair<T> + kLanes<T>, Vec<T>{});
      mirror(a, half + 1, job.n, width);
      write(transform(plan, width, a, b), job.n, job.out_step, 0, job.scale);
    }
  }

 private:
  const FftJob<T>& job;
  const FftBlock& block;
  const cpu::FftPlan<T>& plan;
  const int64_t width;
  T *a, *b;
  T* c;  // only for real lines of odd length
  int64_t out_step = 0, out_other = 0;
  int64_t in_at[cpu::kFftWidest * kLanes<T>];

  int64_t point() const { return width * kPair<T>; }
  int64_t lines(int64_t g) const {
    const int64_t left = block.count - g * kLanes<T>;
    return left < kLanes<T> ? (left < 0 ? 0 : left) : kLanes<T>;
  }
  Lines<const T> source(int64_t g, int64_t step, int64_t other) const {
    return {job.in, in_at + g * kLanes<T>, step, other, kLanes<T>};
  }
  Lines<T> target(int64_t g, int64_t step, int64_t other) const {
    return {job.out, block.out_at + g * kLanes<T>, step, other, lines(g)};
  }

  void read(T* to, int64_t n, int64_t step, int64_t other, T sign) {
    for (int64_t g = 0; g < width; ++g) gather(source(g, step, other), n, to + g * kPair<T>, point());
    if (sign > 0) return;
    for (int64_t i = 0; i < n * width; ++i) {
      T* at = to + i * kPair<T> + kLanes<T>;
      store(at, -load(at));
    }
  }

  void write(const T* from, int64_t n, int64_t step, int64_t other, T im_scale) {
    for (int64_t g = 0; g < width && g * kLanes<T> < block.count; ++g)
      scatter(target(g, step, other), n, from + g * kPair<T>, point(), job.scale, im_scale);
  }

  // f(an Access for each group of lanes), if all of them lie alike and well.
  template <class P, class F>
  bool with_groups(const Lines<P>* groups, F&& f) {
    const Lie lie = lie_of<T>(groups[0]);
    // Lines that are a power of two apart share their places in the cache, and a pass takes points from all over them.
    if (lie == Lie::rows && plan.n > kLongRow) return false;
    for (int64_t g = 1; g < width; ++g) {
      if (lie_of<T>(groups[g]) != lie) return false;
    }
    return with_access<T>(groups[0], [&](const auto& first) {
      using A = std::remove_cvref_t<decltype(first)>;
      A all[cpu::kFftWidest];
      for (int64_t g = 0; g < width; ++g) all[g] = A(groups[g]);
      f(static_cast<const A*>(all));
    });
  }

  // The first pass from memory, if it can. Else the points are in `a` and no pass is done.
  bool first_from_memory(int64_t step, int64_t other, T sign) {
    if (plan.convolution || plan.passes.empty()) return false;
    Lines<const T> groups[cpu::kFftWidest] = {};
    for (int64_t g = 0; g < width; ++g) groups[g] = source(g, step, other);
    bool done = false;
    with_groups(groups, [&](const auto* from) {
      done = with_fused_radix(plan.passes[0].radix,
                              [&](auto radix) { first_pass<T, radix()>(plan.passes[0], width, from, sign, b); });
    });
    return done;
  }

  // Where the transformed points are, or null if they are already written.
  T* read_and_transform(int64_t n, int64_t step, int64_t other, T sign, bool may_write) {
    out_step = job.out_step;
    out_other = job.out_other;
    const T im_scale = job.inverse ? -job.scale : job.scale;
    if (first_from_memory(step, other, sign)) return finish(b, a, 1, may_write, im_scale);
    read(a, n, step, other, sign);
    return finish(a, b, 0, may_write, im_scale);
  }

  // The passes from `first` on; the last one writes to memory if it may and can.
  T* finish(T* from, T* to, size_t first, bool may_write, T im_scale) {
    if (plan.convolution) return transform(plan, width, from, to);
    const size_t passes = plan.passes.size();
    if (!may_write || first >= passes) return run_passes(plan, first, passes, width, from, to);
    T* found = run_passes(plan, first, passes - 1, width, from, to);
    Lines<T> groups[cpu::kFftWidest] = {};
    for (int64_t g = 0; g < width; ++g) groups[g] = target(g, out_step, out_other);
    bool done = false;
    with_groups(groups, [&](const auto* out) {
      done = with_fused_radix(plan.passes[passes - 1].radix, [&](auto radix) {
        last_pass<T, radix()>(plan.passes[passes - 1], width, found, out, job.scale, im_scale);
      });
    });
    if (done) return nullptr;
    return run_passes(plan, passes - 1, passes, width, found, found == a ? b : a);
  }

  // Each lane times its own factor: those of groups of lanes, point by point.
  void twist(T* points) {
    for (int64_t g = 0; g < width && g * kLanes<T> < block.count; ++g) {
      const T* w = job.factors + (block.first / kLanes<T> + g) * job.n * kPair<T>;
      for (int64_t k = 0; k < job.n; ++k, w += kPair<T>) {
        T* at = points + k * point() + g * kPair<T>;
        store_pair(at, times(load_pair(at), load(w), load(w + kLanes<T>)));
      }
    }
  }
};

template <class T>
void run(const FftJob<T>& job, const FftBlock& block, T* work) {
  Block<T> b(job, block, work);
  switch (job.kind) {
    case FftKind::complex:
      return b.complex();
    case FftKind::real_in:
      return b.real_in();
    case FftKind::real_out:
      return b.real_out();
  }
}

}  // namespace

template <class T>
constexpr cpu::FftKernels<T> kernels() {
  return {kLanes<T>, run<T>};
}

}  // namespace fft
TOCHA_ISA_END

#undef TOCHA_INLINE

namespace tocha::cpu::TOCHA_ISA_TABLES {
extern const FloatFftKernels float_fft_kernels;
extern const DoubleFftKernels double_fft_kernels;
const FloatFftKernels float_fft_kernels = fft::kernels<float>();
const DoubleFftKernels double_fft_kernels = fft::kernels<double>();
}  // namespace tocha::cpu::TOCHA_ISA_TABLES
