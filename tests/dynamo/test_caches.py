"""functools.lru_cache, cache and cached_property, of functions, methods and modules, in one graph."""

import functools
import warnings

import pytest

import tocha
from tocha._core import switches
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import CompileCounter

X = tocha.ones(3)
WARNED = "functools.lru_cache"


class Table:
    def __init__(self, scale=2):
        self.scale, self.made = scale, 0

    @functools.lru_cache  # noqa: B019
    def row(self, k):
        return self.scale * k

    @functools.cache  # noqa: B019
    def ones(self):
        return tocha.ones(3) * self.scale

    @functools.cached_property
    def total(self):
        self.made += 1
        return self.scale + 1

    @functools.cached_property
    def kept(self):
        return tocha.ones(3) * self.scale

    @property
    @functools.lru_cache  # noqa: B019
    def five(self):
        return self.scale * 5

    @staticmethod
    @functools.lru_cache
    def plus(k):
        return k + 1

    @classmethod
    @functools.lru_cache
    def named(cls, k):
        return len(cls.__name__) + k


class Scaled(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = tocha.nn.Linear(3, 3)

    @functools.cached_property
    def root(self):
        return self.layer.weight.shape[0] ** 0.5

    @functools.lru_cache  # noqa: B019
    def bias(self, size):
        return tocha.arange(size)

    def forward(self, x):
        return self.layer(x) * self.root + self.bias(3) + self.bias(3)


@functools.lru_cache(maxsize=4)
def doubled(k):
    return k * 2


@functools.cache
def mask(size):
    return tocha.arange(size) > 1


def test_of_functions_and_methods(check):
    def f(x, t):
        x = x + t.row(3) + t.row(3) + t.ones() + t.five + Table.plus(1) + t.plus(2) + Table.named(1) + t.named(2)
        return x.where(mask(3), x * doubled(x.shape[0])), t.ones() is t.ones(), mask(3) is mask(3)

    with pytest.warns(UserWarning, match=WARNED):
        switches._warned.clear()
        check(f, X, Table())


def test_properties_that_are_kept(check):
    def f(x, t):
        return x * t.total + t.total + t.kept, "total" in t.__dict__, t.kept is t.kept

    check(f, X, Table())
    table = Table()
    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    for made, total in ((1, 3), (1, 3)):
        assert compiled(X, table)[0].tolist() == [total * 2 + 2.0] * 3
        assert table.made == made and table.__dict__["total"] == total
    first = table.kept
    assert compiled(X, table)[0] is not None and table.kept is first
    table.__dict__["total"] = 10
    assert compiled(X, table)[0].tolist() == [22.0] * 3
    del table.total
    assert compiled(X, table)[0].tolist() == [8.0] * 3 and table.made == 2


def test_of_modules():
    module = Scaled()
    expected = module(X)
    other = Scaled()
    other.load_state_dict(module.state_dict())
    compiled = tocha.compile(other, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        got = compiled(X)
        tocha.testing.assert_close(got, expected)
    got.sum().backward()
    module(X).sum().backward()
    tocha.testing.assert_close(other.layer.weight.grad, module.layer.weight.grad)


def test_made_in_captured_code(check):
    def f(x):
        calls = []

        @functools.lru_cache
        def numbers(k):
            calls.append(k)
            return k if k < 2 else numbers(k - 1) + numbers(k - 2)

        @functools.lru_cache(maxsize=None, typed=True)
        def kind(k):
            calls.append(k)
            return k

        found = numbers(10), kind(1), kind(1.0), kind(1)
        return x + found[0], calls, numbers.__name__, numbers.__wrapped__ is numbers, kind.__wrapped__(3)

    check(f, X)


def test_one_that_leaves():
    def f(x):
        @functools.lru_cache(maxsize=2)
        def g(k):
            return k + 1

        g.mark = 7
        return x + g(1), g

    _, g = tocha.compile(f, backend="eager", fullgraph=True)(X)
    assert (g(3), g(3), g.mark, g.cache_info().hits, g.cache_parameters()) == (4, 4, 7, 1, {"maxsize": 2, "typed": False})  # fmt: skip


def test_functions_made_anew_are_captured_once():
    """What is guarded is the code that is wrapped, and what it closes over."""

    def make(shift):
        return functools.lru_cache(lambda k: k + shift)

    def f(x, g):
        return x * g(2)

    counter = CompileCounter()
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    assert [compiled(X, make(3)).tolist()[0] for _ in range(3)] == [5.0] * 3
    assert counter.frame_count == 1
    assert compiled(X, make(4)).tolist()[0] == 6.0


def test_the_cache_itself_is_asked_in_python():
    def f(x):
        return x + doubled(3), doubled.cache_info().misses

    doubled.cache_clear()
    compiled = tocha.compile(f, backend="eager")
    assert [compiled(X)[1] for _ in range(2)] == [1, 1]
    tocha._dynamo.reset()
    with pytest.raises(Unsupported, match="cache_info"):
        tocha.compile(f, backend="eager", fullgraph=True)(X)


def test_arguments_that_cannot_be_keys():
    def f(x):
        try:
            return x + doubled([1])
        except TypeError as e:
            return x, str(e)

    assert tocha.compile(f, backend="eager", fullgraph=True)(X)[1] == "unhashable type: 'list'"


def test_sizes_stay_symbols():
    def f(x):
        return x * doubled(x.shape[0])

    counter = CompileCounter()
    compiled = tocha.compile(f, backend=counter, dynamic=True, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [compiled(tocha.ones(n)).tolist()[0] for n in (3, 4, 5)] == [6, 8, 10]
    assert counter.frame_count == 1
