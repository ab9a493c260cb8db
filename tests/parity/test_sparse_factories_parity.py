"""Factories with a sparse layout, and those of sparse tensors' like, against PyTorch's.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]
PLAIN = [f"m.{name}({size}, layout=L)" for name in ("zeros", "empty", "ones", "randn") for size in ("(2, 3)", "(3,)", "(2, 2, 3)", "(0, 2)")]  # fmt: skip
PLAIN += ["m.zeros(2, 3, layout=L, dtype=m.int32)", "m.zeros((2, 3), layout=L, requires_grad=True)", "m.full((2, 3), 0, layout=L)", "m.full((2, 3), 1.5, layout=L)"]  # fmt: skip
PLAIN += ["m.rand((2, 3), layout=L)", "m.eye(3, layout=L)", "m.arange(3, layout=L)", "m.linspace(0, 1, 3, layout=L)", "m.empty_strided((2, 2), (2, 1), layout=L)"]  # fmt: skip
PLAIN += ["m.randint(3, (2, 2), layout=L)", "m.zeros((100000, 1000000), layout=L)", "m.zeros((-1, 2), layout=L)"]
LIKE = ["m.zeros_like(x, layout=L)", "m.empty_like(x, layout=L)", "m.ones_like(x, layout=L)", "m.full_like(x, 2, layout=L)", "m.rand_like(x, layout=L)"]  # fmt: skip
NEW = ["x.new_zeros((2, 2))", "x.new_empty((2, 2))", "x.new_ones((2, 2))", "x.new_full((2, 2), 3)", "x.new_zeros(2, 2, dtype=m.float64)", "x.new_tensor([1, 2])"]  # fmt: skip
NEW += ["m.zeros_like(x)", "m.empty_like(x)", "m.ones_like(x)", "m.full_like(x, 2)", "m.ones_like(x, dtype=m.float64)", "m.zeros_like(x, layout=m.strided)", "m.full_like(x, 2, layout=m.strided)"]  # fmt: skip


def source(m, layout):
    dense = m.tensor([[1.0, 0, 2, 0], [0, 0, 3, 0]])
    if layout == "strided":
        return dense
    block = {"blocksize": (1, 2)} if layout in ("sparse_bsr", "sparse_bsc") else {}
    return dense.to_sparse(layout=getattr(m, layout), **block)


def told(m, expression, layout, like="strided"):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = eval(expression, {"m": m, "L": getattr(m, layout), "x": source(m, like)})
    except Exception as error:
        return type(error).__name__
    facts = [str(made.layout), str(made.dtype), tuple(made.shape), made.requires_grad]
    if made.layout == m.strided:
        return [*facts, None if "empty" in expression else made.tolist()]
    facts += [made._nnz(), made.sparse_dim(), made.dense_dim()]
    return [*facts, None if "empty" in expression or made.numel() > 1000 else made.to_dense().tolist()]


def same(*what):
    assert str(told(tocha, *what)).replace("tocha", "torch") == str(told(torch, *what))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("expression", PLAIN)
def test_factories(expression, layout):
    same(expression, layout)


@pytest.mark.parametrize("like", ["strided", *LAYOUTS])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_likes_in_a_layout(layout, like):
    for expression in LIKE:
        same(expression, layout, like)


@pytest.mark.parametrize("like", LAYOUTS)
def test_new_ones_of_sparse_tensors(like):
    for expression in NEW:
        same(expression, "strided", like)
