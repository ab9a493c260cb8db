#include "autograd/forward.h"

#include <algorithm>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/levels.h"
#include "autograd/saved.h"
#include "autograd/view_relation.h"
#include "ops/copies.h"
#include "ops/factories.h"

namespace tocha::autograd {
namespace {

// Where gradients of the inputs would go; only asked whether somebody is there.
class Sink final : public Node {
 public:
  const char* name() const override { return "Tangents"; }
  void apply(Grads&, Grads&) override {}
};

// The tensors that have tangents.
std::unordered_set<TensorObject*>& duals() {
  static auto& all = *new std::unordered_set<TensorObject*>();
  return all;
}

class Level {  // for a scope
 public:
  explicit Level(int64_t level) : before_(std::exchange(modes().forward_level, level)) {}
  ~Level() { modes().forward_level = before_; }

 private:
  int64_t before_;
};

}  // namespace

namespace {

Tensor own_tangent(const TensorObject* t) {
  const bool open = t->has_tangent && modes().forward_level;
  return open && t->autograd->tangent_level == levels::forward_level_of(t) ? t->autograd->tangent : Tensor();
}

// After a write to a view: the same write to the tangent of its base, where the tangents of other views come from.
void write_through(const Tensor& view) {
  Tensor base = Tensor::borrow(view.get()->base), tangent = own_tangent(view.get());
  Tensor before = own_tangent(base.get());
  Level outside(0);
  const ViewRelation relation(view);
  Tensor whole = relation.in_place_of_base(before ? before : ops::zeros(base.sizes(), base.dtype(), base.device()));
  ops::copy_(relation.of(whole), tangent, false);
  Level inside(view.get()->autograd->tangent_level);
  set_tangent(base, whole);
}

}  // namespace

Tensor tangent_of(const Tensor& t) {
  if (!has_tangent(t)) return {};
  const TensorObject* o = t.get();
  Tensor whole = o->base ? own_tangent(o->base) : Tensor();
  if (!whole || (own_tangent(o) && o->autograd->tangent_at == static_cast<uint32_t>(t.version())))
    return own_tangent(o);
  Tensor part = [&] {
    Level outside(0);
    const ViewRelation relation(t);
    return relation.of(relation.in_place_of_base(whole));
  }();
  set_tangent(t, part);
  return part;
}

void set_tangent(const Tensor& t, const Tensor& tangent) {
  AutogradMeta& m = autograd_meta(t.get());
  m.tangent = tangent;
  m.tangent_level = levels::forward_level_of(t.get());
  m.tangent_at = static_cast<uint32_t>(t.version());
  t.get()->has_tangent = static_cast<bool>(tangent);
  if (tangent)
    duals().insert(t.get());
  else
    duals().erase(t.get());
}

Tensor as_it_is(const Tensor& t) {
  const levels::Held* held = levels::held(t);
  Tensor same = held ? levels::wrap(levels::value_of(*held), held->level, held->dim) : alias_of(t, true);
  if (Tensor tangent = tangent_of(t)) set_tangent(same, tangent);
  return same;
}

void share_tangents(Node& node, const Tensors& results) {
  class Sharing final : public Fields {
   public:
    explicit Sharing(const Tensors& results) : results_(results) {}
    void tensor(const char*, Saved& kept) override { kept.take_tangent(results_); }

   private:
    const Tensors& results_;
  } sharing(results);
  node.fields(sharing);
}

void forget_tangent(TensorObject* t) { duals().erase(t); }

void drop_tangents() {
  Tensors all;  // held, since a tangent that goes may take others along
  for (TensorObject* t : duals())
    if (t->autograd->tangent_level == modes().forward_level) all.push_back(Tensor::borrow(t));
  for (const Tensor& t : all) set_tangent(t, Tensor());
}

void carry(Node& node, const Tensors& ins, const Tensors& outs) {
  Tensors tangents;
  bool any = false;
  int64_t level = 0;
  for (const Tensor& out : outs) level = out ? levels::level_of(out) : level;
  for (const Tensor& t : ins) {
    const bool here = t && levels::level_of(t) == level;  // those of outer levels have been carried along there
    tangents.push_back(here ? tangent_of(t) : Tensor());
    any = any || tangents.back();
  }
  if (!any) return;
  Grads stand_ins;
  std::vector<Edge> leaves;
  for (const Tensor& out : outs) {
    bool carries = out && (out.is_floating() || out.is_complex());
    Tensor v = carries ? ops::zeros(out.sizes(), out.dtype(), out.device()) : Tensor();
    if (v && level && levels::level_of(v) != level) v = levels::wrap(v, level, -1);
    if (v) v.get()->requires_grad = true;
    leaves.push_back(v ? gradient_edge(v) : Edge());
    stand_ins.push_back(std::move(v));
  }
  std::vector<Edge> own = node.next;
  NodeRef sink = make_node<Sink>();
  for (size_t i = 0; i < node.next.size(); ++i) node.next[i] = tangents[i] ? Edge{sink, 0} : Edge{};
  std::vector<Edge> roots;
  Grads along, back(node.next.size());
  Grads found;
  {
    Level outside(0);
    GradMode on(true);
    Grads arriving = stand_ins;
    try {
      node.apply(arriving, back);
    } catch (...) {
      node.next = std::move(own);
      throw;
    }
    node.next = std::move(own);
    for (size_t i = 0; i < back.size(); ++i) {
      if (!back[i] || !tangents[i]) continue;
      Tensor g = fit(back[i], {Ints(ins[i].sizes()), ins[i].dtype(), ins[i].device()}, node, i);
      if (!requires_grad(g)) continue;
      roots.push_back(gradient_edge(g));
      along.push_back(tangents[i]);
    }
    BackwardOptions options;
    options.accumulate = false;
    options.create_graph = modes().grad;
    options.keep_graph = true;
    if (!roots.empty()) {
      std::vector<Edge> wanted;
      for (const Edge& e : leaves)
        if (e) wanted.push_back(e);
      found = backward(roots, std::move(along), wanted, options);
    }
  }
  size_t at = 0;
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!leaves[i]) continue;
    Tensor t = at < found.size() ? found[at] : Tensor();
    ++at;
    set_tangent(outs[i], t ? t : ops::zeros(outs[i].sizes(), outs[i].dtype(), outs[i].device()));
    const bool in_place = std::any_of(ins.begin(), ins.end(), [&](const Tensor& in) { return in && in.is(outs[i]); });
    if (in_place && outs[i].get()->base) write_through(outs[i]);
  }
  share_tangents(node, outs);
}

}  // namespace tocha::autograd
