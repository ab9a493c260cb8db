"""Objects that stand for others: weak proxies, values of a thread, signatures of callables, classes that make dicts."""

import functools
import inspect
import threading
import typing
import warnings
import weakref

import pytest
from comparing import same

import tocha
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import CompileCounter


class Trainer:
    def __init__(self, rate):
        self.rate = rate

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return i * 2

    def __call__(self, x):
        return x * self.rate

    def __eq__(self, other):
        return other == 3


class Listed(typing.TypedDict):
    kind: str
    data: tocha.Tensor


class Local(threading.local):
    pass


def whole(f):
    return tocha.compile(f, backend="eager", fullgraph=True)


def test_a_weak_proxy_is_its_object():
    def f(x):
        proxy.last = x + 1
        kinds = isinstance(proxy, Trainer), isinstance(proxy, str), bool(proxy), proxy == 3, proxy is None
        return proxy(x), proxy.rate, len(proxy), proxy[4], kinds

    trainer = Trainer(2.0)
    proxy = weakref.proxy(trainer)
    x, captured = tocha.ones(2), whole(f)
    assert same(captured(x), f(x)) and same(trainer.last, x + 1)
    trainer.rate = 5.0
    assert same(captured(x), f(x))
    assert whole(lambda x: (x + 1, proxy))(x)[1] is proxy
    del trainer
    with pytest.raises(Unsupported, match="no longer exists"):
        captured(x)
    with pytest.raises(ReferenceError):
        tocha.compile(f, backend="eager")(x)


@pytest.mark.parametrize("cls", [threading.local, Local])
def test_values_of_a_thread_are_those_of_the_thread_that_asks(cls):
    def f(x):
        held.last = x + held.n
        return held.last * held.scale, hasattr(held, "more")

    held, counter = cls(), CompileCounter()
    held.n, held.scale = 1, tocha.ones(2)
    captured, x, seen = tocha.compile(f, backend=counter, fullgraph=True), tocha.ones(2), []
    assert same(captured(x), f(x)) and same(held.last, x + 1)

    def other():
        held.n, held.scale, held.more = 7, tocha.zeros(2), None
        seen.extend([captured(x), f(x), held.last])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert same(seen[0], seen[1]) and same(seen[2], x + 7)
    assert same(captured(x), f(x)) and same(held.last, x + 1) and counter.frame_count == 2


def test_signatures_of_what_is_known_in_parts():
    class Model(tocha.nn.Module):
        def chunk(self, x, mask=None, *, size: int = 3):
            return x

        def forward(self, x):
            @functools.wraps(self.chunk)
            def wrapped(*args):
                return args

            def made(a: int, b=2, *, c=3):
                return a

            asked = (
                self.chunk,
                functools.partial(self.chunk, mask=1),
                Trainer(1.0),
                wrapped,
                made,
                Model.chunk,
                Trainer,
            )
            found = [inspect.signature(g).parameters for g in asked]
            return x + 1, [[(p.name, p.kind, p.default, p.annotation) for p in f.values()] for f in found]

    model, x = Model(), tocha.ones(2)
    assert same(whole(model)(x), model(x))


def test_a_typed_dict_is_a_dict():
    def f(x):
        made = Listed(kind="a", data=x)
        made["data"] = made["data"] + 1
        return made

    assert type(whole(f)(tocha.ones(2))) is dict and same(whole(f)(tocha.ones(2)), f(tocha.ones(2)))


def test_variables_are_shown_by_vars_too():
    def f(x):
        if x.dim() > 1:
            rows = x.shape[0]
            x = x.flatten()
        return x.view(rows, -1) + 1 if "rows" in vars() else x

    for x in (tocha.ones(2, 3), tocha.ones(4)):
        assert same(whole(f)(x), f(x))


def test_what_captured_code_compiles_is_part_of_it():
    def f(x):
        return tocha.compile(lambda y: y * 2, dynamic=True)(x) + tocha.compile(mode="default")(lambda y: y * 3)(x)

    counter = CompileCounter()
    assert same(tocha.compile(f, backend=counter, fullgraph=True)(tocha.ones(2)), tocha.full((2,), 5.0))
    assert counter.frame_count == 1


def test_filters_of_warnings_around_captured_code():
    def caught(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("ignore")
            y = x + 1
        return y, len(seen)

    def left(x):
        warnings.simplefilter("error")
        return x + 1

    x, before = tocha.ones(2), [*warnings.filters]
    assert same(whole(caught)(x), caught(x)) and warnings.filters == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("said once", stacklevel=1)
        whole(left)(x)
        with pytest.raises(UserWarning):
            warnings.warn("said once", stacklevel=1)
