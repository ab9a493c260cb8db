"""Tests of every operator, made from the records; none is named here.

Pointwise operators and reductions are held against the records' own formulas, evaluated in Python number by
number. All operators: in-place, out=, non-contiguous, empty and 0-d inputs and the meta device must agree with
the plain call.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import samples as s

import tocha
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.operators.derived import resolve
from tocha.operators.record import SUM_LIKE

# Records without a Python name are pieces of others, and are tested through them.
POINTWISE = [o for o in s.all_operators() if o.kind == "pointwise" and s.function_of(o) is not None]
REDUCTIONS = [o for o in s.all_operators() if o.kind == "reduction" and s.function_of(o) is not None]
CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None]
WRITING = [o for o in CALLABLE if o.name.endswith("_")]  # they exist in place only
PLAIN = [o for o in CALLABLE if o not in WRITING]
TOLERANCE = {
    dt.float32: 2e-5,
    dt.float64: 1e-9,
    dt.complex64: 2e-5,
    dt.complex32: 4e-3,
    dt.complex128: 1e-9,
    dt.float16: 4e-3,
    dt.bfloat16: 2e-2,
}


def named(o) -> str:
    return o.full_name


def pairs(operators):
    return [pytest.param(o, d, id=f"{o.full_name}-{d.code}") for o in operators for d in o.dtypes]


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
    if not d.is_signed:  # a negative default has no place here
        params = {k: -v if isinstance(v, int | float) and v < 0 else v for k, v in params.items()}
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
    got = s.leaves(call(o, args, kwargs))
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
    own = [a.name for a in o.schema.arguments if a.name not in ("self", "dim", "keepdim", "dtype")]
    assert not own, f"the test does not know what to give {own}"
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


def cases(o, d=None):
    """The record's samples; a record that has none that serves fails here."""
    found = list(s.samples(o, d or working_dtype(o)))
    assert found, f"{o.full_name} has no samples"
    return found


def run(f, args, kwargs, **more):
    """A call from a fixed state of the random numbers."""
    tocha.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated operators say so
        return f(*args, **kwargs, **more)


def plain(o, sample):
    return run(s.function_of(o), copied(sample.args), copied(sample.kwargs))


def tensors(value):
    return [x for x in s.leaves(value) if isinstance(x, tocha.Tensor)]


def each(value, change):
    """The same structure with every tensor changed."""
    if isinstance(value, tocha.Tensor):
        return change(value)
    if isinstance(value, list | tuple) and not isinstance(value, tocha.Size):
        return type(value)(each(v, change) for v in value)
    if isinstance(value, dict):
        return {k: each(v, change) for k, v in value.items()}
    if isinstance(value, tocha.UntypedStorage) and change is to_meta:
        return tocha.UntypedStorage(value.nbytes(), device="meta")
    return value


def copied(value):
    return each(value, lambda t: t.clone())


# -- the plain call --------------------------------------------------------------------------------


@pytest.mark.parametrize("o", PLAIN, ids=named)
def test_arguments_are_not_modified(o):
    for sample in cases(o):
        before = copied((sample.args, sample.kwargs))
        versions = [t._version for t in tensors((sample.args, list(sample.kwargs.values())))]
        result = run(s.function_of(o), sample.args, sample.kwargs)
        s.same([*sample.args, *sample.kwargs.values()], [*before[0], *before[1].values()])
        assert [t._version for t in tensors((sample.args, list(sample.kwargs.values())))] == versions
        if o.kind in ("pointwise", "reduction"):
            taken = {t.untyped_storage().data_ptr() for t in tensors(list(sample.args))}
            assert all(t.untyped_storage().data_ptr() not in taken for t in tensors(result))
        if o.kind == "view":
            shared = sample.args[0].untyped_storage().data_ptr()
            assert all(t.untyped_storage().data_ptr() == shared for t in tensors(result))


@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_results_are_what_the_schema_says(o):
    for sample in cases(o):
        result = plain(o, sample)
        returns = o.schema.returns
        if len(returns) > 1:
            assert isinstance(result, tuple)
            assert len(result) == len(returns)
        for r, value in zip(returns, result if len(returns) > 1 else (result,), strict=False):
            if r.type == "Tensor":
                assert isinstance(value, tocha.Tensor)
            elif r.type == "Tensor[]":
                assert isinstance(value, tuple | list)
                assert all(isinstance(v, tocha.Tensor) for v in value)
            else:
                assert not isinstance(value, tocha.Tensor)


