"""Captured code and its capture keep nothing of the program's alive: objects die when they would have died."""

import gc
import weakref

import pytest

import tocha


class Box:
    pass


@tocha.compiler.disable
def log(value):
    return value


def fail():
    raise ValueError(3)


def plain(x, box):
    return x + 1


def attributes(x, box):
    box.n = 3
    return x * box.n


def breaking(x, box):
    y = x + 1
    log(3)
    return y * 2


def skipped(x, box):
    for i in range(3):
        x = x + log(i)
    return x


def raising_below(x, box):
    x + 1
    fail()


def raising(x, box):
    x + 1
    raise ValueError(2)


def catching(x, box):
    try:
        fail()
    except ValueError as e:
        return x + len(e.args)


def branching(x, box):
    return x + 1 if x.sum().item() > 1 else x


def refused(x, box):
    return x @ tocha.ones(7, 7)


def generating(x, box):
    def g():
        yield x
        yield box

    return next(g()) + 1


def recursive(x, box):
    def r(k):
        return x if k == 0 else r(k - 1) + 1

    return r(3)


@pytest.mark.parametrize("f", [plain, attributes, breaking, skipped, raising_below, raising, catching, branching, refused, generating, recursive])  # fmt: skip
def test_arguments_die_with_the_call(f):
    compiled = tocha.compile(f, backend="eager")
    gc.collect()
    gc.disable()
    try:
        for k in range(3):
            x, box = tocha.ones(2 + k), Box()
            tensor, thing = weakref.ref(x), weakref.ref(box)
            try:
                result = compiled(x, box)
            except (ValueError, RuntimeError):
                result = None
            del x, box, result
            assert tensor() is None and thing() is None
    finally:
        gc.enable()


def test_a_raised_exception_is_no_cycle():
    """What a frame holds is dropped with the exception that left it."""
    dropped = []

    def g():
        try:
            yield 1
        finally:
            dropped.append(1)

    def f(x):
        waiting = g()
        next(waiting)
        return x + missing  # noqa: F821

    compiled = tocha.compile(f, backend="eager")
    gc.disable()
    try:
        for k in range(3):
            with pytest.raises(NameError):
                compiled(tocha.ones(2))
            assert len(dropped) == k + 1
    finally:
        gc.enable()
