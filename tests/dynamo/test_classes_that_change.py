"""Classes and what they hold may change between two calls of captured code."""

import collections
import types

import pytest

import tocha


def compiled(f):
    return tocha.compile(f, backend="eager", fullgraph=True)


def test_methods_behind_super():
    class Base:
        def f(self, x):
            return x + 1

        @classmethod
        def c(cls, x):
            return x + 2

        @property
        def p(self):
            return 3

        @staticmethod
        def s(x):
            return x + 4

    class Child(Base):
        def f(self, x):
            return super().f(x) * super().p + super().s(x)

        @classmethod
        def c(cls, x):
            return super().c(x) * 2

    child = Child()

    def f(x):
        return child.f(x), child.c(x)

    g, x = compiled(f), tocha.ones(1)
    assert g(x) == f(x)
    for name, other in (
        ("f", lambda self, x: x * 100),
        ("c", classmethod(lambda cls, x: x * 7)),
        ("p", property(lambda self: 1000)),
        ("s", staticmethod(lambda x: x * 0)),
    ):
        setattr(Base, name, other)
        assert g(x) == f(x), name


def test_descriptors_and_their_state():
    class Scaled:
        def __init__(self, by):
            self.by = by

        def __get__(self, owner, cls=None):
            return self.by

        def __set__(self, owner, value):
            self.by = value

        def __delete__(self, owner):
            self.by = -1

    class Holder:
        scale = Scaled(2)

    holder, x = Holder(), tocha.ones(1)
    read = compiled(lambda x: x * holder.scale + Holder.scale)
    assert read(x).item() == 4
    vars(Holder)["scale"].by = 5
    assert read(x).item() == 10
    Holder.scale = Scaled(7)
    assert read(x).item() == 14

    @compiled
    def write(x):
        holder.scale = holder.scale + 1
        return x * holder.scale

    assert [write(x).item(), write(x).item()] == [8, 9]

    @compiled
    def delete(x):
        del holder.scale
        return x * holder.scale

    assert delete(x).item() == -1 and vars(Holder)["scale"].by == -1
    Scaled.__get__ = lambda self, owner, cls=None: 50
    assert read(x).item() == 100


@pytest.mark.parametrize(
    "name, other",
    [
        ("__setattr__", lambda self, name, value: object.__setattr__(self, name, value * 2)),
        ("__call__", lambda self, x: x * 0),
        ("__getitem__", lambda self, i: 50),
        ("__eq__", lambda self, other: False),
        ("__len__", lambda self: 70),
        ("__init__", lambda self: self.__dict__.update(v=500)),
        ("__new__", lambda cls: Odd(2)),
        ("__getattribute__", lambda self, name: 9),
    ],
)
def test_methods_that_the_interpreter_looks_for(name, other):
    class Thing:
        def __new__(cls):
            return object.__new__(cls)

        def __init__(self):
            self.v = 1

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

        def __call__(self, x):
            return x + self.v

        def __getitem__(self, i):
            return i

        def __eq__(self, other):
            return True

        def __len__(self):
            return 2

    thing = Thing()

    def f(x):
        thing.v = 2
        new = Thing()
        return thing(x) * thing[3] * (thing == new) + len(new) + new.v

    g, x = compiled(f), tocha.ones(1)
    assert g(x) == f(x)
    setattr(Thing, name, other)
    assert g(x) == f(x)


class Odd:
    def __init__(self, v):
        self.v = v

    def __len__(self):
        return 3

    def __eq__(self, other):
        return True

    __hash__ = None


def test_metaclasses():
    class Meta(type):
        n = 2

        def m(cls):
            return cls.n * 2

        @property
        def p(cls):
            return 3

        def __getattr__(cls, name):
            return 4

        def __len__(cls):
            return 5

    class Thing(metaclass=Meta):
        pass

    def f(x):
        return x * Thing.n, Thing.m(), Thing.p, Thing.other, len(Thing)

    g, x = compiled(f), tocha.ones(1)
    assert g(x) == f(x)
    for owner, name, value in (
        (Meta, "n", 20),
        (Meta, "m", lambda cls: 30),
        (Meta, "p", property(lambda cls: 40)),
        (Meta, "__getattr__", lambda cls, name: 50),
        (Meta, "__len__", lambda cls: 60),
        (Thing, "n", 70),
        (Thing, "other", 80),
    ):
        setattr(owner, name, value)
        assert g(x) == f(x), name


def test_dicts_of_classes():
    class Config:
        a = 1

    def f(x):
        for name, value in vars(Config).items():
            if not name.startswith("_"):
                x = x * 2 + value
        return x, Config.__dict__["a"], "b" in Config.__dict__

    g, x = compiled(f), tocha.ones(1)
    assert g(x) == f(x)
    Config.a = 5
    assert g(x) == f(x)
    Config.b = 6
    assert g(x) == f(x)


def test_attributes_of_named_tuples():
    class Pair(collections.namedtuple("Pair", "a b")):
        by = 2

        def scaled(self):
            return self.a * self.by

    pair = Pair(tocha.ones(1), 1)
    f = compiled(lambda: pair.scaled())
    assert f().item() == 2
    Pair.by = 5
    assert f().item() == 5
    Pair.scaled = lambda self: self.a - 1
    assert f().item() == 0


def test_defaults_of_properties():
    given = [1]

    class Thing:
        def _get(self, default=given):
            return default[0]

        v = property(_get)

    thing, x = Thing(), tocha.ones(1)
    f = compiled(lambda x: x * thing.v)
    assert f(x).item() == 1
    given[0] = 5
    assert f(x).item() == 5
    Thing._get.__defaults__ = ([7],)
    assert f(x).item() == 7


def test_mappings_shown_through_proxies():
    inner = {"a": 2}
    shown = types.MappingProxyType(inner)
    f = compiled(lambda x: (x * shown["a"], len(shown), shown, shown | {"b": 1}, shown.get("c", 9)))
    x = tocha.ones(1)
    found = f(x)
    assert (found[0].item(), found[1], found[4]) == (2, 1, 9) and found[2] is shown and type(found[3]) is dict
    inner["a"] = 5
    assert f(x)[0].item() == 5
    inner["c"] = 6
    assert f(x)[1] == 2 and f(x)[4] == 6


def test_orders_of_sets():
    def f(x, items):
        for i in items:
            x = x * 2 + i
        return x, [type(i) for i in items]

    g, x = compiled(f), tocha.ones(1)
    shrunk = set(range(100, 130))
    shrunk.difference_update(range(100, 128))
    shrunk |= {3, 99}
    for items in ({8, 0}, {0, 8}, {1, 8}, {True, 8}, {1.0, 8}, frozenset((0, 8)), frozenset((8, 0)), shrunk):
        assert g(x, items) == f(x, items), items


def test_where_tensors_begin_in_memory():
    @compiled
    def f(x):
        return x + x.storage_offset(), x[1:].storage_offset()

    x = tocha.arange(6.0)
    for at in (0, 2, 4, 2):
        moved, second = f(x[at : at + 2])
        assert moved.tolist() == [at * 2, at * 2 + 1] and second == at + 1
