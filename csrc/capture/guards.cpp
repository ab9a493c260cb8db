#include "capture/guards.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/mode.h"
#include "capture/hook.h"
#include "capture/relation.h"
#include "capture/sharing.h"
#include "capture/stamp.h"
#include "core/switches.h"
#include "core/tensor.h"
#include "dispatch/autocast.h"

namespace tocha::capture {

PyTypeObject* guards_type;
thread_local bool function_modes_active = false;
thread_local uint8_t overrides_off = 0;

namespace {

enum class Fetch {
  root,           // nothing: the tree's root
  local,          // an argument, by number
  free,           // what a cell of the closure holds, by number
  global,         // by name
  object,         // an object that the tree itself keeps
  attribute,      // by name, the ordinary way
  item,           // value[key]
  dict_item,      // the same of a dict, past overridden methods
  dict_key,       // a dict's key, by number
  tuple_item,     // by number
  list_item,      // by number
  type,           // type(value)
  instance_dict,  // value.__dict__
  closure,        // what a cell of a function's closure holds, by number
  cell,           // what a cell holds
  call,           // key(value)
  size,           // a tensor's size, by dim
  stride,         // a tensor's stride, by dim
};
const std::unordered_map<std::string, Fetch> kFetches = {
    {"root", Fetch::root},           {"local", Fetch::local},         {"free", Fetch::free},
    {"global", Fetch::global},       {"object", Fetch::object},       {"attribute", Fetch::attribute},
    {"item", Fetch::item},           {"dict_item", Fetch::dict_item}, {"tuple_item", Fetch::tuple_item},
    {"list_item", Fetch::list_item}, {"type", Fetch::type},           {"instance_dict", Fetch::instance_dict},
    {"closure", Fetch::closure},     {"cell", Fetch::cell},           {"call", Fetch::call},
    {"size", Fetch::size},           {"stride", Fetch::stride},       {"dict_key", Fetch::dict_key},
};

enum class Test {
  type,          // type(value) is key
  same,          // value is key
  constant,      // the same type and equal
  length,        // len(value) == key
  keys,          // tuple(value) == key, in order, of a dict
  contains,      // key in value, of a dict
  without,       // key not in value
  empty_cell,    // a cell without contents
  tensor,        // the facts of key, a tensor
  number,        // an int or float of that very type; any value, which relations may ask for
  alias,         // the same object as others of this number
  holds,         // key(value) is true
  global_state,  // grad mode, inference, autocast, default dtype, determinism
};
const std::unordered_map<std::string, Test> kTests = {
    {"type", Test::type},
    {"same", Test::same},
    {"constant", Test::constant},
    {"length", Test::length},
    {"keys", Test::keys},
    {"contains", Test::contains},
    {"without", Test::without},
    {"empty_cell", Test::empty_cell},
    {"tensor", Test::tensor},
    {"number", Test::number},
    {"alias", Test::alias},
    {"holds", Test::holds},
    {"global_state", Test::global_state},
};

// One word for what operators depend on besides their arguments.
uint64_t global_state() {
  uint64_t word = modes().grad | modes().inference << 1 | (modes().forward_level != 0) << 2;
  word |= autocast::region.on << 3 | switches.deterministic << 4 | (autocast::region.cache && autocast::region.on) << 5;
  word |= static_cast<uint64_t>(default_dtype()) << 8;
  if (autocast::region.on) {
    word |= autocast::region.enabled[0] << 6 | autocast::region.enabled[1] << 7;
    word |= static_cast<uint64_t>(autocast::region.dtype[0]) << 16 | static_cast<uint64_t>(autocast::region.dtype[1])
                                                                         << 24;
  }
  word |= static_cast<uint64_t>(function_modes_active) << 48;  // graphs do not ask modes
  word |= static_cast<uint64_t>(modes().dispatch_modes != 0) << 49;
  word |= static_cast<uint64_t>(overrides_off) << 50;
  Device d = default_device();
  return word | static_cast<uint64_t>(d.type) << 32 | static_cast<uint64_t>(static_cast<uint8_t>(d.index)) << 40;
}

struct TensorFacts {
  PyTypeObject* type;
  DType dtype;
  Device device;
  bool requires_grad, conj, neg, sparse;
  std::vector<int64_t> dims;  // sizes, then strides; -1 where any will do
  std::vector<int> numbers;   // for each of dims: its place among the numbers of relations, or -1; empty if all are
  int slot;                   // tensors of one slot are one object, those of different slots are not

