"""out= with sparse operands and results of every layout, against PyTorch's.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

LAYOUTS = ["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]
TWO = ["m.add(a, b, out=o)", "m.sub(a, b, out=o)", "m.mul(a, b, out=o)", "m.mm(a, b, out=o)", "m.hspmm(a, b, out=o)"]
ONE = ["m.neg(a, out=o)", "m.sin(a, out=o)", "m.abs(a, out=o)", "m.sqrt(a, out=o)", "m.pow(a, 2, out=o)", "m.sign(a, out=o)", "m.zeros((4, 4), out=o)"]  # fmt: skip
ONE += ["m.mul(a, 2, out=o)", "m.mm(a, m.ones(4, 4), out=o)", "m.addmm(m.ones(4, 4), a, m.ones(4, 4), out=o)", "m.sparse.sampled_addmm(a, m.ones(4, 4), m.ones(4, 4), out=o)", "m.matmul(a, m.ones(4, 4), out=o)"]  # fmt: skip


def tensor(m, layout, which):
    rows = ([[1.0, 0, 2, 0], [0, 0, 3, 0], [0, 4, 0, 0], [5, 0, 0, 6]], [[0.0, 2, 2, 0], [0, 0, 3, 1], [0, 0, 0, 0], [7, 0, 0, 6]])  # fmt: skip
    block = {"blocksize": (2, 2)} if layout in ("sparse_bsr", "sparse_bsc") else {}
    return m.tensor(rows[which]) if layout == "strided" else m.tensor(rows[which]).to_sparse(layout=getattr(m, layout), **block)  # fmt: skip


def told(m, expression, a, b, out):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        o = tensor(m, out, 1)
        try:
            made = eval(expression, {"m": m, "a": tensor(m, a, 0), "b": tensor(m, b, 1), "o": o})
        except Exception:
            return None
        assert made is o
        dense = made if made.layout == m.strided else made.to_dense()
        return str(made.layout).split(".")[-1], str(made.dtype).split(".")[-1], dense.tolist()


def hold(expression, a, b, out):
    """What PyTorch gives ours gives; where it gives nothing ours may (it has products that PyTorch needs MKL for)."""
    wanted = told(torch, expression, a, b, out)
    if wanted is not None:
        made = told(tocha, expression, a, b, out)
        assert made is not None and made[:2] == wanted[:2]
        torch.testing.assert_close(torch.tensor(made[2]), torch.tensor(wanted[2]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("out", LAYOUTS)
@pytest.mark.parametrize("expression", TWO)
def test_two_operands(expression, out):
    for a in LAYOUTS:
        for b in LAYOUTS:
            if {a, b, out} != {"strided"} and {a, b, out} != {
                "sparse_csc"
            }:  # columns by MKL: PyTorch's product is wrong
                hold(expression, a, b, out)


@pytest.mark.parametrize("out", LAYOUTS)
@pytest.mark.parametrize("expression", ONE)
def test_one_operand(expression, out):
    for a in LAYOUTS:
        if {a, out} != {"strided"}:
            hold(expression, a, "strided", out)


def test_vectors_are_written_as_they_are():
    for m in (tocha, torch):
        out = m.zeros(4)
        assert m.mv(tensor(m, "sparse_csr", 0), m.ones(4), out=out) is out
        assert out.tolist() == [3.0, 3.0, 4.0, 11.0]


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_no_gradient_goes_through_out(layout):
    for m in (tocha, torch):
        a = tensor(m, layout, 0).requires_grad_()
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            m.neg(a, out=tensor(m, layout, 1))


def test_the_size_follows():
    for m in (tocha, torch):
        out = m.ones(2, 2).to_sparse()
        m.neg(tensor(m, "sparse_coo", 0), out=out)
        assert tuple(out.shape) == (4, 4) and out.to_dense()[3, 3] == -6
