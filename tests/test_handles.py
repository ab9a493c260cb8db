"""Operator handles: every record has them, they compute what the function computes, and they are what PyTorch's are."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import samples as s

import tocha
from tocha._library.arguments import bound
from tocha._library.native_calls import same_default
from tocha.ir import dtypes as dt
from tocha.operators.function_schema import SchemaTextError, parse_schema
from tocha.operators.overloads import FUNCTIONAL, names, table

aten = tocha.ops.aten
CALLABLE = [
    o
    for o in s.all_operators()
    if s.function_of(o) is not None and o.aten != () and not {"random", "uninitialized"} & o.tags
]


def named(o) -> str:
    return o.full_name


def usual_dtype(o):
    return dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]


def functional(o):
    """The handles of a record's own form."""
    found = []
    for name, overloads in table().items():
        found += [
            getattr(getattr(aten, name), n or "default")
            for n, v in overloads.items()
            if v.record is o and v.form == FUNCTIONAL
        ]
    return found


def has_other_defaults(o, h, found) -> bool:
    """PyTorch's losses reduce by default where its Python functions do not."""
    known = {a.name: a for a in o.schema.arguments}
    left = [a for a in h._schema.arguments if a.name not in found and a.name in known and a.has_default_value()]
    return any(not same_default(a, known[a.name]) for a in left)


def quiet(f, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args, **kwargs)


def test_every_record_has_handles_unless_it_says_otherwise():
    answered = {o.record.full_name for overloads in table().values() for o in overloads.values()}
    assert {o.full_name for o in s.all_operators() if o.aten != ()} - answered == set()


def test_every_handle_can_be_made():
    count = 0
    for name, overloads in table().items():
        for overload in overloads:
            h = getattr(getattr(aten, name), overload or "default")
            assert h._op is not None
            assert str(parse_schema(str(h._schema))) == str(h._schema)
            count += 1
    assert count > 1900


@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_handles_compute_what_the_function_computes(o):
    handles = functional(o)
    assert handles
    for sample in s.samples(o, usual_dtype(o)):
        want = quiet(s.function_of(o), *sample.args, **sample.kwargs)
        for h in handles:
            found = bound(h._schema, tuple(sample.args), sample.kwargs)
            if isinstance(found, str) or has_other_defaults(o, h, found):
                continue  # another overload's arguments
            got = quiet(h, *sample.args, **sample.kwargs)
            assert type(got) in (list, tuple) or type(got) is type(want)
            s.same(list(got) if isinstance(got, tuple) else got, list(want) if isinstance(want, tuple) else want)


@pytest.mark.parametrize("o", [o for o in CALLABLE if o.kind == "composite" or o.decomposition], ids=named)
def test_decompositions_give_the_same(o):
    for sample in s.samples(o, usual_dtype(o)):
        for h in functional(o):
            assert h._can_decompose()
            if isinstance(bound(h._schema, tuple(sample.args), sample.kwargs), str):
                continue
            want = quiet(h, *sample.args, **sample.kwargs)
            got = quiet(h.decompose, *sample.args, **sample.kwargs)
            s.same(list(got) if isinstance(got, tuple) else got, list(want) if isinstance(want, tuple) else want)


def test_a_decomposition_is_differentiated_through_its_operators():
    x = tocha.randn(3, 4, requires_grad=True)
    (got,) = tocha.autograd.grad(aten.cosine_similarity.default.decompose(x, tocha.ones(3, 4)).sum(), x)
    (want,) = tocha.autograd.grad(tocha.nn.functional.cosine_similarity(x, tocha.ones(3, 4)).sum(), x)
    s.same(got, want)


