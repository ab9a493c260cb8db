"""Compressed sparse tensors (CSR, CSC, BSR, BSC) against PyTorch's: texts of results, complaints, gradients, files both ways.

Needs torch beside tocha; run by `make parity`. PyTorch without MKL refuses some products and sums: those are held against
dense ones in tests/test_sparse_compressed.py.
"""

from __future__ import annotations

import io
import re
import warnings

import pytest
from beside import expressions, hold_told

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

EXPRESSIONS = """
csr; csc; bsr; bsc; bat; den; csr.layout; csr.is_sparse; csr.is_sparse_csr; csc.is_sparse_csr; bat.crow_indices(); csr.stride()
csr.is_contiguous(); csr.sparse_dim(); csr.dense_dim(); den.dense_dim(); bat.sparse_dim(); bsr.sparse_dim(); csr._nnz(); bat._nnz()
bsr._nnz(); csr.indices(); csr._indices(); csr._values(); csr.values(); csr.ccol_indices(); csc.crow_indices(); csr.row_indices()
d.crow_indices(); coo.crow_indices(); coo.col_indices(); csr.coalesce(); csr.is_coalesced(); csr.numel(); csr.storage()
csr.untyped_storage(); csr.data_ptr(); csr.numpy(); csr.tolist(); csr.item(); csr.nbytes; csr.storage_offset(); len(csr); csr[0]; csr[0,0]
csr[0:1]; bat[0]; bsr[0]; csc[0]; csr.select(0,1); csr.select(1,1); den.select(2,0); bat.select(1,0); bsr.select(0,0); csr.select(5,0)
csr.select(0,5); list(csr); csr.unbind(); den[0]; csr.type(); csr.double(); csr.to(m.int64); csr.t(); csr.transpose(0,1); bat.transpose(1,2)
bat.transpose(0,1); bsr.t(); csc.t(); den.transpose(0,2); den.t(); csr.permute(1,0); csr.mT; csr.T; csr.view(3,2); csr.reshape(6)
csr.unsqueeze(0); csr.squeeze(); csr.flatten(); csr.requires_grad_(); csr.detach(); csr.clone().requires_grad_(); csr.grad_fn
m.sparse_csr_tensor([0,2,3],[0,2,1],[1.,2,3],(2,3),requires_grad=True)
(m.sparse_csr_tensor([0,2,3],[0,2,1],[1.,2,3],(2,3),requires_grad=True)*2)
m.sparse_csr_tensor([0,2,3],[0,2,1],[1.,2,3]); m.sparse_csc_tensor([0,2,3],[0,2,1],[1.,2,3])
m.sparse_bsr_tensor([0,1,2],[0,1],m.ones(2,2,2)); m.sparse_bsc_tensor([0,1,2],[0,1],m.ones(2,2,2))
m.sparse_compressed_tensor([0,2,3],[0,2,1],[1.,2,3],layout=m.sparse_csr)
m.sparse_compressed_tensor([0,2,3],[0,2,1],[1.,2,3],layout=m.sparse_coo); m.sparse_compressed_tensor([0,2,3],[0,2,1],[1.,2,3])
m.sparse_csr_tensor([0,2,3],[0,2,1],[1,2,3],dtype=m.float64)
m.sparse_csr_tensor(T([0,2,3],dtype=m.int32),T([0,2,1],dtype=m.int32),T([1,2,3.]))
m.sparse_csr_tensor(T([0,2,3],dtype=m.int32),T([0,2,1],dtype=m.int64),T([1,2,3.])); m.sparse_csr_tensor(T([0,2,3.]),T([0,2,1.]),T([1,2,3.]))
m.sparse_csr_tensor([0,2,3],[0,2,1],[1.,2,3],(2,3),layout=m.sparse_csr)
m.sparse_csr_tensor([0,2,3],[0,2,1],[1.,2,3],(2,3),layout=m.sparse_csc); m.sparse_csr_tensor([[0,1,2],[0,1,2]],[[0,1],[1,2]],[[1.,2],[3,4]])
m.sparse_csr_tensor([0,2,3],[0,2,1],[1.,2,3],(2,3),pin_memory=True)
m.sparse_csr_tensor(T([0,2,3],dtype=m.int32),T([0,2,1],dtype=m.int32),T([1,2,3.])).crow_indices().dtype
m.sparse_csr_tensor(T([0,2,3],dtype=m.int32),T([0,2,1]),T([1,2,3.])).crow_indices().dtype
m.sparse_csr_tensor(T([0,2,3],dtype=m.int16),T([0,2,1],dtype=m.int16),T([1,2,3.])).crow_indices().dtype
K(T([0,2,3.]),T([0,2,1.]),T([1,2,3.]),(2,3)); K(T(1),T([0]),T([1.]),(1,1)); K(T([0,1]),T(0),T([1.]),(1,1)); K(T([0,1]),T([0]),T(1.),(1,1))
K([0,2,3],[0,2,1],[1.,2,3],(3,)); K([0,2,3],[0,2,1],[1.,2,3],(2,3,1)); K([0,2,3],[0,2],[1.,2,3],(2,3)); K([0,2,3],[0,2,1],[1.,2],(2,3))
K([0,2,3],[0,2,1],[1.,2,3],(3,3)); K([0,2,4],[0,2,1],[1.,2,3],(2,3)); K([1,2,3],[0,2,1],[1.,2,3],(2,3)); K([0,4,3],[0,2,1],[1.,2,3],(2,3))
K([0,2,3],[0,3,1],[1.,2,3],(2,3)); K([0,2,3],[-1,2,1],[1.,2,3],(2,3)); K([0,2,3],[2,0,1],[1.,2,3],(2,3)); K([0,2,3],[1,1,1],[1.,2,3],(2,3))
K([0,-1,3],[1,1,1],[1.,2,3],(2,3)); K([[0,2,3]],[0,2,1],[1.,2,3],(2,3)); K([[0,2,3]],[[0,2,1]],[1.,2,3],(2,3))
K([[0,2,3]],[[0,2,1]],[[1.,2,3]],(2,3)); K([[0,2,3]],[[0,2,1]],[[1.,2,3]],(2,2,3)); K([0,2,3],[0,2,1],[1.,2,3],(2,-3))
K([0,5,3],[0,2,1],[1.,2,3],(2,3)); K(T([0,2,3],dtype=m.int16),T([0,2,1],dtype=m.int16),T([1.,2,3]),(2,3))
K([0,2,3],[0,2,1],m.ones(3,2),(2,3,3)); KK([0,2,3],[0,9,1],[1.,2,3],(2,3)).to_dense(); KK([0,2,9],[0,1,1],[1.,2,3],(2,3))
m._validate_sparse_csr_tensor_args(T([0,2,3]),T([0,2,1]),T([1.,2,3]),(2,3))
m._validate_sparse_csr_tensor_args(T([0,2,4]),T([0,2,1]),T([1.,2,3]),(2,3))
B([0,1,2],[0,1],m.ones(2,2,2),(4,4)); B([0,1,2],[0,1],m.ones(2,2,2),(5,4)); B([0,1,2],[0,1],m.ones(2,2),(4,4))
B([0,1,2],[0,1],m.ones(2,2,2),(4,6)); B([0,1,2],[0,1],m.ones(2,3,2),(4,4)); B([0,1,2],[0,1],m.ones(2,2,2),(6,4))
B([0,1,2],[0,2],m.ones(2,2,2),(4,4)); m.sparse_bsr_tensor([0,1,2],[0,1],m.ones(2,2)); m.sparse_csr_tensor([0,1,2],[0,1],1.0)
m.sparse_csr_tensor(5,[0,1],[1.0]); m.sparse_csr_tensor([0],[],[]); m.sparse_csr_tensor([0,0],[],[]); m.sparse_csr_tensor([],[],[])
d.to_sparse_csr(); d.to_sparse_csr(dense_dim=1); d.reshape(2,3,1).to_sparse_csr(dense_dim=1); m.ones(2,2,2).to_sparse_csr(dense_dim=5)
T([[[1.,0],[0,0]],[[1.,1],[0,0]]]).to_sparse_csr(); m.ones(4,4).to_sparse_bsr((3,2)); m.ones(4,4).to_sparse_bsr((2,))
m.ones(4,4).to_sparse_bsr(2); m.ones(4,4).to_sparse_bsr((0,2)); m.ones(4,4).to_sparse(layout=m.sparse_csr)
m.ones(4,4).to_sparse(layout=m.sparse_bsr); m.ones(4,4).to_sparse(layout=m.sparse_bsr,blocksize=(2,2)).shape
d.to_sparse(layout=m.sparse_csr,blocksize=(1,1)); d.to_sparse(layout=m.strided); d.to_sparse(1,layout=m.sparse_csr)
d.to_sparse(layout=m.sparse_coo,dense_dim=1); d.to_sparse(dense_dim=1)
coo.to_sparse_csr().layout; coo.to_sparse_csc(); coo.to_sparse_bsr((1,1)); csr.to_sparse_csr() is csr; csr.to_sparse(); csr.to_sparse_coo()
csr.to_sparse(layout=m.sparse_csr) is csr; csr.to_sparse_csc(); csc.to_sparse_csr(); csr.to_sparse_bsr((1,3)); csr.to_sparse_bsc((2,1))
csr.to_sparse_bsr((3,3)); bsr.to_sparse_csr(); bsr.to_sparse_bsr((2,2)) is bsr; bsr.to_sparse_bsr((4,2)); bsr.to_sparse_bsc((2,2)).layout
bsr.to_sparse_bsc((1,2)); bsr.to_sparse_coo(); bsc.to_sparse_coo(); bsc.to_sparse_bsr((2,2)); bsc.to_sparse_csr(); csc.to_sparse_bsc((1,1))
csc.to_sparse_coo(); bat.to_sparse_coo(); bat.to_sparse_csc(); bat.to_dense(); bat.to_sparse_bsr((1,1)); den.to_dense(); den.to_sparse_csc()
den.to_sparse_coo(); den.to_sparse_bsr((1,1)); csr.to_dense(m.float64); csr.to_dense(masked_grad=True); bsr.to_dense(); bsc.to_dense()
csr.to_sparse(1); csr.to_sparse(2); csr.to_sparse_csr(dense_dim=0); csr.to_sparse_csr(dense_dim=1); coo.to_sparse_csr(dense_dim=1)
csr.to_sparse_csc(dense_dim=1)
csr+csr; csc+csc; bsr+bsr; csr+d; d+csr; csr+1; 1+csr; csr-csr; csr.sub(csr); csr*2; 2*csr; csr*csr; csr*d; d*csr; csr*coo; coo*csr; csr*csc
csc*csc; bsr*bsr; bsr*2; bsr*d4; csr/2; csr/T(2.); csr.div(2,rounding_mode='floor'); csr/csr; -csr; csr.neg(); +csr; abs(csr); csr==csr
csr==1; csr>0; csr.eq(csr); csr.isclose(csr); csr.add(csr,alpha=2); d.add(csr,alpha=2); csr.clone().mul_(2); csr.clone().mul_(csr)
csr.clone().div_(2); csr.clone().neg_(); csr.clone().zero_(); csr.clone().copy_(csr); csr.clone().copy_(d); d.clone().copy_(csr)
csr.clone().fill_(1); csr.clone().fill_(0); d.clone().add_(csr); d.clone().mul_(csr); bat+bat; bat*2; bat*bat; den*2; den+den
csr.mul(T(2.)); csr.mul(T([2.])); csr*m.ones(3); csr*m.ones(2,1); csr+bsr; csr*bsr; csr*True; csr*2j; csr.to(m.int64)*2.5; csr & csr
csr.sum(); csr.sum(1,keepdim=True); csr.sum(0,keepdim=True); csr.sum((0,1),keepdim=True); csr.sum(0); csr.prod(); csr.mean(); csc.sum()
csc.sum(0,keepdim=True); bsr.sum(); bat.sum(); csr.sum(dtype=m.float64); m.sparse.sum(csr); m.sparse.sum(csr,dim=0); csr.norm(); csr.max()
csr.any(); csr.to(m.int64).sum()
m.sparse.softmax(csr,1); m.sparse.log_softmax(csr,1); m.softmax(csr,1); m.sparse.softmax(coo,1); m.sparse.log_softmax(coo,0)
m.sparse.softmax(coo,1,dtype=m.float64); m.sparse.softmax(coo,5); m.sparse.softmax(d,1); m.sparse.softmax(coo.t(),0)
csr@d.t(); csr@m.ones(3); m.mv(csr,m.ones(3)); d.t()@csr; m.ones(2)@csr; csr.mm(m.ones(2,2)); csr@m.ones(3,2,dtype=m.float64)
m.addmm(m.ones(2,2),csr,d.t(),beta=2,alpha=3); m.addmm(m.ones(2),csr,d.t()); m.addmv(m.ones(2),csr,m.ones(3))
m.sparse.addmm(m.ones(2,2),csr,d.t()); csc@d.t(); d.t()@csc; bat@m.ones(2,3,2); m.ones(2,2)@bat; m.nn.functional.linear(m.ones(4,3),csr)
m.nn.functional.linear(m.ones(4,3),csr,m.ones(2)); m.nn.functional.linear(m.ones(4,3),coo); m.nn.functional.linear(m.ones(3),csr)
m.nn.functional.linear(m.ones(2,4,3),csr); m.nn.functional.linear(csr,m.ones(4,3)); m.sparse.mm(csr,d.t()); m.sparse.mm(csr,d.t(),'sum')
m.sparse.mm(csr,d.t(),'mean'); m.sparse.mm(csr,d.t(),'amax'); m.sparse.mm(csr,d.t(),'amin'); m.sparse.mm(csr,d.t(),'x')
m.sparse.mm(coo,d.t(),'sum'); m.sparse.mm(coo,coo.t()); m.dot(csr,csr); m.sparse.sampled_addmm(csr,m.ones(2,4),m.ones(4,3))
m.sparse.sampled_addmm(csr,m.ones(2,4),m.ones(4,3),beta=2,alpha=3); m.sparse.sampled_addmm(coo,m.ones(2,4),m.ones(4,3))
m.sparse.sampled_addmm(csc,m.ones(2,4),m.ones(4,3)); m.sparse.sampled_addmm(csr,m.ones(2,4),m.ones(5,3))
m.sparse.sampled_addmm(csr,m.ones(3,4),m.ones(4,3)); m.sparse.sampled_addmm(csr,m.ones(2,4,dtype=m.float64),m.ones(4,3))
m.sparse.sampled_addmm(bat,m.ones(2,2,4),m.ones(2,4,3)); m.sparse.sampled_addmm(csr,m.ones(2),m.ones(4,3))
m.sparse.sampled_addmm(csr, csr, csr); m.mm(csr,csr); csr@m.ones(4); m.mv(csr,m.ones(3,1)); csr@m.ones(3,2,2); coo@m.ones(2,3,2)
m.bmm(m.ones(2,2,3).to_sparse(), m.ones(2,3,2)); m.matmul(m.ones(2,2,3).to_sparse(), m.ones(2,3,2)); m.addmm(coo,coo,m.ones(3,3))
m.sparse.addmm(coo,m.ones(2,2).to_sparse(),coo); m.mv(coo,m.ones(3)); m.ones(2)@coo; m.tensordot(csr,d.t(),1); csr.matmul(d.t())
m.sparse.spdiags(m.arange(9.).reshape(3,3)+1,T([0,-1,1]),(3,3))
m.sparse.spdiags(m.arange(9.).reshape(3,3)+1,T([0,-1,1]),(3,3),m.sparse_csr)
m.sparse.spdiags(m.arange(9.).reshape(3,3)+1,T([0,-1,0]),(3,3)); m.sparse.spdiags(m.ones(3),T(1),(3,4))
m.sparse.spdiags(m.ones(3),T([1,2]),(3,4)); m.sparse.spdiags(m.ones(2,3),T([1,2.]),(3,4)); m.sparse.spdiags(m.ones(2,3),T([1,2]),(3,4,5))
m.sparse.spdiags(m.ones(2,3),T([1,2]),(3,4),m.sparse_bsr); m.sparse.spdiags(m.ones(2,2,3),T([1,2]),(3,4))
m.sparse.spdiags(m.ones(2,3),T([[1,2]]),(3,4)); m.sparse.spdiags(m.ones(2,2),T([1,2]),(3,4))
"""


