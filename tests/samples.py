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


def make(
    shape: tuple[int, ...], d: dt.DType, seed: int = 0, low: float | None = None, high: float | None = None
) -> tocha.Tensor:
    """Values inside the domain of nearly every function: in (0.2, 0.9), or integers from 1 to 5."""
    rng = np.random.default_rng([seed, *shape])
    if d is dt.bool_:
        return tocha.tensor(rng.random(shape) > 0.5)
    integral = not (d.is_floating or d.is_complex)
    low = low if low is not None else 1 if integral else 0.2
    high = high if high is not None else 6 if integral else 0.9
    if integral:
        return tocha.tensor(rng.integers(int(low), int(high), shape)).to(native_dtype(d))
    values = rng.uniform(low, high, shape)
    if d.is_complex:
        values = values + 1j * rng.uniform(low, high, shape)
    return tocha.tensor(values).to(native_dtype(d))


class Maker:
    """What a record's `samples` is called with. `t(3, 4)` has the dtype under test; every tensor has values of its own."""

    def __init__(self, d: dt.DType) -> None:
        self.dtype = d
        self.made = 0

    def __call__(self, *shape: int, dtype: str | None = None, **bounds: float) -> tocha.Tensor:
        self.made += 1
        return make(shape, self.named(dtype), self.made, **bounds)

    def named(self, dtype: str | None) -> dt.DType:
        """ "complex" is the complex form of the dtype under test."""
        if dtype == "complex":
            return (
                dt.complex_of(self.dtype)
                if self.dtype.is_floating
                else self.dtype
                if self.dtype.is_complex
                else dt.complex64
            )
        return dt.by_name(dtype) if dtype else self.dtype

    def index(self, *shape: int, below: int) -> tocha.Tensor:
        return self(*shape, dtype="int64", low=0, high=below)

    def mask(self, *shape: int) -> tocha.Tensor:
        return self(*shape, dtype="bool")

    def of(self, values: Any) -> tocha.Tensor:
        """Given values: integers are int64 (indices, lengths), other numbers have the dtype under test."""
        result = tocha.tensor(values)
        return result if result.dtype == tocha.int64 else result.to(native_dtype(self.dtype))

    def call(self, name: str, *args: Any) -> Any:
        """What another operator gives: factors, for those that read them."""
        return getattr(tocha.ops.aten, name)(*args)


# Required arguments that mean the same wherever they appear; else the type decides.
BY_NAME = {
    "size": (2, 3),
    "index": 1,
    "n": 3,
    "k": 2,
    "start": 1,
    "length": 2,
    "end": 5,
    "to": 9,
    "high": 9,
    "dim1": 1,
    "axis1": 1,
    "window_length": 7,
    "train": True,
}
BY_TYPE: dict[str, Any] = {
    "int": 0,
    "int[]": [0],
    "float": 0.5,
    "bool": False,
    "Scalar": 1,
    "Scalar[]": [1],
    "dtype": tocha.float32,
    "Scalar?": None,
    "int?": None,
    "int[]?": None,
    "dtype?": None,
    "Tensor?": None,
}


Bounds = tuple[float, float] | tuple[()]


def generic_argument(a: Argument, d: dt.DType, shape: tuple[int, ...], seed: int, bounds: Bounds = ()) -> Any:
    """A plausible value for a required argument."""
    if a.type in ("Tensor", "Operand"):
        return make(shape, d, seed, *bounds)
    if a.type == "Tensor[]":
        return [make(shape, d, seed, *bounds), make(shape, d, seed + 1, *bounds)]
    if a.name in BY_NAME and a.type in ("int", "int[]", "Scalar", "bool"):
        return BY_NAME[a.name]
    if a.type not in BY_TYPE:
        raise TypeError(f"no generic value for {a.type} {a.name}: the record needs samples of its own")
    return BY_TYPE[a.type]


def generic(o: Operator, d: dt.DType, shape: tuple[int, ...] = (3, 4), **given: Any) -> Sample:
    """Required arguments and those given; operands of the dtypes that the record's loops read."""
    args, kwargs = [], {}
    codes = iter((o.types or {}).get("in", ()))
    for i, a in enumerate(o.schema.arguments):
        code = next(codes, "T") if a.is_tensor else "T"
        if a.name in given:
            kwargs[a.name] = given[a.name]
        elif a.default is None:
            value = generic_argument(a, code if isinstance(code, dt.DType) else d, shape, i, o.domain or ())
            if a.keyword_only:
                kwargs[a.name] = value
            else:
                args.append(value)
    return Sample(tuple(args), kwargs)


def samples(o: Operator, d: dt.DType) -> Iterator[Sample]:
    """What the record says, else a call with generic arguments and one along a dim where that is optional."""
    if o.samples is not None:
        for args, kwargs in o.samples(Maker(d)):
            yield Sample(tuple(args), dict(kwargs))
        return
    yield generic(o, d)
    optional = {a.name for a in o.schema.arguments if a.default is not None}
    if {"dim", "keepdim"} <= optional:
        yield generic(o, d, dim=1, keepdim=True)
        yield generic(o, d, (2, 3, 4), dim=-2)


def samples_if_any(o: Operator, d: dt.DType) -> list[Sample]:
    """None where they need numbers that the dtype does not have."""
    try:
        return list(samples(o, d))
    except ValueError:
        return []


def gradient_samples(o: Operator, d: dt.DType) -> Iterator[Sample]:
    """Small samples for finite differences. Formulas also get numbers of both signs."""
    if o.kind != "pointwise" or o.samples is not None:
        yield from samples(o, d)
        return
    yield generic(o, d, (2, 3))
    sample = generic(o, d, (2, 3))
    yield Sample(tuple(alternating(v) for v in sample.args), {k: alternating(v) for k, v in sample.kwargs.items()})


def alternating(v: Any) -> Any:
    """The same numbers, every other one negative."""
    if not isinstance(v, tocha.Tensor) or not (v.is_floating_point() or v.is_complex()):
        return v
    signs = 1 - 2 * (tocha.arange(v.numel()) % 2)
    return v * signs.view(v.shape)


def space_of(o: Operator) -> Any:
    """The module part that holds the record's functions."""
    return getattr(tocha._C, f"_{o.namespace}") if o.namespace else tocha._C


def function_of(o: Operator) -> Any:
    """The Python callable of a record's plain form, or None where it has no Python name."""
    if "function" in o.variants:
        return getattr(space_of(o), o.public_name)
    if "method" in o.variants:
        return getattr(tocha.Tensor, o.name)
    if "property" in o.variants:
        return getattr(tocha.Tensor, o.name).__get__
    return None


def inplace_forms(o: Operator) -> list[Any]:
    """The callables that write to their first argument: the method, the function, or both."""
    forms = []
    if "method" in o.variants:
        forms.append(getattr(tocha.Tensor, o.name + "_"))
    if "function" in o.variants and "inplace_method" not in o.variants:
        forms.append(getattr(space_of(o), o.public_name + "_"))
    return forms


def all_operators() -> list[Operator]:
    return list(OPERATORS.values())


def leaves(result: Any) -> list:
    if isinstance(result, tuple | list):
        return [x for r in result for x in leaves(r)]
    return [result]


def numpy(t: tocha.Tensor) -> np.ndarray:
    t = t.detach()
    t = t.resolve_conj().resolve_neg()
    if t.dtype == tocha.bfloat16 or (t.dtype.is_floating_point and t.itemsize == 1):
        t = t.to(tocha.float32)
    if t.dtype == tocha.complex32:
        t = t.to(tocha.complex64)
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
