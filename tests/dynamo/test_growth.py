"""Neither calls with changing guards nor compilations and resets leave anything behind."""

import gc
import sys

import tocha
from tocha import _dynamo
from tocha._dynamo import config


def objects():
    gc.collect()
    return len(gc.get_objects())


def test_calls_with_changing_guards(recwarn):
    def f(x, k, table):
        return x * k + len(table)

    compiled = tocha.compile(f, backend="eager", dynamic=False)
    x = tocha.ones(2)

    def many(count):
        for k in range(count):
            compiled(x, k % 50, {str(k % 7): 1})

    many(200)
    before, blocks = objects(), sys.getallocatedblocks()
    many(3000)
    assert objects() - before < 200
    assert sys.getallocatedblocks() - blocks < 2000


def test_calls_that_raise():
    def fail(k):
        raise ValueError(k)

    def f(x, k):
        fail(k)
        return x

    compiled = tocha.compile(f, backend="eager")

    def many(count):
        for k in range(count):
            try:
                compiled(tocha.ones(2), k)
            except ValueError as e:
                assert e.args == (k,)

    many(30)
    before = objects()
    many(100)
    assert objects() - before < 200


def test_compilations_and_resets():
    def cycle():
        scope = {"tocha": tocha}
        exec("def f(x, items):\n    items.append(1)\n    print(end='')\n    return x.sin() + len(items)", scope)
        tocha.compile(scope["f"], backend="eager")(tocha.ones(2), [])
        _dynamo.reset()

    for _ in range(5):
        cycle()
    before, blocks = objects(), sys.getallocatedblocks()
    for _ in range(40):
        cycle()
    assert objects() - before < 400
    assert sys.getallocatedblocks() - blocks < 4000


def test_the_limit_counts_captures_only(recwarn):
    """A function that raises for some arguments is still captured for others."""

    def fail(k):
        raise ValueError(k)

    def f(x, k):
        if k % 2:
            fail(k)
        return x + k

    compiled = tocha.compile(f, backend="eager", dynamic=False)
    for k in range(1, 2 * config.recompile_limit + 5, 2):
        try:
            compiled(tocha.ones(1), k)
        except ValueError:
            continue
    assert compiled(tocha.ones(1), 2).item() == 3.0
    assert not any("recompile_limit" in str(w.message) for w in recwarn)
