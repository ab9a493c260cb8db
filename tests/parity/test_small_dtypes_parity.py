"""complex32 and the float8 formats against PyTorch: every bit pattern, conversions, printing, saving, promotion, refusals."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import torch

import tocha
import tocha.utils.safetensors

FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
OTHERS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"]
BYTES = np.arange(256, dtype=np.uint8)
WORDS = np.arange(1 << 16, dtype=np.uint16)


def bits(t):
    """The memory of a tensor of either library."""
    return t.contiguous().view(-1).view((tocha if isinstance(t, tocha.Tensor) else torch).uint8).numpy()


def same(ours, theirs):
    """Equal bit by bit, but for NaN, whose bits mean nothing."""
    assert str(ours.dtype)[6:] == str(theirs.dtype)[6:]
    mine, other = ours.isnan().numpy(), theirs.isnan().numpy()
    assert np.array_equal(mine, other)
    size = ours.element_size()
    assert np.array_equal(bits(ours).reshape(-1, size)[~mine.ravel()], bits(theirs).reshape(-1, size)[~other.ravel()])


@pytest.mark.parametrize("target", [*OTHERS, "int32", "uint8", "complex32", *FLOAT8])
@pytest.mark.parametrize("name", FLOAT8)
def test_every_byte(name, target):
    """Each of the 256 bytes, converted."""
    ours, theirs = (m.from_numpy(BYTES).view(getattr(m, name)) for m in (tocha, torch))
    if target in ("int32", "uint8"):  # what is no number or too large is undefined
        kept = theirs.float().abs() < 200
        ours, theirs = ours[tocha.from_numpy(kept.numpy())], theirs[kept]
    same(ours.to(getattr(tocha, target)), theirs.to(getattr(torch, target)))


def some_floats():
    """Every float16 and bfloat16, floats between them, and many others."""
    rng = np.random.default_rng(0)
    halves = WORDS.view(np.float16).astype(np.float32)
    upper = (WORDS.astype(np.uint32) << 16).view(np.float32)
    any_bits = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (rng.integers(0x3000, 0x5000, 1 << 15).astype(np.uint32) << 16).view(np.float32)
    return np.concatenate([halves, upper, any_bits, np.nextafter(near, np.inf), np.nextafter(near, 0), -near])


@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [*FLOAT8, "complex32"])
def test_rounding(name, source):
    x = some_floats()
    ours = tocha.from_numpy(x).to(getattr(tocha, source)).to(getattr(tocha, name))
    theirs = torch.from_numpy(x).to(getattr(torch, source)).to(getattr(torch, name))
    same(ours, theirs)


@pytest.mark.parametrize("name", FLOAT8)
def test_rounding_of_formulas(name):
    """The Python value of a rounding, which graphs fold, is the native one."""
    from tocha.ir import dtypes

    x = some_floats()[::97]
    native = tocha.from_numpy(x).to(getattr(tocha, name)).float().numpy()
    folded = np.array([dtypes.by_name(name).round(float(v)) for v in x], np.float32)
    assert np.array_equal(native, folded, equal_nan=True)


@pytest.mark.parametrize("target", ["complex64", "complex128", "float16", "float32", "bfloat16", "bool"])
def test_every_half_as_a_part(target):
    pairs = np.stack([WORDS, np.random.default_rng(1).permutation(WORDS)], 1)
    ours, theirs = (m.from_numpy(pairs.view(np.float16)).view(m.complex32).squeeze(1) for m in (tocha, torch))
    same(ours.to(getattr(tocha, target)), theirs.to(getattr(torch, target)))


def answer(module, expression, dtype):
    names = {"m": module, "d": getattr(module, dtype), "t": module.tensor, "i": module.tensor([0])}
    names["x"] = module.tensor([1.0, 2.0, 3.0]).to(names["d"])
    names["z"] = module.tensor([1 + 2j, 3, -1j]).to(names["d"])
    module.manual_seed(3)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(eval(expression, names)).replace("torch", "tocha")
    except Exception as error:
        return type(error).__name__, str(error)


def check(expression, dtype):
    ours, theirs = answer(tocha, expression, dtype), answer(torch, expression, dtype)
    if isinstance(theirs, tuple) and isinstance(ours, tuple):
        assert ours[0] == theirs[0], (ours, theirs)  # the words differ: kernels have other names
    else:
        assert ours == theirs


SHARED = [
    "d", "d.is_signed", "d.itemsize", "d.is_floating_point", "d.is_complex", "d.to_real()", "d.to_complex()", "m.finfo(d)",
    "m.finfo(d).bits, m.finfo(d).eps, m.finfo(d).max, m.finfo(d).min, m.finfo(d).tiny, m.finfo(d).resolution", "x", "x[0]",
    "x.tolist()", "x[1].item()", "x.numpy()", "x == x", "x != x.flip(0).clone() if 0 else x", "x.to(m.float32)", "x.bool()",
    "m.zeros(2, dtype=d)", "m.ones(2, 2, dtype=d)", "m.empty(0, dtype=d)", "m.tensor([1.5, 2.0], dtype=d)", "m.tensor(3, dtype=d)",
    "m.tensor(True, dtype=d)", "m.full((2,), 2.5, dtype=d)", "m.full((2,), 1e9, dtype=d)", "m.full((2,), 0.0, dtype=d)",
    "m.full((2,), -1.0, dtype=d)", "m.full((2,), float('inf'), dtype=d)", "m.full((2,), float('nan'), dtype=d)",
    "m.tensor([1e9, -1.0, 0.0], dtype=d)", "m.arange(4, dtype=d)", "m.linspace(0, 1, 4, dtype=d)", "m.set_default_dtype(d)",
    "x.type()", "m.can_cast(d, m.float32)", "m.can_cast(d, m.complex64)", "m.can_cast(d, m.int64)", "m.result_type(x, 2.0)",
    "m.result_type(x, 1j)", "m.cat([x, x])", "m.stack([x, x])", "m.where(t([True, False, True]), x, x)", "x.isnan()", "x.isreal()",
    "m.equal(x, x) if 0 else 1", "x.view(m.uint8)", "x.element_size()", "x.repeat(2)", "x[[2, 0]]", "x[x == x]", "x[1:]", "x.roll(1)",
    "x.index_select(0, i)", "x.clone().index_put_((i,), x[1].clone()) if d.is_signed else 0", "x.clone().copy_(t([3.0, 2.0, 1.0]))",
    "x.clone().copy_(t([1 + 2j, 2, 3]))", "t([1.0, 2.0, 3.0]).copy_(x)", "x.any()", "x.all()",
    "m.nn.functional.pad(x, (1, 1))", "m.nn.functional.pad(x, (1, 1), value=2.0)", "x.unsqueeze(0).T", "x.expand(2, 3)",
    "x.clone().fill_(2.0)", "x.clone().zero_()", "m.zeros_like(x)", "m.ones_like(x)", "m.full_like(x, 2.0)", "x.contiguous()",
    "x.sum()", "x < x", "x.exp()", "x.sort()", "x.max()", "x.cumsum(0)", "x @ x", "x / x", "x.sqrt()", "m.from_dlpack(x)",
    "m.promote_types(d, m.float32)", "m.promote_types(d, m.float16)", "m.promote_types(d, m.int64)", "m.promote_types(d, m.bool)",
    "m.promote_types(d, m.float64)", "m.promote_types(d, m.bfloat16)", "m.promote_types(d, m.complex64)", "m.promote_types(d, d)",
    "m.promote_types(d, m.uint16)", "m.promote_types(d, m.float8_e5m2)", "m.cat([x, x.float()])", "x.storage()[0]",
    "x.requires_grad_().float().sum().backward()", "t([1.0, 2.0], requires_grad=True).to(d)", "x.chalf()", "x.half()",
]  # fmt: skip
HALF_COMPLEX = [
    "z", "z.real", "z.imag", "z.conj()", "z.conj().resolve_conj()", "m.view_as_real(z)", "m.view_as_complex(m.ones(2, 2, dtype=m.half))",
    "m.complex(m.ones(2, dtype=m.half), m.ones(2, dtype=m.half))", "m.polar(m.ones(2, dtype=m.half), m.ones(2, dtype=m.half))",
    "z + z", "z * z", "z - 1", "z * 2", "z * 2j", "z * 2.5", "-z", "z.abs()", "z.sgn()", "z.addcmul(z, z)", "z + 1", "1 - z", "z.neg()",
    "m.ones(2, dtype=m.half) * 1j", "m.ones(2, dtype=m.bfloat16) * 1j", "m.ones(2, dtype=m.half) + z[0]", "z == z", "z == z[0]",
    "m.result_type(m.ones(2, dtype=m.half), 1j)", "m.half.to_complex()", "m.bfloat16.to_complex()", "z.isinf()", "z.isfinite()",
    "z.isclose(z)", "z.allclose(z)", "z.norm()", "m.linalg.vector_norm(z)", "z.var()", "z.std()", "z.masked_fill(z == z[0], 2j)",
    "z.index_fill(0, i, 1j)", "z.index_add(0, i, z[:1])", "z.index_copy(0, i, z[1:2])", "z[None].tril()", "z[None].triu()", "z.nonzero()",
    "m.rand(4, dtype=d)", "m.randn(4, dtype=d)", "z.diff()", "m.outer(z, z)", "z.angle()", "z / 2", "z.mean()", "z.prod()",
    "z.int()", "z.view(m.int32)", "z.view(m.half)", "m.full((2,), 1 + 1e6j, dtype=d)", "m.tensor([1e6, 2j], dtype=d)", "z.dist(z)",
    "m.fft.fft(z)", "z.tolist()", "z[0].item()", "z.numpy()", "z.mul_(2j)", "z.add_(1)", "m.float16.to_complex()", "m.eye(2, dtype=d)",
    "z.detach().clone().requires_grad_().abs()", "m.autograd.grad((lambda y: (y * y).abs().float().sum())(z.requires_grad_()), z)",
    "m.testing.assert_close(z, z)", "z.uniform_()", "z.normal_()", "z.random_()", "z.bernoulli_()",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOAT8, "complex32"])
@pytest.mark.parametrize("expression", SHARED)
def test_expressions(expression, dtype):
    check(expression, dtype)


@pytest.mark.parametrize("expression", HALF_COMPLEX)
def test_half_complex(expression):
    check(expression, "complex32")


def random_bits(m, dtype):
    raw = np.random.default_rng(2).integers(0, 256, 24, dtype=np.uint8)
    return m.from_numpy(raw).view(getattr(m, dtype))


@pytest.mark.parametrize("dtype", [*FLOAT8, "complex32"])
def test_saving(dtype):
    """Files of either library are read by the other."""
    for writer, reader in ((tocha, torch), (torch, tocha)):
        file = io.BytesIO()
        writer.save({"x": random_bits(writer, dtype)}, file)
        file.seek(0)
        found = reader.load(file)["x"]
        assert str(found.dtype).endswith(dtype)
        assert np.array_equal(bits(found), bits(random_bits(writer, dtype)))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_safetensors(dtype):
    theirs = pytest.importorskip("safetensors.torch")
    written = {"x": random_bits(tocha, dtype), "a": tocha.ones(3), "b": tocha.ones(3, dtype=tocha.int8)}
    expected = {"x": random_bits(torch, dtype), "a": torch.ones(3), "b": torch.ones(3, dtype=torch.int8)}
    assert tocha.utils.safetensors.save(written) == theirs.save(expected)
    found = tocha.utils.safetensors.load(theirs.save(expected))["x"]
    assert np.array_equal(bits(found), bits(expected["x"]))


@pytest.mark.parametrize("dtype", [*FLOAT8, "complex32"])
def test_dlpack(dtype):
    ours, theirs = random_bits(tocha, dtype), random_bits(torch, dtype)
    assert np.array_equal(bits(torch.from_dlpack(ours)), bits(theirs))
    assert torch.from_dlpack(ours).dtype == theirs.dtype
    assert tocha.from_dlpack(theirs).dtype == ours.dtype
    assert np.array_equal(bits(tocha.from_dlpack(theirs)), bits(ours))


@pytest.mark.parametrize("call", ["conv2d(x, w)", "conv2d(x, w, b, 2, 1)", "conv1d(x[..., 0], w[..., 0])", "conv_transpose2d(x, w.transpose(0, 1))", "conv2d(x, w[:3, :1], groups=3)"])  # fmt: skip
def test_convolutions_of_complex32(call):
    rng = np.random.default_rng(0)
    given = {n: rng.standard_normal((*s, 2)).astype(np.float16) for n, s in {"x": (2, 3, 7, 6), "w": (4, 3, 3, 2), "b": (4,)}.items()}  # fmt: skip
    results = []
    for m in (tocha, torch):
        names = {n: m.view_as_complex(m.from_numpy(v)) for n, v in given.items()}
        x = names["x"].requires_grad_()
        made = eval("F." + call, {**names, "F": m.nn.functional})
        (grad,) = m.autograd.grad(m.view_as_real(made).float().square().sum(), x)
        assert made.dtype == m.complex32
        results.append([t.detach().to(m.complex64).numpy() for t in (made, grad)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-3 * np.abs(theirs).max())
