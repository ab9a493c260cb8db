"""Tensors whose own geometry a compiled program changes (t_, unsqueeze_, squeeze_), with views taken before and after; and geometry
that only strides tell."""

import re

import pytest

import tocha
from tocha._inductor.graph import lower_graph
from tocha._inductor.inlining import inline
from tocha._inductor.utils import run_and_get_code
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir import symbolic as s
from tocha.ir.loops import Loop
from tocha.nn import functional as F
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("kernel_cache")


@pytest.fixture(autouse=True)
def nothing_captured_before():
    tocha._dynamo.reset()


def views_before(x):
    y = x * 2
    z = y.movedim(0, 1)
    w = z * 3
    z.unsqueeze_(0)
    return y, z, w


def read_before_and_after(x):
    y = x * 2
    z = y.t()
    a = z.exp()
    z.unsqueeze_(0)
    return a, z.sin(), z


def summed_before(x):
    y = x.clone()
    s = y.sum(0)
    y.t_()
    return s, y.sum(0), y.cos()


def written_after(x):
    y = x * 1
    v = y[1:]
    y.transpose_(0, 1)
    y.mul_(2)
    return v, y, v.exp()


def written_through_a_view(x):
    y = x * 1
    v = y.view(-1)
    y.unsqueeze_(1)
    v.mul_(3)
    return y, v, y.squeeze(1).t()


def there_and_back(x):
    y = x * 1
    z = y.t()
    z.unsqueeze_(0)
    z.mul_(2)
    z.squeeze_(0)
    return y, z, (z + y.t()).sum(0)


def the_input_itself(x):
    x = x.detach()
    x.sign_()
    x.t_()
    return x.expand(2, 4, 3).asinh(), x[1:], x


PROGRAMS = [views_before, read_before_and_after, summed_before, written_after, written_through_a_view, there_and_back]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(program, dynamic):
    x = tocha.randn(3, 4, requires_grad=True)
    mine = x.detach().clone().requires_grad_()
    want, got = program(x), tocha.compile(program, dynamic=dynamic)(mine)
    for w, g in zip(want, got, strict=True):
        assert (g.shape, g.stride()) == (w.shape, w.stride())
        tocha.testing.assert_close(g, w)
    sum(w.tanh().sum() for w in want).backward()
    sum(g.tanh().sum() for g in got).backward()
    tocha.testing.assert_close(mine.grad, x.grad)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_input_that_was_written_to_and_turned(dynamic):
    x = tocha.randn(3, 4)
    mine = x.clone()
    want, got = the_input_itself(x), tocha.compile(the_input_itself, dynamic=dynamic)(mine)
    assert got[2].shape == (4, 3) and got[2].stride() == (1, 4)
    for w, g in zip(want, got, strict=True):
        tocha.testing.assert_close(g, w)


def test_strides_that_are_symbols_are_read_off_the_inputs(caplog):
    def f(x, y):
        return (x.acosh() * y).sum(-1), x @ y.t()

    compiled = tocha.compile(f, dynamic=True)
    for rows, columns in ((3, 5), (4, 7), (9, 6)):
        x = (tocha.rand(rows, 2 * columns + 1) + 1)[:, 1::2][:, :columns].detach().requires_grad_()
        y = tocha.randn(rows, columns + 3)[:, 3:]
        mine = x.detach().requires_grad_()
        for a, b in zip(f(x, y), compiled(mine, y), strict=True):
            tocha.testing.assert_close(b, a)
        f(x, y)[0].sum().backward()
        compiled(mine, y)[0].sum().backward()
        tocha.testing.assert_close(mine.grad, x.grad)
    assert "operator by operator" not in caplog.text


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.abs(), x.broadcast_to(2, *x.shape), x.abs().lgamma()),
        lambda x: (tocha.logical_and(x, x).log_softmax(-2), x.bool().softmax(-1)),
        lambda x: (x.transpose(0, 1)[0].sigmoid(), x.index_put((tocha.tensor([0, 0]),), tocha.tensor(2.5))),
    ],
)
def test_tensors_without_elements(f, dynamic):
    for x in (tocha.zeros(5, 3, 0), tocha.zeros(0, 3, 5).permute(1, 2, 0)):
        for w, g in zip(f(x), tocha.compile(f, dynamic=dynamic)(x), strict=True):
            assert (g.shape, g.stride(), g.dtype) == (w.shape, w.stride(), w.dtype)


def test_an_expanded_tensor_may_be_copied_to_itself():
    def f(x):
        y = x.permute(1, 0)
        z = y.expand(5, 5)
        z[None, :, ...] = y
        return z + 1

    x = tocha.randn(5, 1).expand(5, 5)
    tocha.testing.assert_close(tocha.compile(f)(x), f(x))


