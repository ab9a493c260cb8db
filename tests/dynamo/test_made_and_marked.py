"""Objects that say themselves how they are made or written to, and functions and modules that are marked."""

import collections
import copy

import pytest
from comparing import same

import tocha
from tocha import _dynamo
from tocha._dynamo.testing import CompileCounter
from tocha.autograd import Function

X = tocha.ones(2)


class Doubled(collections.namedtuple("Doubled", ["u", "v"])):
    __slots__ = ()

    def __new__(cls, u, v=7):
        return super().__new__(cls, u * 2, v)


class Labelled(collections.namedtuple("Labelled", ["u", "v"])):
    def __init__(self, u, v):
        self.label = "made"


class Slotted:
    __slots__ = ("a",)
    kind = "fixed"


def error_of(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def named_tuples_with_new(x):
    made = Doubled(x)
    return made, made.u + made.v, made._replace(v=1), error_of(Doubled)


def named_tuples_with_init(x):
    made = Labelled(x, 1)
    return made.u + made.v, made.label


def writes_to_slots(x):
    made = Slotted()
    made.a = x + 1
    found = [error_of(setattr, made, name, 1) for name in ("other", "kind")]
    found.append(error_of(object.__delattr__, made, "other"))
    return made.a, found


def errors_for_missing_attributes(x):
    made = Slotted()
    try:
        return made.missing
    except AttributeError as error:
        return x + 1, str(error), error.name, error.obj is made


def joined_deques(x):
    short = collections.deque([1, 2, 3], maxlen=3)
    made = (short + collections.deque([4]), short * 2)
    errors = [error_of(f) for f in (lambda: short + [1], lambda: [1] + short, lambda: [1] + (2,), lambda: (1,) + 2)]
    return x + 1, made, [m.maxlen for m in made], errors


def deques_are_no_lists(x):
    full = collections.deque([1, 2], maxlen=2)
    return x + 1, full == [1, 2], full != [1, 2], error_of(full.insert, 0, 1), error_of(lambda: full[:1]), hasattr(full, "sort")  # fmt: skip


WHOLE = [named_tuples_with_new, writes_to_slots, errors_for_missing_attributes, joined_deques, deques_are_no_lists]


@pytest.mark.parametrize("function", [*WHOLE, named_tuples_with_init], ids=lambda f: f.__name__)
def test_compiled_does_the_same(function):
    compiled = tocha.compile(function, backend="eager", fullgraph=function in WHOLE)
    expected = function(X)
    assert same(compiled(X), expected) and same(compiled(X), expected)


# ---- marks


class Setting:
    value = 3

    @_dynamo.assume_constant_result
    def read(self, more):
        return self.value + more


@_dynamo.assume_constant_result
def read_setting():
    return Setting.value


def test_a_result_that_is_assumed_to_be_constant_is_not_looked_at_again(monkeypatch):
    counter, setting = CompileCounter(), Setting()
    compiled = tocha.compile(lambda x: x + read_setting() * setting.read(1), backend=counter, fullgraph=True)
    assert compiled(X).tolist() == [13, 13]
    monkeypatch.setattr(Setting, "value", 10)
    assert compiled(X).tolist() == [13, 13] and counter.frame_count == 1


def breaks(x):
    _dynamo.graph_break()
    return x * 2


def test_breaks_are_no_errors_within_a_block_inside_of_one_where_they_are():
    def inside(x):
        x = x + 1
        with _dynamo.error_on_graph_break(False):
            x = breaks(x)
        return x + 1

    def after(x):
        return breaks(inside(x))

    counter = CompileCounter()
    with _dynamo.error_on_graph_break(True):
        assert tocha.compile(inside, backend=counter)(X).tolist() == [5, 5]
        assert counter.frame_count == 3
        with pytest.raises(_dynamo.exc.Unsupported):
            tocha.compile(after, backend=counter)(X)
        assert _dynamo.config.error_on_graph_break
    assert tocha.compile(inside, backend=counter)(X).tolist() == [5, 5]
    assert not _dynamo.config.error_on_graph_break


def test_captured_code_does_not_change_how_it_is_captured():
    def f(x):
        tocha.compiler.set_stance("force_eager")
        return x + 1

    try:
        with pytest.raises(AssertionError, match="forbidden callable"):
            tocha.compile(f, backend="eager")(X)
    finally:
        tocha.compiler.set_stance("default")


def test_a_disabled_module_is_another_one():
    """The module itself is captured as before."""

    def graphs(function):
        _dynamo.reset()
        counter = CompileCounter()
        tocha.compile(function, backend=counter)(X)
        return counter.frame_count, counter.op_count

    module = tocha.nn.Linear(2, 2)
    disabled = _dynamo.disable(module, reason="for a while")
    assert graphs(lambda x: module(x) + 1) == (1, 2) and graphs(lambda x: disabled(x) + 1) == (1, 1)
    assert disabled.weight is module.weight and list(disabled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    copied = copy.deepcopy(disabled)
    assert copied.weight is not module.weight and graphs(lambda x: copied(x) + 1) == (1, 1)
    with pytest.raises(_dynamo.exc.Unsupported, match="for a while"):
        tocha.compile(lambda x: disabled(x), backend="eager", fullgraph=True)(X)


class Block(tocha.nn.Module):
    def __init__(self, size=2):
        super().__init__()
        self.linear = tocha.nn.Linear(2, size)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.mark.parametrize("make", [Block, lambda: tocha.nn.Linear(2, 2)], ids=["own", "library"])
@pytest.mark.parametrize("in_place", [True, False])
def test_layers_of_one_form_are_captured_once(make, in_place):
    counter, layers = CompileCounter(), [make() for _ in range(12)]
    for layer in layers:
        expected, compiled = layer(X), layer if in_place else tocha.compile(layer, backend=counter)
        if in_place:
            layer.compile(backend=counter)
        assert same(compiled(X), expected)
    assert counter.frame_count == 1
    other = tocha.nn.Sequential(Block(), tocha.nn.Linear(2, 3))
    other.compile(backend=counter)
    assert other(X).shape == (3,) and counter.frame_count == 2


def test_hooks_on_all_modules_do_not_see_graphs():
    handle = tocha.nn.modules.module.register_module_forward_hook(lambda module, args, result: result + 1)
    try:
        module = tocha.nn.ReLU()
        compiled = tocha.compile(lambda x: module(x) * 2.5)
        assert compiled(X).tolist() == [5, 5]
    finally:
        handle.remove()


class Box:
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor


@pytest.mark.parametrize(
    "hidden",
    [Box(X), collections.deque([X]), lambda: X],
    ids=["slot", "deque", "closure"],
)
def test_a_compiled_function_is_captured_wherever_its_tensors_are(hidden):
    def f(held):
        if isinstance(held, Box):
            return held.tensor + 1
        return (held[0] if isinstance(held, collections.deque) else held()) + 1

    counter = CompileCounter()
    assert tocha.compile(f, backend=counter)(hidden).tolist() == [2, 2]
    assert counter.frame_count == 1


# ---- apply of an autograd.Function


class Rounded(Function):
    @staticmethod
    def forward(ctx, x, digits=0):
        return x.round(decimals=digits)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, None


class Named(Rounded):
    @classmethod
    def apply(cls, x):
        return super().apply(x * 2, 1)


class Layer(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.rounded = Rounded.apply

    def forward(self, x):
        return self.rounded(x, 0)


rounded = Rounded.apply
layer, table = Layer(), {"rounded": Rounded.apply}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(
    "function",
    [lambda x: rounded(x, 0), layer, lambda x: table["rounded"](x, 0), lambda x, f=Rounded.apply: f(x, 0), Named.apply],
    ids=["global", "module", "dict", "default", "overridden"],
)
def test_apply_may_be_kept_anywhere(function, backend):
    results = []
    for call in (function, tocha.compile(function, backend=backend, fullgraph=True)):
        x = tocha.tensor([0.26, 1.74], requires_grad=True)
        found = call(x)
        found.sum().backward()
        results.append((found.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


# ---- the old constructors


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: tocha.Tensor([[1, 2], [3, x.size(0)]]) * 2,
        lambda x: tocha.Tensor([x[0], x[1]]) + 1,
        lambda x: tocha.Tensor(2, x.size(0)).shape,
        lambda x: (tocha.Tensor(x.shape).shape, tocha.FloatTensor(x.shape).shape, x.new(x.shape).shape),
        lambda x: tocha.Tensor(tuple(x.shape)) + 1,
        lambda x: tocha.Tensor(x.int()) + 1,
        lambda x: tocha.FloatTensor(x) + 1,
        lambda x: error_of(tocha.Tensor, "abc"),
    ],
    ids=["data", "elements", "sizes", "a size", "a tuple", "a tensor", "a tensor of the type", "refused"],
)
def test_old_constructors_are_captured(function, backend):
    compiled = tocha.compile(function, backend=backend, fullgraph=True)
    for x in (tocha.ones(3), tocha.ones(4) * 2):
        assert same(compiled(x), function(x))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_the_old_constructor_shares_memory_and_passes_gradients_on(backend):
    function = tocha.compile(lambda x: tocha.Tensor(x), backend=backend, fullgraph=True)
    x = tocha.ones(3, requires_grad=True)
    y = function(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    y.mul(3).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
