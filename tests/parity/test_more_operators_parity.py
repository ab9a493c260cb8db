"""Operators that op_db says little of, against PyTorch: hashes, scaled products, fake quantization, resampling by factors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tocha

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def answer(module, expression, **given):
    names = {"m": module, "F": module.nn.functional, "f8": module.float8_e4m3fn, "one": module.tensor(1.0)}
    names |= {k: module.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    try:
        found = eval(expression, names)
    except Exception as error:
        return type(error).__name__, str(error)
    return found


def as_array(t):
    wide = t if t.dtype.is_complex else t.double() if t.dtype.is_floating_point else t
    return wide.detach().numpy()


def check(expression, rtol=1e-6, **given):
    """Values, dtypes and strides; or the type of the error, and PyTorch's phrase within ours."""
    ours, theirs = answer(tocha, expression, **given), answer(torch, expression, **given)
    if isinstance(theirs, tuple) and isinstance(theirs[0], str):
        assert ours[0] == theirs[0], (ours, theirs)
        phrase = theirs[1].split("\n")[0].split("(")[0].rstrip(". ")
        assert phrase.replace("torch", "tocha") in ours[1].replace("torch", "tocha"), (ours, theirs)
        return
    assert str(ours.dtype)[6:] == str(theirs.dtype)[6:]
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.stride() == theirs.stride()
    np.testing.assert_allclose(as_array(ours), as_array(theirs), rtol=rtol, atol=1e-6)