@pytest.mark.parametrize("o", [o for o in CALLABLE if {"function", "method"} <= o.variants], ids=named)
def test_method_and_function_agree(o):
    for sample in cases(o):
        if isinstance(sample.args[0], tocha.Tensor):
            args = copied(sample.args)
            same(o, run(getattr(args[0], o.name), args[1:], copied(sample.kwargs)), plain(o, sample))


@pytest.mark.parametrize("o", [o for o in CALLABLE if o.aliases], ids=named)
def test_aliases_agree(o):
    for sample, alias in itertools.product(cases(o), o.aliases):
        space, _, name = alias.rpartition(".")
        f = getattr(getattr(tocha._C, f"_{space}") if space else s.space_of(o), name, None)
        method = getattr(tocha.Tensor, name, None)
        assert f is not None or method is not None, f"{alias} does not exist"
        for form in filter(None, (f, None if space or o.namespace else method)):
            same(o, run(form, copied(sample.args), copied(sample.kwargs)), plain(o, sample))


@pytest.mark.parametrize("o", [o for o in PLAIN if o.operator], ids=named)
def test_python_operators_agree(o):
    for sample in cases(o):
        if isinstance(sample.args[0], tocha.Tensor) and not sample.kwargs:
            same(o, getattr(sample.args[0], o.operator)(*sample.args[1:]), plain(o, sample))


def same(o, a, b):
    """Equal results; of operators that do not define their values, equal forms."""
    if "uninitialized" in o.tags:
        assert facts(a) == facts(b)
    else:
        s.same(a, b)


def facts(result):
    return [(tuple(t.shape), t.dtype, t.stride()) for t in tensors(result)]


# -- layouts ---------------------------------------------------------------------------------------


def spread(t):
    """The same values with holes between them."""
    wide = tocha.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype) if t.dim() else t
    view = wide[..., ::2] if t.dim() else wide
    return view.copy_(t) if t.dim() else t


def reversed_dims(t):
    """The same values with the first dim innermost."""
    backward = list(range(t.dim()))[::-1]
    return t.permute(backward).contiguous().permute(backward)


def inside(t):
    """The same values in the middle of a larger storage."""
    wide = tocha.zeros(t.numel() + 7, dtype=t.dtype)
    return wide[3 : 3 + t.numel()].view(t.shape).copy_(t)


LAYOUTS = (spread, reversed_dims, inside)
# Random numbers are drawn in memory order, and a view of the memory as it lies is another view in another layout.
LAYOUT_FREE = [o for o in CALLABLE if "random" not in o.tags and "memory_order" not in o.tags]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("o", LAYOUT_FREE, ids=named)
def test_layouts_agree(o, layout):
    for sample in cases(o):
        result = run(s.function_of(o), each(copied(sample.args), layout), each(sample.kwargs, layout))
        if "uninitialized" not in o.tags:
            s.same(result, plain(o, sample))


@pytest.mark.parametrize(("o", "d"), pairs([o for o in LAYOUT_FREE if o.kind not in ("pointwise", "reduction")]))
def test_dtypes_agree_across_layouts(o, d):
    """Hand-written kernels in each of their dtypes."""
    for sample in cases(o, d):
        result = run(s.function_of(o), each(copied(sample.args), reversed_dims), each(sample.kwargs, reversed_dims))
        if "uninitialized" not in o.tags:
            tolerance = TOLERANCE.get(d, 1e-5)
            s.same(result, plain(o, sample), rtol=tolerance, atol=tolerance)


# -- the meta device -------------------------------------------------------------------------------


def to_meta(t):
    return tocha.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")


def reads_values(o):
    """The form of the result depends on elements: the record says so, or its kernel makes its own results."""
    makes_own = "dynamic" in o.tags or any(r.type != "Tensor" for r in o.schema.returns)
    return "reads_values" in o.tags or (o.kind == "native" and makes_own and "any_device" not in o.tags)


