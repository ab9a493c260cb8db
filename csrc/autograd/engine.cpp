#include "autograd/engine.h"

#include <algorithm>
#include <optional>
#include <string>

#include "autograd/anomaly.h"
#include "autograd/leaf.h"
#include "autograd/levels.h"
#include "core/fake.h"
#include "core/profile.h"
#include "core/sparse.h"
#include "ops/arithmetic.h"
#include "ops/copies.h"

namespace tocha::autograd {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local Node* running = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local int depth = 0;
thread_local std::vector<PyObject*> callbacks;
class Walk;
[[gnu::tls_model("initial-exec")]] thread_local Walk* walking = nullptr;
int64_t walks = 0;

// What one walk knows of a node.
struct Slot {
  NodeRef node;
  int waiting = 0;     // gradients that have yet to come
  bool needed = true;  // leads to a wanted input
  bool captured = false;
  Grads grads;
};

// Nodes to slots: open addressing, since every node of the graph is looked up a few times.
class Slots {
 public:
  explicit Slots(size_t expected = 64) { grow(expected * 2); }
  uint32_t find_or_add(Node* n, bool* added) {
    if ((slots.size() + 1) * 2 > table_.size()) grow(table_.size() * 2);
    size_t at = place(n);
    if (table_[at] != kNone) {
      *added = false;
      return table_[at];
    }
    *added = true;
    table_[at] = static_cast<uint32_t>(slots.size());
    slots.emplace_back();
    slots.back().node = NodeRef(n);
    return table_[at];
  }
  uint32_t find(const Node* n) const {
    size_t at = place(n);
    return table_[at];
  }
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Slot> slots;

 private:
  size_t place(const Node* n) const {
    size_t mask = table_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(n) >> 4) * 0x9E3779B97F4A7C15ull >> 20 & mask;
    while (table_[at] != kNone && slots[table_[at]].node.get() != n) at = (at + 1) & mask;
    return at;
  }
  void grow(size_t n) {
    size_t size = 64;
    while (size < n) size *= 2;
    table_.assign(size, kNone);
    for (size_t i = 0; i < slots.size(); ++i) table_[place(slots[i].node.get())] = static_cast<uint32_t>(i);
  }
  std::vector<uint32_t> table_;
};

class Walk {
 public:
  Walk(const BackwardOptions& options, const std::vector<Edge>& inputs)
      : number(walks++), options_(options), inputs_(inputs), outer_(std::exchange(walking, this)) {}
  ~Walk() { walking = outer_; }
  const int64_t number;

  bool keeps_graph() const { return options_.keep_graph; }
  bool meets(const Node* n) const { return slots_.find(n) != Slots::kNone; }
  bool runs(const Node* n) const {
    uint32_t index = slots_.find(n);
    return index != Slots::kNone && (slots_.slots[index].needed || slots_.slots[index].captured);
  }

