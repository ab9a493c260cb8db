"""Random numbers against PyTorch, bit for bit: the same seed, the same calls, the same numbers and the same state after.

Needs torch beside tocha; run by `make parity`.
"""

# ruff: noqa: B023  (the lambdas are called at once)
from __future__ import annotations

import platform
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

SEEDS = range(10)
SIZES = [*range(1, 101), 10000]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
NUMBERS = [*FLOATS, "int8", "int16", "int32", "int64", "uint8"]


def both(f, seed=0):
    """f(torch) and f(tocha), each from the same seed; and whether their generators end in the same state."""
    out = []
    for lib in (torch, tocha):
        lib.manual_seed(seed)
        r = f(lib)
        out.append((r if isinstance(r, (list, tuple)) else [r], lib.get_rng_state().numpy()))
    return out


def bits(x):
    """The memory of a tensor in logical order."""
    x = x.detach().contiguous()
    if str(x.dtype).endswith("bfloat16"):
        x = x.view(torch.int16 if isinstance(x, torch.Tensor) else tocha.int16)
    a = x.numpy()
    return a.view(np.uint8) if a.ndim else a.reshape(1).view(np.uint8)


# There PyTorch's vector code of some functions ends in other last bits than the C library's that it uses elsewhere.
ARM = platform.machine() == "aarch64"


def same(f, seed=0, last_bits=0.0):
    """Bit for bit; on ARM numbers may differ by last_bits of their size."""
    (ref, ref_state), (got, got_state) = both(f, seed)
    assert len(ref) == len(got)
    for r, g in zip(ref, got, strict=True):
        assert tuple(r.shape) == tuple(g.shape) and str(r.dtype).split(".")[-1] == str(g.dtype).split(".")[-1]
        assert tuple(r.stride()) == tuple(g.stride())
        equal = np.array_equal(bits(r), bits(g))
        if ARM and last_bits and not equal:
            equal = np.allclose(r.double().numpy(), g.double().numpy(), rtol=last_bits, atol=0)
        assert equal, f"{r} against {g}"
    assert np.array_equal(ref_state, got_state), "the generators differ after the call"


