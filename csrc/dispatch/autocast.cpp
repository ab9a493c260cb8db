#include "dispatch/autocast.h"

#include <unordered_map>

#include "core/modes.h"
#include "dispatch/promotion.h"
#include "ops/copies.h"

namespace tocha::autocast {

thread_local Region region;

namespace {

struct Cast {
  Tensor source;  // keeps the key alive
  Tensor result;
  bool recorded;  // made while gradients were recorded
};
using Casts = std::unordered_map<const TensorObject*, Cast>;

// Empty outside regions. Never destroyed: a thread may end without Python's lock.
Casts& casts() {
  static thread_local Casts* made = new Casts;
  return *made;
}

// Weights are cast once a region, however often a model uses them.
bool is_kept(const Tensor& t, DType to) {
  const TensorObject* o = t.get();
  return region.cache && region.nesting > 0 && o->requires_grad && !o->base && t.dtype() == DType::Float32 &&
         to == region.dtype[static_cast<int>(t.device().type)];
}

}  // namespace

void enable(DeviceType device, bool on) {
  region.enabled[static_cast<int>(device)] = on;
  region.on = false;
  for (bool e : region.enabled) region.on |= e;
}

void clear_cache() {
  Casts dying;
  dying.swap(casts());
}

Tensor cast(const Tensor& t, DType to) {
  if (!is_cast(t) || t.dtype() == to) return t;
  auto convert = [&] { return ops::to_dtype(t, to, false, false, std::nullopt); };
  if (!is_kept(t, to)) return convert();
  bool recorded = modes().grad;
  auto found = casts().find(t.get());
  if (found != casts().end() && found->second.recorded == recorded && found->second.result.dtype() == to)
    return found->second.result;
  Tensor result = convert();
  casts()[t.get()] = {t, result, recorded};
  return result;
}

Tensors cast(const Tensors& ts, DType to) {
  Tensors out;
  out.reserve(ts.size());
  for (const Tensor& t : ts) out.push_back(cast(t, to));
  return out;
}

DType lower_dtype(const Tensor& t) {
  return covers(t) ? region.dtype[static_cast<int>(t.device().type)] : DType::Undefined;
}
DType lower_dtype(const Tensors& ts) {
  for (const Tensor& t : ts)
    if (covers(t)) return lower_dtype(t);
  return DType::Undefined;
}

void widen(DType& so_far, const Tensor& t) {
  if (is_cast(t)) so_far = promote_types(so_far, t.dtype());
}
void widen(DType& so_far, const Tensors& ts) {
  for (const Tensor& t : ts) widen(so_far, t);
}

}  // namespace tocha::autocast