  bool match(TensorObject* t) const {
    if (Py_TYPE(t) != type || t->dtype != dtype || !(t->device == device) || t->conj != conj || t->neg != neg ||
        t->sparse != sparse || t->ndim * 2u != dims.size() || autograd::requires_grad(t) != requires_grad)
      return false;
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] >= 0 && t->dims[i] != dims[i]) return false;
    return true;
  }
};

struct Check {
  Test test;
  PyObject* key;
  PyObject* text;
  uint64_t number = 0;  // a length, a state, a pointer's value
  std::unique_ptr<TensorFacts> facts;
};

struct Node;

// What a walk from one object met. While the words hold, the walk would meet the same again; only the rest is looked
// at.
struct Memo {
  struct Rest {
    const Node* node;
    PyObject* value;
    bool fetched;  // is it the node's own value, or what it is fetched from?
  };
  PyObject* anchor;
  Words words;
  std::vector<Rest> rest;
  std::vector<std::pair<uint64_t, PyObject*>> aliases;
  std::vector<std::pair<int, PyObject*>> slots;  // tensors
};
constexpr size_t kWorthAMemo = 6;
constexpr int kGiveUp = 16;  // walks in a row that met something new

struct Node {
  Fetch fetch = Fetch::root;
  PyObject* key = nullptr;
  PyObject* text = nullptr;
  Py_ssize_t index = 0;
  std::vector<Check> checks;
  std::vector<std::unique_ptr<Node>> children;
  size_t below = 0;                    // how many nodes
  mutable std::shared_ptr<Memo> memo;  // of the last walk from here that went well
  mutable int misses = 0;

  ~Node() {
    Py_XDECREF(key);
    Py_XDECREF(text);
    for (Check& c : checks) {
      Py_XDECREF(c.key);
      Py_XDECREF(c.text);
    }
  }
};

struct GuardsObject {
  PyObject_HEAD Node* root;
  std::vector<Relation>* relations;
  std::vector<bool>* floats;        // which of the numbers are floats
  std::vector<PyObject*>* tensors;  // by slot, those of the last walk: borrowed, and only compared
  Sharing* sharing;                 // null where the graph writes to no input
  int slots;
};

struct Walk {
  const Surroundings& at;
  std::vector<PyObject*> slots;
  std::vector<Number> numbers;
  std::vector<PyObject*> aliases = {};
  PyObject* failed = nullptr;
  Memo* recording = nullptr;
  struct {
    PyObject* dict;
    Py_ssize_t keys, position;
  } counted = {};

  PyObject* cell_contents(PyObject* cells, Py_ssize_t i) {
    if (!cells || !PyTuple_Check(cells) || i >= PyTuple_GET_SIZE(cells)) return nullptr;
    PyObject* cell = PyTuple_GET_ITEM(cells, i);
    return PyCell_Check(cell) ? Py_XNewRef(PyCell_GET(cell)) : nullptr;
  }

  // Keys are mostly asked for in their order: counting goes on from the last one.
  PyObject* key_of(PyObject* dict, Py_ssize_t i) {
    if (!PyDict_Check(dict)) return nullptr;
    if (dict != counted.dict || i < counted.keys) counted = {dict, 0, 0};
    PyObject *key, *value;
    while (PyDict_Next(dict, &counted.position, &key, &value))
      if (counted.keys++ == i) return Py_NewRef(key);
    counted = {};
    return nullptr;
  }

