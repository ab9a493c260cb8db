"""Tests of every operator, made from the records; none is named here.

Pointwise operators and reductions are held against the records' own formulas, evaluated in Python number by
number. All operators: in-place, out=, non-contiguous, empty and 0-d inputs and the meta device must agree with
the plain call.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import samples as s

import tocha
from tocha.ir import dtypes as dt
from tocha.ir import scalar

# Records without a Python name are pieces of others, and are tested through them.
POINTWISE = [o for o in s.all_operators() if o.kind == "pointwise" and s.function_of(o) is not None]
REDUCTIONS = [o for o in s.all_operators() if o.kind == "reduction" and s.function_of(o) is not None]
FUNCTIONAL = [
    o
    for o in s.all_operators()
    if s.function_of(o) is not None
    and not o.name.startswith("_")
    and not o.name.endswith("_")
    and "random" not in o.tags
]
TOLERANCE = {
    dt.float32: 2e-5,
    dt.float64: 1e-9,
    dt.complex64: 2e-5,
    dt.complex128: 1e-9,
    dt.float16: 4e-3,
    dt.bfloat16: 2e-2,
}


def named(o) -> str:
    return o.full_name


def pairs(operators):
    return [pytest.param(o, d, id=f"{o.full_name}-{d.code}") for o in operators for d in o.dtypes]


def resolve(code, t):
    return (
        {"T": t, "real": dt.real_of(t)}.get(code, code)
        if isinstance(code, str) and code != "complex"
        else dt.complex_of(t)
        if code == "complex"
        else code
    )


def operand_values(o, d):
    """A sample's operands as tensors of the dtypes the loop reads, and its params."""
    arguments = o.schema.arguments
    codes = (o.types or {}).get("in", ("T",) * sum(a.is_tensor for a in arguments))
    tensors = [s.make((5,), resolve(c, d), seed=i) for i, c in enumerate(codes)]
    params = {
        a.name: s.generic_argument(a, d, (5,), 0) if a.default is None else parameter_default(a)
        for a in arguments
        if not a.is_tensor
    }
    return tensors, params


def parameter_default(a):
    from tocha.operators.binding import default_value

    return default_value(a)


@pytest.mark.parametrize(("o", "d"), pairs(POINTWISE))
def test_pointwise_value(o, d):
    tensors, params = operand_values(o, d)
    if not d.is_signed and any(isinstance(v, int | float) and v < 0 for v in params.values()):
        pytest.skip("a negative default has no place in this dtype")
    codes = (o.types or {}).get("params", ("T",) * len(params))
    types = [(n, resolve(c, d.compute)) for n, c in zip(params, codes, strict=True)]
    outs = [resolve(c, d) for c in (o.types or {}).get("out", ("T",) * len(o.schema.returns))]
    nodes = scalar.trace(
        o.body, [dt.by_name(str(t.dtype).split(".")[1]) for t in tensors], types, outs, compute="stored" not in o.tags
    )
    expected = []
    for values in zip(*(t.tolist() for t in tensors), strict=True):
        expected.append(scalar.evaluate(nodes, inputs=values, params=list(params.values())))
    arguments, rest = list(tensors), dict(params)
    args, kwargs = [], {}
    for a in o.schema.arguments:
        value = arguments.pop(0) if a.is_tensor else rest[a.name]
        if a.keyword_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    try:
        got = s.leaves(call(o, args, kwargs))
    except RuntimeError:
        if "check" in (o.types or {}):
            pytest.skip("its own check refuses the generic arguments for this dtype")
        raise
    for k, result in enumerate(got):
        want = np.array([row[k] for row in expected])
        tolerance = TOLERANCE.get(d, 0)
        np.testing.assert_allclose(s.numpy(result).astype(want.dtype), want, rtol=tolerance, atol=tolerance)
        assert str(result.dtype) == f"tocha.{outs[k].name}"


def call(o, args, kwargs):
    from tocha import _C

    f = s.function_of(o)
    return f(*args, **kwargs) if f is not None else getattr(_C, o.name)(*args, **kwargs)


def python_fold(fold, t, values):
    """A reduction by its own pieces, in Python."""
    types = [resolve(c, t) for c in fold.state_types]
    one = len(types) == 1
    ins = tuple(scalar.Input(i, d) for i, d in enumerate(types))
    state = [
        d.convert(v) if not isinstance(v, scalar.Node) else scalar.evaluate((v,))[0]
        for v, d in zip(as_tuple(fold.init()), types, strict=True)
    ]
    new = as_tuple(fold.combine(ins[0] if one else ins, scalar.Input(len(types), t), scalar.index()))
    new = tuple(scalar.cast(n, d) for n, d in zip(new, types, strict=True))
    for i, v in enumerate(values):
        state = list(scalar.evaluate(new, inputs=[*state, v], index=i))
    count = scalar.constant(len(values), dt.int64)
    done = as_tuple(fold.finish(ins[0] if one else ins, count))
    outs = [resolve(c, t) for c in fold.out_types]
    return scalar.evaluate(tuple(scalar.cast(n, d) for n, d in zip(done, outs, strict=True)), inputs=state)


