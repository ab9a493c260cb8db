"""Matrix products and convolutions in compiled programs: which kernels follow them row by row, and that values are eager's bit by bit."""

from __future__ import annotations

import pytest

import tocha
import tocha.nn.functional as F
from tests.test_inductor_kernels import compiled, randn
from tocha import nn
from tocha._functorch.aot_autograd import aot_function
from tocha._inductor import config
from tocha._inductor.programs import CompiledGraph, compile_graph
from tocha.ir.loops import Product

pytestmark = pytest.mark.usefixtures("kernel_cache")


def products(c: CompiledGraph) -> list[Product]:
    return [i for i in c.calls if isinstance(i, Product)]


def followed(c: CompiledGraph) -> list[str]:
    """The products that a kernel follows row by row."""
    return [k.after.name for k in c.kernels if k.after is not None]


LAYERS = {
    "relu": lambda x, w, b, r: F.linear(x, w, b).relu(),
    "gelu": lambda x, w, b, r: F.gelu(F.linear(x, w, b)),
    "scaled": lambda x, w, b, r: (x @ w.t()) * 0.5 + 1,
    "residual": lambda x, w, b, r: r + F.linear(x, w, b),
    "cast": lambda x, w, b, r: F.linear(x, w, b).sigmoid().to(tocha.float64),
    "softmax": lambda x, w, b, r: F.linear(x, w, b).softmax(-1),
    "norm": lambda x, w, b, r: F.layer_norm(r + F.linear(x, w, b), (w.shape[0],)),
    "row": lambda x, w, b, r: F.linear(x, w, b) * b + r[0],
    "two results": lambda x, w, b, r: (lambda y: (y.relu(), y.tanh()))(F.linear(x, w, b)),
    "sum of rows": lambda x, w, b, r: F.linear(x, w, b).sum(-1),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("m, n, k", [(20, 24, 16), (97, 130, 70), (300, 64, 520), (64, 1100, 40), (2, 3, 4)])
def test_what_follows_a_product(name, m, n, k):
    x, w, b, r = randn(m, k), randn(n, k, seed=1), randn(n, seed=2), randn(m, n, seed=3)
    c = compiled(LAYERS[name], x, w, b, r, exact=name in ("relu", "scaled", "residual", "row"))
    assert len(products(c)) == 1 and len(followed(c)) == 1 and len(c.kernels) == 1


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.bfloat16, tocha.float16])
def test_other_dtypes(dtype):
    x, w, b = randn(70, 40).to(dtype), randn(50, 40, seed=1).to(dtype), randn(50, seed=2).to(dtype)
    c = compiled(lambda x, w, b: F.linear(x, w, b).relu() * 2, x, w, b, exact=True)
    assert followed(c) == ["addmm"]


def test_batches():
    a, b = randn(6, 33, 20), randn(6, 20, 45, seed=1)
    c = compiled(lambda a, b: (a @ b).relu(), a, b, exact=True)
    assert followed(c) == ["bmm"]
    c = compiled(lambda a, b: (a @ b).softmax(-1), a, b)
    assert followed(c) == ["bmm"]
    compiled(
        lambda a, b: (a.transpose(1, 2) @ b.transpose(1, 2)).relu(), randn(5, 20, 33), randn(5, 45, 20), exact=True
    )
    compiled(lambda a, b: a @ b, randn(5, 1, 8), randn(5, 8, 9), exact=True)


def test_results_that_others_read_too():
    x, w = randn(40, 30), randn(20, 30, seed=1)
    c = compiled(lambda x, w: (lambda y: (y, y.relu(), y.sum(0)))(x @ w.t()), x, w, exact=False)
    assert followed(c) == ["mm"]


def test_the_last_of_two_products_is_followed():
    x, w, v = randn(40, 30), randn(20, 30, seed=1), randn(20, 30, seed=2)
    c = compiled(lambda x, w, v: F.silu(x @ w.t()) * (x @ v.t()), x, w, v)
    assert [p.name for p in products(c)] == ["mm", "mm"] and len(c.kernels) == 1
    assert c.kernels[0].after is products(c)[1]


