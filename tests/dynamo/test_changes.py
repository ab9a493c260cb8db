"""Between two calls something changes that captured code depends on: each change is seen."""

import collections
import dataclasses
import math
import types

import pytest
from comparing import same

import tocha
from tocha import nn

SCALE = 2
TABLE = {"a": 1, "b": 2}
LIMITS = [1, 2]
MODULE = types.ModuleType("made_for_this_test")


def helper(x, by=3, *, plus=1):
    return x * by + plus


def other(x, by=3, *, plus=1):
    return x * by - plus


class Setting:
    rate = 2

    def __init__(self):
        self.level = 1

    def scaled(self, x):
        return x * self.rate + self.level

    @property
    def half(self):
        return self.level / 2

    @staticmethod
    def fixed(x):
        return x + 10

    @classmethod
    def named(cls, x):
        return x * cls.rate

    def __len__(self):
        return 3

    def __call__(self, x):
        return x - 1


class Derived(Setting):
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("shift", tocha.ones(3))
        self.depth = 2

    def forward(self, x):
        for _ in range(self.depth):
            x = self.linear(x)
        if self.training:
            x = x * 2
        return x + self.shift


class Slots:
    __slots__ = ("value",)

    def __init__(self):
        self.value = 2


@dataclasses.dataclass
class Point:
    x: int = 1
    y: int = 2


def replaced_global(s):
    s.setattr(f"{__name__}.SCALE", 5)


def net():
    tocha.manual_seed(0)
    return Net()


def on_net(change):
    """The module goes through both runs; `change` is made to each copy in its turn."""
    return (lambda x, m: m(x).detach(), lambda: (tocha.ones(2, 3), net()), lambda s, x, m: change(m))


def halved(m):
    m.half()
    m.register_forward_pre_hook(lambda mod, args: (args[0].half(),))


def swapped(m):
    tocha.utils.swap_tensors(m.linear.weight, nn.Parameter(tocha.zeros(3, 3)))


def set_data(m):
    m.linear.weight.data = tocha.zeros(3, 3, dtype=tocha.float64)
    m.linear.bias.data = tocha.zeros(3, dtype=tocha.float64)
    m.shift = m.shift.double()
    m.register_forward_pre_hook(lambda mod, args: (args[0].double(),))


def resized(x):
    x.resize_(3, 2)
    x.fill_(2)


def set_storage(x):
    x.set_(tocha.arange(4.0))


