"""Weak references in captured code, and dicts made from keys."""

import collections
import gc
import weakref

import pytest
from comparing import same

import tocha
from tocha._dynamo.testing import CompileCounter


class Thing:
    def __init__(self, k):
        self.k = k


THING = Thing(2)
REFERENCE = weakref.ref(THING)
TABLE = weakref.WeakKeyDictionary({THING: 5})


def of_an_outer_object(x):
    return x + weakref.ref(THING)().k


def of_a_new_object(x):
    made = Thing(3)
    reference = weakref.ref(made)
    return x + reference().k, reference() is made


def from_outside(x):
    return x + REFERENCE().k


def equal_references(x):
    return x + 1, weakref.ref(THING) == REFERENCE, weakref.ref(Thing(1)) != REFERENCE, REFERENCE() is THING


def weak_keys(x):
    return x + TABLE[THING], THING in TABLE


def nothing_to_refer_to(x):
    try:
        weakref.ref(3)
    except TypeError as e:
        return x, str(e)


class Counted(dict):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __setitem__(self, key, value):
        self.count += 1
        super().__setitem__(key, value)


def keys_and_a_tensor(x):
    made = dict.fromkeys(["a", "b"], x)
    made["a"] = made["a"] + 1
    return made, dict.fromkeys("xy"), collections.OrderedDict.fromkeys((k for k in "ba"), x)


def keys_of_a_subclass(x):
    made = Counted.fromkeys("aab", x * 2)
    return made["a"], made.count, collections.defaultdict.fromkeys("ab", x).default_factory


def keys_in_order(x):
    return list(dict.fromkeys([3, 1, 3, 2])), x


@pytest.mark.parametrize(
    "program",
    [
        of_an_outer_object, of_a_new_object, from_outside, equal_references, weak_keys, nothing_to_refer_to,
        keys_and_a_tensor, keys_of_a_subclass, keys_in_order,
    ],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_in_one_graph(program):
    x = tocha.tensor([1.0, 2.0])
    assert same(program(x), tocha.compile(program, backend="eager", fullgraph=True)(x))


def test_a_reference_as_a_result():
    compiled = tocha.compile(lambda x: (x + 1, weakref.ref(THING)), backend="eager", fullgraph=True)
    assert compiled(tocha.ones(2))[1]() is THING


def test_a_module_that_knows_its_parent():
    class Child(tocha.nn.Module):
        def forward(self, x):
            return x * self.parent().scale

    class Parent(tocha.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = tocha.nn.Parameter(tocha.tensor(3.0))
            self.child = Child()
            self.child.parent = weakref.ref(self)

        def forward(self, x):
            return self.child(x)

    parent = Parent()
    out = tocha.compile(parent, backend="eager", fullgraph=True)(tocha.ones(2))
    out.sum().backward()
    assert out.tolist() == [3, 3] and parent.scale.grad.item() == 2


def test_what_is_referred_to_may_die_and_change():
    thing, other = Thing(2), Thing(7)
    held = [weakref.ref(thing)]
    counter = CompileCounter()

    @tocha.compile(backend=counter, fullgraph=True)
    def f(x):
        found = held[0]()
        return x if found is None else x + found.k

    x = tocha.zeros(1)
    assert f(x).item() == 2
    held[0] = weakref.ref(other)
    assert f(x).item() == 7
    held[0] = weakref.ref(thing)
    del thing
    gc.collect()
    assert held[0]() is None and f(x).item() == 0
