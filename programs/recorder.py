"""What a program records, to be compared between PyTorch and tocha: numbers by name, written where $RECORD says.

With $DOUBLE the models compute in float64; with $ONLY (names, separated by commas) only those cases run.
"""

import atexit
import os
import pickle
import sys
import traceback

import numpy as np
import torch

DOUBLE = bool(os.environ.get("DOUBLE"))
_only = [n for n in os.environ.get("ONLY", "").split(",") if n]
_records: dict[str, list] = {}
_case = ""  # the one that runs


def _plain(value):
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_sparse:
            value = value.to_dense()
        return (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy().copy()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return value


def record(name, *values, decimals=None):
    """Keeps values under a name, which begins with the case's; with decimals they are rounded first."""
    if name != _case and not name.startswith(f"{_case} ") and _case:
        name = f"{_case} {name}"
    found = [_plain(v) for v in values]
    _records[name] = [np.round(v, decimals) if decimals is not None else v for v in found]
    print("recorded", name, flush=True)


def case(name, function):
    """Runs one of a program's cases; what it raises is recorded, and the others go on."""
    if _only and not any(
        n == name or n.startswith(f"{name} ") for n in _only
    ):  # "NAME finds": what the case NAME records too
        return
    global _case
    torch.manual_seed(0)
    np.random.seed(0)
    _case = name
    try:
        function()
    except Exception as error:
        traceback.print_exc()
        _records[name] = [{"error": f"{type(error).__name__}: {error}"[:300]}]
    _write()  # what a later case that ends the process does not take with it


def draw(*shape, seed=0, low=-1.0, high=1.0):
    """Numbers that both libraries get alike."""
    values = np.random.default_rng(seed).uniform(low, high, shape)
    return torch.from_numpy(values if DOUBLE else values.astype(np.float32))


def tokens(*shape, below=90, seed=0):
    """Numbers of tokens."""
    return torch.from_numpy(np.random.default_rng(seed).integers(3, below, shape))


def _floating(out):
    """The tensors of a model's output that a loss can be made of."""
    if isinstance(out, torch.Tensor):
        return [out] if out.is_floating_point() else []
    values = out.values() if isinstance(out, dict) else out if isinstance(out, list | tuple) else []
    return [t for v in values for t in _floating(v)]


def _loss(out):
    """Distance from some numbers: the mean square of a normalized output would have no gradient but rounding."""
    target = torch.sin(torch.arange(out.numel(), dtype=torch.float64)).reshape(out.shape)
    return (out.double() - target).square().mean()


def train(name, model, call, optimizer=None, steps=2):
    """Records what a model gives, its loss and gradient norm, and the losses of further steps of an optimizer."""
    model = model.double() if DOUBLE else model
    with torch.no_grad():
        first = _floating(call(model.eval()))
    model.train()
    optimizer = (optimizer or (lambda p: torch.optim.AdamW(p, lr=1e-4)))(model.parameters())
    losses, norms = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sum(_loss(t) for t in _floating(call(model)))
        loss.backward()
        grads = [p.grad.double().norm() for p in model.parameters() if p.grad is not None]
        norms.append(torch.stack(grads).norm())
        losses.append(loss)
        optimizer.step()
    with torch.no_grad():
        last = sum(_loss(t) for t in _floating(call(model)))
    record(name, first, losses, norms, last)


@atexit.register
def _write():
    if "RECORD" in os.environ:
        with open(os.environ["RECORD"], "wb") as file:
            pickle.dump(_records, file)


sys.modules.setdefault("recorder", sys.modules[__name__])
