"""Objects that programs use now and then: native methods in other places, subclasses of immutable types, context variables."""

import collections
import contextvars
import enum
import types

import pytest
from comparing import same

import tocha
from tocha._dynamo.testing import CompileCounter
from tocha.nn import functional as F
from tocha.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel


class Kept:
    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, new):
        self._value = new * 2

    @value.deleter
    def value(self):
        del self._value

    fixed = property(lambda self: 1)


class AttributeDict(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Row(tuple):
    def first(self):
        return self[0]


class Count(int):
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Clock:
    def __init__(self, minutes):
        self.minutes = minutes

    def __divmod__(self, other):
        return self.minutes // other, self.minutes % other

    def __rdivmod__(self, other):
        return divmod(other, self.minutes)

    def __index__(self):
        return 2


PLAIN = contextvars.ContextVar("plain")
WITH_DEFAULT = contextvars.ContextVar("with_default", default=2)
ROW, COUNT = Row((2, 3)), Count(3)


def attributes_are_items(x):
    d = AttributeDict(k=2)
    d.y = x * d.k
    d.gone = 1
    del d.gone
    return d.y + d["y"], list(d)


def deleted_properties(x):
    kept = Kept()
    kept.value = 3
    y = x * kept.value
    del kept.value
    try:
        del kept.fixed
    except AttributeError as e:
        said = str(e)
    return y, hasattr(kept, "value"), said


def tuples_of_a_class(x):
    made = Row([x, x * 2])
    return made, made.first(), x * ROW.first(), ROW + (1,), type(ROW[:1]).__name__, isinstance(made, Row)


def numbers_of_a_class(x):
    return x * COUNT, COUNT + 1, isinstance(COUNT, Count)


def members_of_an_enum(x):
    return x * len(Color.__members__), list(Color.__members__), Color.__members__["BLUE"].value


def a_proxy_of_a_dict(x):
    shown = types.MappingProxyType({"a": x})
    try:
        shown["b"] = 1
    except TypeError as e:
        said = str(e)
    return shown["a"], said, list(shown)


def a_named_tuple_made_inside(x):
    pair = collections.namedtuple("Pair", "a b", defaults=(3,))(x)
    return pair.a * pair.b, pair._fields


def divided_objects(x):
    return x + divmod(Clock(7), 3)[1], divmod(7, Clock(2)), range(5)[Clock(0)]


def no_history(x):
    return x * 2, x.grad_fn is None


def context_variables(x):
    token = WITH_DEFAULT.set(5)
    y = x * WITH_DEFAULT.get()
    WITH_DEFAULT.reset(token)
    return y + WITH_DEFAULT.get(), PLAIN.get(7), WITH_DEFAULT.get(8), PLAIN.name


def attention_by_a_backend(x):
    q = x.view(1, 1, 1, -1)
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, q, q), len(_cur_sdpa_kernel_backends())


@pytest.mark.parametrize(
    "program",
    [
        attributes_are_items, deleted_properties, tuples_of_a_class, numbers_of_a_class, members_of_an_enum, a_proxy_of_a_dict,
        a_named_tuple_made_inside, divided_objects, no_history, context_variables, attention_by_a_backend,
    ],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_in_one_graph(program):
    x = tocha.tensor([1.0, 2.0])
    assert same(program(x), tocha.compile(program, backend="eager", fullgraph=True)(x))


def test_a_context_variable_is_guarded_and_set():
    variable = contextvars.ContextVar("variable")
    counter = CompileCounter()

    @tocha.compile(backend=counter, fullgraph=True)
    def f(x):
        k = variable.get(1)
        variable.set(k + 1)
        return x * k

    x = tocha.ones(1)
    assert [f(x).item() for _ in range(3)] == [1, 2, 3] and variable.get() == 4
    assert counter.frame_count == 3


def test_a_context_variable_at_a_break():
    def f(x):
        with sdpa_kernel([SDPBackend.MATH]):
            tocha._dynamo.graph_break()
            y = x * len(_cur_sdpa_kernel_backends())
        return y, len(_cur_sdpa_kernel_backends())

    before = _cur_sdpa_kernel_backends()
    assert same(tocha.compile(f, backend="eager")(tocha.ones(2)), f(tocha.ones(2)))
    assert _cur_sdpa_kernel_backends() == before


def test_numbers_of_a_class_are_guarded():
    compiled = tocha.compile(lambda x, n: x * n, backend="eager", fullgraph=True)
    assert [compiled(tocha.ones(1), Count(n)).item() for n in (2, 3, 2)] == [2, 3, 2]


# ---- modules whose parameters get their shapes at the first call


class Lazy(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = tocha.nn.LazyConv1d(3, 1)
        self.norm = tocha.nn.LazyBatchNorm1d()
        self.linear = tocha.nn.LazyLinear(2)

    def forward(self, x):
        return self.linear(self.norm(self.conv(x)).relu())


@pytest.mark.parametrize("make", [Lazy, lambda: tocha.nn.LazyLinear(2)])
def test_lazy_modules_are_captured_at_their_first_call(make):
    """With the random numbers that they draw outside, in one graph."""
    results, counter = [], CompileCounter()
    for compiled in (False, True):
        tocha.manual_seed(5)
        module = make()
        call = tocha.compile(module, backend=counter, fullgraph=True) if compiled else module
        results.append([call(tocha.arange(24.0).view(2, 4, 3)), call(tocha.ones(2, 4, 3)), tocha.rand(2)])
        assert not any("Lazy" in type(m).__name__ for m in list(module.modules())[1:])
    tocha.testing.assert_close(results[1], results[0])
    assert counter.frame_count == 1


def test_classes_that_are_indexed_run_their_own_code():
    class Meta(type):
        made = 0

        def __call__(cls, *args):
            Meta.made += 1
            return super().__call__(*args)

        def __getitem__(cls, n):
            return cls(n)

    class Box(metaclass=Meta):
        def __init__(self, value):
            self.value = value

    asked = []

    class Sized:
        def __class_getitem__(cls, n):
            asked.append(n)
            return n * 2

    def f(x):
        return x * Box[2].value + Sized[x.shape[0]]

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    for n in (2, 2, 3):
        assert compiled(tocha.ones(n)).tolist() == [2 + 2 * n] * n
    assert Meta.made == 3 and asked == [2, 2, 3]