  // A new reference; null, with or without an error, where there is no such value.
  PyObject* fetch(const Node& n, PyObject* from) {
    switch (n.fetch) {
      case Fetch::root:
        return Py_NewRef(Py_None);
      case Fetch::local:
        return n.index < at.count ? Py_XNewRef(at.locals[n.index]) : nullptr;
      case Fetch::free:
        return cell_contents(at.closure, n.index);
      case Fetch::global:
        return Py_XNewRef(PyDict_GetItemWithError(at.globals, n.key));
      case Fetch::object:
        return Py_NewRef(n.key);
      case Fetch::attribute:
        return PyObject_GetAttr(from, n.key);
      case Fetch::item:
        return PyObject_GetItem(from, n.key);
      case Fetch::dict_item:
        return PyDict_Check(from) ? Py_XNewRef(PyDict_GetItemWithError(from, n.key)) : nullptr;
      case Fetch::dict_key:
        return key_of(from, n.index);
      case Fetch::tuple_item:
        return PyTuple_Check(from) && n.index < PyTuple_GET_SIZE(from) ? Py_NewRef(PyTuple_GET_ITEM(from, n.index))
                                                                       : nullptr;
      case Fetch::list_item:
        return PyList_Check(from) && n.index < PyList_GET_SIZE(from) ? Py_NewRef(PyList_GET_ITEM(from, n.index))
                                                                     : nullptr;
      case Fetch::type:
        return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(from)));
      case Fetch::instance_dict:
        return PyObject_GenericGetDict(from, nullptr);
      case Fetch::closure:
        return PyFunction_Check(from) ? cell_contents(PyFunction_GET_CLOSURE(from), n.index) : nullptr;
      case Fetch::cell:
        return PyCell_Check(from) ? Py_XNewRef(PyCell_GET(from)) : nullptr;
      case Fetch::call:
        return PyObject_CallOneArg(n.key, from);
      case Fetch::size:
      case Fetch::stride: {
        if (!PyObject_TypeCheck(from, tensor_type)) return nullptr;
        auto* t = reinterpret_cast<TensorObject*>(from);
        if (n.index >= t->ndim) return nullptr;
        return PyLong_FromLongLong(t->dims[n.fetch == Fetch::size ? n.index : t->ndim + n.index]);
      }
    }
    return nullptr;
  }

  static bool same_constant(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (Py_TYPE(a) != Py_TYPE(b)) return false;
    if (PyFloat_CheckExact(a)) {  // by bits: -0.0 is not 0.0, and nan is nan
      double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
      return std::memcmp(&x, &y, sizeof(x)) == 0;
    }
    return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
  }

  static bool same_keys(PyObject* dict, PyObject* keys) {
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
    PyObject *key, *value;
    Py_ssize_t position = 0, i = 0;
    while (PyDict_Next(dict, &position, &key, &value)) {
      PyObject* wanted = PyTuple_GET_ITEM(keys, i++);
      if (key != wanted && !same_constant(key, wanted)) return false;
    }
    return true;
  }

  bool tensor_matches(const Check& c, PyObject* value) {
    if (!PyObject_TypeCheck(value, tensor_type)) return false;
    auto* t = reinterpret_cast<TensorObject*>(value);
    if (!c.facts->match(t)) return false;
    for (size_t i = 0; i < c.facts->numbers.size(); ++i)
      if (c.facts->numbers[i] >= 0) numbers[c.facts->numbers[i]].i = t->dims[i];
    return same_slot(c.facts->slot, value);
  }

  bool same_slot(int slot, PyObject* value) {
    if (slot < 0) return true;
    PyObject*& known = slots[slot];
    if (!known) known = value;
    return known == value;
  }

  // An int or float: kept for relations.
  bool number_matches(const Check& c, PyObject* value) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != c.key) return false;
    if (PyFloat_CheckExact(value)) {
      numbers[c.number].d = PyFloat_AS_DOUBLE(value);
      return true;
    }
    int overflow = 0;
    numbers[c.number].i = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
  }

  bool same_alias(uint64_t number, PyObject* value) {
    if (aliases.size() <= number) aliases.resize(number + 1, nullptr);
    PyObject*& known = aliases[number];
    if (!known) known = value;
    return known == value;
  }

  bool test(const Check& c, PyObject* value) {
    switch (c.test) {
      case Test::type:
        return reinterpret_cast<PyObject*>(Py_TYPE(value)) == c.key;
      case Test::same:
        return value == c.key;
      case Test::constant:
        return same_constant(value, c.key);
      case Test::length: {
        Py_ssize_t n = PyObject_Size(value);
        return n >= 0 && static_cast<uint64_t>(n) == c.number;
      }
      case Test::keys:
        return same_keys(value, c.key);
      case Test::contains:
        return PyDict_Check(value) && PyDict_Contains(value, c.key) == 1;
      case Test::without:
        return PyDict_Check(value) && PyDict_Contains(value, c.key) == 0;
      case Test::empty_cell:
        return PyCell_Check(value) && PyCell_GET(value) == nullptr;
      case Test::tensor:
        return tensor_matches(c, value);
      case Test::number:
        return number_matches(c, value);
      case Test::alias:
        return same_alias(c.number, value);
      case Test::holds: {
        PyObject* answer = PyObject_CallOneArg(c.key, value);
        bool yes = answer && PyObject_IsTrue(answer) == 1;
        Py_XDECREF(answer);
        return yes;
      }
      case Test::global_state:
        return global_state() == c.number;
    }
    return false;
  }

  // The checks of a node and everything below it.
  bool examine(const Node& n, PyObject* value, const Stamp* stamp) {
    for (const Check& c : n.checks)
      if (!test(c, value)) {
        failed = c.text;
        return false;
      }
    for (const auto& child : n.children)
      if (!visit(*child, value, stamp)) return false;
    return true;
  }

  bool visit(const Node& n, PyObject* from, const Stamp* held_by = nullptr) {
    PyObject* value = fetch(n, from);
    if (!value) {
      failed = n.text;
      return false;
    }
    bool good;
    if (n.below + recording_size() < kWorthAMemo)
      good = examine(n, value, nullptr);
    else if (recording)
      good = record(n, from, value, held_by);
    else
      good = remembered(n, value);
    Py_DECREF(value);
    return good;
  }

  size_t recording_size() const { return recording ? kWorthAMemo : 0; }

  // A node from which a walk may be remembered.
  bool remembered(const Node& n, PyObject* value) {
    std::shared_ptr<Memo> memo = n.memo;  // kept: what is called may walk again
    if (memo && memo->anchor == value && memo->words.hold()) {
      n.misses = 0;
      return replay(*memo);
    }
    n.memo.reset();
    if (n.misses >= kGiveUp) return examine(n, value, nullptr);
    ++n.misses;
    auto made = std::make_shared<Memo>();
    made->anchor = value;
    recording = made.get();
    bool good = record(n, nullptr, value, nullptr);
    recording = nullptr;
    made->words.finish();
    if (good && !made->words.empty()) n.memo = std::move(made);
    return good;
  }

  bool replay(const Memo& memo) {
    for (auto [number, value] : memo.aliases)
      if (!same_alias(number, value)) return false;
    for (auto [slot, value] : memo.slots)
      if (!same_slot(slot, value)) return false;
    for (const Memo::Rest& r : memo.rest)
      if (r.fetched ? !examine(*r.node, r.value, nullptr) : !visit(*r.node, r.value)) return false;
    return true;
  }

  // Examines a node and writes down by what it will be known to hold: by a stamp, or by looking at it again.
  bool record(const Node& n, PyObject* from, PyObject* value, const Stamp* held_by) {
    Memo* memo = recording;
    bool anchor = from == nullptr, covered = anchor || is_covered(n, from, value, held_by);
    Stamp stamp = PyDict_Check(value) ? Stamp::of_dict(value) : Stamp::of_object(value);
    bool followed = n.children.empty() || stamp.dict || PyTuple_CheckExact(value);
    if (!covered || !followed || !lasting(n, value)) {
      recording = nullptr;
      bool good = examine(n, value, nullptr);
      recording = memo;
      memo->rest.push_back(covered ? Memo::Rest{&n, value, true} : Memo::Rest{&n, from, false});
      return good;
    }
    if (stamp.dict && (PyDict_Check(value) || !n.children.empty()))
      stamp.add_to(memo->words);
    else if (Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE)
      Stamp::of_type(value).add_to(memo->words);
    for (const Check& c : n.checks) {
      if (c.test == Test::alias) memo->aliases.emplace_back(c.number, value);
      if (c.test == Test::tensor) remember_tensor(*c.facts, reinterpret_cast<TensorObject*>(value), *memo);
    }
    return examine(n, value, &stamp);
  }

  static void remember_tensor(const TensorFacts& facts, TensorObject* t, Memo& memo) {
    memo.words.add_tensor(t);
    for (size_t i = 0; i < facts.dims.size(); ++i)
      if (facts.dims[i] >= 0) memo.words.add(t->dims[i]);
    if (facts.slot >= 0) memo.slots.emplace_back(facts.slot, reinterpret_cast<PyObject*>(t));
  }

  // Does the same way lead to the same value while what it starts from holds?
  static bool is_covered(const Node& n, PyObject* from, PyObject* value, const Stamp* held_by) {
    if (n.fetch == Fetch::tuple_item) return PyTuple_CheckExact(from);
    if (!held_by || !held_by->dict) return false;
    if (n.fetch == Fetch::dict_item) return !held_by->type;
    if (n.fetch != Fetch::attribute) return false;
    if (value == held_by->dict) return PyUnicode_CompareWithASCIIString(n.key, "__dict__") == 0;
    return held_by->covers(n.key, value);
  }

  // Do the checks hold for as long as the value has the same contents?
  static bool lasting(const Node& n, PyObject* value) {
    for (const Check& c : n.checks) switch (c.test) {
        case Test::type:
        case Test::same:
        case Test::alias:
          break;
        case Test::contains:
        case Test::without:
          if (!PyDict_Check(value)) return false;
          break;
        case Test::keys:  // an OrderedDict can be put into another order
          if (!PyDict_CheckExact(value) && PyTuple_GET_SIZE(c.key)) return false;
          break;
        case Test::length:
          if (!PyDict_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
          break;
        case Test::constant:
          if (PyAnySet_Check(value) || PyList_Check(value) || PyDict_Check(value)) return false;
          break;
        case Test::tensor:  // a view's requires_grad may be its base's; numbers are read at each walk
          if (!PyObject_TypeCheck(value, tensor_type) || !c.facts->numbers.empty()) return false;
          if (auto* t = reinterpret_cast<TensorObject*>(value); t->base || !c.facts->match(t)) return false;
          break;
        default:
          return false;
      }
    return true;
  }

  // Tensors of different slots must be different objects.
  bool distinct(std::vector<PyObject*>& before) {
    if (slots == before) return true;
    static PyObject* text = PyUnicode_FromString("inputs that were different tensors are different tensors");
    std::vector<PyObject*> found;
    for (PyObject* p : slots)
      if (p) found.push_back(p);
    std::sort(found.begin(), found.end());
    if (std::adjacent_find(found.begin(), found.end()) == found.end()) {
      before = slots;
      return true;
    }
    failed = text;
    return false;
  }

  bool shares_as_before(Sharing* sharing) {
    if (!sharing) return true;
    static PyObject* text = PyUnicode_FromString("inputs that are written to share memory with the same others");
    std::vector<Extent> now(slots.size());
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i]) now[i] = extent_of(reinterpret_cast<TensorObject*>(slots[i]));
    if (now == sharing->before) return true;
    if (meeting_pairs(now, sharing->written) != sharing->pairs) {
      failed = text;
      return false;
    }
    sharing->before = std::move(now);
    return true;
  }

  bool related(const std::vector<Relation>& relations, const std::vector<bool>& floats) {
    if (relations.empty()) return true;
    size_t depth = 0;
    for (const Relation& r : relations) depth = std::max(depth, r.depth);
    std::vector<int64_t> stack(depth);
    for (const Relation& r : relations)
      if (r.call ? !call_holds(r.call, floats) : !r.holds(numbers, stack)) {
        failed = r.text;
        return false;
      }
    return true;
  }

  bool call_holds(PyObject* call, const std::vector<bool>& floats) {
    PyObject* args = PyTuple_New(static_cast<Py_ssize_t>(numbers.size()));
    if (!args) return false;
    for (size_t i = 0; i < numbers.size(); ++i)
      PyTuple_SET_ITEM(args, i, floats[i] ? PyFloat_FromDouble(numbers[i].d) : PyLong_FromLongLong(numbers[i].i));
    PyObject* answer = PyObject_Call(call, args, nullptr);
    Py_DECREF(args);
    bool yes = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(answer);
    return yes;
  }
};

