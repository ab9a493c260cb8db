"""Inputs for operator tests, made from the records: a record's own samples, or generic ones from its schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tocha
from tocha.ir import dtypes as dt
from tocha.operators import families
from tocha.operators.record import OPERATORS, Operator
from tocha.operators.schema import Argument

families.load()


@dataclass
class Sample:
    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)


def native_dtype(d: dt.DType) -> tocha.dtype:
    return getattr(tocha, d.name)


def make(shape: tuple[int, ...], d: dt.DType, seed: int = 0, low: float = 0.2, high: float = 0.9) -> tocha.Tensor:
    """Values inside the domain of nearly every function."""
    rng = np.random.default_rng([seed, *shape])
    if d.is_complex:
        a = rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)
        return tocha.tensor(a).to(native_dtype(d))
    if d.is_floating:
        return tocha.tensor(rng.uniform(low, high, shape)).to(native_dtype(d))
    if d is dt.bool_:
        return tocha.tensor(rng.random(shape) > 0.5)
    return tocha.tensor(rng.integers(1, 6, shape)).to(native_dtype(d))


def generic_argument(a: Argument, d: dt.DType, shape: tuple[int, ...], seed: int) -> Any:
    """A plausible value for a required argument."""
    if a.type in ("Tensor", "Operand"):
        return make(shape, d, seed)
    if a.type == "Tensor[]":
        return [make(shape, d, seed), make(shape, d, seed + 1)]
    values: dict[str, Any] = {
        "int": 0,
        "int[]": [0],
        "float": 0.5,
        "bool": False,
        "Scalar": 1,
        "dtype": native_dtype(dt.float32),
        "str": "",
        "Scalar?": None,
        "int?": None,
        "int[]?": None,
        "dtype?": None,
        "Tensor?": None,
    }
    return values.get(a.type)


def generic(o: Operator, d: dt.DType, shape: tuple[int, ...] = (3, 4)) -> Sample:
    """Required arguments only; operands of the dtypes that the record's loops read."""
    args, kwargs = [], {}
    codes = iter((o.types or {}).get("in", ()))
    for i, a in enumerate(o.schema.arguments):
        if a.default is not None:
            continue
        code = next(codes, "T") if a.is_tensor else "T"
        value = generic_argument(a, code if isinstance(code, dt.DType) else d, shape, i)
        if a.keyword_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    return Sample(tuple(args), kwargs)


def samples(o: Operator, d: dt.DType) -> Iterator[Sample]:
    """What the record says, else one call with generic arguments."""
    if o.samples is not None:
        for args, kwargs in o.samples(lambda *shape, **how: make(shape, d, **how)):
            yield Sample(tuple(args), dict(kwargs))
    else:
        yield generic(o, d)


def function_of(o: Operator) -> Any:
    """The Python callable of a record's functional form, or None for in-place-only ones."""
    space = getattr(tocha._C, f"_{o.namespace}") if o.namespace else tocha._C
    if "function" in o.variants:
        return getattr(space, o.public_name)
    if "method" in o.variants:
        return getattr(tocha.Tensor, o.name)
    if "property" in o.variants:
        return getattr(tocha.Tensor, o.name).__get__
    return None


def inplace_of(o: Operator) -> Any:
    """The in-place form: a method, or for namespaces without methods a function."""
    method = getattr(tocha.Tensor, o.name + "_", None)
    space = getattr(tocha._C, f"_{o.namespace}") if o.namespace else tocha._C
    return method or getattr(space, o.public_name + "_")


def all_operators() -> list[Operator]:
    return list(OPERATORS.values())


def leaves(result: Any) -> list:
    if isinstance(result, tuple | list):
        return [x for r in result for x in leaves(r)]
    return [result]


def numpy(t: tocha.Tensor) -> np.ndarray:
    t = t.detach()
    if t.is_complex():
        t = t.resolve_conj()
    if t.dtype in (tocha.bfloat16, tocha.float8_e4m3fn, tocha.float8_e5m2):
        t = t.to(tocha.float32)
    return np.array(t.tolist(), dtype=t.numpy().dtype).reshape(tuple(t.shape))


def same(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal in structure, shape, dtype and (nearly) value."""
    xs, ys = leaves(a), leaves(b)
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        if not isinstance(x, tocha.Tensor):
            assert x == y or (x != x and y != y)
            continue
        assert tuple(x.shape) == tuple(y.shape)
        assert x.dtype == y.dtype
        np.testing.assert_allclose(numpy(x), numpy(y), rtol=rtol, atol=atol)