def values(m):
    csr = m.sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2, 3], (2, 3))
    d4 = m.arange(16.0).reshape(4, 4)
    bsr = d4.to_sparse_bsr((2, 2))

    def checked(name):
        return lambda *args: getattr(m, f"sparse_{name}_tensor")(*args, check_invariants=True)

    return {
        "m": m, "T": m.tensor, "F": m.nn.functional, "csr": csr, "csc": csr.to_sparse_csc(), "coo": csr.to_sparse_coo(), "bsr": bsr,
        "bsc": bsr.to_sparse_bsc((2, 2)), "bat": m.arange(1, 13.0).reshape(2, 2, 3).to_sparse_csr(), "d": m.arange(6.0).reshape(2, 3), "d4": d4,
        "den": m.sparse_csr_tensor([0, 2, 3], [0, 2, 1], m.arange(6.0).reshape(3, 2), (2, 3, 2)),
        "K": checked("csr"), "C": checked("csc"), "B": checked("bsr"), "KK": lambda *args: m.sparse_csr_tensor(*args, check_invariants=False),
    }  # fmt: skip


def told(m, expression):
    """The text of the result, or (type, message)."""
    try:
        return str(eval(expression, values(m))).replace("tocha", "torch")
    except Exception as error:
        return type(error).__name__, str(error).replace("tocha", "torch")


