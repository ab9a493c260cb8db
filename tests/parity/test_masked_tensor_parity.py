"""Masked tensors against PyTorch's: texts of results, complaints, gradients.

Needs torch beside tocha; run by `make parity`. Where ours has an operation that PyTorch's has not, nothing is asked.
"""

from __future__ import annotations

import importlib

import pytest
from beside import expressions, hold_told

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

EXPRESSIONS = """
x; repr(x); x.get_data(); x.get_mask(); x.shape; x.dtype; x.layout; x.requires_grad; x.to_tensor(0.); x.to_dense()
m.masked.is_masked_tensor(x); m.masked.as_masked_tensor(data,mask); m.masked.MaskedTensor(data,mask); m.masked.masked_tensor(data,mask[0])
m.masked.masked_tensor(data,mask.float()); m.masked.masked_tensor(data,mask.tolist()); m.masked.masked_tensor(T([1,2]),T([True,False]))
m.masked.masked_tensor(data.bool(),mask); m.masked.masked_tensor(x,mask); m.masked.masked_tensor(data.half(),mask)
m.masked.masked_tensor(data,mask,requires_grad=True); m.masked.masked_tensor(data.to_sparse(),mask)
m.masked.masked_tensor(data.to_sparse(),mask.to_sparse()); sp; spc; sp.to_dense(); spc.to_dense(); x.to_sparse(); x.to_sparse_coo()
x.to_sparse_csr(); sp.is_sparse; x.is_sparse; spc.is_sparse_csr()
x+1; x+y; x+z; x*2; 2*x; x/y; x-y; -x; x.sin(); x.exp(); x.log(); x.sqrt(); abs(x); x**2; x.sigmoid(); x.tanh(); x==y; x>2; x+data; data+x
x.add(y); m.add(x,y); x.eq(y); x.lt(3); x.clone(); x.detach(); x.neg(); x.ceil(); x.round(); m.maximum(x,y); m.minimum(x,y); m.atan2(x,y)
m.where(mask,x,y); x.clamp(0,3); x.square(); x.reciprocal(); x.floor(); x.sign(); x.isnan(); x.cos()
x.sum(); x.sum(0); x.sum(1); x.sum(-1,keepdim=True); x.mean(); x.mean(0); x.mean(1); x.prod(); x.prod(1); x.amax(); x.amax(0); x.amin(1)
x.argmax(); x.argmax(1); x.argmin(0); x.all(); x.any(); x.max(); x.min(); x.var(); x.std(); x.softmax(1); m.softmax(x,0); x.median()
x.cumsum(0); m.sum(x,0); m.mean(x); m.amax(x,1); (x>2).all(); (x>2).any(); (x>2).all(1)
x.t(); x.transpose(0,1); x.reshape(3,2); x.view(6); x.flatten(); x.unsqueeze(0); x.expand(2,2,3); x[0]; x[0,0]; x[:,1]; x[mask]
x.select(0,1); x.split(1); x.chunk(2); m.cat([x,y]); m.stack([x,y]); x.contiguous(); x.is_contiguous(); x.to(m.float64); x.double()
x.float(); x.half(); x.bool(); x.numpy(); x.tolist(); x.item(); x.sum().item(); len(x); x.dim(); x.numel(); x.size(); x.stride()
m.mm(x,x.t()); x.matmul(data.t()); m.ones_like(x); x.new_zeros(2); x.is_floating_point(); x.device; m.isclose(x,y); x.sort(); x.nonzero()
x.gather(0,T([[0,0,0]])); sp+sp; sp*2; sp.sum(); sp.sin(); spc+spc; spc.sin(); bool(x.sum()); float(x.sum()); x.data; x.grad
x.element_size(); x.unfold(1,2,1); x.broadcast_to((2,2,3)); x.expand_as(x); x.view_as(x); x.ravel()
x.clone().add_(1); x.clone().abs_(); x.clone().mul_(y); x.add_(1).get_data(); m.where(mask,x,y); x.copy_(y)
"""


def values(m):
    data, mask = m.tensor([[1.0, 2, 3], [4, 5, 6]]), m.tensor([[True, False, True], [False, True, False]])
    make = m.masked.masked_tensor
    held = data * mask
    return {
        "m": m, "T": m.tensor, "data": data, "mask": mask, "x": make(data.clone(), mask.clone()), "y": make(data * 2, mask), "z": make(data * 2, ~mask),
        "sp": make(held.to_sparse(), mask.to_sparse()), "spc": make(held.to_sparse_csr(), mask.to_sparse_csr()),
    }  # fmt: skip


def told(m, expression):
    try:
        return str(eval(expression, values(m))).replace("tocha", "torch")
    except Exception as error:
        return type(error).__name__, str(error)


def phrase(message):
    """What of PyTorch's message ours has to contain."""
    return "Multiple dispatch failed" if "Multiple dispatch failed" in message else message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", expressions(EXPRESSIONS))
def test_results(expression):
    hold_told(told, phrase, expression)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", ["x * 2", "x * x", "x.exp()", "x.log()", "x / (x + 1)", "x.sqrt()"])
def test_gradients(expression):
    said = []
    for m in (tocha, torch):
        x = m.masked.masked_tensor(values(m)["data"], values(m)["mask"], requires_grad=True)
        made = eval(expression, {"m": m, "x": x})
        made.sum().backward()
        said.append(str(x.grad))
    assert said[0] == said[1]


def called(m, name, *others):
    """The elements that a function gives, where they are valid, or the type of what it raised."""
    data = m.tensor([[1.0, -2, 0.3], [0.4, 0.5, -0.6]])
    kind = m.int64 if name.startswith("bitwise") else m.float32
    mask = m.tensor([[True, False, True], [True, True, False]])
    x = m.masked.masked_tensor(data.to(kind), mask)
    y = m.masked.masked_tensor((data * 2 + 1).to(kind), mask)
    first = {"polygamma": (1, x), "mvlgamma": (x.abs() + 3, 2), "logit": (x, 0.1)}.get(name, (x,))
    given = [{"same": y, "number": 2, "dense": m.ones(2, 3, dtype=kind), "other": m.masked.masked_tensor(data, ~mask)}[o] for o in others]  # fmt: skip
    try:
        f = getattr(m, name, None)
        made = f(*first, *given) if f is not None else getattr(x, name)(*given)
    except Exception as error:
        return type(error).__name__
    return made.get_data()[made.get_mask()].double() if made.get_mask().dtype == m.bool else None, made.get_mask().tolist(), str(made.dtype).split(".")[-1]  # fmt: skip


def hold(name, *others):
    mine, wanted = called(tocha, name, *others), called(torch, name, *others)
    if isinstance(wanted, str):
        assert mine == wanted
        return
    assert mine[1:] == wanted[1:]
    torch.testing.assert_close(torch.from_numpy(mine[0].numpy()), wanted[0], rtol=1e-5, atol=1e-6, equal_nan=True)


UNARY = importlib.import_module("torch.masked.maskedtensor.unary")
BINARY = importlib.import_module("torch.masked.maskedtensor.binary")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({*UNARY.UNARY_NAMES, *UNARY.INPLACE_UNARY_NAMES}))
def test_every_function_of_one_tensor_that_pytorch_lists(name):
    hold(name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("other", ["same", "number", "dense", "other"])
@pytest.mark.parametrize("name", sorted({*BINARY.BINARY_NAMES, *BINARY.INPLACE_BINARY_NAMES}))
def test_every_function_of_two_tensors_that_pytorch_lists(name, other):
    hold(name, other)