def test_refused_gradients_leave_no_symbols_behind():
    """Backward is tried with all results, then without those whose gradient autograd refuses: the sizes are read again."""

    def f(x, limit):
        y = x * 2
        z = y.narrow(-2, 2, 0)
        r = z.relu()
        z.clamp_max_(limit)
        r.cos_()
        return y, z, r

    x = tocha.randn(4, 12, requires_grad=True)
    mine = x.detach().clone().requires_grad_()
    limit = tocha.randn(0, 12)
    f(x, limit)[0].square().sum().backward()
    tocha.compile(f, dynamic=True)(mine, limit)[0].square().sum().backward()
    tocha.testing.assert_close(mine.grad, x.grad)


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("f", [lambda x: (1 + 2j) / x, lambda x: (2 + 1j) * x.sin(), lambda x: x ** (1 - 1j)])
def test_gradients_beside_complex_numbers_have_the_tensors_precision(f, shape):
    x = (tocha.rand(shape) + 0.5).requires_grad_()
    mine = x.detach().clone().requires_grad_()
    f(x).abs().sum().backward()
    tocha.compile(f)(mine).abs().sum().backward()
    tocha.testing.assert_close(mine.grad, x.grad)


@pytest.mark.parametrize(
    "dtype", [tocha.float32, tocha.float64, tocha.float16, tocha.bfloat16, tocha.int32, tocha.uint8, tocha.complex64]
)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cross_products_are_rounded_as_the_kernel_rounds_them(dtype, dim):
    shape = [4, 5, 6]
    shape[dim] = 3
    a, b = ((tocha.randn(shape) * 5).to(dtype) for _ in range(2))
    b = b.narrow(1 if dim != 1 else 0, 0, 1)
    f = lambda a, b: tocha.linalg.cross(a, b, dim=dim)  # noqa: E731
    assert tocha.equal(tocha.compile(f)(a, b), f(a, b)) and tocha.equal(tocha.compile(f)(a, a), f(a, a))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_written_tensor_with_gaps_keeps_the_order_of_its_dims(dynamic):
    def f(x, more):
        y = x.movedim(2, 0)
        y.scatter_add_(3, tocha.zeros(4, 3, 1, 1, dtype=tocha.int64), more)
        z = tocha.addcdiv(y, y, y.exp())
        return z, z.as_strided((2, 3), (3, 5), 0)

    x, more = tocha.randn(8, 6, 8, 2)[::2, ::2, ::2, ::2], tocha.randn(4, 3, 1, 1)
    for w, g in zip(f(x.clone(), more), tocha.compile(f, dynamic=dynamic)(x.clone(), more), strict=True):
        assert g.stride() == w.stride()
        tocha.testing.assert_close(g, w)
    gaps, mine = tocha.randn(2, 8, 6, 8, 2)[:, ::2, ::2, ::2, ::2]
    mine.copy_(gaps)
    for w, g in zip(f(gaps, more), tocha.compile(f, dynamic=dynamic)(mine, more), strict=True):
        assert g.stride() == w.stride()
        tocha.testing.assert_close(g, w)


def test_indices_do_not_grow_as_values_are_composed():
    """Sizes that are sums, a copy with other strides, dims cut anew: an index of thousands of terms, were nothing stored."""

    def f(x, w):
        y = F.conv3d(x, w, padding=1, groups=2).relu()
        return [y, F.instance_norm(y), F.group_norm(y, 3)]

    x = tocha.randn(2, 4, 3, 5, 4).to(memory_format=tocha.channels_last_3d)
    w = tocha.randn(6, 2, 3, 3, 3)
    program = lower_graph(make_fx(f, tracing_mode="symbolic")(x, w))
    addresses = [load.address for step in inline(program) if isinstance(step, Loop) for load in step.loads()]
    assert max(map(s.size_of, addresses)) < 100
    for want, got in zip(f(x, w), tocha.compile(f, dynamic=True)(x, w), strict=True):
        assert_close(got, want)
        assert got.stride() == want.stride()


@pytest.mark.parametrize("dynamic", [None, True])
def test_dims_that_a_quotient_tells_apart_stay_apart(dynamic):
    """Windows that overlap, written to: of the flat place alone, C++ could not say which row it is in."""

    def f(x):
        x.unfold(0, 2, 1).add_(1)
        return x + 1

    a = tocha.arange(99).reshape(33, 3).to(tocha.int8)
    b = a.clone()
    assert_close(tocha.compile(f, dynamic=dynamic)(a), f(b))
    assert_close(a, b)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.batch_norm(x, None, None, training=True).relu(),
        lambda x: F.silu(F.group_norm(x, 4)),
        lambda x: F.silu(F.group_norm(F.interpolate(x, scale_factor=2), 4)),
        lambda x: F.batch_norm(F.max_pool2d(x, 2), None, None, training=True),
        lambda x: F.pad(x.flip(-1), (4, 4, 4, 4)).clamp(0, 1),
    ],
    ids=["batch_norm", "group_norm", "group_norm_of_enlarged", "batch_norm_of_pooled", "padded_flip"],
)
def test_channels_of_planes_that_change_are_not_divided_for(function):
    """Which channel an element is of follows from the loops that it is computed in, also where a plane's size is a symbol: a division for
    every element took thirty times as long."""

    def step(f, x):
        y = f(x)
        (y * y).sum().backward()
        return y

    x = tocha.randn(6, 8, 12, 12)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    for dim in (0, 2, 3):
        tocha._dynamo.mark_dynamic(mine, dim)
    got, sources = run_and_get_code(step, tocha.compile(function), mine)
    assert_close(got, step(function, other))
    assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-4)
    lines = [line for code in sources for line in code.splitlines()]
    reads = [line for line in lines if re.search(r"= p\d+\[|vec::load\(p\d+", line)]
    assert reads and not [line for line in reads if re.search(r"/ \(|/ n\d|floor", line)]