def test_overrides_see_the_operators_inside_a_body():
    heard = []

    class Mode(tocha.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = tocha.rand(3, 4)
    with Mode():
        got = aten.cosine_similarity.default.decompose(x, x)
    s.same(got, tocha.cosine_similarity(x, x))
    assert len(heard) > 2


def test_forms_write_where_they_say():
    x = tocha.ones(2)
    assert aten.add_.Tensor(x, x) is x
    assert x.tolist() == [2.0, 2.0]
    out = tocha.zeros(2)
    assert aten.add.out(x, x, alpha=2, out=out) is out
    assert out.tolist() == [6.0, 6.0]
    values, indices = tocha.empty(0), tocha.empty(0, dtype=tocha.int64)
    aten.max.dim_max(tocha.tensor([[1.0, 5.0]]), 1, max=values, max_values=indices)
    assert (values.tolist(), indices.tolist()) == ([5.0], [1])
    y = tocha.arange(4.0)
    aten.view.default(y, [2, 2])[0] = 7
    assert y.tolist() == [7.0, 7.0, 2.0, 3.0]


def test_results_are_plain_tuples_and_lists():
    assert type(aten.max.dim(tocha.ones(2, 2), 0)) is tuple
    assert type(aten.split.Tensor(tocha.ones(4), 2)) is list


def test_numbers_and_keywords():
    x = tocha.ones(2)
    assert aten.add.Tensor(x, 2).tolist() == [3.0, 3.0]
    assert aten.add.Tensor(self=x, other=x, alpha=4).tolist() == [5.0, 5.0]
    assert aten.add.Scalar(x, 2, 3).tolist() == [7.0, 7.0]
    assert aten.maximum.default(x, 3).tolist() == [3.0, 3.0]


def test_packets_choose():
    x = tocha.arange(4.0).reshape(2, 2)
    assert aten.sum(x).item() == 6
    assert aten.sum(x, [0]).tolist() == [2.0, 4.0]
    assert aten.max(x, 0)[0].tolist() == [2.0, 3.0]
    assert aten.add.overloads() == ["Tensor", "Scalar", "out", "Scalar_out"]
    assert list(aten.add) == aten.add.overloads()
    assert "Tensor" in dir(aten.add)


def test_identity_copies_and_pickles():
    add = aten.add.Tensor
    assert add is aten.add.Tensor
    assert add == add and hash(add) == hash(aten.add.Tensor) and add != aten.add.Scalar
    for twin in (copy.copy(add), copy.deepcopy(add), pickle.loads(pickle.dumps(add))):
        assert twin is add
    assert pickle.loads(pickle.dumps(aten.add)) is aten.add
    assert {add: 1}[aten.add.Tensor] == 1


def test_what_a_handle_says_of_itself():
    add = aten.add.Tensor
    assert str(add) == "aten.add.Tensor"
    assert repr(add) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert repr(aten.add) == "<OpOverloadPacket(op='aten.add')>"
    assert (add.name(), add.__name__, add.namespace, add.overloadpacket) == (
        "aten::add.Tensor",
        "add.Tensor",
        "aten",
        aten.add,
    )
    assert tocha.Tag.pointwise in add.tags and tocha.Tag.core in add.tags
    assert aten.view.default.is_view and not add.is_view
    assert not add._can_decompose() and add.decompose(tocha.ones(1), tocha.ones(1)) is NotImplemented
    a, _, alpha = add._schema.arguments
    assert (a.name, str(a.type), a.kwarg_only, a.alias_info) == ("self", "Tensor", False, None)
    assert (alpha.default_value, alpha.kwarg_only, str(alpha.type)) == (1, True, "number")
    assert aten.add_.Tensor._schema.arguments[0].alias_info.is_write
    assert aten.add_.Tensor._schema.is_mutable


def test_overrides_see_the_handle():
    heard = []

    class Listening(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            heard.append((func, types, kwargs))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = tocha.ones(2).as_subclass(Listening)
    assert type(aten.add.Tensor(x, 2, alpha=3)) is Listening
    assert type(aten.add(x, 2)) is Listening
    assert heard[0] == (aten.add.Tensor, (Listening,), {"alpha": 3})
    assert heard[1][0] is aten.add

    class Mode(tocha.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        aten.mul.Tensor(tocha.Tensor([1.0]), 2)
    assert heard[-1] is aten.mul.Tensor


def test_gradients_flow_through_handles():
    x = tocha.ones(3, requires_grad=True)
    aten.mul.Tensor(x, x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_graphs_have_handles_as_targets():
    graph = tocha.fx.symbolic_trace(lambda x: tocha.ops.aten.add.Tensor(x, 2))
    assert any(n.target is aten.add.Tensor for n in graph.graph.nodes)
    assert "tocha.ops.aten.add.Tensor(x, 2)" in graph.code
    assert graph(tocha.ones(1)).item() == 3


def test_a_list_that_changes_while_it_is_read_does_no_harm():
    tensors = [tocha.ones(2)]

    class Shrinking(int):
        def __index__(self):
            tensors.clear()
            return 0

    with pytest.raises((RuntimeError, TypeError, ValueError)):
        aten.cat.default(tensors, Shrinking())
        raise ValueError("the list was read before it changed")


def test_libraries_of_pytorch_are_refused():
    with pytest.raises(OSError, match="Could not load this library"):
        tocha.ops.load_library("lib.so")


def test_texts_that_are_no_schemas_are_refused():
    for text in ("add", "add(Tensor x)", "add(Tenser x) -> Tensor", "add(Tensor x) -> Tenser"):
        with pytest.raises(SchemaTextError):
            parse_schema(text)


def test_names_are_pytorchs():
    gelu = next(o for o in s.all_operators() if o.full_name == "nn_gelu")
    assert next(names(gelu)) == "gelu"


def test_types_of_arguments():
    view = aten.view.default._schema
    assert isinstance(view.arguments[0].type, tocha.TensorType)
    assert view.arguments[1].type == tocha.ListType.ofInts()
    assert view.arguments[1].type.getElementType() == tocha.IntType.get()
    bias = aten.conv2d.default._schema.arguments[2]
    assert bias.type == tocha.OptionalType.ofTensor() and tocha.TensorType.get().isSubtypeOf(bias.type)
    assert isinstance(view, tocha.FunctionSchema)
