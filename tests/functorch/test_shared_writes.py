"""Operators that write to several tensors on common memory, in graphs without writes: each write shows in the other tensors."""

import pytest

import tocha

BACKENDS = ["aot_eager", "inductor"]
LIBRARY = tocha.library.Library("test_shared_writes", "DEF")
LIBRARY.define("twice(Tensor(a!) first, Tensor(b!) second) -> None")
LIBRARY.define("fill(Tensor(a!)[] targets, Tensor source, Tensor(b!)? alone=None) -> Tensor")


@tocha.library.impl("test_shared_writes::twice", "cpu", lib=LIBRARY)
def _(first, second):
    first.cos_()
    second.mul_(3)


@tocha.library.impl("test_shared_writes::fill", "cpu", lib=LIBRARY)
def _(targets, source, alone=None):
    for t in targets:
        t.mul_(2).add_(source[: t.numel()])
    if alone is not None:
        alone.add_(source.sum())
    return source * 2


@tocha.library.register_fake("test_shared_writes::fill", lib=LIBRARY)
def _(targets, source, alone=None):
    return tocha.empty_like(source)


twice, fill = tocha.ops.test_shared_writes.twice, tocha.ops.test_shared_writes.fill


def same_tensor(x):
    twice(x, x)
    return x + 1


def overlapping(x):
    twice(x[1:, :3], x[:, 1])
    return x[1:, :3] + 1


def transposed(x):
    twice(x.t(), x[0])
    return x.t() + 1


def conjugated(x):
    z = tocha.complex(x, x + 1)
    twice(z[:2].conj(), z[1:])
    return z * 1


def own_memory(x):
    y, z = x * 2, tocha.zeros(4)
    found = fill([y[0], y[1:, 2], y[0, 1:]], x[1], z)
    return y, z, found


def in_a_list(x):
    tocha._foreach_add_([x, x[0], x[0]], 1.5)
    return x * 2


def apart(x):
    twice(x[:1], x[1:])
    return x + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f", [same_tensor, overlapping, transposed, conjugated, own_memory, in_a_list, apart], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("part", [False, True])
def test_each_write_shows_in_the_others(f, backend, part):
    whole = tocha.randn(6, 10)
    again = whole.clone()
    x, y = (w[1:4, 2::2] if part else w[:3, :4].contiguous() for w in (whole, again))
    tocha.testing.assert_close(tocha.compile(f, backend=backend, fullgraph=True)(y), f(x))
    tocha.testing.assert_close(y, x)
    tocha.testing.assert_close(again, whole)


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_sizes_that_change(backend):
    def f(x):
        n = x.shape[0]
        twice(x[: n // 2 + 1], x[n // 2 - 1 :])
        twice(x[: n // 2], x[n // 2 :])
        return x * 1

    compiled = tocha.compile(f, backend=backend, dynamic=True, fullgraph=True)
    for n in (8, 13):
        x = tocha.randn(n, 2)
        y = x.clone()
        tocha.testing.assert_close(compiled(y), f(x))
        tocha.testing.assert_close(y, x)


def test_views_as_another_dtype_are_refused():
    def f(x):
        twice(x, x.view(tocha.int32)[:1])

    with pytest.raises(tocha._dynamo.exc.BackendCompilerFailed, match="share memory, one of them a view as"):
        tocha.compile(f, backend="aot_eager", fullgraph=True)(tocha.ones(3))