// ---- from Python's description: (fetch, key, text, checks, children), a check being (test, key, text). A text is a
// string, or an object whose str() is asked for when it is needed.

// (tensor, slot, sizes, strides, numbers), with None where any will do
std::unique_ptr<TensorFacts> facts_of(PyObject* key) {
  PyObject *tensor, *sizes, *strides, *numbers;
  int slot;
  if (!PyArg_ParseTuple(key, "OiO!O!O!", &tensor, &slot, &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &PyTuple_Type,
                        &numbers))
    return nullptr;
  if (!PyObject_TypeCheck(tensor, tensor_type)) {
    PyErr_SetString(PyExc_TypeError, "guard on a tensor: no tensor given");
    return nullptr;
  }
  auto* t = reinterpret_cast<TensorObject*>(tensor);
  auto facts = std::make_unique<TensorFacts>();
  facts->type = Py_TYPE(tensor);
  facts->dtype = t->dtype;
  facts->device = t->device;
  facts->requires_grad = autograd::requires_grad(t);
  facts->conj = t->conj;
  facts->neg = t->neg;
  facts->sparse = t->sparse;
  facts->slot = slot;
  for (PyObject* dims : {sizes, strides})
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims); ++i) {
      PyObject* d = PyTuple_GET_ITEM(dims, i);
      facts->dims.push_back(d == Py_None ? -1 : PyLong_AsLongLong(d));
    }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); ++i)
    facts->numbers.push_back(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(numbers, i))));
  return PyErr_Occurred() ? nullptr : std::move(facts);
}