def phrase(message):
    """What of PyTorch's message ours has to contain."""
    for general in ("Could not run", "received an invalid combination of arguments"):
        if general in message:
            return general
    return re.sub(r" ?\(FYI.*", "", message).strip()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", expressions(EXPRESSIONS))
def test_results(expression):
    hold_told(told, phrase, expression)


GRADIENTS = """
s @ D; D.t() @ F.pad(D, (0, 1)) @ s.to_dense(); s.to_dense(); s * 2; s.sum(); s + s; s.values(); s.to_sparse_csc(); s.to_sparse_coo(); s.t(); D @ s
m.sparse.sampled_addmm(s, m.ones(2, 4), m.ones(4, 3)); F.linear(m.ones(4, 3), s); m.sparse.mm(s, D, 'mean'); s @ m.ones(3); s.abs(); -s; s.relu()
s.double(); s * D.t(); D.t() + s; s.clone(); m.sparse.mm(s, D); m.sparse.mm(s, D, 'amax'); m.addmm(m.ones(2, 2), s, D, beta=2, alpha=3)
"""


def gradient(m, expression):
    s = m.sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2, 3], (2, 3)).requires_grad_()
    made = eval(expression, {"m": m, "s": s, "D": m.arange(6.0).reshape(2, 3).t().contiguous(), "F": m.nn.functional})
    node = made.grad_fn.name()
    made.sum().backward() if made.layout == m.strided else made.backward(made.detach())
    return str(s.grad).replace("tocha", "torch"), node


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", expressions(GRADIENTS))
def test_gradients(expression):
    try:
        theirs = gradient(torch, expression)
    except RuntimeError:
        pytest.skip("PyTorch refuses it")
    assert gradient(tocha, expression)[0] == theirs[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("writer", "reader"), [(tocha, torch), (torch, tocha)])
def test_files(writer, reader):
    names = ("csr", "csc", "bsr", "bsc", "bat", "den")
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.save([values(writer)[n] for n in names], file)
        file.seek(0)
        back = reader.load(file)
    for name, t in zip(names, back, strict=True):
        assert str(t) == str(values(reader)[name])
