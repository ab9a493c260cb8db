"""What a record knows of its operator, in words: arguments, dtypes, gradients, memory, forms."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tocha
from tocha.ir import dtypes as dt
from tocha.operators import overloads
from tocha.operators.record import INT_TO_FLOAT, Operator
from tocha.operators.schema import Argument

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import samples

TYPES = {
    "Tensor": "Tensor", "Operand": "Tensor or number", "Tensor[]": "list of tensors", "Tensor?[]": "list of tensors or None", "Scalar": "number",
    "Scalar[]": "list of numbers", "int[]": "tuple of ints", "bool[]": "list of bools", "float[]": "list of floats", "dtype": "tocha.dtype",
    "device": "tocha.device", "layout": "tocha.layout", "memory_format": "tocha.memory_format", "Generator": "tocha.Generator", "Storage": "storage",
}  # fmt: skip
# Arguments that mean the same wherever they appear.
MEANINGS = {
    "self": "the tensor", "input": "the tensor", "other": "the second operand", "dim": "along which dim, or dims", "keepdim": "whether dims that are reduced stay, with size 1",
    "dtype": "the dtype of the result", "device": "where the result lies", "layout": "the layout of the result", "generator": "where random numbers come from",
    "memory_format": "the order of dims in memory", "out": "a tensor that the result is written to", "alpha": "a factor", "beta": "a factor of the first tensor",
    "value": "a factor, or what is filled in", "eps": "a small number that keeps divisors from 0", "weight": "the weights", "bias": "what is added to the result",
    "reduction": "none, mean or sum of the losses", "target": "what is wanted", "size": "the sizes of the result", "output_size": "the sizes of the result",
    "stride": "the step from window to window", "padding": "how much is added on each side", "dilation": "the distance of a window's elements",
    "kernel_size": "the size of the window", "groups": "into how many independent groups channels fall", "train": "whether this is training",
    "training": "whether this is training", "p": "a probability, or the order of a norm", "index": "which places", "indices": "which places", "mask": "where",
    "upper": "whether the upper triangle is meant", "hermitian": "whether the matrix is Hermitian", "norm": "how the transform is scaled",
    "ceil_mode": "whether windows may reach over the end", "align_corners": "whether corner elements keep their values", "tensors": "the tensors",
    "correction": "how much is taken off the count", "unbiased": "whether one is taken off the count", "rtol": "the relative tolerance",
    "atol": "the absolute tolerance", "momentum": "how much of the new statistics enters the running ones", "running_mean": "the running mean",
    "running_var": "the running variance", "normalized_shape": "the sizes of the last dims", "descending": "whether the greatest comes first",
    "start": "where it begins", "end": "where it ends", "step": "the distance", "fill_value": "the number", "diagonal": "which diagonal", "offset": "which diagonal",
    "k": "how many", "n": "how many, or the order", "periodic": "whether the window is one period", "requires_grad": "whether gradients are recorded for the result",
    "pin_memory": "whether the memory is locked for transfers", "src": "what is written", "source": "what is written", "A": "the matrix", "B": "the right-hand side",
}  # fmt: skip
SHOWN_DTYPES = (
    dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.complex64, dt.complex128,
)  # fmt: skip
GROUPS = {
    "bool": ("bool",), "integers": ("uint8", "int8", "int16", "int32", "int64"), "float16": ("float16",), "bfloat16": ("bfloat16",),
    "float32": ("float32",), "float64": ("float64",), "complex": ("complex64", "complex128"),
}  # fmt: skip
AUTOCAST = {
    "lower": "computes in the region's dtype", "float32": "computes in float32", "widest": "computes in the widest dtype of its arguments",
    "state": "computes in the region's dtype, state included",
}  # fmt: skip


def type_words(a: Argument) -> str:
    base = a.type.rstrip("?")
    text = TYPES.get(base, base)
    if a.size is not None:
        text = f"int or {a.size} ints" if a.size > 1 else "int or tuple of ints"
    return text + (" or None" if a.type.endswith("?") else "")


def arguments(o: Operator, method: bool) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each."""
    for i, a in enumerate(o.schema.arguments):
        if method and i == 0:
            continue
        name = "input" if a.name == "self" and not method else a.name
        yield name, type_words(a), "" if a.default is None else a.default, MEANINGS.get(a.name, "")


def signature(o: Operator, name: str, method: bool, inplace: bool) -> str:
    """As Python reads it: `tocha.sum(input, dim=None, keepdim=False, *, dtype=None, out=None)`."""
    parts, star = [], False
    for i, a in enumerate(o.schema.arguments):
        if method and i == 0:
            continue
        if a.keyword_only and not star:
            parts, star = [*parts, "*"], True
        called = "input" if a.name == "self" and not method else a.name
        parts.append(called if a.default is None else f"{called}={a.default}")
    if "out" in o.variants and not method and not inplace:
        parts += ["out=None"] if star else ["*", "out=None"]
    results = ", ".join(r.type for r in o.schema.returns)
    returned = f"({results})" if len(o.schema.returns) > 1 else results
    return f"{name}({', '.join(parts)}) -> {returned}"