# name -> (function, arguments, change); a change gets the monkeypatch fixture and the arguments
CHANGES = {
    "a global": (lambda x: x * SCALE, lambda: (tocha.ones(2),), lambda s, x: replaced_global(s)),
    "a global's type": (lambda x: x * SCALE, lambda: (tocha.ones(2),), lambda s, x: s.setattr(f"{__name__}.SCALE", 2.5)),
    "a global goes": (lambda x: x * SCALE, lambda: (tocha.ones(2),), lambda s, x: s.delattr(f"{__name__}.SCALE", raising=False)),
    "a global dict's item": (lambda x: x * TABLE["a"], lambda: (tocha.ones(2),), lambda s, x: s.setitem(TABLE, "a", 4)),
    "a global dict grows": (lambda x: x * len(TABLE), lambda: (tocha.ones(2),), lambda s, x: s.setitem(TABLE, "c", 4)),
    "a dict's order": (lambda x, d: x * int("".join(map(str, d.values()))), lambda: (tocha.ones(2), {"a": 1, "b": 2}), lambda s, x, d: d.update(a=d.pop("a"))),
    "a key goes": (lambda x, d: x * d.get("k", 5), lambda: (tocha.ones(2), {"k": 1}), lambda s, x, d: d.clear()),
    "a key comes": (lambda x, d: x * d.get("k", 5), lambda: (tocha.ones(2), {}), lambda s, x, d: d.update(k=7)),
    "a list's item": (lambda x, q: x * q[1], lambda: (tocha.ones(2), [1, 2]), lambda s, x, q: q.__setitem__(1, 9)),
    "a list grows": (lambda x, q: x * sum(q), lambda: (tocha.ones(2), [1, 2]), lambda s, x, q: q.append(4)),
    "a global list": (lambda x: x * sum(LIMITS), lambda: (tocha.ones(2),), lambda s, x: s.setattr(f"{__name__}.LIMITS", [4])),
    "a set": (lambda x, q: x * (3 in q), lambda: (tocha.ones(2), {1, 2}), lambda s, x, q: q.add(3)),
    "a deque turns": (lambda x, q: x * q[0], lambda: (tocha.ones(2), collections.deque([1, 2])), lambda s, x, q: q.rotate(1)),
    "a function": (lambda x: helper(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(f"{__name__}.helper", other)),
    "a function's code": (lambda x: helper(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(helper, "__code__", other.__code__)),
    "a default": (lambda x: helper(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(helper, "__defaults__", (7,))),
    "a default goes": (lambda x: helper(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(helper, "__defaults__", None)),
    "a keyword's default": (lambda x: helper(x), lambda: (tocha.ones(2),), lambda s, x: s.setitem(helper.__kwdefaults__, "plus", 8)),
    "a function of a module": (lambda x: MODULE.f(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(MODULE, "f", lambda x: x - 5)),
    "a function of math": (lambda x: x * math.gcd(4, 6), lambda: (tocha.ones(2),), lambda s, x: s.setattr(math, "gcd", lambda v, w: 9)),
    "a function of tocha": (lambda x: tocha.relu(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(tocha, "relu", lambda v: v - 3)),
    "a builtin": (lambda x: x * int(bin(3)[-1]), lambda: (tocha.ones(2),), lambda s, x: s.setattr("builtins.bin", lambda v: "7")),
    "a builtin is shadowed": (lambda x: x * abs(-2), lambda: (tocha.ones(2),), lambda s, x: s.setitem(globals(), "abs", lambda v: 7)),
    "an attribute": (lambda x, o: x * o.level, lambda: (tocha.ones(2), Setting()), lambda s, x, o: setattr(o, "level", 6)),
    "an attribute's type": (lambda x, o: x * o.level, lambda: (tocha.ones(2), Setting()), lambda s, x, o: setattr(o, "level", tocha.full((2,), 5.0))),
    "an attribute hides the class's": (lambda x, o: x * o.rate, lambda: (tocha.ones(2), Setting()), lambda s, x, o: setattr(o, "rate", 6)),
    "an attribute goes": (lambda x, o: x * getattr(o, "level", 9), lambda: (tocha.ones(2), Setting()), lambda s, x, o: delattr(o, "level")),
    "an attribute comes": (lambda x, o: x * hasattr(o, "more"), lambda: (tocha.ones(2), Setting()), lambda s, x, o: setattr(o, "more", 1)),
    "a class attribute": (lambda x, o: x * o.rate, lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "rate", 6)),
    "a class attribute through the class": (lambda x: x * Setting.rate, lambda: (tocha.ones(2),), lambda s, x: s.setattr(Setting, "rate", 6)),
    "a base's attribute": (lambda x, o: x * o.rate, lambda: (tocha.ones(2), Derived()), lambda s, x, o: s.setattr(Setting, "rate", 6)),
    "a subclass hides a base's": (lambda x, o: x * o.rate, lambda: (tocha.ones(2), Derived()), lambda s, x, o: s.setattr(Derived, "rate", 6, raising=False)),
    "a method": (lambda x, o: o.scaled(x), lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "scaled", lambda self, x: x + 100)),
    "a method of the instance": (lambda x, o: o.scaled(x), lambda: (tocha.ones(2), Setting()), lambda s, x, o: setattr(o, "scaled", lambda x: x + 100)),
    "a method in a subclass": (lambda x, o: o.scaled(x), lambda: (tocha.ones(2), Derived()), lambda s, x, o: s.setattr(Derived, "scaled", lambda self, x: x + 100, raising=False)),
    "a property": (lambda x, o: x * o.half, lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "half", property(lambda self: 8))),
    "a static method": (lambda x, o: o.fixed(x), lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "fixed", staticmethod(lambda x: x + 20))),
    "a static method of the class": (lambda x: Setting.fixed(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(Setting, "fixed", staticmethod(lambda x: x + 20))),
    "a class method": (lambda x, o: o.named(x), lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "named", classmethod(lambda cls, x: x + 20))),
    "a class method of the class": (lambda x: Setting.named(x), lambda: (tocha.ones(2),), lambda s, x: s.setattr(Setting, "named", classmethod(lambda cls, x: x + 20))),
    "what a class method reads": (lambda x, o: o.named(x), lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "rate", 9)),
    "a special method": (lambda x, o: x * len(o), lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "__len__", lambda self: 7)),
    "a call": (lambda x, o: o(x), lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "__call__", lambda self, x: x + 7)),
    "an initializer": (lambda x: x * Setting().level, lambda: (tocha.ones(2),), lambda s, x: s.setattr(Setting, "__init__", lambda self: setattr(self, "level", 5))),
    "a class": (lambda x: x * Setting().level, lambda: (tocha.ones(2),), lambda s, x: s.setattr(f"{__name__}.Setting", type("Other", (), {"level": 8}))),
    "an object's class": (lambda x, o: x * o.rate, lambda: (tocha.ones(2), Setting()), lambda s, x, o: setattr(o, "__class__", type("Fast", (Setting,), {"rate": 9}))),
    "a fallback": (lambda x, o: x * getattr(o, "none", 4), lambda: (tocha.ones(2), Setting()), lambda s, x, o: s.setattr(Setting, "__getattr__", lambda self, n: 9, raising=False)),
    "a slot": (lambda x, o: x * o.value, lambda: (tocha.ones(2), Slots()), lambda s, x, o: setattr(o, "value", 3)),
    "a dataclass's field": (lambda x, o: x * o.y, lambda: (tocha.ones(2), Point()), lambda s, x, o: setattr(o, "y", 3)),
    "requires_grad_": (lambda x: x * 2 if x.requires_grad else x, lambda: (tocha.ones(2),), lambda s, x: x.requires_grad_()),
    "resize_": (lambda x: x + x.shape[0], lambda: (tocha.ones(2, 3),), lambda s, x: resized(x)),
    "set_": (lambda x: x + x.shape[0], lambda: (tocha.ones(2),), lambda s, x: set_storage(x)),
    "data": (lambda x: x + x.element_size(), lambda: (tocha.ones(2),), lambda s, x: setattr(x, "data", tocha.ones(3, dtype=tocha.float64))),
    "a transposition in place": (lambda x: x.reshape(-1), lambda: (tocha.arange(6.0).reshape(2, 3),), lambda s, x: x.t_()),
    "a parameter's data": on_net(set_data),
    "half()": on_net(halved),
    "swap_tensors": on_net(swapped),
    "eval()": on_net(lambda m: m.eval()),
    "eval() of a part": (lambda x, m: m.drop(x) + m.drop.training, lambda: (tocha.zeros(3), net()), lambda s, x, m: m.drop.eval()),
    "a number of a module": on_net(lambda m: setattr(m, "depth", 3)),
    "another part": on_net(lambda m: setattr(m, "linear", nn.Identity())),
    "another parameter": on_net(lambda m: setattr(m.linear, "weight", nn.Parameter(tocha.zeros(3, 3)))),
    "another buffer": on_net(lambda m: setattr(m, "shift", tocha.zeros(3))),
    "another forward": on_net(lambda m: setattr(m, "forward", lambda x: x * 100)),
    "a forward hook": on_net(lambda m: m.register_forward_hook(lambda mod, args, out: out * 100)),
    "a hook before": on_net(lambda m: m.linear.register_forward_pre_hook(lambda mod, args: (args[0] * 100,))),
    "frozen": (lambda x, m: m(x).requires_grad, lambda: (tocha.ones(2, 3), net()), lambda s, x, m: m.requires_grad_(False)),
    "the class's forward": (lambda x, m: m(x), lambda: (tocha.ones(2, 3), net()), lambda s, x, m: s.setattr(Net, "forward", lambda self, x: x * 7)),
    "the library's forward": (lambda x, m: m(x), lambda: (tocha.ones(2, 3), net()), lambda s, x, m: s.setattr(nn.Linear, "forward", lambda self, x: x * 7)),
}  # fmt: skip