bool read_check(PyObject* described, Check& check, int& slots) {
  PyObject *key, *text;
  const char* name;
  if (!PyArg_ParseTuple(described, "sOO", &name, &key, &text)) return false;
  auto found = kTests.find(name);
  if (found == kTests.end()) {
    PyErr_Format(PyExc_ValueError, "no such guard: %s", name);
    return false;
  }
  check.test = found->second;
  if (check.test == Test::tensor) {
    check.facts = facts_of(key);
    if (!check.facts) return false;
    slots = std::max(slots, check.facts->slot + 1);
    key = Py_None;
  } else if (check.test == Test::length || check.test == Test::alias) {
    check.number = PyLong_AsUnsignedLongLong(key);
    if (PyErr_Occurred()) return false;
  } else if (check.test == Test::number) {
    unsigned long long place;
    if (!PyArg_ParseTuple(key, "OK", &key, &place)) return false;
    check.number = place;
  } else if (check.test == Test::global_state) {
    check.number = global_state();
  }
  check.key = Py_NewRef(key);
  check.text = Py_NewRef(text);
  return true;
}

std::unique_ptr<Node> read_node(PyObject* described, int& slots) {
  PyObject *key, *text, *checks, *children;
  const char* name;
  if (!PyArg_ParseTuple(described, "sOOO!O!", &name, &key, &text, &PyTuple_Type, &checks, &PyTuple_Type, &children))
    return nullptr;
  auto found = kFetches.find(name);
  if (found == kFetches.end()) {
    PyErr_Format(PyExc_ValueError, "no such way to fetch: %s", name);
    return nullptr;
  }
  auto node = std::make_unique<Node>();
  node->fetch = found->second;
  node->key = Py_NewRef(key);
  node->text = Py_NewRef(text);
  if (PyLong_Check(key) && node->fetch != Fetch::item && node->fetch != Fetch::dict_item &&
      node->fetch != Fetch::object)
    node->index = PyLong_AsSsize_t(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(checks); ++i) {
    Check check{};
    if (!read_check(PyTuple_GET_ITEM(checks, i), check, slots)) return nullptr;
    node->checks.push_back(std::move(check));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children); ++i) {
    auto child = read_node(PyTuple_GET_ITEM(children, i), slots);
    if (!child) return nullptr;
    node->below += 1 + child->below;
    node->children.push_back(std::move(child));
  }
  return node;
}