  Grads run(const std::vector<Edge>& roots, Grads grads) {
    count_dependencies(roots);
    if (!inputs_.empty()) mark_needed();
    captured_.resize(inputs_.size());
    for (size_t i = 0; i < roots.size(); ++i) {
      Slot& s = slot_of(roots[i].node.get());
      deliver(s, roots[i].input, std::move(grads[i]));
    }
    for (const Edge& r : roots) {
      uint32_t index = slots_.find(r.node.get());
      if (slots_.slots[index].waiting == 0 && !std::count(ready_.begin(), ready_.end(), index)) push(index);
    }
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), Later{this});
      uint32_t index = ready_.back();
      ready_.pop_back();
      execute(index);
    }
    return std::move(captured_);
  }

 private:
  struct Later {  // heap order: the latest operation on top
    Walk* walk;
    bool operator()(uint32_t a, uint32_t b) const {
      return walk->slots_.slots[a].node->sequence < walk->slots_.slots[b].node->sequence;
    }
  };

  Slot& slot_of(Node* n) { return slots_.slots[slots_.find(n)]; }

  void push(uint32_t index) {
    ready_.push_back(index);
    std::push_heap(ready_.begin(), ready_.end(), Later{this});
  }

  void count_dependencies(const std::vector<Edge>& roots) {
    std::vector<Node*> stack;
    auto visit = [&](Node* n) {
      bool added;
      uint32_t index = slots_.find_or_add(n, &added);
      if (added) stack.push_back(n);
      return index;
    };
    for (const Edge& r : roots) visit(r.node.get());
    while (!stack.empty()) {
      Node* n = stack.back();
      stack.pop_back();
      for (const Edge& e : n->next) {
        if (!e) continue;
        uint32_t index = visit(e.node.get());
        ++slots_.slots[index].waiting;
      }
    }
  }

  // Only nodes from which a wanted input can be reached are run.
  void mark_needed() {
    auto& slots = slots_.slots;
    for (Slot& s : slots) s.needed = false;
    for (const Edge& e : inputs_) {
      uint32_t index = e ? slots_.find(e.node.get()) : Slots::kNone;
      if (index == Slots::kNone) continue;
      slots[index].captured = true;
      if (options_.accumulate) slots[index].needed = true;
    }
    std::vector<uint32_t> order(slots.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return slots[a].node->depth < slots[b].node->depth; });
    for (uint32_t i : order) {
      for (const Edge& e : slots[i].node->next) {
        if (!e) continue;
        const Slot& below = slot_of(e.node.get());
        if (below.needed || below.captured) {
          slots[i].needed = true;
          break;
        }
      }
    }
  }

  void deliver(Slot& s, uint32_t input, Tensor g) {
    if (s.grads.empty()) s.grads.resize(std::max<size_t>(s.node->inputs.size(), input + 1));
    if (!g) return;
    Tensor& have = s.grads[input];
    if (!have) {
      have = std::move(g);
      return;
    }
    if (is_sparse(have) || is_sparse(g)) {
      have = sparse_sum(have, g);
      return;
    }
    if (is_fake(have) || is_fake(g)) {
      have = fake_sum(have, g);
      return;
    }
    // In place where the first sum is ours alone.
    bool ours = !grad_enabled() && !(dispatch_forced & kDispatches) && Py_REFCNT(have.object()) == 1 &&
                have.storage().refs == 1 && !have.get()->base && have.dtype() == g.dtype() &&
                have.sizes() == g.sizes() && have.is_non_overlapping_and_dense() &&
                Py_TYPE(have.object()) == tensor_type && !have.is_conj() && !have.is_neg();
    if (ours)
      ops::add_(have, g, Scalar(int64_t{1}));
    else
      have = ops::add(have, g, Scalar(int64_t{1}));
  }

  void run_tensor_hooks(Node& node, Grads& grads) {
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(&node)) {
      AutogradMeta* m = leaf->variable().get()->autograd;
      if (m && m->hooks && grads[0]) grads[0] = run_hooks(m->hooks, std::move(grads[0]));
      return;
    }
    if (!node.extras) return;
    for (auto& h : node.extras->tensor_hooks)
      if (grads[h.input]) grads[h.input] = run_hooks(h.hooks, std::move(grads[h.input]));
    for (auto& r : node.extras->retained) {
      if (!grads[r.input]) continue;
      AutogradMeta& m = autograd_meta(r.tensor);
      const Tensor& g = grads[r.input];  // the walk goes on with it: what the tensor keeps is its own
      m.grad = m.grad ? sum_of(m.grad, g) : is_sparse(g) ? sparse_copy(g) : ops::clone(g, MemoryFormat::Contiguous);
    }
  }

  void execute(uint32_t index) {
    NodeRef holder = slots_.slots[index].node;
    Node& node = *holder;
    Grads grads = std::move(slots_.slots[index].grads);
    if (grads.size() < node.inputs.size()) grads.resize(node.inputs.size());
    if (grads.empty()) grads.resize(1);
    bool needed = slots_.slots[index].needed;
    if (slots_.slots[index].captured || node.extras || node.next.empty()) run_tensor_hooks(node, grads);
    if (slots_.slots[index].captured && !options_.accumulate) {
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (inputs_[i].node.get() == &node) captured_[i] = grads[inputs_[i].input];
    }
    Grads out;
    if (needed) call(node, grads, out);
    out.resize(node.next.size());
    for (size_t i = 0; i < node.next.size(); ++i) {
      const Edge& e = node.next[i];
      if (!e || !out[i] || e.input >= e.node->inputs.size()) continue;
      out[i] = fit(std::move(out[i]), e.node->inputs[e.input], node, i);
    }
    for (size_t i = 0; i < node.next.size(); ++i) {
      const Edge& e = node.next[i];
      if (!e) continue;
      uint32_t next = slots_.find(e.node.get());
      deliver(slots_.slots[next], e.input, std::move(out[i]));
      if (--slots_.slots[next].waiting == 0) push(next);
    }
    slots_.slots[index].grads.clear();
  }

  void call(Node& node, Grads& grads, Grads& out) {
    std::optional<profile::Range> whole;
    if (profile::watching) [[unlikely]]
      whole.emplace(profile::Kind::node,
                    profile::keep_name(std::string("autograd::engine::evaluate_function: ") + node.title()), nullptr,
                    static_cast<int64_t>(node.sequence));
    if (node.extras && node.extras->pre_hooks) run_pre_hooks(node, grads);
    Grads kept;
    bool hooked = node.extras && node.extras->post_hooks;
    if (hooked) kept = grads;
    Node* before = std::exchange(running, &node);
    struct Restore {
      Node* before;
      ~Restore() { running = before; }
    } restore{before};
    out.resize(node.next.size());
    if (sparse_in_use && !node.takes_sparse()) {
      for (Tensor& g : grads)
        if (is_sparse(g)) g = sparse_to_dense(g);
    }
    if (modes().anomaly) {
      apply_watched(node, grads, out);
    } else if (profile::watching) [[unlikely]] {
      profile::Range range(profile::Kind::node, profile::keep_name(node.title()), nullptr,
                           static_cast<int64_t>(node.sequence));
      node.apply(grads, out);
    } else {
      node.apply(grads, out);
    }
    if (!options_.keep_graph) {
      node.release_saved();
    }
    if (hooked) run_post_hooks(node, kept, out);
  }

  static PyObject* tuple_of(const Grads& grads) {
    PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(grads.size()));
    if (!t) throw PythonError();
    for (size_t i = 0; i < grads.size(); ++i)
      PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), Py_NewRef(grads[i] ? grads[i].object() : Py_None));
    return t;
  }

  // r: what a hook returned, to replace grads with.
  static void take_tuple(PyObject* r, Grads& grads, const char* which) {
    PyObject* items = PyTuple_Check(r) ? Py_NewRef(r) : PyTuple_Pack(1, r);
    if (!items) throw PythonError();
    if (PyTuple_GET_SIZE(items) != static_cast<Py_ssize_t>(grads.size())) {
      auto n = PyTuple_GET_SIZE(items);
      Py_DECREF(items);
      fail(ErrorKind::Runtime, which, " returned ", n, " gradients, expected ", grads.size());
    }
    for (size_t i = 0; i < grads.size(); ++i) {
      PyObject* item = PyTuple_GET_ITEM(items, static_cast<Py_ssize_t>(i));
      if (item != Py_None && !PyObject_TypeCheck(item, tensor_type)) {
        std::string type = Py_TYPE(item)->tp_name;
        Py_DECREF(items);
        fail(ErrorKind::Type, "expected Tensor or None from ", which, ", but got ", type);
      }
      grads[i] = item == Py_None ? Tensor() : Tensor::borrow(item);
    }
    Py_DECREF(items);
  }

  template <class F>
  static void for_hooks(PyObject* hooks, F f) {
    PyObject* values = PyMapping_Values(hooks);
    if (!values) throw PythonError();
    struct Drop {
      PyObject* p;
      ~Drop() { Py_DECREF(p); }
    } drop{values};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); ++i) {
      PyObject* r = f(PyList_GET_ITEM(values, i));
      if (!r) throw PythonError();
      Py_DECREF(r);
    }
  }

  void run_pre_hooks(Node& node, Grads& grads) {
    for_hooks(node.extras->pre_hooks, [&](PyObject* hook) -> PyObject* {
      PyObject* t = tuple_of(grads);
      PyObject* r = PyObject_CallOneArg(hook, t);
      Py_DECREF(t);
      if (r && r != Py_None) take_tuple(r, grads, "a pre hook");
      return r;
    });
  }

  void run_post_hooks(Node& node, const Grads& grads, Grads& out) {
    for_hooks(node.extras->post_hooks, [&](PyObject* hook) -> PyObject* {
      PyObject* results = tuple_of(out);
      PyObject* arrived = tuple_of(grads);
      PyObject* r = PyObject_CallFunctionObjArgs(hook, results, arrived, nullptr);
      Py_DECREF(results);
      Py_DECREF(arrived);
      if (r && r != Py_None) take_tuple(r, out, "a hook");
      return r;
    });
  }

  const BackwardOptions& options_;
  const std::vector<Edge>& inputs_;
  Walk* outer_;
  Slots slots_;
  std::vector<uint32_t> ready_;
  Grads captured_;
};

