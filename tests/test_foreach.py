"""Operators on lists: each agrees with its operator on single tensors; lists of tensors of all kinds; gradients; refusals."""

from __future__ import annotations

import numpy as np
import pytest
import samples as s

import tocha

RECORDS = [o for o in s.all_operators() if o.kind == "foreach"]
IN_PLACE = [o for o in RECORDS if "inplace" in o.variants]


def lists(*shapes, seed=0, dtype=None):
    tocha.manual_seed(seed)
    return [tocha.rand(shape).add(0.1).to(dtype or tocha.float32) for shape in shapes]


SHAPES = [(3, 4), (5,), (), (0, 2), (40, 50)]


def each(f, *operands):
    return [f(*x) for x in zip(*operands, strict=True)]


def equal(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(s.numpy(a), s.numpy(b), rtol=3e-7)


@pytest.mark.parametrize("o", [o for o in IN_PLACE if len(o.schema.arguments) == 1], ids=lambda o: o.name)
def test_functions_of_one_tensor(o):
    x = lists(*SHAPES)
    if o.name == "_foreach_bitwise_not":
        x = [t.mul(9).long() for t in x]
    one = getattr(tocha, o.each.name)
    want = each(one, x)
    equal(getattr(tocha._C, o.name)(x), want)
    y = [t.clone() for t in x] if want[0].dtype == x[0].dtype else None
    if y is not None:
        assert getattr(tocha._C, o.name + "_")(y) is y
        equal(y, want)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"])
def test_second_operands(name):
    x, y = lists(*SHAPES), lists(*SHAPES, seed=1)
    one = getattr(tocha, name)
    function, inplace = (getattr(tocha._C, f"_foreach_{name}{form}") for form in ("", "_"))
    numbers = [0.5, 2, 1.5, 0.25, 3.0]
    wrapped = [tocha.tensor(n, dtype=tocha.float32) for n in numbers]
    for given, single in ((y, y), (numbers, wrapped), (0.5, [tocha.tensor(0.5)] * 5)):
        want = each(one, x, single)
        equal(function(x, given), want)
        z = [t.clone() for t in x]
        assert inplace(z, given) is z
        equal(z, want)


def test_tensors_as_numbers():
    x = lists((3,), (2, 2))
    equal(tocha._C._foreach_mul(x, tocha.tensor(2.0)), [t * 2 for t in x])
    equal(tocha._C._foreach_add(x, tocha.tensor(2.0), alpha=3), [t + 6 for t in x])
    equal(tocha._C._foreach_addcmul(x, x, x, tocha.tensor([1.0, 2.0])), [x[0] + x[0] * x[0], x[1] + 2 * x[1] * x[1]])
    with pytest.raises(RuntimeError, match="0 dim"):
        tocha._C._foreach_mul(x, tocha.tensor([2.0, 1.0]))
    with pytest.raises(RuntimeError, match="length of scalars to match input of length 2 but got 1"):
        tocha._C._foreach_addcmul(x, x, x, tocha.tensor([1.0]))


def test_third_operands():
    x, y, z = (lists((3,), (2, 2), seed=i) for i in range(3))
    equal(tocha._C._foreach_addcdiv(x, y, z, value=0.5), [a + 0.5 * b / c for a, b, c in zip(x, y, z, strict=True)])
    equal(
        tocha._C._foreach_addcmul(x, y, z, [1.0, 2.0]),
        each(lambda a, b, c, v: tocha.addcmul(a, b, c, value=v), x, y, z, [1.0, 2.0]),
    )
    equal(tocha._C._foreach_lerp(x, y, z), each(tocha.lerp, x, y, z))
    equal(tocha._C._foreach_lerp(x, y, 0.3), each(lambda a, b: tocha.lerp(a, b, 0.3), x, y))


def test_reductions():
    x = lists((3, 4), (5,))
    equal(tocha._C._foreach_norm(x), [tocha.linalg.vector_norm(t) for t in x])
    equal(tocha._C._foreach_norm(x, float("inf")), [t.abs().max() for t in x])
    assert tocha._C._foreach_norm(x, 1, tocha.float64)[0].dtype == tocha.float64
    equal(tocha._C._foreach_max(x), [t.max() for t in x])


def test_copies_and_zeros():
    x, y = lists((3, 4), (5,)), lists((3, 4), (5,), seed=1, dtype=tocha.float64)
    copies = tocha._C._foreach_clone(x)
    equal(copies, x)
    assert tocha._C._foreach_copy_(x, y) is x
    equal(x, [t.float() for t in y])
    tocha._C._foreach_zero_(x)
    assert all((t == 0).all() for t in x)
    assert not any((t == 0).any() for t in copies)


def test_any_layout_dtype_and_repetition():
    base = tocha.arange(24.0).reshape(4, 6)
    strided, whole = base[:, ::2], base.clone()
    mixed = [
        strided,
        tocha.ones(3, dtype=tocha.bfloat16),
        tocha.ones(2, dtype=tocha.int64),
        whole.t(),
        tocha.ones(2, dtype=tocha.complex64),
    ]
    want = [t.clone() + t for t in mixed]
    tocha._C._foreach_add_(mixed, [t.clone() for t in mixed])
    equal(mixed, want)
    np.testing.assert_array_equal(base[:, 1::2].numpy(), np.arange(24.0).reshape(4, 6)[:, 1::2])  # between the elements
    big = tocha.ones(100_000)
    tocha._C._foreach_mul_([big, big, big], [tocha.full((100_000,), 2.0)] * 3)
    assert (big == 8).all()
    x = tocha.ones(4)
    tocha._C._foreach_add_([x[1:]], [x[:3].clone()])
    with pytest.raises(RuntimeError):
        tocha._C._foreach_add_([x[1:]], [x[:3]])


def test_versions_move_on():
    x = tocha.ones(3)
    before = x._version
    tocha._C._foreach_sqrt_([x])
    assert x._version == before + 1


def test_gradients_flow_through_lists():
    x, y = (t.requires_grad_() for t in lists((3,), (2, 2)))
    out = tocha._C._foreach_mul([x, y], [y.sum() * tocha.ones(3), y])
    (out[0].sum() + out[1].sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, y.sum().item()), rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), x.sum().item() + 2 * y.detach().numpy(), rtol=1e-6)
    z = [x.clone(), y.clone()]
    tocha._C._foreach_exp_(z)
    assert z[0].grad_fn is not None
    with pytest.raises(RuntimeError, match="leaf"):
        tocha._C._foreach_exp_([x])
    with tocha.no_grad():
        tocha._C._foreach_exp_([x])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c._foreach_exp([]), "at least one tensor"),
        (lambda c: c._foreach_add([tocha.ones(2)], [tocha.ones(2)] * 2), "same number of tensors, got 1 and 2"),
        (lambda c: c._foreach_add([tocha.ones(2)], [1.0, 2.0]), "same number of elements as scalar list"),
        (lambda c: c._foreach_add([tocha.ones(2)], [tocha.ones(3)]), "must match"),
        (lambda c: c._foreach_add_([tocha.ones(2, dtype=tocha.int64)], 2.5), "can't be cast"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(tocha._C)


def test_unscaling_finds_what_is_not_finite():
    for dtype in (tocha.float16, tocha.bfloat16, tocha.float32, tocha.float64):
        for bad in (None, float("inf"), float("nan")):
            grads = [tocha.full((3,), 4.0, dtype=dtype), tocha.full((2, 2), 4.0, dtype=dtype).t()]
            if bad is not None:
                grads[1][0, 1] = bad
            found = tocha.zeros(1)
            tocha._C._amp_foreach_non_finite_check_and_unscale_(grads, found, tocha.tensor([0.25]))
            assert found.item() == (bad is not None)
            assert (grads[0] == 1).all()


def test_scale_updates():
    scale, good = tocha.tensor([8.0]), tocha.tensor([0], dtype=tocha.int32)
    for found, want, count in ((0, 8, 1), (0, 16, 0), (1, 8, 0), (0, 8, 1), (1, 4, 0)):
        assert tocha._C._amp_update_scale_(scale, good, tocha.tensor([float(found)]), 2.0, 0.5, 2) is scale
        assert (scale.item(), good.item()) == (want, count)


def test_a_number_that_is_a_tensor_has_a_gradient():
    x, s = tocha.ones(3), tocha.tensor(2.0, requires_grad=True)
    tocha._C._foreach_mul([x, x], s)[1].sum().backward()
    assert s.grad.item() == 3
