"""Strides of results that depend on how operands lie in memory: fakes have those that native calls give, also of tensors whose elements repeat."""

import itertools

import pytest

import tocha
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha.ir.shape_env import ShapeEnv

SIZES = (3, 4, 2, 5)


def layouts():
    yield "contiguous", tocha.ones(SIZES)
    yield "channels_last", tocha.ones(SIZES).contiguous(memory_format=tocha.channels_last)
    for order in itertools.permutations(range(4)):
        yield f"permuted {order}", tocha.ones([SIZES[d] for d in order]).permute([order.index(d) for d in range(4)])
    for dims in itertools.chain.from_iterable(itertools.combinations(range(4), k) for k in (1, 2, 4)):
        small = [1 if d in dims else n for d, n in enumerate(SIZES)]
        yield f"expanded {dims}", tocha.ones(small).expand(SIZES)
        last = tocha.ones(small).contiguous(memory_format=tocha.channels_last)
        yield f"expanded channels_last {dims}", last.expand(SIZES)
    yield "steps", tocha.ones([2 * n for n in SIZES])[::2, 1::2, ::2, ::2]
    yield "windows", tocha.ones(3, 4, 6).unfold(2, 2, 1).transpose(2, 3)
    yield "overlapping", tocha.ones(99).as_strided(SIZES, (2, 2, 3, 1), 3)


INDICES = {
    "first": lambda x: x[tocha.tensor([1, 0])],
    "second": lambda x: x[:, tocha.tensor([1, 0, 2])],
    "two": lambda x: x[:, tocha.tensor([1, 0]), tocha.tensor([0, 1])],
    "apart": lambda x: x[tocha.tensor([1, 0]), :, tocha.tensor([0, 1])],
    "table": lambda x: x[:, :, tocha.tensor([[0, 1, 1], [1, 0, 0]])],
    "column": lambda x: x[:, tocha.tensor([[1], [0]]), tocha.tensor([0, 1])],
    "with new dims": lambda x: x[None, 1:, None, tocha.tensor([1, -2]), None, :, :1],
    "after a number": lambda x: x[2, ::2, None, :, tocha.tensor([0, -1])],
}
CALLS = {
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(tocha.bfloat16),
    "exp": lambda x: x.exp(),
    "add": lambda x: x + tocha.ones(5, 2).t(),
    "empty_like": tocha.empty_like,
    "sort": lambda x: x.sort(1)[0],
    "argsort": lambda x: x.argsort(0),
    "slice_scatter": lambda x: tocha.slice_scatter(x, x[:, 1:3], 1, 1, 3),
    "select_scatter": lambda x: tocha.select_scatter(x, x[:, :, 0], 2, 1),
    "diagonal_scatter": lambda x: tocha.diagonal_scatter(x, x.diagonal()),
    **{f"index {k}": f for k, f in INDICES.items()},
}


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_strides(name, symbolic):
    for kind, x in layouts():
        with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=not symbolic, allow_non_fake_inputs=True) as mode:
            found = CALLS[name](mode.from_tensor(x)).stride()
        found = tuple(k.node.hint if isinstance(k, tocha.SymInt) else k for k in found)
        assert found == CALLS[name](x).stride(), kind