def outcome(f, args):
    try:
        return ("returned", f(*args))
    except Exception as e:
        return ("raised", type(e), str(e))


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_seen(what, monkeypatch):
    f, make, change = CHANGES[what]
    MODULE.f = lambda x: x + 5
    compiled = tocha.compile(f, backend="eager")
    ours, plain = make(), make()
    for _ in range(2):
        before = outcome(f, plain)
        assert same(before, outcome(compiled, ours))
    change(monkeypatch, *ours)
    with pytest.MonkeyPatch.context() as again:
        change(again, *plain)
        expected = outcome(f, plain)
        assert not same(before, expected)  # else the case shows nothing
        assert same(expected, outcome(compiled, ours))
    monkeypatch.undo()
    assert same(outcome(f, make()), outcome(compiled, make()))


STATES = {
    "grad mode": lambda: tocha.no_grad(),
    "inference mode": lambda: tocha.inference_mode(),
    "autocast": lambda: tocha.autocast("cpu", dtype=tocha.bfloat16),
    "default dtype": lambda: DefaultDtype(tocha.float64),
    "a default device": lambda: tocha.device("meta"),
    "determinism": lambda: Deterministic(),
    "a function mode": lambda: Mode(),
}


class Mode(tocha.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out + 1 if func is tocha.matmul else out


class DefaultDtype:
    def __init__(self, dtype):
        self.dtype = dtype

    def __enter__(self):
        self.before = tocha.get_default_dtype()
        tocha.set_default_dtype(self.dtype)

    def __exit__(self, *error):
        tocha.set_default_dtype(self.before)


class Deterministic:
    def __enter__(self):
        tocha.use_deterministic_algorithms(True)

    def __exit__(self, *error):
        tocha.use_deterministic_algorithms(False)


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_the_library_is_seen(state):
    def f(x, w):
        made = tocha.ones(2)
        return tocha.matmul(x, w), made.dtype, str(made.device), x.requires_grad and (x * 2).requires_grad, tocha.are_deterministic_algorithms_enabled()  # fmt: skip

    compiled = tocha.compile(f, backend="eager")
    args = (tocha.ones(2, 2, requires_grad=True), tocha.ones(2, 2))
    for _ in range(2):
        assert same(f(*args), compiled(*args))
    with STATES[state]():
        expected, got = f(*args), compiled(*args)
    assert same(expected, got), (expected, got)
    assert same(f(*args), compiled(*args))
