"""Masked tensors: elements that do not count leave no trace, in values and in gradients."""

from __future__ import annotations

import copy
import pickle

import pytest

import tocha

DATA = tocha.tensor([[0.3, float("nan"), 0.7], [float("inf"), 0.2, 1.5]], dtype=tocha.float64)
MASK = tocha.tensor([[True, False, True], [False, True, True]])
make = tocha.masked.masked_tensor

OPERATIONS = {
    "scale": lambda x: x * 2, "square": lambda x: x * x, "exp": lambda x: x.exp(), "log": lambda x: x.log(), "sum": lambda x: x.sum(), "sum of rows": lambda x: x.sum(1), "mean": lambda x: x.mean(0), "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(1), "var": lambda x: x.var(1), "softmax": lambda x: x.softmax(1), "transpose": lambda x: x.t() * 3, "view": lambda x: x.reshape(6).sin(), "cat": lambda x: tocha.cat([x, x * 2]), "row": lambda x: x[1] * 2,
    "sparse": lambda x: (x.to_sparse() * 2).to_dense(), "rows": lambda x: x.to_sparse_csr().sin().to_dense(),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients(name):
    start = tocha.where(MASK, DATA, 1.0).requires_grad_()

    def f(data):
        made = OPERATIONS[name](tocha.masked.as_masked_tensor(data, MASK))
        return made.to_tensor(0.0)

    assert tocha.autograd.gradcheck(f, (start,))


@pytest.mark.parametrize("name", [n for n in OPERATIONS if n not in ("sparse", "rows")])
def test_what_is_masked_leaves_no_trace(name):
    x = make(DATA, MASK, requires_grad=True)
    made = OPERATIONS[name](x)
    assert not made.to_tensor(0.0).isnan().any()
    made.sum().backward()
    assert tocha.masked.is_masked_tensor(x.grad) and not x.grad.to_tensor(0.0).isnan().any()


def test_masks_must_match():
    with pytest.raises(ValueError, match="Input masks must match"):
        make(DATA, MASK) + make(DATA, ~MASK)
    with pytest.raises(TypeError, match="mask must have dtype bool"):
        make(DATA, MASK.float())
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        make(DATA, MASK).cumsum(0)
    with pytest.raises((IndexError, TypeError, RuntimeError)):
        DATA[make(DATA, MASK)]


def test_a_row_without_elements():
    x = make(tocha.ones(2, 2), tocha.tensor([[True, True], [False, False]]))
    assert x.sum(1).get_mask().tolist() == [True, False] and str(x.sum(1)) == "MaskedTensor(\n  [  2.0000,       --]\n)"


def test_copies():
    x = make(DATA, MASK)
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert str(copied) == str(x) and copied.get_data().data_ptr() != x.get_data().data_ptr()


def test_gradients_are_added():
    x = make(tocha.ones(2, 3), MASK, requires_grad=True)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert tocha.equal(x.grad.to_tensor(0.0), 5.0 * MASK)