# ---- found by running its samples ------------------------------------------------------------------------


def _call(o: Operator, d: dt.DType, grad: bool = False) -> Any:
    function = samples.function_of(o)
    sample = next(iter(samples.samples(o, d)))
    args = [_wanting(a) if grad else a for a in sample.args]
    return function(*args, **sample.kwargs)


def _wanting(value: Any) -> Any:
    if isinstance(value, tocha.Tensor) and value.is_floating_point():
        return value.requires_grad_()
    return [_wanting(v) for v in value] if isinstance(value, list) else value


@cache
def dtypes(o: Operator) -> list[str]:
    """Which dtypes of its first operands it takes, in groups."""
    if samples.function_of(o) is None or "factory" in o.tags:
        return []
    taken = set()
    with warnings.catch_warnings(), tocha.random.fork_rng():
        warnings.simplefilter("ignore")
        for d in SHOWN_DTYPES:
            try:
                _call(o, d)
            except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, StopIteration):
                continue
            taken.add(d.name)
    return [shown for shown, members in GROUPS.items() if taken.issuperset(members)]


@cache
def is_recorded(o: Operator) -> bool:
    """Whether a result requires grad when an argument does."""
    if samples.function_of(o) is None:
        return False
    with warnings.catch_warnings(), tocha.random.fork_rng():
        warnings.simplefilter("ignore")
        try:
            result = _call(o, dt.float64, grad=True)
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, StopIteration):
            return False
    return any(isinstance(leaf, tocha.Tensor) and leaf.requires_grad for leaf in samples.leaves(result))


# ---- facts -------------------------------------------------------------------------------------------


def facts(o: Operator) -> Iterator[tuple[str, str]]:
    """What is worth knowing, each with a heading."""
    taken = dtypes(o)
    if taken:
        more = "; integers become the default float" if o.promote == INT_TO_FLOAT and o.kind == "pointwise" else ""
        yield "dtypes", ", ".join(taken) + more
    yield "Gradient", gradient(o)
    if o.kind == "view" or any(r.alias and "!" not in r.alias for r in o.schema.returns):
        yield "Memory", "the result shares memory with the tensor"
    if "dynamic_output_shape" in o.tags:
        yield "Shape", "the result's sizes depend on elements"
    elif {"dim", "keepdim"} <= {a.name for a in o.schema.arguments}:
        yield "Shape", "dims that are reduced go, or stay with size 1 (keepdim)"
    elif o.kind == "pointwise":
        yield "Shape", "that of its operands, broadcast against each other"
    if {"random", "nondeterministic_seeded"} & o.tags:
        yield "Random", "draws from the generator: PyTorch's numbers for the same seed"
    if o.autocast:
        yield "Mixed precision", AUTOCAST[o.autocast]
    if o.nondeterministic:
        yield (
            "Determinism",
            "refuses, or warns, under `use_deterministic_algorithms` where it has no deterministic form",
        )
    yield "Compiled", compiled(o)


def gradient(o: Operator) -> str:
    if "no_derivative" in o.tags:
        return "recorded, but its derivative is not known: backward says so"
    if not is_recorded(o):
        return "none: results never require grad" if samples.function_of(o) else "of the operators that call it"
    constants = f"; none for {', '.join(o.constants)}" if o.constants else ""
    if "first_order" in o.tags:
        return "first derivatives only" + constants
    if "drawn" in o.tags:
        return "by the parameters of the distribution" + constants
    if o.kind == "pointwise" and not o.gradients:
        return "derived from its formula; any order, backward and forward mode" + constants
    if o.gradients:
        inputs = dict.fromkeys(name for key in o.gradients for name in key)
        return f"for {', '.join(inputs)}; any order, backward and forward mode" + constants
    return "that of the operators that it is made of; any order, backward and forward mode" + constants


def compiled(o: Operator) -> str:
    words = {
        "pointwise": "a formula, fused with its neighbours", "reduction": "a fold, fused with what it reads", "view": "costs nothing: geometry only",
        "composite": "taken apart into other operators", "native": "a kernel of its own", "foreach": "one operator for each tensor",
    }[o.kind]  # fmt: skip
    if o.kind == "native" and o.decomposition is not None:
        words += ", or taken apart where that fuses better"
    return words + ("; in PyTorch's core set" if o.core else "")


def schemas(o: Operator) -> list[str]:
    """PyTorch's overloads that the record answers for."""
    return _schemas().get(id(o), [])


@cache
def _schemas() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for of_name in overloads.table().values():
        for overload in of_name.values():
            found.setdefault(id(overload.record), []).append(str(overload.schema))
    return found