// (steps, text), steps being ((name, arg), ...) or a function of all numbers
bool read_relation(PyObject* described, std::vector<Relation>& relations) {
  PyObject *steps, *text;
  if (!PyArg_ParseTuple(described, "OO", &steps, &text)) return false;
  Relation& made = relations.emplace_back();
  made.text = Py_NewRef(text);
  if (!PyTuple_Check(steps)) {
    made.call = Py_NewRef(steps);
    return true;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) {
    const char* name;
    long long arg;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, i), "sL", &name, &arg)) return false;
    auto found = kOps.find(name);
    if (found == kOps.end()) {
      PyErr_Format(PyExc_ValueError, "no such step of a relation: %s", name);
      return false;
    }
    made.steps.emplace_back(found->second, arg);
    made.depth += found->second == Op::number || found->second == Op::constant;
  }
  return true;
}

// ---- the type

PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *described, *relations, *floats, *written = nullptr, *pairs = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!O!|O!O!", &PyTuple_Type, &described, &PyTuple_Type, &relations, &PyTuple_Type,
                        &floats, &PyTuple_Type, &written, &PyTuple_Type, &pairs))
    return nullptr;
  int slots = 0;
  auto root = read_node(described, slots);
  if (!root) return nullptr;
  auto related = std::make_unique<std::vector<Relation>>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(relations); ++i)
    if (!read_relation(PyTuple_GET_ITEM(relations, i), *related)) return nullptr;
  auto kinds = std::make_unique<std::vector<bool>>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(floats); ++i) kinds->push_back(PyTuple_GET_ITEM(floats, i) == Py_True);
  std::unique_ptr<Sharing> sharing;
  if (written && PyTuple_GET_SIZE(written)) {
    sharing = std::make_unique<Sharing>();
    if (!read_slots(written, slots, sharing->written)) return nullptr;
    for (Py_ssize_t i = 0; pairs && i < PyTuple_GET_SIZE(pairs); ++i) {
      int a, b;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pairs, i), "ii", &a, &b)) return nullptr;
      sharing->pairs.emplace_back(a, b);
    }
  }
  auto* self = reinterpret_cast<GuardsObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->sharing = sharing.release();
  self->root = root.release();
  self->relations = related.release();
  self->floats = kinds.release();
  self->tensors = new std::vector<PyObject*>;
  self->slots = slots;
  return reinterpret_cast<PyObject*>(self);
}