@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_meta_knows_the_form_of_the_result(o):
    layouts = [copied] if "memory_order" in o.tags else [copied, lambda v: each(v, reversed_dims)]
    for sample, layout in itertools.product(cases(o), layouts):
        args, kwargs = layout(sample.args), layout(sample.kwargs)
        if not tensors((args, list(kwargs.values()))):
            meta = run(s.function_of(o), args, kwargs, device="meta") if "factory" in o.tags else None
            assert meta is None or facts(meta) == facts(run(s.function_of(o), args, kwargs))
        elif reads_values(o):
            with pytest.raises(RuntimeError):
                run(s.function_of(o), each(args, to_meta), each(kwargs, to_meta))
        else:
            meta = run(s.function_of(o), each(args, to_meta), each(kwargs, to_meta))
            real = run(s.function_of(o), args, kwargs)
            assert facts(meta) == facts(real)
            assert all(t.is_meta for t in tensors(meta))


# -- in place --------------------------------------------------------------------------------------


def forms_in_place(o):
    return [s.function_of(o)] if o in WRITING else s.inplace_forms(o)


@pytest.mark.parametrize("o", [o for o in CALLABLE if "inplace" in o.variants or o in WRITING], ids=named)
def test_in_place_agrees(o):
    for sample, f in itertools.product(cases(o), forms_in_place(o)):
        if not isinstance(sample.args[0], tocha.Tensor):
            continue
        expected = tensors(plain(o, sample))[0]
        target, rest, kwargs = sample.args[0].clone(), copied(sample.args[1:]), copied(sample.kwargs)
        before, version = target.clone(), target._version
        fits = o.kind == "view" or o in WRITING or expected.shape == target.shape
        exact = "check_inplace" in (o.types or {}) and expected.dtype != target.dtype
        if exact or not (fits and tocha.can_cast(expected.dtype, target.dtype)):
            with pytest.raises(RuntimeError):
                run(f, (target, *rest), kwargs)
            s.same(target, before)
            assert target._version == version
            continue
        assert run(f, (target, *rest), kwargs) is target
        assert target._version > version or "inplace_view" in o.tags  # resize_as_ of the same size writes nothing
        if "random" not in o.tags or o in WRITING:
            s.same(target, expected.to(target.dtype))
        s.same((rest, list(kwargs.values())), (sample.args[1:], list(sample.kwargs.values())))


@pytest.mark.parametrize(
    "o",
    [
        o
        for o in CALLABLE
        if ("inplace" in o.variants or o in WRITING) and o.kind != "view" and "any_overlap" not in o.tags
    ],
    ids=named,
)
def test_in_place_refuses_overlapping_memory(o):
    for sample, f in itertools.product(cases(o), forms_in_place(o)):
        first = sample.args[0]
        if isinstance(first, tocha.Tensor) and first.dim():
            target = first[..., :1].clone().expand(first.shape)
            if o.kind == "composite" and run(s.function_of(o), sample.args, sample.kwargs) is first:
                continue  # nothing is written
            with pytest.raises(RuntimeError):
                run(f, (target, *sample.args[1:]), sample.kwargs)


# -- out= ------------------------------------------------------------------------------------------

WITH_OUT = [o for o in PLAIN if {"out", "function"} <= o.variants]


def given(outs):
    return outs[0] if len(outs) == 1 else tuple(outs)


@pytest.mark.parametrize("o", WITH_OUT, ids=named)
def test_out_agrees(o):
    """An empty out= is resized, one in another layout keeps it; operators with given_out take neither."""
    f = s.function_of(o)
    for sample in cases(o):
        expected = tensors(plain(o, sample))
        empty = [tocha.empty(0, dtype=t.dtype) for t in expected]
        placed = [spread(tocha.zeros(t.shape, dtype=t.dtype)) for t in expected]
        forms = (empty, placed)
        if "given_out" in o.tags:
            for outs in forms:
                with pytest.raises(RuntimeError, match="Expected result"):
                    run(f, sample.args, sample.kwargs, out=given(outs))
            forms = ([tocha.zeros(t.shape, dtype=t.dtype) for t in expected],)
        for outs in forms:
            pointers, strides = [t.data_ptr() for t in outs], [t.stride() for t in outs]
            versions = [t._version for t in outs]
            returned = tensors(run(f, sample.args, sample.kwargs, out=given(outs)))
            assert all(r is t for r, t in zip(returned, outs, strict=True))
            assert all(t._version > v for t, v in zip(outs, versions, strict=True))
            if "uninitialized" not in o.tags:
                s.same(outs, expected)
            if outs is placed:
                assert [t.data_ptr() for t in outs] == pointers
                assert [t.stride() for t in outs] == strides


