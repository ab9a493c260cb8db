"""Operators to loops: formulas and folds of the records, composites by running their bodies."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir.dtypes import DType
from tocha.ir.loops import Buffer, Load, Loop
from tocha.ir.promotion import Priority, number_dtype, result_type
from tocha.ir.rewrite import simplify
from tocha.operators.derived import resolve
from tocha.operators.interpreter import broadcast
from tocha.operators.record import INT_TO_FLOAT, SUM_LIKE, Operator

if TYPE_CHECKING:
    from tocha._inductor.graph import Value


class NotLowered(NotImplementedError):
    """An operator that has no loop form."""


def lower(o: Operator, arguments: dict[str, Any]) -> Any:
    """The result of calling o, as values of the graph the arguments belong to."""
    if o.kind == "pointwise":
        return pointwise(o, arguments)
    if o.kind == "reduction":
        return reduction(o, arguments)
    if o.kind == "composite":
        return o.body(**arguments)
    if "cast" in o.tags:
        return cast(arguments["self"], arguments["dtype"])
    if o.decomposition is not None:
        return o.decomposition(**arguments)
    raise NotLowered(f"{o.full_name} has no loop form")


def is_value(v: object) -> bool:
    return hasattr(v, "producer")


def load(v: Value, sizes: tuple[int, ...]) -> Load:
    """Reads v at the points of a loop over sizes; strides are those of a contiguous v, 0 along broadcast dims."""
    shape = v.shape
    lead = len(sizes) - len(shape)
    strides = [0] * len(sizes)
    step = 1
    for i in reversed(range(len(shape))):
        strides[lead + i] = 0 if shape[i] == 1 and sizes[lead + i] != 1 else step
        step *= shape[i]
    return Load(v.producer, tuple(strides))


def pointwise(o: Operator, arguments: dict[str, Any]) -> Any:
    schema = o.schema.arguments
    operands = [arguments[a.name] for a in schema if a.is_tensor]
    params = {a.name: arguments[a.name] for a in schema if not a.is_tensor}
    types = o.types or {}
    in_codes = types.get("in", ("T",) * len(operands))
    out_codes = types.get("out", ("T",) * len(o.schema.returns))
    param_codes = dict(zip(params, types.get("params", ("T",) * len(params)), strict=True))
    common = result_type(
        (v.dtype, Priority.DIMENSIONED if v.shape else Priority.ZERO_DIM)
        if is_value(v)
        else (number_dtype(v), Priority.NUMBER)
        for v, code in zip(operands, in_codes, strict=True)
        if not isinstance(code, DType)
    )
    if o.promote == INT_TO_FLOAT and not common.is_differentiable:
        common = dt.float32
    values = [v for v in operands if is_value(v)]
    graph = values[0].graph
    sizes = reduce(lambda a, b: broadcast(a, b, o.name), (v.shape for v in values))
    compute = common.compute

    def body(*inputs: scalar.Node) -> Any:
        rest = iter(inputs)
        xs = []
        for v, code in zip(operands, in_codes, strict=True):
            t = resolve(code, compute)
            xs.append(scalar.cast(next(rest), t) if is_value(v) else scalar.constant(t.convert(v), t))
        ps = {
            n: scalar.constant(resolve(param_codes[n], compute).convert(v), resolve(param_codes[n], compute))
            for n, v in params.items()
        }
        return o.body(*xs, **ps)

    results = [resolve(c, common) for c in out_codes]
    nodes = simplify(scalar.trace(body, [v.dtype for v in values], None, results))
    loops = [
        Loop(graph.name(o.name), sizes, d, tuple(load(v, sizes) for v in values), n)
        for n, d in zip(nodes, results, strict=True)
    ]
    made = [graph.value(loop) for loop in loops]
    return made[0] if len(made) == 1 else tuple(made)


def cast(v: Value, to: DType) -> Value:
    """v in another dtype; v itself where it has that dtype."""
    if v.dtype == to:
        return v
    formula = scalar.cast(scalar.Input(0, v.dtype), to)
    return v.graph.value(Loop(v.graph.name("cast"), v.shape, to, (load(v, v.shape),), formula))


def reduction(o: Operator, arguments: dict[str, Any]) -> Any:
    v = arguments["self"]
    dims = arguments.get("dim")
    dims = [dims] if isinstance(dims, int) else list(dims or range(v.ndim))
    reduced = frozenset(d % max(v.ndim, 1) for d in dims)
    wanted = arguments.get("dtype")
    t = wanted or v.dtype
    if wanted is None and not t.is_differentiable:
        t = dt.int64 if o.promote == SUM_LIKE else dt.float32 if o.promote == INT_TO_FLOAT else t
    fold = o.body(t.compute)
    out = resolve(fold.out_types[0], t)
    extra = {a.name: arguments[a.name] for a in o.schema.arguments if a.name not in ("self", "dim", "keepdim", "dtype")}
    if len(fold.out_types) != 1 or extra:
        raise NotLowered(f"{o.full_name}: only reductions with one result and no parameters so far")
    element = simplify((scalar.cast(scalar.Input(0, v.dtype), t.compute),))[0]
    loop = Loop(
        v.graph.name(o.name),
        v.shape,
        out,
        (load(v, v.shape),),
        element,
        fold=fold,
        reduced=reduced,
        keepdim=bool(arguments.get("keepdim", False)),
    )
    return v.graph.value(loop)


__all__ = ["Buffer", "NotLowered", "lower"]