@pytest.mark.parametrize(
    "arguments", ["x", "x, 0", "x, 1, keepdim=True", "x, [0, 2]", "x, (), keepdim=True", "x[0, 0, 0]", "x, -1"]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_hash_tensor(arguments, dtype):
    check(f"m.hash_tensor({arguments.replace('x', f'x.to(m.{dtype})', 1)})", x=numbers(3, 4, 5) * 50)


@pytest.mark.parametrize(
    "expression",
    [
        "m.hash_tensor(x, mode=1)", "m.hash_tensor(x[:0])", "m.hash_tensor(x[:0], 0)", "m.hash_tensor(x[:0], 1)",
        "m.hash_tensor(x, 5)", "m.hash_tensor(x.to(m.complex64))", "x.hash_tensor(0)", "m.hash_tensor(x.T, 0)",
    ],
)  # fmt: skip
def test_hash_tensor_by_hand(expression):
    if "complex" in expression:  # kernels have other names
        assert answer(tocha, expression, x=numbers(3, 4))[0] == "NotImplementedError"
        return
    check(expression, x=numbers(3, 4))


SCALED = [
    "a, b, s, t", "a, b, s, t, out_dtype=m.float32", "a, b, s, t, out_dtype=m.bfloat16", "a, b, s, t, out_dtype=m.float16",
    "a, b, s, t, bias=c, out_dtype=m.float32", "a, b, s, t, bias=c.to(m.bfloat16), out_dtype=m.bfloat16",
    "a, b, s, t, scale_result=s", "a, b.contiguous(), s, t, out_dtype=m.float32",
    "a, b.to(m.float8_e5m2), s, t, out_dtype=m.float32",
    "a, b, r, q, out_dtype=m.float32", "a, b, r, q, out_dtype=m.bfloat16", "a[:0], b, s, t, out_dtype=m.float32",
    "a[:, :7], b[:7], s, t, out_dtype=m.float32",
    "a, b, r[:2], q", "a[0], b, s, t", "a, b, s, t, bias=c[:3]", "a, b, r, t", "a, b, s[None], t[None]",
]  # fmt: skip
# With AVX-512 PyTorch multiplies by oneDNN: it takes other dtypes there, reads memory that nobody wrote, rounds otherwise.
SCALED_ELSEWHERE = [
    "a, b, s, t, bias=c.to(m.bfloat16)",
    "a.to(m.float8_e4m3fnuz), b.to(m.float8_e4m3fnuz), s, t, out_dtype=m.float32",
    "a[:, :0], b[:0], s, t, out_dtype=m.float32",
    "a.float(), b.float(), s, t",
    "a, b, s.double(), t.double()",
    "a, b.T, s, t",
    "a.to(m.int8), b.to(m.int8), s, t",
]
V2 = [
    "a, b, [s], [0], [0], [t], [0], [0], None, m.float32", "a, b, [s], [0], [0], [t], [0], [0], None, None",
    "a, b, [r], [1], [0], [q], [1], [0], None, m.bfloat16", "a, b, [s], [0], [0], [q], [1], [0], None, m.bfloat16",
    "a, b, [s], [0], [0], [t], [0], [0], c, m.float32", "a, b, [s], [2], [0], [t], [2], [0], None, m.float32",
    "a, b, [s], [0], [1], [t], [0], [1], None, m.float32", "a, b, [s], [0], [0], [t], [0], [0], None, m.float32, [1, 0]",
    "a, b, [s], [0], [0], [t], [0], [0], None, m.float32, [0, 0]",
]  # fmt: skip
F = [
    "a, b, s, F.ScalingType.TensorWise, t, F.ScalingType.TensorWise",
    "a, b, [r], [F.ScalingType.RowWise], q, F.ScalingType.RowWise, F.SwizzleType.NO_SWIZZLE, None, c.bfloat16()",
    "a, b, s, F.ScalingType.TensorWise, t, F.ScalingType.TensorWise, output_dtype=m.float32, bias=c",
    "a, b, s, F.ScalingType.TensorWise, t, F.ScalingType.TensorWise, output_dtype=None",
    "a, b, s, F.ScalingType.BlockWise1x32, t, F.ScalingType.BlockWise1x32",
]


def scaled(function, arguments):
    given = {"a": numbers(15, 16), "b": numbers(32, 16, seed=1), "c": numbers(32, seed=2), "s": np.float32(0.37)[None]}
    given |= {"t": np.float32(1.7)[None], "r": np.abs(numbers(15, 1, seed=3)), "q": np.abs(numbers(1, 32, seed=4))}
    check(f"(lambda a, b, s, t: m.{function}({arguments}))(a.to(f8), b.to(f8).T, s[0], t[0])", rtol=1e-5, **given)


@pytest.mark.parametrize("arguments", SCALED)
def test_scaled_mm(arguments):
    scaled("_scaled_mm", arguments)


@pytest.mark.skipif(torch.cpu._is_avx512_supported(), reason="PyTorch's products of eight bits are others with AVX-512")
@pytest.mark.parametrize("arguments", SCALED_ELSEWHERE)
def test_scaled_mm_without_onednn(arguments):
    scaled("_scaled_mm", arguments)


@pytest.mark.parametrize("arguments", V2)
def test_scaled_mm_with_recipes(arguments):
    scaled("_scaled_mm_v2", arguments)


@pytest.mark.parametrize("arguments", F)
def test_functional_scaled_mm(arguments):
    scaled("nn.functional.scaled_mm", arguments)


def test_scaled_grouped_mm_needs_an_accelerator():
    with pytest.raises(NotImplementedError, match="_scaled_grouped_mm_v2"):
        tocha.nn.functional.scaled_grouped_mm(*[tocha.ones(1)] * 6)


OTHERS = [
    "m.norm_except_dim(x)", "m.norm_except_dim(x, 2, 1)", "m.norm_except_dim(x, 2, -1)", "m.norm_except_dim(x, 1, 0)",
    "m.bilinear(x, x, x[:3].reshape(1, 3, 3))", "m.view_as_complex_copy(x[:, :2].contiguous())",
    "m.view_as_real_copy(m.complex(x, x))",
]  # fmt: skip


@pytest.mark.parametrize("expression", OTHERS)
def test_others(expression):
    check(expression, x=numbers(40, 3))


RESAMPLED = [
    ("upsample_nearest1d", 1, ""), ("_upsample_nearest_exact1d", 1, ""), ("upsample_nearest2d", 2, ""),
    ("_upsample_nearest_exact2d", 2, ""), ("upsample_nearest3d", 3, ""), ("_upsample_nearest_exact3d", 3, ""),
    ("upsample_linear1d", 1, "False, "), ("upsample_bilinear2d", 2, "True, "), ("upsample_trilinear3d", 3, "False, "),
    ("upsample_bicubic2d", 2, "False, "), ("_upsample_bilinear2d_aa", 2, "False, "), ("_upsample_bicubic2d_aa", 2, "False, "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dims", "corners"), RESAMPLED)
def test_resampling_by_factors(name, dims, corners):
    x = numbers(2, 3, *[6] * dims)
    for sizes, factors in (
        ([4] * dims, None),
        (None, [1.5] * dims),
        (None, [0.7] * dims),
        (None, None),
        ([4] * dims, [2.0] * dims),
    ):
        check(f"m.ops.aten.{name}.vec(x, {sizes}, {corners}{factors})", rtol=1e-5, x=x)