@pytest.mark.parametrize("o", WITH_OUT, ids=named)
def test_out_refuses_what_does_not_fit(o):
    """A dtype that results cannot be cast to, and memory whose elements overlap."""
    f = s.function_of(o)
    for sample in cases(o):
        expected = tensors(plain(o, sample))
        narrower = [narrower_dtype(t.dtype) for t in expected]
        if not takes_dtype_from_out(o) and all(narrower):
            outs = [tocha.zeros(t.shape, dtype=d) for t, d in zip(expected, narrower, strict=True)]
            with pytest.raises((RuntimeError, TypeError), match=r"type|cast|supports|expects"):
                run(f, sample.args, sample.kwargs, out=given(outs))
        if all(t.numel() > 1 for t in expected):
            outs = [tocha.zeros(1, dtype=t.dtype).expand(t.shape) for t in expected]
            with pytest.raises(RuntimeError):
                run(f, sample.args, sample.kwargs, out=given(outs))


@pytest.mark.parametrize("o", WITH_OUT, ids=named)
def test_out_may_be_an_argument(o):
    """out= on the memory of an argument gives the same result; pointwise, memory that half overlaps is refused."""
    f = s.function_of(o)
    for sample in cases(o):
        expected = tensors(plain(o, sample))
        for i, a in enumerate(sample.args):
            if len(expected) > 1 or not isinstance(a, tocha.Tensor) or facts(a) != facts(expected[0]):
                continue
            args = list(copied(sample.args))
            run(f, args, sample.kwargs, out=args[i])
            s.same(args[i], expected[0])
            shifted = tocha.zeros(a.numel() + 1, dtype=a.dtype)
            args = list(copied(sample.args))
            args[i] = shifted[:-1].view(a.shape).copy_(a)
            out = shifted[1:].view(a.shape)
            if o.kind == "pointwise" and a.numel() > 1:
                with pytest.raises(RuntimeError):
                    run(f, args, sample.kwargs, out=out)
            else:
                try:
                    run(f, args, sample.kwargs, out=out)
                except RuntimeError:
                    continue
                s.same(out, expected[0])


def takes_dtype_from_out(o):
    return bool(o.tags & {"factory", "out_dtype"}) or o.promote == SUM_LIKE


def narrower_dtype(d):
    """A dtype that d does not cast to."""
    if d.is_complex:
        return tocha.float32
    if d.is_floating_point:
        return tocha.int64
    return tocha.bool if d != tocha.bool else None


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("o", POINTWISE, ids=named)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3, 4)], ids=str)
def test_pointwise_shapes(o, shape):
    sample = s.generic(o, working_dtype(o), shape)
    result = plain(o, sample)
    assert all(tuple(r.shape) == shape for r in s.leaves(result))


@pytest.mark.parametrize("o", REDUCTIONS, ids=named)
def test_empty_reductions(o):
    """The value of nothing is what the fold starts with; a fold without one refuses."""
    d = working_dtype(o)
    fold = o.body(d.compute)
    along = {"dim": 1} if any(a.name == "dim" for a in o.schema.arguments) else {}
    sample = s.generic(o, d, (3, 0), **along)
    if not fold.identity:
        with pytest.raises((RuntimeError, IndexError)):
            plain(o, sample)
        return
    for k, result in enumerate(s.leaves(plain(o, sample))):
        want = python_fold(fold, d.compute, [])[k]
        np.testing.assert_array_equal(s.numpy(result).reshape(-1), np.full(3 if along else 1, want))


@pytest.mark.parametrize("o", [o for o in CALLABLE if o.samples is None], ids=named)
def test_empty_arguments(o):
    """No elements at all: a result, the same as meta's, or a clean refusal."""
    sample = s.generic(o, working_dtype(o), (0, 4))
    try:
        result = plain(o, sample)
    except (RuntimeError, IndexError, ValueError):
        return
    if not reads_values(o) and tensors(sample.args):
        assert facts(run(s.function_of(o), each(sample.args, to_meta), each(sample.kwargs, to_meta))) == facts(result)


def test_every_function_is_documented():
    undocumented = [o.full_name for o in s.all_operators() if not o.doc and not o.name.startswith("_")]
    assert not undocumented