def dtype(lib, name):
    return getattr(lib, name)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_factories(name, kind, seed):
    same(lambda t: [getattr(t, name)(n, dtype=dtype(t, kind)) for n in SIZES], seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_integers(seed):
    same(lambda t: [t.randint(k, (n,)) for n in SIZES for k in (1, 2, 7, 2**20)], seed)
    same(lambda t: [t.randint(-(2**40), 2**40, (n,)) for n in SIZES[::10]], seed)
    same(lambda t: [t.randint(2**62, 2**63 - 1, (n,)) for n in SIZES[::10]], seed)
    same(lambda t: [t.randperm(n) for n in SIZES], seed)


@pytest.mark.parametrize("kind", [*NUMBERS, "uint16", "uint32", "uint64"])
def test_integers_of_any_dtype(kind):
    same(lambda t: [t.randint(100, (n,), dtype=dtype(t, kind)) for n in SIZES[::7]])
    if kind != "uint64":  # where PyTorch's own bound does not fit
        same(lambda t: [t.zeros(n, dtype=dtype(t, kind)).random_(3, None) for n in SIZES[::7]])
    if not kind.startswith("uint") or kind == "uint8":
        same(lambda t: [t.zeros(n, dtype=dtype(t, kind)).random_() for n in SIZES[::7]])
        same(lambda t: [t.randperm(n, dtype=dtype(t, kind)) for n in SIZES[:100:7]])


FILLS = {
    "uniform_": [(), (-2.5, 7.25)],
    "normal_": [(), (3.0, 0.5)],
    "exponential_": [(), (2.5,)],
    "cauchy_": [(), (1.0, 3.0)],
    "log_normal_": [(), (0.5, 0.25)],
    "bernoulli_": [(), (0.3,)],
    "geometric_": [(0.3,)],
    "random_": [(), (1000,), (-5, 9)],
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["uniform_", "normal_", "exponential_", "bernoulli_"])
def test_fills(name, seed):
    for args in FILLS[name]:
        same(lambda t: [getattr(t.empty(n), name)(*args) for n in SIZES], seed)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", FILLS)
def test_fills_of_any_dtype(name, kind):
    for args in FILLS[name]:
        if name == "random_" and kind == "bfloat16" and args == (1000,):
            continue  # PyTorch warns that 1000 is not exact there
        same(
            lambda t: [getattr(t.empty(n, dtype=dtype(t, kind)), name)(*args) for n in (*SIZES[::9], 10000)],
            last_bits=1e-3 if kind == "float16" else 0.0,
        )


LAYOUTS = {
    "transposed": lambda x: x(7, 5).t(),
    "every second": lambda x: x(9, 10)[:, ::2],
    "permuted": lambda x: x(3, 4, 5).permute(2, 0, 1),
    "a column": lambda x: x(40, 3)[:, 1],
    "a block": lambda x: x(6, 7, 8)[1:4, :, 2:7].transpose(0, 2),
    "large": lambda x: x(130, 70)[:, ::3].t(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLS)
def test_fills_that_are_not_contiguous(name, layout):
    for kind in ("float32", "float64", "bfloat16"):
        for args in FILLS[name]:
            if name == "random_" and kind == "bfloat16" and args == (1000,):
                continue
            same(lambda t: getattr(LAYOUTS[layout](lambda *s: t.zeros(*s, dtype=dtype(t, kind))), name)(*args))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_like(layout):
    for name in ("rand_like", "randn_like"):
        same(lambda t: getattr(t, name)(LAYOUTS[layout](t.zeros)))
    same(lambda t: t.randint_like(LAYOUTS[layout](t.zeros), 3, 9))


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_complex(kind):
    same(lambda t: [f(n, dtype=dtype(t, kind)) for n in SIZES[::5] for f in (t.rand, t.randn)])
    same(lambda t: [t.zeros(n, dtype=dtype(t, kind)).normal_(1.5, 3.0) for n in SIZES[::5]])
    same(lambda t: [t.zeros(5, n, dtype=dtype(t, kind)).t().normal_() for n in SIZES[:100:5]])


def test_mixed_calls_share_one_stream():
    def program(t):
        out = []
        for n in (1, 3, 5, 16, 17, 33):
            out += [
                t.randn(n),
                t.rand(n),
                t.randn(n, dtype=t.float64),
                t.randint(10, (n,)),
                t.empty(n).normal_(),
                t.randperm(n),
            ]
            out += [
                t.empty(n).log_normal_(),
                t.bernoulli(t.rand(n)),
                t.empty(3, n).t().normal_(),
                t.empty(n).cauchy_(),
                t.randn(n, dtype=t.bfloat16),
            ]
            out += [t.multinomial(t.rand(n), 1), t.poisson(t.rand(n) * 20), t.normal(t.rand(n), 0.5)]
        return out

    for seed in SEEDS:
        same(program, seed)


def test_bernoulli_with_tensors():
    for kind in FLOATS:
        same(lambda t: [t.bernoulli(t.rand(n, dtype=dtype(t, kind))) for n in SIZES[::6]])
        same(lambda t: t.zeros(50, dtype=t.int32).bernoulli_(t.rand(50, dtype=dtype(t, kind))))
    same(lambda t: t.bernoulli(t.rand(7, 5).t()))
    same(lambda t: t.zeros(5, 7).t().bernoulli_(t.rand(7, 5)))
    same(lambda t: t.zeros(5, 7).bernoulli_(t.rand(7)))
    same(lambda t: t.zeros(5).bernoulli_(t.tensor(0.4)))
    same(lambda t: [t.bernoulli(t.zeros(9, dtype=dtype(t, d)), 0.4) for d in (*NUMBERS, "bool")])


def test_normal_with_parameters():
    for n in (1, 5, 16, 40, 1000):
        for kind in FLOATS:
            same(lambda t: t.normal(t.rand(n, dtype=dtype(t, kind)), t.rand(n, dtype=dtype(t, kind))))
            same(lambda t: t.normal(t.rand(n, dtype=dtype(t, kind)), 0.3))
            same(lambda t: t.normal(0.3, t.rand(n, dtype=dtype(t, kind))))
            same(lambda t: t.normal(0.3, 2.0, (n,), dtype=dtype(t, kind)))
    same(lambda t: t.normal(t.rand(4, 1), t.rand(1, 9)))
    same(lambda t: t.normal(t.rand(9, 4).t(), t.rand(4, 9)))
    same(lambda t: t.normal(t.rand(9), 2.0, out=t.empty(9, dtype=t.float64)))


def test_samples_from_tensors_of_parameters():
    for kind in ("float32", "float64"):
        same(lambda t: t.poisson(t.rand(500, dtype=dtype(t, kind)) * 40))
        same(lambda t: t.poisson(t.rand(20, 9, dtype=dtype(t, kind)).t() * 40))
        same(lambda t: t.binomial(t.randint(1, 90, (500,)).to(dtype(t, kind)), t.rand(500, dtype=dtype(t, kind))))
        same(
            lambda t: (
                t._C._standard_gamma(t.rand(500, dtype=dtype(t, kind)) * 3)
                if t is tocha
                else t._standard_gamma(t.rand(500, dtype=dtype(t, kind)) * 3)
            ),
            last_bits=1e-14 if kind == "float64" else 1e-6,
        )


def test_dirichlet():
    for n in (1, 3, 8, 50):
        same(lambda t: (t._C if t is tocha else t)._sample_dirichlet(t.rand(40, n) * 3))


@pytest.mark.parametrize("kind", FLOATS)
def test_multinomial(kind):
    for n, k in ((1, 1), (5, 3), (50, 50), (300, 7)):
        same(lambda t: t.multinomial(t.rand(n, dtype=t.float64).to(dtype(t, kind)), k, replacement=True))
        same(lambda t: t.multinomial(t.rand(6, n, dtype=t.float64).to(dtype(t, kind)), k, replacement=True))
        if kind in ("float32", "float64"):  # half types tie, and then the order is anyone's
            same(lambda t: t.multinomial(t.rand(n, dtype=dtype(t, kind)), k))
            same(lambda t: t.multinomial(t.rand(6, n, dtype=dtype(t, kind)), k))
            same(lambda t: t.multinomial(t.rand(n, 6, dtype=dtype(t, kind)).t(), k))


def functional(t):
    return t.nn.functional


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_dropout(kind):
    near = partial(same, last_bits=1e-14 if kind == "float64" else 0.0)
    for p in (0.0, 0.1, 0.5, 0.9, 1.0):
        near(lambda t: t.dropout(t.randn(50, dtype=dtype(t, kind)), p, True))
        near(lambda t: t.dropout(t.randn(7, 9, dtype=dtype(t, kind)).t(), p, True))
        near(lambda t: t.dropout(t.randn(7, 9, dtype=dtype(t, kind))[:, ::2], p, True))
        near(lambda t: t.dropout_(t.randn(50, dtype=dtype(t, kind)), p, True))
        near(lambda t: functional(t).dropout(t.randn(50, dtype=dtype(t, kind)), p, inplace=True))
        near(lambda t: functional(t).dropout1d(t.randn(4, 9, 3, dtype=dtype(t, kind)), p))
        near(lambda t: functional(t).dropout1d(t.randn(9, 3, dtype=dtype(t, kind)), p, inplace=True))
        near(lambda t: functional(t).dropout2d(t.randn(4, 9, 3, 2, dtype=dtype(t, kind)), p))
        near(lambda t: functional(t).dropout3d(t.randn(9, 3, 2, 2, dtype=dtype(t, kind)), p))
        near(lambda t: functional(t).alpha_dropout(t.randn(50, dtype=dtype(t, kind)), p, True))
        near(lambda t: functional(t).feature_alpha_dropout(t.randn(5, 8, 3, dtype=dtype(t, kind)), p, True))
        near(lambda t: t.native_dropout(t.randn(50, dtype=dtype(t, kind)), p, True))
    near(lambda t: functional(t).rrelu(t.randn(100, dtype=dtype(t, kind)), training=True))
    near(lambda t: functional(t).rrelu(t.randn(100, dtype=dtype(t, kind)), 0.1, 0.2))


def test_generators():
    def program(t):
        g = t.Generator().manual_seed(42)
        out = [
            t.rand(3, generator=g),
            t.randn(17, generator=g),
            t.randperm(9, generator=g),
            t.randint(9, (5,), generator=g),
        ]
        out += [
            t.empty(3).uniform_(generator=g),
            t.bernoulli(t.full((3,), 0.5), generator=g),
            t.normal(0.0, 1.0, (3,), generator=g),
        ]
        return [*out, t.rand(2), g.get_state()]

    same(program)


def test_states_are_interchangeable():
    for draws in (0, 1, 3, 700):
        torch.manual_seed(5)
        torch.randn(draws + 1)
        tocha.set_rng_state(tocha.from_numpy(torch.get_rng_state().numpy().copy()))
        assert np.array_equal(torch.randn(33).numpy(), tocha.randn(33).numpy())
        tocha.randn(3)
        torch.set_rng_state(torch.from_numpy(tocha.get_rng_state().numpy().copy()))
        assert np.array_equal(torch.randn(5).numpy(), tocha.randn(5).numpy())


BAD = [
    "t.rand(3, dtype=t.int64)", "t.randn(3, dtype=t.bool)", "t.rand(-1)", "t.randint(0, (3,))", "t.randint(5, 3, (3,))", "t.randint(3, (3,), dtype=t.bool)",
    "t.randint(300, (3,), dtype=t.uint8)", "t.randint(-1, 3, (3,), dtype=t.uint8)", "t.randint(5, (3,), dtype=t.complex64)", "t.randint(2**63, (3,))",
    "t.randint(5.0, (3,))", "t.randint(65537, (3,), dtype=t.float16)", "t.randperm(-1)", "t.randperm(5, dtype=t.bool)", "t.randperm(5, dtype=t.complex64)",
    "t.randperm(3000, dtype=t.half)", "t.randperm(257, dtype=t.uint8)", "t.randperm(129, dtype=t.int8)", "t.randperm(5.0)", "t.rand_like(t.zeros(3, dtype=t.int64))",
    "t.rand(3, dtype=t.float64, out=t.zeros(3))", "t.randint(3, (3,), requires_grad=True)", "t.randint(0, 5, 2)",
    "t.normal(t.zeros(3), t.ones(2))", "t.normal(t.zeros(3), -t.ones(3))", "t.normal(t.zeros(3), -1.0)", "t.normal(2.0, -t.ones(3))", "t.normal(2, -3.0, size=(2,))",
    "t.normal(2, 3)", "t.normal(t.zeros(3, dtype=t.int64), 1.0)", "t.normal(t.zeros(3), t.ones(3, dtype=t.complex64))", "t.normal(0.0, 1.0, (2,), dtype=t.int64)",
    "t.bernoulli(t.ones(3) + 1)", "t.bernoulli(t.ones(3) * float('nan'))", "t.bernoulli(t.ones(3, dtype=t.int64))", "t.bernoulli(t.ones(3, dtype=t.complex64))",
    "t.bernoulli(t.ones(3), p=1.5)", "t.zeros(3).bernoulli_(1.3)", "t.zeros(3).bernoulli_(t.zeros(2))", "t.zeros(3).bernoulli_(t.zeros(2, 3))",
    "t.zeros(3).bernoulli_(t.zeros(3, dtype=t.int64))", "t.zeros(3, dtype=t.uint16).bernoulli_()", "t.zeros(3).uniform_(1, 0)", "t.zeros(3).uniform_(-3e38, 3e38)",
    "t.zeros(3).half().uniform_(0, 70000)", "t.zeros(3).uniform_(0, float('inf'))", "t.zeros(3).uniform_(float('nan'), 1)", "t.zeros(3, dtype=t.int64).uniform_()",
    "t.zeros(3).normal_(0, -1)", "t.zeros(3).normal_(0, float('nan'))", "t.zeros(3, dtype=t.int64).normal_()", "t.zeros(3).random_(7, 5)", "t.zeros(3).random_(0)",
    "t.zeros(3, dtype=t.bool).random_(0, 3)", "t.zeros(3, dtype=t.uint8).random_(257)", "t.zeros(3, dtype=t.uint16).random_()", "t.zeros(3, dtype=t.complex64).random_()",
    "t.zeros(3, dtype=t.complex64).random_(5)", "t.zeros(3).half().random_(70000)", "t.zeros(3).random_(5.5)", "t.zeros(3).exponential_(0)",
    "t.zeros(3).exponential_(float('nan'))", "t.zeros(3, dtype=t.int64).exponential_()", "t.zeros(3).cauchy_(0, 0)", "t.zeros(3, dtype=t.int64).cauchy_()",
    "t.zeros(3).log_normal_(0, 0)", "t.zeros(3, dtype=t.int64).log_normal_()", "t.zeros(3).geometric_(1)", "t.zeros(3).geometric_()", "t.zeros(3, dtype=t.bool).geometric_(0.5)",
    "t.zeros(3).expand(2, 3).uniform_()", "t.zeros(1).expand(3).normal_()", "t.multinomial(t.ones(2, 4), 5)", "t.multinomial(t.ones(2, 2, 4), 2)", "t.multinomial(t.tensor(1.0), 1)",
    "t.multinomial(t.ones(4), 0)", "t.multinomial(t.ones(4, dtype=t.int64), 1)", "t.multinomial(t.zeros(4), 1)", "t.multinomial(t.zeros(4), 1, True)", "t.multinomial(-t.ones(4), 1)",
    "t.multinomial(t.ones(4) * float('inf'), 1)", "t.multinomial(t.ones(4) * float('nan'), 3, True)", "t.multinomial(t.ones(2, 0), 1, True)",
    "t.poisson(t.zeros(3) - 4)", "t.poisson(t.zeros(3, dtype=t.int64))", "t.poisson(t.zeros(3, dtype=t.complex64))", "t.binomial(t.zeros(3) + 4, t.zeros(3).double())",
    "t.binomial(t.zeros(3, dtype=t.int64), t.zeros(3))", "t.binomial(t.zeros(3).half(), t.zeros(3).half())", "t.dropout(t.ones(3), 1.5, True)", "t.dropout(t.ones(3), -1, False)",
    "t.dropout(t.ones(3, dtype=t.int64), 0.5, True)", "t.dropout(t.ones(3, dtype=t.complex64), 0.5, True)", "t.nn.functional.dropout(t.ones(3), 1.5)", "t.nn.functional.dropout1d(t.ones(3))",
    "t.nn.functional.dropout2d(t.ones(3))", "t.nn.functional.feature_alpha_dropout(t.ones(3), 0.5, True)", "t.nn.functional.rrelu(t.ones(3), 0.5, 0.1, training=True)",
    "t.nn.functional.rrelu(t.ones(3, dtype=t.int64))", "t.native_dropout(t.ones(3), 1.5, True)",
]  # fmt: skip


@pytest.mark.parametrize("call", BAD)
@pytest.mark.filterwarnings("ignore")
def test_bad_arguments_raise_the_same_exceptions(call):
    with pytest.raises(Exception) as ref:
        eval(call, {"t": torch})
    with pytest.raises(ref.type):
        eval(call, {"t": tocha})
