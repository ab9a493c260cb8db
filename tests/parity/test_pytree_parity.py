"""tocha.utils._pytree against PyTorch's: the same expressions, the same answers or errors."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import pytest
import torch
import torch.utils._pytree

import tocha
import tocha.utils._pytree

Point = namedtuple("Point", "x y")
Other = namedtuple("Other", "x y")
TREE = "{'b': [1, (2, 3)], 'a': Point(4, OrderedDict(z=5, y=6)), 'c': defaultdict(list, q=7), 'd': deque([8, 9], maxlen=4), 'e': None, 'f': []}"
PAIR = "lambda a, b: (a, b)"

EXPRESSIONS = [
    f"p.tree_flatten({TREE})", f"p.tree_flatten_with_path({TREE})", f"[p.keystr(k) for k, _ in p.tree_leaves_with_path({TREE})]",
    "p.tree_flatten(3)", "p.tree_flatten(())", "p.tree_flatten(Counter(a=1))", "p.tree_flatten(m.Size([1, 2]))", "p.tree_flatten({2: 2, 1: 3})",
    "p.tree_flatten([1, [2]], is_leaf=lambda x: x == [2])", "p.tree_unflatten([1, 2], p.tree_structure([1]))", "p.tree_unflatten([1], 3)",
    "p.tree_unflatten(3, p.tree_structure([1, 2]))", "p.tree_unflatten(iter([1, 2]), p.tree_structure({'a': 1, 'b': 2}))",
    f"p.tree_map({PAIR}, [1, 2], [3])", f"p.tree_map({PAIR}, [1, 2], (3, 4))", f"p.tree_map({PAIR}, [1, 2], [[3], 4])",
    f"p.tree_map({PAIR}, {{'a': 1}}, {{'b': 1}})", f"p.tree_map({PAIR}, {{'a': 1, 'b': 2}}, OrderedDict(b=1, a=3))", f"p.tree_map({PAIR}, [[1]], [3])",
    f"p.tree_map({PAIR}, Point(1, 2), Other(3, 4))", f"p.tree_map({PAIR}, Point(1, 2), (3, 4))", f"p.tree_map({PAIR}, deque([1]), deque([2], maxlen=3))",
    f"p.tree_map({PAIR}, defaultdict(int, a=1), {{'a': 2}})", "p.tree_map_only(int, lambda x: x + 1, [1, 'a', 2.0, True])",
    "p.tree_map_only((int, float), lambda x: x + 1, [1, 'a', 2.0])", "p.tree_map_only(3, lambda x: x, [1])", "p.tree_map_(print, [1, 2])",
    "p.tree_map_with_path(lambda k, x, y: (p.keystr(k), x, y), {'a': [1]}, {'a': [3]})", "p.tree_all(bool, [1, 0])", "p.tree_any(bool, [1, 0])",
    f"p.treespec_pprint(p.tree_structure({TREE}))", f"p.treespec_dumps(p.tree_structure({TREE}))", "p.treespec_dumps(p.tree_structure([1, (2,), {'a': 3}]))",
    "p.treespec_dumps(p.tree_structure([OrderedDict(b=1), defaultdict(list, q=7), deque([1], maxlen=2)]))", "p.treespec_dumps(3)", "p.treespec_loads('[3, 4]')",
    "p.treespec_loads(p.treespec_dumps(p.tree_structure([1, defaultdict(list, q=7)])))", "p.treespec_dumps(p.LeafSpec(), protocol=4)",
    "p.treespec_dumps(p.tree_structure({object(): 1}))", "p.tree_structure([1, (2, 3)]).flatten_up_to([[1], (2, {})])", "p.tree_structure([1]).flatten_up_to(3)",
    "p._broadcast_to_and_flatten([1, 2], p.tree_structure([1, (2, 3)]))", "p._broadcast_to_and_flatten([1, 2, 3], p.tree_structure([1, (2, 3)]))",
    "p.arg_tree_leaves(1, [2], a=3)", "p.treespec_tuple([p.treespec_leaf()])", "p.treespec_dict(a=p.treespec_leaf())", "p.treespec_tuple([1])", "p.treespec_dict(a=1)",
    "(lambda s: (s.num_leaves, s.num_nodes, s.num_children, s.type, s.context, s.is_leaf(), s.child(0)))(p.tree_structure([1, {'a': 2}]))",
    "p.tree_structure([1]).child(5)", "setattr(p.tree_structure([1]), 'type', 3)", "p.tree_structure({'a': 1, 'b': 2}) == p.tree_structure({'b': 1, 'a': 2})",
    "p.register_pytree_node(list, None, None)", "p.register_dataclass(int)", "p.register_constant(type('C', (), {}))", "p.tree_leaves(m.ones(2, 2).max(0))",
    "p.is_namedtuple(Point), p.is_namedtuple_instance(Point), p.is_namedtuple_class(Point), p.is_structseq(m.ones(2, 2).max(0))", "p.map_only(int)(lambda x: x + 1)('a')",
    "p.register_dataclass(Data), p.tree_flatten(Data(1, None)), p.tree_map(lambda x: x + 1, Data(1, None)), p.tree_flatten_with_path(Data(1, [2]))",
    "p.register_dataclass(Data, field_names=['a'])", "p.register_dataclass(Data, field_names=['a', 'b', 'z'])",
]  # fmt: skip


def answer(lib, expression):
    @dataclasses.dataclass
    class Data:
        a: int
        b: object

    names = {
        "m": lib, "p": lib.utils._pytree, "Point": Point, "Other": Other, "OrderedDict": OrderedDict, "defaultdict": defaultdict,
        "deque": deque, "Counter": Counter, "Data": Data,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            text = repr(eval(expression, names))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
    return re.sub(r"0x[0-9a-f]+", "0x", text.replace("torch", "tocha"))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_answers(expression):
    assert answer(tocha, expression) == answer(torch, expression)