// A walk is under way. What was queued by one that failed is never called.
struct UnderWay {
  UnderWay() { ++depth; }
  ~UnderWay() {
    if (--depth || callbacks.empty()) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    std::vector<PyObject*> dropped = std::move(callbacks);
    callbacks.clear();
    for (PyObject* c : dropped) Py_DECREF(c);
    PyErr_Restore(type, value, trace);
  }
};

void run_callbacks() {
  while (!callbacks.empty()) {
    std::vector<PyObject*> now = std::move(callbacks);
    callbacks.clear();
    for (PyObject* c : now) {
      PyObject* r = PyObject_CallNoArgs(c);
      Py_DECREF(c);
      if (!r) throw PythonError();
      Py_DECREF(r);
    }
  }
}

}  // namespace

thread_local OtherWalk other_walk = nullptr;

Node* current_node() { return running; }
int backward_depth() { return depth; }
int64_t current_walk() { return walking ? walking->number : -1; }
bool keeps_graph() { return !walking || walking->keeps_graph(); }
bool will_run(const Node* node) { return walking && walking->runs(node); }
bool is_asked_for(const Node* node) { return !walking || !walking->meets(node) || walking->runs(node); }
void queue_callback(PyObject* callback) {
  TOCHA_CHECK(depth > 0, Runtime, "Final callbacks can only be installed during backward pass.");
  callbacks.push_back(Py_NewRef(callback));
}

Grads backward(const std::vector<Edge>& roots, Grads grads, const std::vector<Edge>& inputs, BackwardOptions options) {
  struct Depth {
    explicit Depth(bool records)
        : asked_(std::exchange(levels::asked_to_record, records)),
          level_(std::exchange(levels::walk_level, std::exchange(levels::next_walk_level, 0))) {}
    ~Depth() {
      levels::asked_to_record = asked_;
      levels::walk_level = level_;
    }
    UnderWay walk_;
    bool asked_;
    int64_t level_;
  };
  Grads result;
  if (other_walk) {
    UnderWay inside;
    if (other_walk(roots, grads, inputs, options, result)) {
      if (depth == 1) run_callbacks();
      return result;
    }
  }
  {
    Depth inside(options.create_graph);
    GradMode mode(options.create_graph);
    Walk walk(options, inputs);
    result = walk.run(roots, std::move(grads));
    if (depth == 1) run_callbacks();
  }
  return result;
}

}  // namespace tocha::autograd
