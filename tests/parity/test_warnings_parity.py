"""The same program warns where PyTorch's does: category and the words that people search for."""

from __future__ import annotations

import importlib
import re
import warnings

import pytest
import torch

import tocha


def eye(m, n=2):
    return m.eye(n)


def once(m):
    """Typed storages warn once in a process, whatever set_warn_always says."""
    m.storage._reset_warn_typed_storage_removal()


def alerted(m, call):
    m.use_deterministic_algorithms(True, warn_only=True)
    try:
        return call()
    finally:
        m.use_deterministic_algorithms(False)


def schedule(m, steps):
    """o: the optimizer's step; s: a scheduler is made; a dot: the last one's step."""
    optimizer, made = m.optim.SGD([m.ones(1, requires_grad=True)], 0.1), None
    for step in steps:
        if step == "o":
            optimizer.step()
        elif step == "s":
            made = m.optim.lr_scheduler.StepLR(optimizer, 1)
        else:
            made.step()


STATISTICS = {
    "var": lambda m: m.ones(1).var(),
    "std": lambda m: m.ones(1).std(),
    "var_mean": lambda m: m.var_mean(m.ones(1)),
    "std_mean": lambda m: m.std_mean(m.ones(1)),
    "var along a dim": lambda m: m.ones(3, 1).var(1),
    "var with a correction": lambda m: m.ones(3).var(correction=5),
    "var of as many as the correction": lambda m: m.ones(3).var(correction=3),
    "var of nothing": lambda m: m.ones(0).var(),
    "var of nothing along a dim": lambda m: m.ones(0, 1).var(1),
    "var of a number": lambda m: m.ones(()).var(),
    "biased var": lambda m: m.ones(1).var(unbiased=False),
    "var of enough": lambda m: m.ones(2).var(),
    "cov": lambda m: m.cov(m.ones(2, 1)),
    "cov with a correction": lambda m: m.cov(m.ones(2, 3), correction=3),
    "corrcoef": lambda m: m.corrcoef(m.ones(2, 1)),
}
DEPRECATED = {
    "cholesky": lambda m: m.cholesky(eye(m)),
    "cross": lambda m: m.cross(m.ones(3), m.ones(3)),
    "cross with a dim": lambda m: m.cross(m.ones(3), m.ones(3), dim=0),
    "lu": lambda m: m.lu(eye(m)),
    "lu as a method": lambda m: eye(m).lu(),
    "lu_solve": lambda m: m.lu_solve(m.ones(2, 1), *m.linalg.lu_factor(eye(m))),
    "qr": lambda m: m.qr(eye(m)),
    "triangular_solve": lambda m: m.triangular_solve(m.ones(2, 1), eye(m)),
    "chain_matmul": lambda m: m.chain_matmul(eye(m), eye(m)),
    "range": lambda m: m.range(0, 3),
    "meshgrid": lambda m: m.meshgrid(m.ones(2), m.ones(2)),
    "T of three dims": lambda m: m.ones(2, 2, 2).T,
    "T of a number": lambda m: m.ones(()).T,
    "H of a number": lambda m: m.ones(()).H,
    "mT of a number": lambda m: m.ones(()).mT,
    "mH of a number": lambda m: m.ones(()).mH,
    "index_reduce": lambda m: m.ones(3).index_reduce(0, m.tensor([0]), m.ones(1), "prod"),
    "scatter with reduce": lambda m: m.ones(3).scatter(0, m.tensor([0]), m.ones(1), reduce="add"),
    "where of bytes": lambda m: m.where(m.ones(2, dtype=m.uint8), m.ones(2), m.ones(2)),
    "a mask of bytes": lambda m: m.ones(2)[m.ones(2, dtype=m.uint8)],
    "resize": lambda m: m.ones(2).resize(2),
    "resize_as": lambda m: m.ones(2).resize_as(m.ones(2)),
    "set_default_tensor_type": lambda m: m.set_default_tensor_type(m.FloatTensor),
    "storage": lambda m: (once(m), m.ones(2).storage()),
    "storage_type": lambda m: (once(m), m.ones(2).storage_type()),
    "FloatStorage": lambda m: (once(m), m.FloatStorage(2)),
    "add with the number second": lambda m: m.add(m.ones(2), 2, m.ones(2)),
    "addcmul with the number second": lambda m: m.addcmul(m.ones(2), 2, m.ones(2), m.ones(2)),
    "addmm with the number first": lambda m: m.addmm(1, eye(m), eye(m), eye(m)),
    "addmm with both numbers": lambda m: m.addmm(1, eye(m), 2, eye(m), eye(m)),
    "addbmm_ with both numbers": lambda m: eye(m).addbmm_(2, 3, m.ones(1, 2, 2), m.ones(1, 2, 2)),
}
OTHERS = {
    "put": lambda m: alerted(m, lambda: m.ones(3).put_(m.tensor([0]), m.ones(1))),
    "put that adds": lambda m: alerted(m, lambda: m.ones(3).put_(m.tensor([0]), m.ones(1), accumulate=True)),
    "max_unpool2d": lambda m: alerted(
        m, lambda: m.nn.functional.max_unpool2d(m.ones(1, 1, 1, 1), m.zeros(1, 1, 1, 1, dtype=m.int64), 2)
    ),
    "max_unpool3d": lambda m: alerted(
        m, lambda: m.nn.functional.max_unpool3d(m.ones(1, 1, 1, 1, 1), m.zeros(1, 1, 1, 1, 1, dtype=m.int64), 2)
    ),
    "grad of a result": lambda m: (m.ones(2, requires_grad=True) * 2).grad,
    "grad of a view of a result": lambda m: (m.ones(2, requires_grad=True) * 2)[0].grad,
    "grad of a leaf": lambda m: m.ones(2, requires_grad=True).grad,
    "backward with a graph": lambda m: m.ones(2, requires_grad=True).sum().backward(create_graph=True),
    "searchsorted in strided rows": lambda m: m.searchsorted(m.ones(4, 2).t(), m.ones(2, 3)),
    "bucketize of strided values": lambda m: m.bucketize(m.ones(3, 2).t(), m.ones(3)),
    "complex to real": lambda m: m.ones(2, dtype=m.complex64).float(),
    "tensor of a tensor": lambda m: m.tensor(m.ones(2)),
    "dropout2d of three dims": lambda m: m.nn.functional.dropout2d(m.ones(2, 3, 4)),
    "kl_div": lambda m: m.nn.functional.kl_div(m.ones(2), m.ones(2)),
    "kl_div with size_average": lambda m: m.nn.functional.kl_div(m.ones(2), m.ones(2), size_average=True),
    "losses of unlike shapes": lambda m: m.nn.functional.mse_loss(m.ones(2), m.ones(3, 1)),
    "softmax without a dim": lambda m: m.nn.functional.softmax(m.ones(2, 2)),
    "convolution of even length": lambda m: m.nn.functional.conv1d(m.ones(1, 1, 4), m.ones(1, 1, 2), padding="same"),
    "an array that may not be written": lambda m: m.from_numpy(read_only()),
    "a scheduler's step first": lambda m: schedule(m, "s."),
    "a step before there was a scheduler": lambda m: schedule(m, "os."),
    "a step between": lambda m: schedule(m, "so."),
    "a step before another scheduler": lambda m: schedule(m, "sos."),
    "checkpoint": lambda m: importlib.import_module(m.__name__ + ".utils.checkpoint").checkpoint(
        lambda x: x, m.ones(2)
    ),
}
SCALARS = {
    "float of a leaf": lambda m: float(m.ones(1, requires_grad=True)),
    "float of a result": lambda m: float(m.ones(2, requires_grad=True).sum()),
    "complex": lambda m: complex(m.ones(1, requires_grad=True)),
    "int": lambda m: int(m.ones(1, requires_grad=True)),
    "bool": lambda m: bool(m.ones(1, requires_grad=True)),
    "item": lambda m: m.ones(1, requires_grad=True).item(),
    "float without recording": lambda m: m.no_grad()(float)(m.ones(1, requires_grad=True)),
    "float without history": lambda m: float(m.ones(1)),
    "tensor of a list": lambda m: m.tensor([m.ones(1, requires_grad=True)]),
    "stft without a window": lambda m: m.stft(m.ones(16), 8, return_complex=True),
    "stft with a window": lambda m: m.stft(m.ones(16), 8, window=m.ones(8), return_complex=True),
    "istft without a window": lambda m: m.istft(m.ones(5, 9, dtype=m.complex64), 8),
}
OUT = {
    "add": lambda m: m.add(m.ones(3), m.ones(3), out=m.ones(2)),
    "add into nothing": lambda m: m.add(m.ones(3), m.ones(3), out=m.ones(0)),
    "mm": lambda m: m.mm(m.ones(3, 3), m.ones(3, 3), out=m.ones(2)),
    "sum": lambda m: m.sum(m.ones(3, 3), 0, out=m.ones(2)),
    "cat": lambda m: m.cat([m.ones(3), m.ones(3)], out=m.ones(2)),
    "sort": lambda m: m.sort(m.ones(3), out=(m.ones(2), m.ones(2, dtype=m.int64))),
    "gather": lambda m: m.gather(m.ones(3), 0, m.tensor([0]), out=m.ones(2)),
    "svd": lambda m: m.linalg.svd(eye(m), out=(m.ones(3), m.ones(3), m.ones(3))),
    "arange": lambda m: m.arange(3, out=m.ones(2)),
    "arange into nothing": lambda m: m.arange(3, out=m.ones(0)),
    "linspace": lambda m: m.linspace(0, 1, 3, out=m.ones(2)),
    "logspace": lambda m: m.logspace(0, 1, 3, out=m.ones(2)),
    "zeros": lambda m: m.zeros(3, out=m.ones(2)),
    "ones": lambda m: m.ones(3, out=m.ones(2)),
    "full": lambda m: m.full((3,), 1.0, out=m.ones(2)),
    "empty": lambda m: m.empty(3, out=m.ones(2)),
    "eye": lambda m: m.eye(2, out=m.ones(3)),
    "rand": lambda m: m.rand(3, out=m.ones(2)),
    "randperm": lambda m: m.randperm(3, out=m.ones(2, dtype=m.int64)),
}
PROGRAMS = {
    f"{kind}: {name}": f for kind, table in vars().copy().items() if kind.isupper() for name, f in table.items()
}