def test_what_needs_other_rows_waits():
    x, w = randn(40, 30), randn(20, 30, seed=1)
    for f in (
        lambda x, w: (x @ w.t()).sum(0),
        lambda x, w: (x @ w.t()).flip(0) * 2,
        lambda x, w: (x @ w.t()).t().exp().contiguous(),
    ):
        assert followed(compiled(f, x, w)) == []


def test_few_rows_are_left_to_all_threads():
    c = compiled(lambda x, w: (x @ w.t()).relu(), randn(4, 8), randn(9000, 8, seed=1), exact=True)
    assert len(products(c)) == 1 and followed(c) == []


def test_a_result_is_not_written_over_an_operand_that_is_still_read():
    """The residual is the product's own operand, and ends here."""
    x, w, b = randn(256, 256), randn(256, 256, seed=1), randn(256, seed=2)
    f = lambda x, w, b: (lambda y: (y + F.linear(y, w, b)).relu())(x * 2)  # noqa: E731
    for _ in range(3):
        compiled(f, x, w, b, exact=True)


def test_nothing_of_a_product_is_lost_where_it_is_empty():
    compiled(lambda x, w, b: F.linear(x, w, b).relu(), randn(0, 4), randn(3, 4), randn(3), exact=True)
    compiled(lambda x, w, b: F.linear(x, w, b) + 1, randn(20, 0), randn(3, 0), randn(3), exact=True)
    compiled(lambda x, w: (x @ w).sum(-1), randn(20, 3), randn(3, 0))


def test_chains_keep_temporaries_in_the_arena():
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 16))
    x = randn(128, 64)
    c = compiled(model, x)
    assert followed(c) == ["addmm", "addmm"] and c.memory.arena > 0
    with config.patch(disabled_passes="epilogues"):
        other = compiled(model, x)
    assert followed(other) == [] and len(products(other)) == 3
    assert tocha.equal(c(x)[0], other(x)[0])
    assert c.memory.arena <= 2 * 128 * 96 * 4


def test_backward_products_are_followed_too():
    graphs = []

    def keep(graph, inputs):
        graphs.append(compile_graph(graph))
        return graphs[-1]

    x, w, v = (
        randn(60, 40).requires_grad_(),
        randn(50, 40, seed=1).requires_grad_(),
        randn(30, 50, seed=2).requires_grad_(),
    )
    aot_function(lambda x, w, v: F.linear(F.relu(F.linear(x, w)), v).sum(), fw_compiler=keep)(x, w, v).backward()
    got = [t.grad.clone() for t in (x, w, v)]
    for t in (x, w, v):
        t.grad = None
    F.linear(F.relu(F.linear(x, w)), v).sum().backward()
    assert all(tocha.equal(g, t.grad) for g, t in zip(got, (x, w, v), strict=True))
    assert followed(graphs[1])


def test_sizes_that_change():
    w, b = randn(48, 32), randn(48, seed=1)
    f = tocha.compile(lambda x: F.linear(x, w, b).relu(), dynamic=True)
    for m in (17, 40, 133):
        x = randn(m, 32)
        with tocha.no_grad():
            assert tocha.equal(f(x), F.linear(x, w, b).relu())


def test_the_source_says_what_follows_what():
    c = compiled(lambda x, w, b: F.linear(x, w, b).relu(), randn(40, 30), randn(20, 30, seed=1), randn(20, seed=2))
    assert "// addmm, then kernel_0" in c.source and "run(api, program" not in c.source.split("tocha_program")[1]


# ---- convolutions ----------------------------------------------------------------------------------


PICTURES = {  # shapes of input and weight, and how they are convolved: one for each way that the library has
    "by pixels": ((4, 16, 30, 30), (40, 16, 5, 5), {"padding": 2}),
    "few pixels": ((2, 32, 6, 6), (64, 32, 5, 5), {}),
    "transformed": ((4, 32, 20, 20), (48, 32, 3, 3), {"padding": 1}),
    "transformed, one image": ((1, 64, 12, 12), (64, 64, 3, 3), {"padding": 1}),
    "one by one": ((3, 24, 9, 7), (32, 24, 1, 1), {}),
    "steps": ((3, 8, 17, 19), (20, 8, 3, 3), {"stride": 2, "padding": 1, "dilation": 2}),
    "groups": ((3, 12, 11, 9), (18, 4, 3, 3), {"groups": 3}),
    "by channels": ((3, 40, 14, 14), (40, 1, 3, 3), {"groups": 40, "padding": 1}),
    "few rows": ((5, 6, 21, 20), (7, 6, 3, 3), {"padding": 1}),
    "lines": ((4, 10, 50), (24, 10, 7), {"padding": 3}),
    "volumes": ((2, 5, 7, 9, 8), (18, 5, 3, 3, 3), {"padding": 1}),
}


