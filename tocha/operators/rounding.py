"""Rounding to integers and to decimals. Integers are already round."""

from __future__ import annotations

from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import COMPLEX, FLOATS, INTS, NUMERIC, UNARY, UNSIGNED, no_kernel, pointwise


def _no_complex(name):
    return {"refused": {COMPLEX: NotImplementedError(f"{name} is not supported for complex inputs")}}


rounding = partial(pointwise, dtypes=(*NUMERIC, *UNSIGNED), variants=UNARY)


@rounding(
    "floor(Tensor self) -> Tensor",
    types=_no_complex("floor") | {"out_words": "Found dtype {out} but expected {result}"},
    core=True,
    word="floor_vml_cpu",
)
def floor(x):
    """The nearest integer below."""
    return s.floor(x) if x.dtype.is_floating else x


@rounding(
    "ceil(Tensor self) -> Tensor",
    types=_no_complex("ceil") | {"out_words": "Found dtype {out} but expected {result}"},
    core=True,
    word="ceil_vml_cpu",
)
def ceil(x):
    """The nearest integer above."""
    return s.ceil(x) if x.dtype.is_floating else x


@rounding(
    "trunc(Tensor self) -> Tensor",
    types=_no_complex("trunc") | {"out_words": "Found dtype {out} but expected {result}"},
    aliases=("fix",),
    core=True,
    word="trunc_vml_cpu",
)
def trunc(x):
    """The nearest integer toward 0."""
    return s.trunc(x) if x.dtype.is_floating else x


@rounding(
    "round(Tensor self) -> Tensor",
    core=True,
    word="round_vml_cpu",
    types={"out_words": "Found dtype {out} but expected {result}"},
)
def round(x):
    """The nearest integer; halves go to the even one."""
    return s.round(x) if x.dtype.is_floating else x


@rounding(
    "round.decimals(Tensor self, *, int decimals=0) -> Tensor",
    node="RoundBackward1",
    dtypes=FLOATS,
    types={
        "out_words": "Found dtype {out} but expected {result}",
        "params": (dt.int64,),
        "refused": {(*INTS, *UNSIGNED): no_kernel("round_cpu")},
    },
    aliases=("special.round",),
    aten=("round.decimals(Tensor self, *, int decimals) -> Tensor", "special_round"),
)
def round_decimals(x, decimals):
    """self rounded to so many decimals; negative ones are places before the point."""
    places = s.cast(decimals, dt.float64)
    up = s.cast(s.pow(s.constant(10.0, dt.float64), s.abs(places)), x.dtype)
    return s.where(decimals < 0, s.round(x / up) * up, s.round(x * up) / up)


@rounding("frac(Tensor self) -> Tensor", dtypes=FLOATS, types={"out_words": "Found dtype {out} but expected {result}"})
def frac(x):
    """self - trunc(self)."""
    return x - s.trunc(x)
