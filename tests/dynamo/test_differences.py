"""Where PyTorch's compiled run differs from its eager run: ours does not."""

import collections
import random

import numpy as np

import tocha


def test_the_value_of_yield_from(check):
    def g():
        yield 1
        return 7

    def h(x):
        last = yield from g()
        yield x * last

    check(lambda x: list(h(x)), tocha.ones(2))


def test_appends_in_a_managers_methods():
    log = []

    class Manager:
        def __enter__(self):
            log.append("in")

        def __exit__(self, *error):
            log.append("out")

    def f(x):
        with Manager():
            y = x + 1
        return y * len(log)

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    assert compiled(tocha.ones(1)).item() == 4.0 and log == ["in", "out"]
    assert compiled(tocha.ones(1)).item() == 8.0 and log == ["in", "out"] * 2


def test_a_class_attribute_changed_through_the_class():
    class Config:
        rate = 2

    config = Config()

    def f(x):
        Config.rate = Config.rate + 1
        return x * config.rate

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    assert [compiled(tocha.ones(1)).item() for _ in range(3)] == [3.0, 4.0, 5.0]
    assert Config.rate == 5


def test_maxlen_of_an_argument(check):
    def f(x, q):
        q.append(x.sum())
        return len(q), q.maxlen

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    q = collections.deque([1, 2], maxlen=2)
    assert compiled(tocha.ones(2), q) == (2, 2) and q[0] == 2
    assert compiled(tocha.ones(2), collections.deque([1, 2], maxlen=5)) == (3, 5)


def test_another_sentinel():
    sentinel = object()
    compiled = tocha.compile(lambda x, s: x + 1 if s is sentinel else x - 1, backend="eager", fullgraph=True)
    assert compiled(tocha.zeros(1), object()).item() == -1.0
    assert compiled(tocha.zeros(1), sentinel).item() == 1.0
    assert compiled(tocha.zeros(1), object()).item() == -1.0


def test_random_numbers_of_a_closure():
    ours, plain = random.Random(3), random.Random(3)
    compiled = tocha.compile(lambda x: x * ours.random(), backend="eager")
    for _ in range(3):
        assert compiled(tocha.ones(1, dtype=tocha.float64)).item() == plain.random()


def test_tuple_count_of_tensors():
    x, y = tocha.ones(1), tocha.zeros(1)
    compiled = tocha.compile(lambda a, b: (a, b, a).count(a) + (a + b), backend="eager")
    assert compiled(x, y).item() == 3.0


def test_a_method_is_replaced_on_the_class(monkeypatch):
    class Scaler:
        def scale(self, x):
            return x * 2

    compiled = tocha.compile(lambda x, s: s.scale(x), backend="eager", fullgraph=True)
    s = Scaler()
    assert compiled(tocha.ones(1), s).item() == 2.0
    monkeypatch.setattr(Scaler, "scale", lambda self, x: x * 5)
    assert compiled(tocha.ones(1), s).item() == 5.0


def test_a_shape_error_is_caught_inside():
    def f(x, w):
        try:
            return x @ w
        except RuntimeError:
            return x - 1

    compiled = tocha.compile(f, backend="eager")
    for w in (tocha.ones(7, 7), tocha.ones(2, 2), tocha.ones(7, 7)):
        assert compiled(tocha.ones(2, 2), w).tolist() == f(tocha.ones(2, 2), w).tolist()


def test_full_reductions_of_arrays_are_scalars():
    def f(x):
        return np.sum(x.numpy()), x.numpy().mean(), np.max(x.numpy() * 2)

    compiled = tocha.compile(f, backend="eager")
    for _ in range(2):
        expected, got = f(tocha.ones(3)), compiled(tocha.ones(3))
        assert [type(v) for v in got] == [type(v) for v in expected] and got == expected