def convolve(x, w, b=None, **how):
    return (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3](x, w, b, **how)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", PICTURES)
def test_what_follows_a_convolution(name, threads):
    sizes, weights, how = PICTURES[name]
    x, w, b = randn(*sizes), randn(*weights, seed=1), randn(weights[0], seed=2)
    r = randn(*convolve(x, w, b, **how).shape, seed=3)
    channel = (slice(None), *[None] * (x.dim() - 2))
    before = tocha.get_num_threads()
    tocha.set_num_threads(threads)
    try:
        for f in (
            lambda x, w, b, r: convolve(x, w, b, **how).relu(),
            lambda x, w, b, r: (convolve(x, w, **how) * b[channel] + r).relu(),
            lambda x, w, b, r: (lambda y: (y, y.clamp(-1, 1) * 2))(convolve(x, w, b, **how)),
        ):
            c = compiled(f, x, w, b, r, exact=True)
            assert followed(c) == ["_real_convolution"] and len(c.kernels) == 1
        c = compiled(lambda x, w, b, r: convolve(x, w, b, **how).flatten(2).mean(-1), x, w, b, r)
        assert followed(c) == ["_real_convolution"]
    finally:
        tocha.set_num_threads(before)


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.bfloat16, tocha.float16])
def test_convolutions_of_other_dtypes(dtype):
    x, w = randn(3, 8, 10, 10).to(dtype), randn(24, 8, 3, 3, seed=1).to(dtype)
    c = compiled(lambda x, w: F.conv2d(x, w, padding=1).relu() * 2, x, w, exact=True)
    assert followed(c) == ["_real_convolution"]


def test_convolutions_of_nothing():
    f = lambda x, w, b: F.conv2d(x, w, b).relu().sum((2, 3))  # noqa: E731
    compiled(f, randn(0, 4, 5, 5), randn(3, 4, 3, 3), randn(3))
    compiled(lambda x, w, b: F.conv2d(x, w, b) + 1, randn(2, 0, 5, 5), randn(3, 0, 3, 3), randn(3), exact=True)


def test_what_needs_other_planes_waits():
    x, w = randn(4, 8, 12, 12), randn(24, 8, 3, 3, seed=1)
    c = compiled(lambda x, w: F.conv2d(x, w).softmax(1), x, w)
    assert followed(c) == []
    c = compiled(lambda x, w: F.conv2d(x, w).flip(1) * 2, x, w, exact=True)
    assert followed(c) == []


def test_channels_last_is_followed_by_nothing():
    x, w = randn(4, 8, 12, 12).contiguous(memory_format=tocha.channels_last), randn(24, 8, 3, 3, seed=1)
    c = compiled(lambda x, w: F.conv2d(x, w).relu(), x, w, exact=True)
    assert followed(c) == []
    made = c(x, w)[0]
    assert made.is_contiguous(memory_format=tocha.channels_last)


def test_a_convolution_network_is_eager_bit_by_bit():
    tocha.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 3, padding=1))
    x = randn(4, 16, 24, 24)
    f = lambda x: (x + block(x)).relu()  # noqa: E731
    c = compiled(f, x, exact=True)
    assert followed(c) == ["_real_convolution"] * 2
    with config.patch(disabled_passes="epilogues"):
        assert followed(compiled(f, x, exact=True)) == []


@pytest.mark.parametrize("batch", [1, 5])
def test_pictures_whose_sizes_change(batch):
    f = tocha.compile(lambda x, w: F.conv2d(x, w, padding=1).relu(), dynamic=True)
    w = randn(24, 8, 3, 3, seed=1)
    for n in (batch, batch + 2, batch + 7):
        x = randn(n, 8, 9 + n, 10)
        assert tocha.equal(f(x, w), F.conv2d(x, w, padding=1).relu())