def read_only():
    import numpy as np

    array = np.ones(3)
    array.flags.writeable = False
    return array


def warned(m, program):
    m.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            program(m)
    finally:
        m.set_warn_always(False)
    return [(w.category.__name__, words(str(w.message))) for w in seen]


def words(text):
    """The first sentence, as far as it does not name the library or say where in it the warning was raised."""
    text = re.sub(r"\s*\(Triggered internally.*", "", text, flags=re.DOTALL)
    text = re.sub(r"\[\w+\] ", "", text)
    text = re.sub(r"(?i)pytorch|torch", "tocha", text)
    return re.split(r"[.:\n]( |$|\n)", text)[0].split(" and will be removed")[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_warns_as_pytorch_does(name):
    ours, theirs = warned(tocha, PROGRAMS[name]), warned(torch, PROGRAMS[name])
    if name == "OUT: svd":  # PyTorch resizes the singular values last
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs


def counted(m, program):
    """How many warnings come the first and the second time."""
    counts = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            program(m)
        counts.append(len(seen))
    return counts


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n.startswith(("STATISTICS", "OUT", "OTHERS"))])
def test_the_second_time(name):
    assert counted(tocha, PROGRAMS[name])[1] == counted(torch, PROGRAMS[name])[1]


@pytest.mark.parametrize("name", ["put", "max_unpool2d", "max_unpool3d", "put that adds"])
def test_refused_where_determinism_is_asked_for(name):
    def outcome(m):
        def strict(mode, *, warn_only=False):
            original(mode)

        original = m.use_deterministic_algorithms
        m.use_deterministic_algorithms = strict
        try:
            OTHERS[name](m)
        except RuntimeError as e:
            return str(e).replace("torch", "tocha").partition(" implementation")[0]
        finally:
            m.use_deterministic_algorithms = original
            original(False)
        return None

    assert outcome(tocha) == outcome(torch)