int visit_node(const Node& n, visitproc visit, void* arg) {
  Py_VISIT(n.key);
  Py_VISIT(n.text);
  for (const Check& c : n.checks) {
    Py_VISIT(c.key);
    Py_VISIT(c.text);
  }
  for (const auto& child : n.children)
    if (int r = visit_node(*child, visit, arg)) return r;
  return 0;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  auto* guards = reinterpret_cast<GuardsObject*>(self);
  if (guards->relations)
    for (const Relation& r : *guards->relations) Py_VISIT(r.call);
  return guards->root ? visit_node(*guards->root, visit, arg) : 0;
}

int clear(PyObject* self) {
  auto* guards = reinterpret_cast<GuardsObject*>(self);
  delete std::exchange(guards->root, nullptr);
  delete std::exchange(guards->relations, nullptr);
  delete std::exchange(guards->floats, nullptr);
  delete std::exchange(guards->tensors, nullptr);
  delete std::exchange(guards->sharing, nullptr);
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* first_failure(PyObject* self, PyObject* args) {
  PyObject *locals, *globals, *closure, *failed = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!O", &PyTuple_Type, &locals, &PyDict_Type, &globals, &closure)) return nullptr;
  Surroundings at{reinterpret_cast<PyTupleObject*>(locals)->ob_item, PyTuple_GET_SIZE(locals), globals,
                  closure == Py_None ? nullptr : closure};
  if (guards_hold(self, at, &failed)) Py_RETURN_NONE;
  return failed ? PyObject_Str(failed) : Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"first_failure", first_failure, METH_VARARGS,
     "first_failure(locals, globals, closure): the text of the first guard that does not hold, or None."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     const_cast<char*>("Guards(tree, relations, floats): what a captured program assumed, checked natively.")},
    {0, nullptr},
};
PyType_Spec spec = {"tocha._C._capture.Guards", sizeof(GuardsObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                    slots};

}  // namespace

bool guards_hold(PyObject* guards, const Surroundings& at, PyObject** failed) {
  auto* self = reinterpret_cast<GuardsObject*>(guards);
  if (!self->root) return false;
  Walk walk{at, std::vector<PyObject*>(self->slots, nullptr), std::vector<Number>(self->floats->size())};
  Paused paused;
  bool good = walk.visit(*self->root, nullptr) && walk.distinct(*self->tensors) &&
              walk.shares_as_before(self->sharing) && walk.related(*self->relations, *self->floats);
  PyErr_Clear();
  if (failed) *failed = walk.failed;
  return good;
}

void add_guards_type(PyObject* module) {
  guards_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!guards_type || PyModule_AddObjectRef(module, "Guards", reinterpret_cast<PyObject*>(guards_type)) < 0)
    throw PythonError();
  PyObject* pairs = PyCFunction_New(&pairs_method, nullptr);
  const bool added = pairs && PyModule_AddObjectRef(module, pairs_method.ml_name, pairs) == 0;
  Py_XDECREF(pairs);
  if (!added) throw PythonError();
}

}  // namespace tocha::capture
