"""tocha.utils._pytree: trees flattened, mapped, described, written as text."""

from __future__ import annotations

import copy
import dataclasses
import enum
import pickle
import subprocess
import sys
import time
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import pytest

import tocha
import tocha.utils._pytree as pytree

Point = namedtuple("Point", "x y")
TREE = {
    "b": [1, (2, 3)],
    "a": Point(4, OrderedDict(z=5, y=6)),
    "c": defaultdict(list, {"q": 7}),
    "d": deque([8, 9], maxlen=4),
    "e": None,
    "f": [],
}


@pytest.fixture
def unregistered():
    """Types made nodes by a test are leaves again after it."""
    made = []
    yield made
    for cls in made:
        pytree._deregister_pytree_node(cls)


def test_leaves_come_from_left_to_right_and_go_back():
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, 3, 4, 5, 6, 7, 8, 9, None]
    again = pytree.tree_unflatten(leaves, spec)
    assert again == TREE and again["d"].maxlen == 4 and again["c"].default_factory is list and list(again) == list(TREE)
    assert pytree.tree_leaves(TREE) == leaves == list(pytree.tree_iter(TREE))
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (10, 18, 6)


def test_spec_prints_as_pytorch_prints_it():
    assert (
        repr(pytree.tree_structure([1, {"a": (2,)}]))
        == "TreeSpec(list, None, [*,\n  TreeSpec(dict, ['a'], [TreeSpec(tuple, None, [*])])])"
    )
    assert str(pytree.tree_structure(Point(1, 2))).startswith("TreeSpec(namedtuple, <class")
    assert repr(pytree.LeafSpec()) == "*" and pytree.treespec_pprint(pytree.tree_structure([1, (2,)])) == "[*, (*,)]"


@pytest.mark.parametrize("leaf", [3, None, "text", Counter(a=1), time.localtime(0), slice(1), {1, 2}, tocha.ones(2)])
def test_what_is_no_container_is_a_leaf(leaf):
    assert pytree.tree_leaves(leaf)[0] is leaf and pytree.tree_is_leaf(leaf)
    assert pytree.tree_structure(leaf) is pytree.tree_structure(1)


def test_results_of_operators_and_sizes_are_containers():
    values, indices = pytree.tree_leaves(tocha.ones(2, 2).max(0))
    assert values.tolist() == [1.0, 1.0] and indices.tolist() == [0, 0]
    assert type(pytree.tree_map(lambda x: x, tocha.ones(2, 2).max(0))) is type(tocha.ones(2, 2).max(0))
    assert pytree.tree_leaves(tocha.Size([2, 3])) == [2, 3]


def test_specs_are_immutable_values():
    spec = pytree.tree_structure({"a": [1, 2]})
    assert spec == pytree.tree_structure({"a": [5, 6]}) != pytree.tree_structure({"a": (1, 2)})
    assert pytree.tree_structure({"a": 1, "b": 2}) != pytree.tree_structure({"b": 1, "a": 2})
    assert hash(spec) == hash(pytree.tree_structure({"a": [5, 6]})) and spec != 3
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.type = list
    spec.children().clear()
    assert spec.num_children == len(spec.children()) == 1 and spec.child(0).type is list


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([1], "Node arity mismatch; expected 2, but got 1"),
        ((1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>"),
        (3, "Node type mismatch; expected <class 'list'>, but got <class 'int'>"),
    ],
)
def test_trees_that_do_not_fit(other, message):
    with pytest.raises(ValueError, match=message):
        pytree.tree_map(lambda a, b: a, [1, 2], other)


def test_dicts_fit_by_their_keys():
    assert pytree.tree_map(lambda a, b: (a, b), {"a": 1, "b": 2}, OrderedDict(b=3, a=4)) == {"a": (1, 4), "b": (2, 3)}
    with pytest.raises(ValueError, match=r"Node keys mismatch; missing key\(s\): {'b'}; extra key\(s\): {'c'}"):
        pytree.tree_map(lambda a, b: a, {"a": 1, "b": 2}, {"a": 1, "c": 2})


def test_unflattening_wants_the_right_number():
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds 2 items"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
    with pytest.raises(TypeError, match="Expected `treespec` to be an instance of PyTreeSpec"):
        pytree.tree_unflatten([1], 3)


