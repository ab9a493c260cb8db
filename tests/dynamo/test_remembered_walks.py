"""Guards remember what they met behind an object; whatever changes there is seen all the same."""

import copy

import pytest

import tocha
from tocha import nn
from tocha._dynamo.testing import CompileCounter


class Block(nn.Module):
    scale = 1.0

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.act = tocha.relu
        self.settings = {"shift": 0.5, "names": ["x", "y"]}
        self.parts = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.pair = (2.0, [1.0])

    def forward(self, x):
        x = self.b(self.act(self.a(x))) * self.scale + self.settings["shift"]
        for part in self.parts:
            x = part(x)
        return x * self.pair[0] + self.pair[1][0] + len(self.settings["names"])


class Wider(Block):
    scale = 3.0


def replace_dict(m):
    other = dict(m.__dict__)
    other["act"] = tocha.sin
    m.__dict__ = other


CHANGES = {
    "a parameter": lambda m: setattr(m.a, "weight", nn.Parameter(tocha.full((3, 3), 2.0))),
    "its data": lambda m: setattr(m.a.weight, "data", tocha.full((3, 3), 2.0, dtype=tocha.float64)),
    "requires_grad": lambda m: m.b.bias.requires_grad_(False),
    "a module": lambda m: setattr(m, "a", nn.Identity()),
    "a function": lambda m: setattr(m, "act", tocha.tanh),
    "a hook": lambda m: m.b.register_forward_hook(lambda mod, args, out: out * 2),
    "a class attribute": lambda m: setattr(type(m), "scale", 7.0),
    "the class": lambda m: setattr(m, "__class__", Wider),
    "an attribute that hides the class's": lambda m: setattr(m, "scale", 5.0),
    "an item of a dict": lambda m: m.settings.update(shift=1.5),
    "a key of a dict": lambda m: m.settings.pop("shift") and m.settings.update(shift=0.25, more=1),
    "a list in a dict": lambda m: m.settings["names"].append("z"),
    "a list": lambda m: m.parts.reverse(),
    "the length of a list": lambda m: m.parts.pop(),
    "a tuple": lambda m: setattr(m, "pair", (3.0, [1.0])),
    "a list in a tuple": lambda m: m.pair[1].__setitem__(0, 9.0),
    "the whole dict": replace_dict,
    "a method": lambda m: setattr(m.a, "forward", lambda x: x),
    "training": lambda m: m.eval(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_seen(what, monkeypatch):
    monkeypatch.setattr(Block, "scale", 1.0)
    plain = Block()
    ours = copy.deepcopy(plain)
    compiled = tocha.compile(ours, backend="eager")
    x = tocha.arange(6.0).reshape(2, 3)
    for _ in range(4):  # the walk is remembered after the first, used after the second
        assert tocha.equal(compiled(x), plain(x))
    CHANGES[what](plain)
    CHANGES[what](ours)
    y = x.double() if what == "its data" else x
    try:
        expected = plain(y)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            compiled(y)
        return
    for _ in range(3):
        got = compiled(y)
        assert tocha.equal(got, expected) and got.requires_grad == expected.requires_grad


def test_a_property_put_on_the_class_later(monkeypatch):
    class Thing:
        def __init__(self):
            self.__dict__.update(a=1.0, b=2.0, c=3.0, d=4.0, e=5.0, f=6.0, g=7.0)

    thing = Thing()
    compiled = tocha.compile(lambda x: x * thing.a * thing.b * thing.c * thing.d * thing.e * thing.f * thing.g, backend="eager")  # fmt: skip
    x = tocha.ones(1)
    assert [compiled(x).item() for _ in range(3)] == [5040.0] * 3
    Thing.a = property(lambda self: 2.0)
    assert compiled(x).item() == 10080.0
    del Thing.a
    assert compiled(x).item() == 5040.0


def test_objects_that_come_and_go():
    counter = CompileCounter()
    compiled = tocha.compile(lambda m, x: m(x), backend=counter, fullgraph=True)
    x = tocha.ones(2, 3)
    for _ in range(30):
        m = Block()
        assert tocha.equal(compiled(m, x), m(x))
    assert counter.frame_count == 1


def test_tensors_that_become_one():
    m = nn.Sequential(*(nn.Linear(3, 3) for _ in range(6)))
    counter = CompileCounter()
    compiled = tocha.compile(m, backend=counter)
    x = tocha.ones(2, 3)
    for _ in range(3):
        compiled(x)
    m[1].weight = m[0].weight
    assert tocha.equal(compiled(x), m(x)) and counter.frame_count == 2
