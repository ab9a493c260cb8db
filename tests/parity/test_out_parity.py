"""out= that is an operand, has another dtype or another size: PyTorch's results, its exceptions and its words."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from bad_calls import shown, verdict

import tocha

# `a` and `b` are operands that broadcast against each other, `v` is a view of a's memory, `e` an out= whose elements overlap.
ALIASED = [
    "lib.pow(a, b, out=a)", "lib.pow(a, b, out=b)", "lib.pow(2, a, out=a)", "lib.clamp(a, b, out=a)", "lib.clamp(a, b, b, out=b)", "lib.clamp(a, 0, 1, out=a)",
    "lib.div(a, b, rounding_mode='floor', out=a)", "lib.div(a, b, rounding_mode='trunc', out=a)", "lib.max(a, b, out=a)", "lib.min(a, b, out=b)",
    "lib.ldexp(a, b, out=a)", "lib.add(a, b, out=a)", "lib.where(a > 0, a, b, out=a)", "lib.lerp(a, b, 0.5, out=a)", "lib.addcmul(a, a, b, out=a)",
    "lib.xlogy(a, b, out=a)", "lib.logical_and(a, b, out=a)", "lib.float_power(a.double(), b, out=b)", "lib.heaviside(a, b, out=a)", "lib.clamp_min(a, b, out=a)",
    "lib.add(a, b, out=v)", "lib.mul(b, v, out=v)", "lib.abs(b, out=e)", "lib.add(a, b, out=e)", "lib.pow(a, b, out=e)",
    "lib.amax(b, 0, out=b[0])",
]  # fmt: skip
DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]
CALLS = [
    "nonzero(x)", "argmax(x)", "argsort(x)", "sort(x)", "bucketize(x, x)", "searchsorted(x, x)", "eq(x, x)", "isposinf(x)", "signbit(x)", "masked_select(x, x > 1)",
    "index_select(x, 0, i)", "take(x, i)", "gather(x, 0, i)", "mode(x)", "kthvalue(x, 1)", "cummax(x, 0)", "round(x)", "neg(x)", "floor(x)", "scatter(x, 0, i, x)",
    "index_add(x, 0, i, x)", "msort(x)", "cross(x, x)", "permute_copy(x, (0,))", "amax(x)", "hash_tensor(x)", "dot(x, x)", "frexp(x)",
    "nan_to_num(x)", "where(x > 0, x, x)", "linalg.vector_norm(x)", "renorm(x[:, None], 2, 0, 1)", "diff(x)", "quantile(x, 0.5)",
]  # fmt: skip


def told(lib: Any, line: str, scope: dict[str, Any]) -> tuple[Any, BaseException | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(line, {"lib": lib, **scope}), None
        except Exception as e:
            return None, e


def hold(line: str, wanted: tuple[Any, BaseException | None], got: tuple[Any, BaseException | None]) -> None:
    assert verdict(wanted[1], got[1]) == "same", f"{line}\nwanted {shown(wanted[1])}\ngot    {shown(got[1])}"
    if wanted[1] is None and isinstance(wanted[0], torch.Tensor):
        assert str(wanted[0].dtype)[6:] == str(got[0].dtype)[6:]
        torch.testing.assert_close(torch.from_numpy(got[0].numpy()), wanted[0])


def aliased(lib: Any) -> dict[str, Any]:
    a = lib.tensor([1.0, 2.0, 3.0])
    return {"a": a, "b": lib.tensor([[1.0, 2.0, 0.5], [2.0, 3.0, 1.0]]), "v": a[1:2], "e": lib.ones(1).expand(2)}


@pytest.mark.parametrize("line", ALIASED)
def test_out_that_is_an_operand(line: str) -> None:
    theirs, ours = aliased(torch), aliased(tocha)
    hold(line, told(torch, line, theirs), told(tocha, line, ours))
    for name in ("a", "b"):
        assert theirs[name].tolist() == ours[name].tolist(), name


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_out_of_another_dtype(call: str, dtype: str) -> None:
    def answer(lib: Any) -> tuple[Any, BaseException | None]:
        scope = {"x": lib.tensor([1.0, 2.0, 2.5]), "i": lib.tensor([0, 2, 1])}
        fresh = eval(f"lib.{call}", {"lib": lib, **scope})
        several = isinstance(fresh, tuple)
        outs = [lib.empty_like(r, dtype=getattr(lib, dtype)) for r in (fresh if several else (fresh,))]
        return told(lib, f"lib.{call[:-1]}, out=out)", {**scope, "out": tuple(outs) if several else outs[0]})

    hold(f"{call} {dtype}", answer(torch), answer(tocha))
