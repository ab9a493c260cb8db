// Kernels for gradient scaling: all gradients unscaled and checked in one pass.
#include "kernels/foreach.h"

#include <atomic>

#include "core/gil.h"
#include "core/parallel.h"
#include "dispatch/native.h"
#include "ops/arithmetic.h"
#include "ops/copies.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 1 << 14;

// x *= scale; whether an element was infinite or no number.
template <class T>
bool unscale(T* x, int64_t n, double scale) {
  using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Compute factor = static_cast<Compute>(scale);
  unsigned bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    Compute v = static_cast<Compute>(x[i]);
    bad |= !(v - v == 0);
    x[i] = static_cast<T>(v * factor);
  }
  return bad != 0;
}

template <class T>
bool unscale_flat(const Tensor& t, double scale) {
  std::atomic<bool> bad{false};
  T* x = t.data<T>();
  ReleaseGil unlocked(t.numel());
  parallel_for(t.numel(), kGrain, [&](int64_t b, int64_t e) {
    if (unscale(x + b, e - b, scale)) bad = true;
  });
  return bad;
}

bool unscale(const Tensor& t, double scale) {
  switch (t.dtype()) {
    case DType::Float16:
      return unscale_flat<Half>(t, scale);
    case DType::BFloat16:
      return unscale_flat<BFloat16>(t, scale);
    case DType::Float32:
      return unscale_flat<float>(t, scale);
    case DType::Float64:
      return unscale_flat<double>(t, scale);
    default:
      fail(ErrorKind::NotImplemented,
           "[_amp_foreach_non_finite_check_and_unscale_] \"_amp_foreach_non_finite_check_and_unscale__cpu\" not "
           "implemented for '",
           info(t.dtype()).name, "'");
  }
}

void check_single(const char* name, const Tensor& t) {
  TOCHA_CHECK(t.numel() == 1, Runtime, "[_amp] ", name, " must be a 1-element tensor, got ", t);
  TOCHA_CHECK(t.dtype() == DType::Float32, Runtime, "[_amp] ", name, " must be a float tensor, got ", t);
}

}  // namespace

void _amp_foreach_non_finite_check_and_unscale_(const Tensors& self, const Tensor& found_inf, const Tensor& inv_scale) {
  check_single("found_inf", found_inf);
  check_single("inv_scale", inv_scale);
  if (!computes_into("_amp_foreach_non_finite_check_and_unscale_", found_inf, inv_scale, self)) return;
  double scale = *inv_scale.data<float>();
  for (const Tensor& t : self) {
    bool flat = t.is_contiguous() || t.is_non_overlapping_and_dense();
    bool bad;
    if (flat) {
      bad = unscale(t, scale);
    } else {
      Tensor dense = readable(t);
      bad = unscale(dense, scale);
      ops::copy_(t, dense, false);
    }
    t.bump_version();
    if (bad) *found_inf.data<float>() = 1;
  }
  found_inf.bump_version();
}

void _amp_update_scale_(const Tensor& self, const Tensor& growth_tracker, const Tensor& found_inf,
                        double scale_growth_factor, double scale_backoff_factor, int64_t growth_interval) {
  check_single("current_scale", self);
  check_single("found_inf", found_inf);
  TOCHA_CHECK(growth_tracker.numel() == 1 && growth_tracker.dtype() == DType::Int32, Runtime,
              "[_amp_update_scale_] growth_tracker must be a 1-element int tensor, got ", growth_tracker);
  float& scale = *self.data<float>();
  int32_t& successes = *growth_tracker.data<int32_t>();
  if (*found_inf.data<float>() != 0) {
    scale *= static_cast<float>(scale_backoff_factor);
    successes = 0;
  } else if (++successes == growth_interval) {
    float grown = scale * static_cast<float>(scale_growth_factor);
    if (grown - grown == 0) scale = grown;
    successes = 0;
  }
  growth_tracker.bump_version();
}

}  // namespace tocha::native
