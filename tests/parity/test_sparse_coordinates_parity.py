"""Functions of single elements, selections, joins and sizes of tensors in coordinate form, against PyTorch's; gradients against dense ones.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import warnings

import pytest
from beside import expressions

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

ELEMENTS = """abs absolute arcsin arcsinh arctan arctanh asin asinh atan atanh ceil conj_physical deg2rad erf erfinv expm1 fix floor frac
isinf isnan isneginf isposinf log1p neg negative positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc nan_to_num"""
EXPRESSIONS = """
s[0]; s[0, 2]; s[:, 0]; s[..., 0]; s[None]; v[1]; v[0]; h[0]; h[:, 1]; h[1, 1]; s[4]; s[-1]; s[0:2]; s[T([0, 1])]; list(s)[3]; s.unbind(1)[0]; s.select(1, 0); h.select(1, 0); h.select(0, 2); s.select(0, 9)
m.cat([s, s]); m.cat([s, u], 1); m.cat([h, h], 1); m.cat([h, h]); m.cat([h, s[:, 0]]); m.cat([s, d]); m.stack([s, u]); m.stack([s, u], 2); s.unsqueeze(0); s.unsqueeze(2); h.unsqueeze(2); h.unsqueeze(1); h.unsqueeze(5)
s.narrow_copy(0, 1, 2); h.narrow_copy(1, 1, 2); s.narrow_copy(0, 3, 9); s.narrow(0, 1, 2); s.reshape(16); s.flatten(); s.movedim(0, 1); s.adjoint(); c.adjoint(); s.mH; c.real; s.real; c.conj(); c.sgn()
s.sparse_resize_((5, 5), 2, 0); s.sparse_resize_((2, 2), 2, 0); s.sparse_resize_((4, 4), 1, 1); s.sparse_resize_and_clear_((2, 2), 2, 0); s.sparse_resize_((4, 4), 2, 1)
s // 2; s.floor_divide(2); s.floor_divide_(2); s.divide_(2); s.multiply_(3); s.float_power(2); s.matrix_power(3); s.cfloat(); s.t_(); s.transpose_(0, 1); s.sin_(); u.sin(); u.square(); s.is_xpu; s.is_sparse_csr
"""


def values(m):
    dense = m.tensor([[1.0, 0, 0.2, 0], [0, 0, -0.3, 0], [0, 0.4, 0, 0], [0.5, 0, 0, 0.6]])
    twice = m.sparse_coo_tensor([[0, 0, 1], [1, 1, 3]], [0.25, 0.5, -0.25], (4, 4))
    hybrid = m.sparse_coo_tensor([[0, 1]], m.arange(6.0).reshape(2, 3), (3, 3))
    return {"m": m, "T": m.tensor, "s": dense.to_sparse(), "d": dense, "u": twice, "h": hybrid, "v": m.tensor([0.0, 2.0]).to_sparse(), "c": m.complex(dense, dense).to_sparse()}  # fmt: skip


def told(m, expression):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = eval(expression, values(m))
    except Exception as error:
        return type(error).__name__
    if not isinstance(made, m.Tensor):
        return made
    dense = made.to_dense() if made.layout == m.sparse_coo else made
    kept = made._nnz() if made.layout == m.sparse_coo else None
    return [str(made.layout).split(".")[-1], str(made.dtype).split(".")[-1], tuple(made.shape), kept], dense


def same(expression):
    mine, wanted = told(tocha, expression), told(torch, expression)
    if not isinstance(wanted, tuple):
        assert mine == wanted
        return
    assert mine[0] == wanted[0]
    torch.testing.assert_close(torch.from_numpy(mine[1].numpy()), wanted[1], rtol=1e-6, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("name", ELEMENTS.split())
def test_elements(name):
    for expression in (f"m.{name}(s)", f"s.{name}_()", f"m.{name}(u)", f"m.{name}(h / 10)", f"m.{name}(s, out=u)"):
        same(expression)


@pytest.mark.parametrize("expression", expressions(EXPRESSIONS))
def test_results(expression):
    same(expression)


GRADIENTS = ["x.sin()", "x.square()", "x.select(0, 3)", "x.select(1, 0)", "cat([x, x])", "cat([x, x * 2], 1)", "x.unsqueeze(1)", "x.narrow_copy(0, 1, 2)", "stack([x, x])", "x.movedim(0, 1)", "x[0]", "x.atan()", "x.expm1()"]  # fmt: skip


@pytest.mark.parametrize("expression", GRADIENTS)
def test_gradients_are_those_of_dense_tensors(expression):
    held = tocha.tensor([[1.0, 0, 0.2, 0], [0, 0, -0.3, 0], [0, 0.4, 0, 0], [0.5, 0, 0, 0.6]])
    known = {"cat": tocha.cat, "stack": tocha.stack}
    grads = []
    for leaf in (held.clone(), held.to_sparse()):
        x = leaf.requires_grad_()
        made = eval(expression, {**known, "x": x})
        dense = made.to_dense() if made.layout == tocha.sparse_coo else made
        dense.square().sum().backward()
        grads.append(x.grad.to_dense() if x.grad.layout == tocha.sparse_coo else x.grad)
    assert tocha.allclose(grads[0] * (held != 0), grads[1] * (held != 0))