def as_tuple(v):
    return v if isinstance(v, tuple) else (v,)


@pytest.mark.parametrize(("o", "d"), pairs(REDUCTIONS))
def test_reduction_value(o, d):
    x = s.make((3, 5), d)
    required = [a for a in o.schema.arguments[1:] if a.default is None and a.name != "dim"]
    if required or any(a.name not in ("self", "dim", "keepdim", "dtype") for a in o.schema.arguments):
        pytest.skip("has parameters of its own; its family's tests cover it")
    keep = {"dtype": s.native_dtype(d)} if any(a.name == "dtype" for a in o.schema.arguments) else {}
    has_dim = any(a.name == "dim" for a in o.schema.arguments)
    got = s.leaves(call(o, [x], {"dim": 1, **keep} if has_dim else keep))
    rows = x.tolist() if has_dim else [list(itertools.chain(*x.tolist()))]
    for k, result in enumerate(got):
        want = np.array([python_fold(o.body(d.compute), d.compute, row)[k] for row in rows])
        tolerance = TOLERANCE.get(d, 0)
        np.testing.assert_allclose(s.numpy(result).reshape(-1).astype(want.dtype), want, rtol=tolerance, atol=tolerance)


def working_dtype(o):
    for d in (dt.float32, dt.complex64, dt.int64, dt.bool_):
        if not o.dtypes or d in o.dtypes:
            return d
    return o.dtypes[0]


@pytest.mark.parametrize("o", FUNCTIONAL, ids=named)
def test_variants_agree(o):
    """The plain call, the method, in place, out=, non-contiguous input and the meta device."""
    d = working_dtype(o)
    f = s.function_of(o)
    for sample in s.samples(o, d):
        try:
            plain = f(*sample.args, **sample.kwargs)
        except Exception as e:
            if o.samples is None:
                pytest.skip(f"generic arguments do not serve and the record has no samples of its own: {e}")
            raise
        tensors = [r for r in s.leaves(plain) if isinstance(r, tocha.Tensor)]
        if "uninitialized" in o.tags:
            continue
        strided = [spread(a) if isinstance(a, tocha.Tensor) else a for a in sample.args]
        s.same(f(*strided, **sample.kwargs), plain)
        if "out" in o.variants and "function" in o.variants:
            outs = tuple(tocha.empty(0, dtype=t.dtype) for t in tensors)
            f(*sample.args, **sample.kwargs, out=outs[0] if len(outs) == 1 else outs)
            s.same(outs, tuple(tensors))
        if "inplace" in o.variants and tensors and isinstance(sample.args[0], tocha.Tensor):
            target = sample.args[0].clone()
            if target.shape == tensors[0].shape and tensors[0].dtype == target.dtype:
                result = s.inplace_of(o)(target, *sample.args[1:], **sample.kwargs)
                assert result is target
                s.same(target, tensors[0])
        if "dynamic" not in o.tags and tensors and any(isinstance(a, tocha.Tensor) for a in sample.args):
            meta_args = [to_meta(a) for a in sample.args]
            shapes = [(tuple(t.shape), t.dtype) for t in tensors]
            try:
                results = f(*meta_args, **{k: to_meta(v) for k, v in sample.kwargs.items()})
            except NotImplementedError:
                continue  # some composites depend on values through one of their parts
            assert [(tuple(t.shape), t.dtype) for t in s.leaves(results)] == shapes
            assert all(t.is_meta for t in s.leaves(results))


def spread(t):
    """The same values with holes between them."""
    if t.dim() == 0 or t.numel() == 0:
        return t
    wide = tocha.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype)
    view = wide[..., ::2]
    view.copy_(t)
    return view


def to_meta(v):
    if isinstance(v, tocha.Tensor):
        return tocha.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="meta")
    if isinstance(v, list | tuple):
        return type(v)(to_meta(x) for x in v)
    return v


@pytest.mark.parametrize("o", POINTWISE, ids=named)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3, 4)], ids=str)
def test_pointwise_shapes(o, shape):
    d = working_dtype(o)
    sample = s.generic(o, d, shape)
    result = call(o, sample.args, sample.kwargs)
    assert all(tuple(r.shape) == shape for r in s.leaves(result))


def test_every_function_is_documented():
    undocumented = [o.full_name for o in s.all_operators() if not o.doc and not o.name.startswith("_")]
    assert not undocumented
