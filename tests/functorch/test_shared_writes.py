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


def other_type(x):
    twice(x[:2], x.view(tocha.int32)[1:])
    return x * 2


def type_of_other_size(x):
    z = tocha.complex(x, x + 1)[:, 1:]
    twice(tocha.view_as_real(z)[1:], z.conj()[:2])
    return z * 1


def added_to_windows(x):
    windows = x.unfold(1, 3, 1)
    windows.index_add_(2, tocha.tensor([0, 2, 2]), tocha.ones(x.shape[0], windows.shape[1], 3))
    return windows * 2


def scattered_into_windows(x):
    windows = (x * 2).unfold(0, 2, 1)
    windows.scatter_add_(2, tocha.tensor([[[0, 1, 1]]]), tocha.full((1, 1, 3), 2.0))
    windows.masked_fill_(windows > 1, 0.25)
    return windows


def windows_by_address(x):
    windows = x.clone().as_strided((4, 3), (2, 1), 1)
    windows.index_add_(0, tocha.tensor([0, 1, 1]), tocha.ones(3, 3))
    windows.index_put_((tocha.tensor([2, 3]),), tocha.tensor(5.0))
    return windows.cos()


def windows_of_parts(x):
    windows = tocha.view_as_real(tocha.complex(x, x + 1).unfold(1, 3, 1))
    windows.copy_(tocha.arange(windows.numel()).view(windows.shape))
    windows.index_add_(3, tocha.tensor([0, 1, 1]), tocha.ones(*windows.shape[:3], 3))
    return windows + 1


def negated_windows(x):
    z = tocha.complex(x, x + 1)
    windows = z.conj().imag.unfold(0, 2, 1)
    windows.index_add_(2, tocha.tensor([0, 0]), tocha.ones(windows.shape))
    return windows * 1, z


def halves_of_windows(x):
    y = x.double()
    windows = y.unfold(0, 2, 1).contiguous().unfold(2, 2, 1).select(3, 0).view(tocha.int32)
    windows.fill_(3)
    y.unfold(1, 2, 1).transpose(0, 1)[1].view(tocha.int32).mul_(2)
    return windows + 1, y


def chosen_of_expanded(x):
    y = x[:, :1].clone().expand(x.shape[0], 5)
    y.index_put_((tocha.tensor([0, 2]), tocha.tensor([3, 1])), tocha.tensor([7.0, 8.0]))
    return y + 1


WINDOWS = [
    added_to_windows,
    scattered_into_windows,
    windows_by_address,
    windows_of_parts,
    negated_windows,
    halves_of_windows,
    chosen_of_expanded,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [other_type, type_of_other_size, *WINDOWS], ids=lambda f: f.__name__)
def test_writes_where_elements_of_one_tensor_share_memory(f, backend):
    x = tocha.randn(3, 4)
    y = x.clone()
    tocha.testing.assert_close(tocha.compile(f, backend=backend, fullgraph=True)(y), f(x), rtol=0, atol=0)
    tocha.testing.assert_close(y, x, rtol=0, atol=0)


def test_gradients_of_writes_to_windows():
    def f(x):
        y = x * 2
        y.unfold(1, 3, 1).index_add_(2, tocha.tensor([0, 2, 2]), (x * x).unfold(1, 3, 1))
        return y.sin()

    x = tocha.randn(3, 5, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    f(x).sum().backward()
    tocha.compile(f, backend="aot_eager")(y).sum().backward()
    tocha.testing.assert_close(y.grad, x.grad)


def test_overloads_of_one_operator_have_forms_of_their_own():
    """They are operators of one name: the second must not take the place of the first."""

    def by_number(x):
        y = x.clone()
        y.unfold(0, 2, 1).index_fill_(0, tocha.tensor([0]), 7.0)
        return y

    def by_tensor(x):
        y = x.clone()
        y.unfold(0, 2, 1).index_fill_(0, tocha.tensor([0]), tocha.tensor(7.0))
        return y

    compiled = [tocha.compile(f, backend="aot_eager", fullgraph=True) for f in (by_number, by_tensor)]
    x = tocha.arange(4.0)
    for c in (*compiled, *compiled):
        tocha.testing.assert_close(c(x), by_number(x))


def test_a_wider_view_of_memory_that_begins_between_two_elements():
    def f(x, i):
        x[1:7].view(tocha.int64).unfold(0, 2, 1).index_fill_(0, i, 7)
        return x + 0

    x, y = (tocha.arange(12, dtype=tocha.int32)[1:] for _ in range(2))
    tocha.testing.assert_close(tocha.compile(f, backend="aot_eager")(y, tocha.tensor([0])), f(x, tocha.tensor([0])))
    tocha.testing.assert_close(y, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_that_is_put_into_windows(backend):
    def f(x):
        y = x * 1
        windows = y.unfold(0, 2, 1)[:3]
        tocha.cumsum(tocha.arange(6.0).view(3, 2), 0, out=windows)
        return y

    x = tocha.arange(5.0)
    tocha.testing.assert_close(tocha.compile(f, backend=backend, fullgraph=True)(x), f(x))