def test_maps():
    assert pytree.tree_map(lambda x: x, TREE) == TREE
    assert pytree.tree_map(len, {"a": (1, 2)}, is_leaf=lambda x: isinstance(x, tuple)) == {"a": 2}
    assert pytree.tree_map_only(int, lambda x: x + 1, [1, "a", 2.0, True]) == [2, "a", 2.0, 2]
    assert pytree.tree_map_only(int | float, lambda x: x + 1, [1, "a", 2.0]) == [2, "a", 3.0]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: -x, [1, 2]) == [-1, 2]
    with pytest.raises(TypeError, match="must be a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, lambda x: x, [1])
    seen = []
    tree = [1, (2,)]
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [1, 2]
    assert pytree.tree_all(bool, [1, 2]) and pytree.tree_any(bool, [0, 2]) and not pytree.tree_all(bool, [0])
    assert pytree.tree_all_only(int, lambda x: x > 0, [1, "a"]) and not pytree.tree_any_only(
        int, lambda x: x > 1, [1, 2.0]
    )


def test_paths_lead_to_their_leaves():
    found, spec = pytree.tree_flatten_with_path(TREE)
    assert spec == pytree.tree_structure(TREE)
    assert [pytree.keystr(p) for p, _ in found][:6] == [
        "['b'][0]",
        "['b'][1][0]",
        "['b'][1][1]",
        "['a'].x",
        "['a'].y['z']",
        "['a'].y['y']",
    ]
    assert all(pytree.key_get(TREE, path) is leaf for path, leaf in found)
    assert pytree.tree_map_with_path(lambda p, x, y: (pytree.keystr(p), x, y), [1], [2]) == [("[0]", 1, 2)]
    long = list(range(100))
    assert [p[0].idx for p, _ in pytree.tree_leaves_with_path(long)] == long
    assert pytree.MappingKey("a") == pytree.MappingKey("a") and hash(pytree.SequenceKey(1)) == hash(
        pytree.SequenceKey(1)
    )


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "tree",
    [
        1,
        [1, (2,)],
        {"a": 1, "b": [2]},
        OrderedDict(b=1),
        defaultdict(list, q=1),
        deque([1], maxlen=2),
        {Color.RED: 1},
        tocha.Size([1]),
    ],
)
def test_specs_as_text(tree):
    spec = pytree.tree_structure(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_specs_that_have_no_text(unregistered):
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    pytree._register_namedtuple(Point, serialized_type_name="test.Point")
    unregistered.append(Point)
    spec = pytree.tree_structure([Point(1, 2)])
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(TypeError, match="Unable to serialize context"):
        pytree.treespec_dumps(pytree.tree_structure({object(): 1}))
    with pytest.raises(ValueError, match="Unknown protocol 4"):
        pytree.treespec_dumps(spec, protocol=4)


def test_registered_types(unregistered):
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    assert pytree.tree_leaves([Pair(1, 2)]) != [1, 2]
    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], "note"), lambda values, note: Pair(*values))
    unregistered.append(Pair)
    assert pytree.tree_leaves([Pair(1, [2])]) == [1, 2] and pytree.tree_structure(Pair(1, 2)).context == "note"
    assert pytree.tree_map(lambda x: -x, Pair(1, 2)).b == -2
    with pytest.raises(ValueError, match="already registered as pytree node"):
        pytree.register_pytree_node(Pair, None, None)
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_flatten_with_path(Pair(1, 2))


def test_dataclasses_and_constants(unregistered):
    @dataclasses.dataclass
    class Data:
        a: int
        b: object
        c: int = 3

    pytree.register_dataclass(Data)
    unregistered.append(Data)
    assert pytree.tree_leaves(Data(1, None)) == [1, 3]
    assert pytree.tree_map(lambda x: x + 1, Data(1, None)) == Data(2, None, 4)
    with pytest.raises(ValueError, match=r"Missing fields in `field_names`: {'c'}"):
        pytree.register_dataclass(Data, field_names=["a", "b"])
    with pytest.raises(ValueError, match="as it is not a dataclass"):
        pytree.register_dataclass(int)

    @dataclasses.dataclass(frozen=True)
    class Setting:
        name: str

    pytree.register_constant(Setting)
    unregistered.append(Setting)
    leaves, spec = pytree.tree_flatten([Setting("s"), 1])
    assert leaves == [1] and spec.unflatten([2]) == [Setting("s"), 2] and pytree.is_constant_class(Setting)
    assert spec != pytree.tree_structure([Setting("t"), 1])
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(type("Plain", (), {}))


def test_broadcasting():
    spec = pytree.tree_structure([1, (2, 3)])
    assert pytree._broadcast_to_and_flatten(1, spec) == [1, 1, 1]
    assert pytree._broadcast_to_and_flatten([1, 2], spec) == [1, 2, 2]
    assert pytree._broadcast_to_and_flatten([1, 2, 3], spec) is None
    assert spec.flatten_up_to([[1], (2, {})]) == [[1], 2, {}]


def test_importing_the_library_does_not_load_it():
    code = "import sys, tocha; print(any('pytree' in m or m.startswith('tocha.fx') for m in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )
